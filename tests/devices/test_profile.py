"""The recorded-profile format: reading, refusing, writing, asking."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.errors import ProfileError
from devices.measurement import Measurement, Statistic, Status
from devices.profile import (
    METRICS,
    Profile,
    ProfileMetadata,
    ProfileRow,
    format_setting,
    profile_summary,
    read_profile,
    write_profile,
)

BENCH = """\
# device: bench board
# workload: resnet18
# origin: made up for this test
# licence: CC0-1.0
# recorded_at: 2024-05-01T10:00:00Z
# knobs: gpu_freq_mhz, batch_size
# default_setting: gpu_freq_mhz=612, batch_size=16
# room: 21 degrees: window open

gpu_freq_mhz,batch_size,throughput,power_mean_w,power_peak_w,status
306,8,20,3.5,4.0,ok
306,16,26,3.75,4.5,ok
612,8,36,5,6,ok
612,8,40,5.5,6.5,ok
612,16,50,6.5,7.5,ok
612,32,,,,oom
"""


def save(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "bench.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def bench(tmp_path: Path) -> Profile:
    return read_profile(save(tmp_path, BENCH))


def test_metadata_and_rows_are_read(bench: Profile) -> None:
    assert bench.metadata == ProfileMetadata(
        device="bench board",
        workload="resnet18",
        origin="made up for this test",
        licence="CC0-1.0",
        recorded_at="2024-05-01T10:00:00Z",
        default_setting={"gpu_freq_mhz": 612, "batch_size": 16},
        extra={"room": "21 degrees: window open"},
    )
    assert bench.throughput_unit == "samples/s"
    assert bench.knob_names == ("gpu_freq_mhz", "batch_size")
    assert bench.rows[0] == ProfileRow(
        {"gpu_freq_mhz": 306, "batch_size": 8}, Status.OK, throughput=20, power_mean_w=3.5, power_peak_w=4
    )
    assert bench.rows[-1].status is Status.OOM
    assert bench.rows[0].line == 11


def test_queries(bench: Profile) -> None:
    assert [(knob.name, knob.values, knob.default) for knob in bench.knobs] == [
        ("gpu_freq_mhz", (306, 612), 612),
        ("batch_size", (8, 16, 32), 16),
    ]
    assert [bench.key(s) for s in bench.settings] == [(306, 8), (306, 16), (612, 8), (612, 16), (612, 32)]
    assert [row.throughput for row in bench.replicates({"batch_size": 8, "gpu_freq_mhz": 612.0})] == [36, 40]
    assert bench.replicates({"gpu_freq_mhz": 306, "batch_size": 32}) == ()
    assert bench.missing_count == 1
    assert bench.missing_settings(5) == ({"gpu_freq_mhz": 306, "batch_size": 32},)
    assert bench.statistics == ("peak", "mean")
    assert bench.power_range_w() == (3.5, 6.5)
    assert bench.power_range_w("p95") is None


@pytest.mark.parametrize(
    ("cap_w", "statistic", "key"),
    [
        (None, "mean", (612, 16)),
        (6.5, "mean", (612, 16)),
        (6.49, "mean", (612, 8)),
        (5.25, "mean", (612, 8)),  # the mean of its replicates, 5 W and 5.5 W
        (5.24, "mean", (306, 16)),
        (5.24, "peak", (306, 16)),
        (4.4, "peak", (306, 8)),
        (3.4, "mean", None),
        (100, "p95", None),
    ],
)
def test_best_feasible(bench: Profile, cap_w: float | None, statistic: Statistic, key: tuple[int, int] | None) -> None:
    best = bench.best_feasible(cap_w, statistic)
    assert (best and bench.key(best.setting)) == key
    if key == (612, 8) and best:
        assert (best.throughput, best.power_w, best.replicates) == (38, 5.25, 2)


def test_of_two_equally_fast_settings_the_frugal_one_is_best(tmp_path: Path) -> None:
    profile = read_profile(
        save(tmp_path, "batch_size,throughput,power_mean_w,status\n8,5,4,ok\n16,5,3,ok\n32,5,6,ok\n")
    )
    best = profile.best_feasible(10)
    assert best
    assert best.setting == {"batch_size": 16}


def test_settings_are_in_order_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    profile = read_profile(save(tmp_path, "batch_size,throughput,status\n16,2,ok\n128,4,ok\n8,1,ok\n"))
    assert [s["batch_size"] for s in profile.settings] == [8, 16, 128]
    assert [cell.setting["batch_size"] for cell in profile.cells()] == [8, 16, 128]
    assert [row.setting["batch_size"] for row in profile.rows] == [16, 128, 8]


def test_only_valid_replicates_count(tmp_path: Path) -> None:
    text = "batch_size,throughput,power_mean_w,status\n8,5,4,ok\n8,9,2,throttled\n16,7,3,ok\n16,7,,ok\n"
    small, large = read_profile(save(tmp_path, text)).cells()
    assert (small.throughput, small.power_w, small.replicates) == (5, 4, 1)
    assert (large.throughput, large.power_w, large.replicates) == (7, None, 2)  # half of its power is not known


def test_old_and_foreign_spellings_are_read(tmp_path: Path) -> None:
    head = "# source: my desk\n# license: MIT\n# see https://example.org/a: b\n#tight:1\n"
    text = head + "batch_size,throughput,status\n8,1,ok\n"
    metadata = read_profile(save(tmp_path, text)).metadata
    assert (metadata.origin, metadata.licence, metadata.extra) == ("my desk", "MIT", {"tight": "1"})


def test_a_recorded_emulation_stays_one(tmp_path: Path) -> None:
    body = "batch_size,throughput,status\n8,1,ok\n"
    for line in ("# provenance: emulated\n", "# source: emulated\n"):
        profile = read_profile(save(tmp_path, line + body))
        assert profile.metadata.provenance == "emulated"
        write_profile(profile, tmp_path / "again.csv")
        assert read_profile(tmp_path / "again.csv").metadata.provenance == "emulated"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text + ",,,,,\n",
        lambda text: text.replace(",", " , "),
    ],
    ids=["bom", "crlf", "blank lines", "no final newline", "row of commas", "spaces"],
)
def test_what_spreadsheets_do_is_accepted(tmp_path: Path, bench: Profile, change: Callable[[str], str]) -> None:
    assert read_profile(save(tmp_path, change(BENCH))).rows == bench.rows


HEAD = "gpu_freq_mhz,batch_size,throughput,power_mean_w,status\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", ["is empty"]),
        (b"\n \n", ["is empty"]),
        (b"PK\x03\x04\0\0", ["not a text file"]),
        (HEAD.encode() + b"306,8,20,3,ok\n612,8,\xff\xfe,5,ok\n", ["line 3", "UTF-8"]),
        ("# device: x\n", ["no header"]),
        (HEAD, ["no row below the header"]),
        (HEAD + "306,8,20,3,ok\n612,8,30\n", ["line 3", "3 cells, the header 5", "cut off"]),
        (HEAD + "306,8,20,3,ok,7\n", ["line 2", "6 cells"]),
        (HEAD + '306,8,"20,3,ok\n', ["line 2", "quotation"]),
        ("batch_size,throughput,batch_size,status\n8,1,8,ok\n", ["line 1", "'batch_size'", "twice"]),
        ("batch_size,,throughput,status\n8,1,1,ok\n", ["line 1", "column 2 has no name"]),
        ("throughput,power_mean_w,status\n20,3,ok\n", ["no knob column"]),
        ("batch_size,power_mean_w,status\n8,3,ok\n", ["no column 'throughput'"]),
        ("batch_size,throughput\n8,3\n", ["no column 'status'"]),
        ("batch_size;throughput;status\n8;3;ok\n", ["semicolons"]),
        (HEAD + "306,eight,20,3,ok\n", ["line 2", "column 'batch_size'", "'eight' is not a number"]),
        (HEAD + "306,,20,3,ok\n", ["line 2", "column 'batch_size'", "empty"]),
        (HEAD + "306,1_0,20,3,ok\n", ["'1_0' is not a number"]),
        (HEAD + "306,8,nan,3,ok\n", ["line 2", "column 'throughput'", "not a finite number"]),
        (HEAD + "306,8,20,inf,ok\n", ["line 2", "column 'power_mean_w'", "not a finite number"]),
        (HEAD + "306,8,20,3,fine\n", ["line 2", "column 'status'", "'fine'"]),
        (HEAD + "306,8,20,-3,ok\n", ["line 2", "column 'power_mean_w'", "negative"]),
        (HEAD + "306,8,-20,3,ok\n", ["line 2", "column 'throughput'", "negative"]),
        (HEAD + "306,8,,3,ok\n", ["line 2", "column 'throughput'", "no throughput"]),
        (HEAD + "306,8,0,3,ok\n", ["line 2", "column 'throughput'", "throughput 0"]),
        (HEAD + "306,8,,,oom\n", ["no row has status ok"]),
        ("# knobs: gpu_freq_mhz\n" + HEAD + "306,8,20,3,ok\n", ["'gpu_freq_mhz'", "'gpu_freq_mhz, batch_size'"]),
        ("# throughput_unit: epochs\n" + HEAD + "306,8,20,3,ok\n", ["'epochs'", "/s, /min or /h"]),
        ("# provenance: dreamt\n" + HEAD + "306,8,20,3,ok\n", ["line 1", "'dreamt'"]),
        ("# device: a\n# device: b\n" + HEAD + "306,8,20,3,ok\n", ["line 2", "'device'", "twice"]),
        ("# default_setting: batch_size=8\n" + HEAD + "306,8,20,3,ok\n", ["line 1", "each knob once"]),
        (
            "# default_setting: gpu_freq_mhz=306, batch_size=9, batch_size=8\n" + HEAD + "306,8,20,3,ok\n",
            ["line 1", "each knob once"],
        ),
        ("# default_setting: 306, 8\n" + HEAD + "306,8,20,3,ok\n", ["line 1", "cannot be read"]),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    path = save(tmp_path, text)
    with pytest.raises(ProfileError) as refusal:
        read_profile(path)
    message = refusal.value.message
    for word in (*words, str(path)):
        assert word in message
    assert "\n" not in message
    assert refusal.value.hint
    assert refusal.value.state["path"] == str(path)


@pytest.mark.parametrize(("name", "word"), [("missing.csv", "does not exist"), ("", "is a folder")])
def test_paths_that_are_no_file_are_refused(tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(ProfileError, match=word):
        read_profile(tmp_path / name)


def test_a_header_in_capitals_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as refusal:
        read_profile(save(tmp_path, "batch_size,Throughput,status\n8,1,ok\n"))
    assert refusal.value.hint == "rename the column 'Throughput'"


@pytest.mark.parametrize("length", range(len(HEAD) + 1, len(HEAD) + 40, 3))
def test_a_file_cut_off_never_loses_a_row_silently(tmp_path: Path, length: int) -> None:
    whole = HEAD + "306,8,20.25,3.125,ok\n612,16,36.5,5.75,ok\n"
    try:
        rows = read_profile(save(tmp_path, whole[:length])).rows
    except ProfileError:
        return
    assert len(rows) == whole[:length].count("ok")


names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12).map(lambda name: f"knob_{name}")
words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20)
numbers = st.one_of(st.just(0.0), st.floats(1e-12, 1e12))
knob_numbers = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6).filter(lambda x: not x.is_integer()))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    knob_names = tuple(draw(st.lists(names, min_size=1, max_size=3, unique=True)))
    rows = []
    for index in range(draw(st.integers(1, 6))):
        status = Status.OK if index == 0 else draw(st.sampled_from(Status))
        metrics = {name: draw(st.none() | numbers) for name in METRICS}
        if status is Status.OK:
            metrics["throughput"] = draw(numbers.filter(bool))
        setting = {name: draw(knob_numbers) for name in knob_names}
        rows.append(ProfileRow(setting=setting, status=status, line=None, **metrics))
    metadata = ProfileMetadata(
        device=draw(st.none() | words),
        workload=draw(st.none() | words),
        origin=draw(st.none() | words),
        licence=draw(st.none() | words),
        throughput_unit=draw(st.sampled_from(["samples/s", "epochs/h", "steps/min"])),
        provenance=draw(st.sampled_from(["measured", "emulated"])),
        default_setting=draw(st.none() | st.sampled_from([row.setting for row in rows])),
        extra=draw(st.dictionaries(names, words, max_size=2)),
    )
    return Profile(metadata, knob_names, tuple(rows))


@given(profile=profiles())
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.csv"
    write_profile(profile, path)
    assert read_profile(path) == profile


def test_writing_is_whole_or_not_at_all(tmp_path: Path, bench: Profile) -> None:
    target = tmp_path / "out.csv"
    target.write_text("before")
    wrong = Profile(bench.metadata, bench.knob_names, (ProfileRow(bench.rows[0].setting, Status.OK, math.nan),))
    with pytest.raises(ProfileError):
        write_profile(wrong, target)
    assert target.read_text() == "before"
    write_profile(bench, target)
    assert read_profile(target) == bench
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.csv", "out.csv"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, bench: Profile) -> None:
    with pytest.raises(ProfileError, match="cannot be written"):
        write_profile(bench, tmp_path / "nowhere" / "out.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ProfileError, match="cannot be written"):
        write_profile(bench, tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.csv", "folder"]


def test_a_line_break_in_metadata_does_not_break_the_file(tmp_path: Path, bench: Profile) -> None:
    profile = Profile(ProfileMetadata(origin="two\nlines"), bench.knob_names, bench.rows)
    write_profile(profile, tmp_path / "out.csv")
    assert read_profile(tmp_path / "out.csv").metadata.origin == "two lines"


def test_a_row_records_a_measurement() -> None:
    found = Measurement(Status.OK, "measured", throughput=30.5, power_mean_w=5.5, energy_j=55.0, duration_s=10.0)
    row = ProfileRow.from_measurement({"batch_size": 8}, found)
    assert row == ProfileRow({"batch_size": 8}, Status.OK, 30.5, power_mean_w=5.5, energy_j=55.0, duration_s=10.0)


def test_a_profile_refuses_settings_of_other_knobs() -> None:
    with pytest.raises(ProfileError, match="does not name each"):
        Profile(ProfileMetadata(), ("batch_size",), (ProfileRow({"gpu_freq_mhz": 306}, Status.OK, 1.0),))
    with pytest.raises(ProfileError):
        Profile(ProfileMetadata(), ("batch_size",), ())


def test_format_setting() -> None:
    assert format_setting({"batch_size": 192.0, "gpu_freq_mhz": 114.75}) == "batch_size=192, gpu_freq_mhz=114.75"


def test_summary(bench: Profile) -> None:
    summary = profile_summary(bench)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["device"] == "bench board"
    assert summary["knobs"][0] == {"name": "gpu_freq_mhz", "unit": "MHz", "values": [306, 612]}
    assert (summary["rows"], summary["ok_rows"], summary["other_rows"]) == (6, 5, {"oom": 1})
    assert summary["power_range_w"] == {"mean": [3.5, 6.5], "p95": None, "peak": [4.0, 7.5]}
    assert summary["throughput_range"] == [20, 50]
    assert summary["best"] == {
        "setting": {"gpu_freq_mhz": 612, "batch_size": 16},
        "throughput": 50,
        "power_mean_w": 6.5,
    }
    assert summary["gaps"]["missing"] == 1
    assert summary["usable_for"] == {
        "cap": True,
        "statistics": ["peak", "mean"],
        "energy": True,
        "replicates": True,
        "batch_size": True,
    }
