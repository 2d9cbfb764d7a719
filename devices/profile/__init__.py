"""Recorded profiles: a table of measurements in a CSV file, read, written and queried.

Lines starting with `#` hold `key: value` metadata; then comes a header, then one row for each burst. The columns
`throughput` and `status` are required, the other metric columns (`METRICS`) may be absent or empty, and every column
that is neither is a knob. Several rows at one setting are replicates.
"""

from devices.profile._outliers import Outlier, find_outliers
from devices.profile._reader import read_profile
from devices.profile._summary import profile_summary
from devices.profile._table import METRICS, Cell, Profile, ProfileMetadata, ProfileRow, Provenance, format_setting
from devices.profile._text import parse_number, read_text, split_cells
from devices.profile._writer import profile_text, write_profile

__all__ = [
    "METRICS",
    "Cell",
    "Outlier",
    "Profile",
    "ProfileMetadata",
    "ProfileRow",
    "Provenance",
    "find_outliers",
    "format_setting",
    "parse_number",
    "profile_summary",
    "profile_text",
    "read_profile",
    "read_text",
    "split_cells",
    "write_profile",
]
