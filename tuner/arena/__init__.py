"""The arena: strategies compared on recorded profiles, by recorded values without noise.

`compare(Contest(tables, strategies, caps))` makes a study for each strategy, profile, cap and seed, all in memory, and
scores it; `summarize` gives a row for each strategy.
"""

from tuner.arena.caps import CapSpec, parse_caps
from tuner.arena.compare import Compared, compare
from tuner.arena.contest import Contest, Table, read_tables
from tuner.arena.result import Frozen, Run, Skipped
from tuner.arena.study_run import ArenaError
from tuner.arena.summary import Summary, summarize

__all__ = [
    "ArenaError",
    "CapSpec",
    "Compared",
    "Contest",
    "Frozen",
    "Run",
    "Skipped",
    "Summary",
    "Table",
    "compare",
    "parse_caps",
    "read_tables",
    "summarize",
]
