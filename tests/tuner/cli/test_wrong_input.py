"""Whatever is typed wrong gets one clear sentence, the right exit status and nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuner.cli.conftest import Result, Tune

HEADER = "gpu_freq_mhz,batch_size,throughput,power_mean_w,status\n"
ROWS = HEADER + "306,8,10,5,ok\n408,8,12,6,ok\n306,16,14,5.5,ok\n408,16,17,6.5,ok\n"


def assert_refused(result: Result, *words: str, code: int = 2) -> None:
    assert result.code == code, result
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) <= 2  # a sentence, and the hint
    for word in words:
        assert word in result.err


@pytest.mark.parametrize("cap", ["seven", "-3W", "0W", "nanW", "infW", "7V", ""])
def test_caps(tune: Tune, cap: str) -> None:
    assert_refused(tune("run", "--device", "jetson-orin", "--cap", cap), "--cap", "7W")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--device", "--replay")),
        (("--device", "jetson-orin", "--replay", "x.csv"), ("--device", "--replay")),
        (("--device", "jetson-oring"), ("unknown device", "jetson-orin")),
        (("--device", "jetson-orin", "--goal", "speed"), ("unknown goal", "throughput")),
        (("--device", "jetson-orin", "--strategy", "magic"), ("unknown strategy", "sobol")),
        (("--device", "jetson-orin", "--preset", "9W"), ("preset", "15W")),
        (("--device", "jetson-orin", "--workload", "resnet19"), ("resnet19", "resnet18")),
        (("--device", "jetson-orin", "--workload-arg", "size=3"), ("size", "image_size")),
        (("--device", "jetson-orin", "--workload-arg", "image_size"), ("K=V",)),
        (("--device", "jetson-orin", "--workload-arg", "image_size=big"), ("image_size", "big")),
        (("--device", "jetson-orin", "--search", "fan"), ("fan", "cpu_freq_mhz")),
        (("--device", "jetson-orin", "--values", "gpu_freq_mhz=500"), ("500", "nearest")),
        (("--device", "jetson-orin", "--values", "batch_size"), ("KNOB=V",)),
        (("--device", "jetson-orin", "--values", "batch_size=0"), ("whole number",)),
        (("--device", "jetson-orin", "--values", "batch_size=1.5"), ("1.5",)),
        (("--device", "jetson-orin", "--values", "batch_size=8", "--values", "batch_size=9"), ("twice",)),
        (("--device", "jetson-orin", "--bursts", "0"), ("--bursts",)),
        (("--device", "jetson-orin", "--bursts", "many"), ("--bursts",)),
        (("--device", "jetson-orin", "--seed", "-1"), ("--seed",)),
        (("--device", "jetson-orin", "--cap-on", "mean"), ("without a cap",)),
        (("--device", "jetson-orin", "--cap-on", "median", "--cap", "7W"), ("median", "p95")),
        (("--device", "jetson-orin", "--noise-power", "0.1"), ("replay",)),
        (("--device", "jetson-orin", "--out", "missing/frozen.json"), ("missing", "mkdir")),
        (("--device", "jetson-orin", "--out", "."), ("folder",)),
        (("--device", "jetson-orin", "--record", "missing/r.csv"), ("missing",)),
        (("--device", "jetson-orin", "--nonsense"), ("--nonsense",)),
        (("--replay", "none.csv"), ("none.csv",)),
        (("--device", "jetson-orin", "--study", ""), ("--study is empty", "--study NAME")),
        (("--device", "jetson-orin", "--study", "a\nb"), ("no name",)),
        (("--device", "jetson-orin", "--study", "x" * 300), ("no name",)),
        (("--replay", "none.csv", "--preset", "15W"), ("--preset", "device")),
        (("--replay", "none.csv", "--search", "cpu_cores"), ("--search", "device")),
        (("--device", "jetson-orin", "--out", "same", "--record", "same"), ("--out", "--record", "same file")),
        (("--device", "jetson-orin", "--store", "s.db", "--out", "./s.db"), ("--store", "--out", "same file")),
        (("--device", "jetson-orin", "--workload-arg", "image_size=10000000"), ("fits into the memory",)),
        (("--replay", "."), ("",)),
        (("--device", "jetson-orin", "--store", "mongodb://x/y"), ("driver",)),
    ],
)
def test_options(tune: Tune, arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    assert_refused(tune("run", *arguments), *words)
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("empty",)),
        (b"\x00\x01\x02" * 50, ("",)),
        (b"\xff\xfe\xfa binary \x80", ("",)),
        (ROWS.encode()[:-6], ("line 5",)),
        (HEADER.encode(), ("row",)),
        (ROWS.replace("batch_size", "gpu_freq_mhz").encode(), ("gpu_freq_mhz", "twice")),
        (b"throughput,power_mean_w,status\n10,5,ok\n", ("knob",)),
        (b"gpu_freq_mhz,power_mean_w,status\n306,5,ok\n", ("throughput",)),
        (b"gpu_freq_mhz,throughput\n306,5\n", ("status",)),
        (ROWS.replace("408,8,12", "408,8,fast").encode(), ("fast", "line 3")),
        (ROWS.replace("408,8,12", "408,8,nan").encode(), ("line 3",)),
        (ROWS.replace("6,ok", "6,good").encode(), ("good", "line 3")),
        (ROWS.replace(",ok", ",oom").encode(), ("",)),
    ],
)
def test_profiles(tune: Tune, content: bytes, words: tuple[str, ...]) -> None:
    Path("bad.csv").write_bytes(content)
    assert_refused(tune("run", "--replay", "bad.csv", "--cap", "6W"), "bad.csv", *words)
    assert_refused(tune("profile", "show", "bad.csv"), "bad.csv")


def test_a_cap_on_a_profile_without_power(tune: Tune) -> None:
    Path("nopower.csv").write_text("gpu_freq_mhz,throughput,status\n306,10,ok\n408,12,ok\n")
    assert_refused(tune("run", "--replay", "nopower.csv", "--cap", "6W"), "no cap can be held", "--cap")
    assert_refused(tune("run", "--replay", "nopower.csv", "--goal", "energy"), "energy")
    assert tune("run", "--replay", "nopower.csv").code == 0
    Path("p95.csv").write_text("gpu_freq_mhz,throughput,power_p95_w,status\n306,10,5,ok\n408,12,6,ok\n")
    assert_refused(tune("run", "--replay", "p95.csv", "--goal", "energy", "--cap", "6W"), "energy", "mean")
    assert tune("run", "--replay", "p95.csv", "--cap", "5.5W").code == 0


def test_a_lower_bound_below_another_cap_says_nothing(tune: Tune) -> None:
    rows = "300,10,7.9,over_cap\n400,12,8.2,over_cap\n500,15,12,ok\n600,18,14,ok\n"
    Path("over.csv").write_text("gpu_freq_mhz,throughput,power_mean_w,status\n" + rows)
    tried = tune("run", "--replay", "over.csv", "--cap", "10W", "--strategy", "grid", "--json", "--study", "a").json
    assert [trial["feasible"] for trial in tried["trials"]] == [None, None, False, False]
    free = tune("run", "--replay", "over.csv", "--strategy", "grid", "--json", "--study", "b").json
    assert [trial["feasible"] for trial in free["trials"]] == [None, None, True, True]


def test_a_changed_specification(tune: Tune, profile: Path) -> None:
    tune("run", "--replay", profile, "--cap", "130W", "--study", "mine")
    changed = tune("run", "--replay", profile, "--cap", "140W", "--study", "mine")
    assert_refused(changed, "cap.watts: 130 is now 140", "--fresh")
    assert tune("run", "--replay", profile, "--cap", "140W", "--study", "mine", "--fresh").code == 0
    assert len(tune("list", "--json").json) == 2


def test_a_profile_that_changed_under_the_study(tune: Tune, profile: Path) -> None:
    tune("run", "--replay", profile, "--cap", "130W")
    profile.write_text(profile.read_text().replace("125,32,125", "125,32,126"))
    assert_refused(tune("run", "--replay", profile, "--cap", "130W"), "fingerprint")


def test_a_study_in_use(tune: Tune, profile: Path) -> None:
    from tuner.store import open_store

    with open_store().lock("mine"):
        assert_refused(tune("run", "--replay", profile, "--study", "mine"), "in use", "--study")


def test_stores(tune: Tune, profile: Path) -> None:
    Path("notes.txt").write_text("my notes\n" * 500)
    assert_refused(tune("run", "--replay", profile, "--store", "notes.txt"), "notes.txt", "--store", code=3)
    assert_refused(tune("list", "--store", "."), "--store", code=3)


def test_unknown_studies_and_files(tune: Tune) -> None:
    assert_refused(tune("show", "none"), "no study 'none'", "tune list")
    assert_refused(tune("export", "none"), "no study 'none'")
    Path("x.json").write_text("{}")
    assert_refused(tune("export", "x.json"), "x.json", "no frozen config")
    Path("y.json").write_text("not json")
    assert_refused(tune("export", "y.json"), "y.json", "no JSON")
    assert_refused(tune("export", "none", "--format", "xml"), "xml")
    assert_refused(tune("nonsense"), "nonsense")


def test_imports(tune: Tune, tmp_path: Path) -> None:
    Path("t.csv").write_text("dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n")
    assert_refused(tune("profile", "import", "--from", "excel", "t.csv", "-o", "p.csv"), "excel", "zeus")
    assert_refused(tune("profile", "import", "--from", "zeus", "none.csv", "-o", "p.csv"), "none.csv")
    assert_refused(tune("profile", "import", "--from", "zeus", "t.csv", "-o", "p.csv"), "t.csv")
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("run", "--device", "nope", "--json"), 2, "input"),
        (("run", "--device", "jetson-orin", "--cap", "x", "--json"), 2, "usage"),
        (("list", "--store", ".", "--json"), 3, "store"),
        (("profile", "show", "none.csv", "--json"), 2, "profile"),
    ],
)
def test_json_errors(tune: Tune, arguments: tuple[str, ...], code: int, kind: str) -> None:
    result = tune(*arguments)
    assert result.code == code
    error = result.json["error"]
    assert error.keys() == {"kind", "message", "hint"}
    assert error["kind"] == kind
    assert error["message"]
    assert error["hint"]


def test_a_profile_is_never_overwritten_by_what_is_made_of_it(tune: Tune, profile: Path) -> None:
    before = profile.read_text()
    for option in ("--out", "--record"):
        assert_refused(tune("run", "--replay", profile, option, profile), option, "--replay", "same file")
    assert profile.read_text() == before


def test_a_profile_is_not_relabelled(tune: Tune, profile: Path) -> None:
    assert_refused(tune("run", "--replay", profile, "--workload", "resnet18"), "toy-net", "resnet18")


@pytest.mark.parametrize("noise", ["-0.1", "2", "1000", "nan"])
def test_noise(tune: Tune, profile: Path, noise: str) -> None:
    assert_refused(tune("run", "--replay", profile, "--noise-throughput", noise), "between 0 and 1")


@pytest.mark.parametrize("cell", ["0,8", "1.5,8", "-1,8", "8,1e308", "8,-5"])
def test_knob_values_that_cannot_be(tune: Tune, cell: str) -> None:
    Path("odd.csv").write_text(f"batch_size,power_limit_w,throughput,status\n8,100,5,ok\n{cell},5,ok\n")
    assert_refused(tune("run", "--replay", "odd.csv"), "odd.csv", "line 3")


def test_a_store_that_is_read_is_not_made(tune: Tune, tmp_path: Path) -> None:
    assert_refused(tune("list", "--store", "typo/studies.db"), "no store", "tune run")
    assert not (tmp_path / "typo").exists()
    assert not (tmp_path / "studies.db").exists()
    assert tune("list").code == 0
    assert not (tmp_path / "studies.db").exists()


def test_text_is_not_markup(tune: Tune, profile: Path) -> None:
    profile.write_text(profile.read_text().replace("Bench GPU", "A[/b]100 :boom:"))
    result = tune("run", "--replay", profile, "--study", "[/x] [red]", "--bursts", 4, "--out", "[y].json")
    assert "A[/b]100 :boom:" in result.out
    assert "study [/x] [red]:" in result.out
    assert "frozen: [y].json" in result.out
    assert "[/x] [red]" in tune("list").out
    assert tune("show", "[/x] [red]").code == 0


def test_a_reading_of_zero_watts_is_a_fault_and_not_a_frugal_board(tune: Tune, profile: Path) -> None:
    profile.write_text(profile.read_text().replace("125,32,125,116.5", "125,32,125,0"))
    result = tune("run", "--replay", profile, "--cap", "130W", "--json", "--strategy", "grid")
    assert result.code == 0
    zero = next(t for t in result.json["trials"] if t["setting"] == {"power_limit_w": 125, "batch_size": 32})
    assert zero["status"] == "crashed"
    assert "power_mean_w was read as 0" in zero["reason"]
    assert result.json["recommended"]["setting"] != zero["setting"]


def test_recorded_failures_do_not_end_a_replay(tune: Tune) -> None:
    rows = [
        f"{limit},{batch},10,50,{'ok' if limit == 120 else 'crashed'}"
        for limit in (100, 110, 120)
        for batch in (1, 2, 4)
    ]
    Path("broken.csv").write_text("power_limit_w,batch_size,throughput,power_mean_w,status\n" + "\n".join(rows) + "\n")
    result = tune("run", "--replay", "broken.csv", "--cap", "60W", "--strategy", "grid", "--json")
    assert result.code == 0
    assert len(result.json["trials"]) == 9


@pytest.mark.parametrize("name", ["missing/x.csv", "x" * 300, "bench.csv"])
def test_outputs_are_checked_before_the_work(tune: Tune, profile: Path, name: str) -> None:
    before = profile.read_bytes()
    assert_refused(tune("profile", "import", "--from", "zeus", profile, "-o", name), "-o")
    assert_refused(tune("export", profile, "--out", name), "--out")
    assert_refused(tune("run", "--replay", profile, "--record", name), "--record")
    assert_refused(tune("run", "--device", "jetson-orin", "--prior", profile, "--out", name), "--out")
    assert_refused(tune("record", "--device", "jetson-orin", "-o", name if "x" in name else "."), "-o")
    assert profile.read_bytes() == before


def test_empty_values(tune: Tune) -> None:
    assert_refused(tune("show", ""), "STUDY is empty", "tune show --help")
    assert_refused(tune("record", "--device", "cpu", "--out", ""), "--out is empty", "--out PROFILE.csv")
    assert_refused(tune("run", "--device", "jetson-orin", "--store="), "--store is empty")
    assert tune("run", "--device", "", "--json").json["error"]["message"] == "--device is empty"
    error = tune("profile", "import", "--json", "--from").json["error"]
    assert error["hint"] == "tune profile import --help"


def test_any_seed(tune: Tune, profile: Path) -> None:
    for strategy in ("ax", "sobol"):
        arguments = ("--replay", profile, "--seed", 2**40, "--strategy", strategy, "--bursts", 7, "--study", strategy)
        assert tune("run", *arguments).code == 0


def test_options_say_what_they_want(tune: Tune, profile: Path) -> None:
    assert_refused(tune("run", "--replay", profile, "--bursts", "nan"), "'nan' is not a valid whole number")
    assert_refused(tune("fake-board", "board", "--speed", "nan"), "'nan' is not a finite number")
    assert_refused(tune("run", "--device", "jetson-orin", "--search", ","), "--search , names nothing")
    assert_refused(tune("compare", profile, "--strategy", " , "), "names nothing")


@pytest.mark.parametrize("group", [(), ("profile",)])
def test_a_group_without_a_command_shows_its_help(tune: Tune, group: tuple[str, ...]) -> None:
    result = tune(*group)
    assert result.code == 2
    assert result.err.startswith("Usage: tune")
