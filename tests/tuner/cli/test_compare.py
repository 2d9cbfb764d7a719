from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devices.errors import InputError
from tests.conftest import ROOT
from tests.tuner.arena.scripted import HAND, P95, ScriptedStrategy, at, register
from tests.tuner.cli.conftest import Tune
from tests.tuner.cli.test_wrong_input import assert_refused
from tuner.arena import ArenaError, Compared, Contest, Run, Skipped, parse_caps, read_tables
from tuner.arena.contest import Task
from tuner.arena.pool import run_all
from tuner.arena.study_run import run_task, task_words
from tuner.cli.compare import repeat_transfer

TUNE = Path(sys.executable).with_name("tune")
RUN_KEYS = {
    "profile", "cap_w", "strategy", "seed", "optimum", "certifiable", "settings", "regret", "violations",
    "violations_over_5pct", "worst_overshoot_w", "frozen", "suggest_s", "search_time_s", "search_energy_j", "stopped",
}  # fmt: skip
FROZEN_KEYS = {"setting", "throughput", "regret", "regret_certifiable", "power_w", "feasible"}


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hand.csv` and `p95.csv` in the folder, and a strategy that costs nothing."""
    Path("hand.csv").write_text(HAND)
    Path("p95.csv").write_text(P95)
    register(monkeypatch, [at(300, 16), at(600, 8), at(600, 32), {"gpu_freq_mhz": 200}])


def test_the_document(tune: Tune) -> None:
    result = tune(
        "compare", "hand.csv", "--cap", "50%,3W", "--strategy", "scripted", "--seeds", 2, "--bursts", 9, "--jobs", 1,
        "--json", "-",
    )  # fmt: skip
    assert result.code == 0
    document = result.json
    assert [(run["cap_w"], run["seed"]) for run in document] == [(8.0, 0), (8.0, 1), (3.0, 0), (3.0, 1)]
    for run in document:
        assert run.keys() >= RUN_KEYS
        assert len(run["regret"]) == len(run["settings"])
    assert document[0]["profile"] == "hand.csv"
    assert document[0]["frozen"].keys() >= FROZEN_KEYS
    assert document[0]["optimum"] == {"setting": at(600, 8), "throughput": 30.0}
    assert document[0]["regret"] == pytest.approx([1 / 3, 0, 0])
    assert document[2]["optimum"] is None
    assert document[2]["frozen"] is None
    assert document[2]["stopped"] == "infeasible"
    assert document[2]["violations"] == 3


def test_text_and_files(tune: Tune) -> None:
    result = tune(
        "compare", "hand.csv", "hand.csv", "--cap", "8W,8000mW,3W", "--strategy", "scripted,scripted", "--seeds", 1,
        "--jobs", 1, "--noise-power", "0.01", "--plot", "regret.svg", "--json", "runs.json",
    )  # fmt: skip
    lines = result.out.splitlines()
    assert result.code == 0, result
    assert lines[0] == (
        "source: 1 profile (replayed), caps 8 W, 3 W on mean power, 1 seed, at most 25 bursts, "
        "noise 0 % of throughput, 1 % of power"
    )
    assert "[1/2] scripted on hand.csv, 8 W, seed 0" in result.out
    assert "no setting of hand.csv holds 3 W" in result.out
    assert lines[-2:] == ["written: runs.json", "drawn: regret.svg"]
    assert len(json.loads(Path("runs.json").read_text())) == 2
    assert b"replayed" in Path("regret.svg").read_bytes()
    assert {path.name for path in Path().iterdir()} >= {"hand.csv", "p95.csv", "regret.svg", "runs.json"}
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_the_statistic_is_as_in_replay(tune: Tune) -> None:
    arguments = ("compare", "p95.csv", "--cap", "50%", "--strategy", "refusing,scripted", "--seeds", 1, "--jobs", 1)
    result = tune(*arguments, "--json", "-")
    assert result.code == 0
    assert "skipped: refusing on p95.csv: it tunes the batch size" in result.err
    (run,) = result.json
    assert (run["cap_w"], run["cap_on"], run["optimum"]["throughput"]) == (6.0, "p95", 10.0)
    (run,) = tune(*arguments, "--cap-on", "mean", "--json", "-").json
    assert (run["cap_on"], run["optimum"]["throughput"]) == ("mean", 20.0)


def test_a_strategy_that_applies_nowhere(tune: Tune) -> None:
    result = tune("compare", "p95.csv", "--cap", "50%", "--strategy", "refusing", "--jobs", 1)
    assert result.code == 1
    assert "skipped: refusing on p95.csv: it tunes the batch size (another strategy)" in result.out
    assert "no strategy applies" in result.out
    assert tune("compare", "p95.csv", "--strategy", "refusing", "--jobs", 1, "--json", "-").json == []


def test_transfer_takes_several_files(tune: Tune) -> None:
    for name in ("a.csv", "b.csv"):
        Path(name).write_text(HAND.replace("300,8,10,4", f"300,8,1{ord(name[0])},4"))
    options = ("--cap", "50%", "--strategy", "scripted", "--seeds", 1, "--jobs", 1, "--json", "-")
    for transfer in (("--transfer", "a.csv", "b.csv"), ("--transfer=a.csv", "--transfer", "b.csv")):
        ScriptedStrategy.priors.clear()
        assert len(tune("compare", "hand.csv", *transfer, *options).json) == 1
        assert set(ScriptedStrategy.priors) == {2}
    assert repeat_transfer(["a", "--transfer", "b", "c", "--cap", "7", "d"]) == [
        "a", "--transfer", "b", "--transfer", "c", "--cap", "7", "d",
    ]  # fmt: skip


BASE = ("compare", "hand.csv", "--cap", "50%", "--strategy", "scripted")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "none.csv", "--cap", "50%"), ("none.csv",)),
        (("compare", "--cap", "50%"), ("PROFILE",)),
        (("compare", "hand.csv", "--cap", "0%"), ("0%", "--cap")),
        (("compare", "hand.csv", "--cap", "7%%"), ("7%%",)),
        (("compare", "hand.csv", "--cap", "-7W"), ("--cap",)),
        (("compare", "hand.csv", "--cap", ""), ("--cap",)),
        ((*BASE, "--seeds", "-1"), ("--seeds",)),
        ((*BASE, "--seeds", "0"), ("--seeds",)),
        ((*BASE, "--bursts", "0"), ("--bursts",)),
        ((*BASE, "--jobs", "0"), ("--jobs",)),
        ((*BASE, "--strategy", "sobl"), ("did you mean sobol",)),
        ((*BASE, "--strategy", ","), ("strategy",)),
        ((*BASE, "--noise-power", "nan"), ("between 0 and 1",)),
        ((*BASE, "--noise-throughput", "-1"), ("between 0 and 1",)),
        ((*BASE, "--cap-on", "p95"), ("hand.csv", "p95")),
        ((*BASE, "--cap-on", "most"), ("most",)),
        ((*BASE, "--json", "missing/x.json"), ("missing",)),
        ((*BASE, "--json", "."), ("folder",)),
        ((*BASE, "--plot", "missing/x.png"), ("missing",)),
        ((*BASE, "--plot", "x.bmp"), (".png",)),
        ((*BASE, "--plot", "x"), (".png",)),
        ((*BASE, "--plot", "x.svg", "--json", "x.svg"), ("--plot", "--json", "same file")),
        ((*BASE, "--json", "hand.csv"), ("--json", "same file")),
        ((*BASE, "--transfer", "hand.csv"), ("--transfer hand.csv is the table being tuned",)),
        ((*BASE, "--transfer", "none.csv"), ("none.csv",)),
        (("compare", "bare.csv", "--cap", "7W"), ("bare.csv", "power", "--cap")),
        (("compare", "bare.csv", "--cap", "25%"), ("bare.csv", "power")),
        ((*BASE, "--transfer", "bare.csv"), ("--transfer bare.csv", "gpu_freq_mhz, batch_size")),
        ((*BASE, "--transfer", "short.csv"), ("--transfer short.csv has fewer than two valid settings",)),
    ],
)
def test_wrong_input(tune: Tune, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    Path("bare.csv").write_text("cpu_cores,throughput,status\n1,10,ok\n2,11,ok\n")
    Path("short.csv").write_text("gpu_freq_mhz,batch_size,throughput,power_mean_w,status\n300,8,1,5,ok\n")
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert_refused(tune(*arguments), *words)
    assert {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_an_error_is_one_document_where_standard_output_is_for_json(tune: Tune) -> None:
    for option in (("--json", "-"), ("--json=-",)):
        result = tune("compare", "none.csv", "--cap", "50%", *option)
        assert result.code == 2
        assert result.json["error"]["kind"] == "profile"
    assert tune("compare", "none.csv", "--json", "x.json").out == ""


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tuner.cli.main import main\n"
        "try: main(['compare', '--help'])\nexcept SystemExit as e: assert not e.code\n"
        "print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"torch", "ax", "numpy", "rich", "matplotlib", "optuna"} & set(done.stdout.split("LOADED")[1].split())
    assert "lut measures every setting" in done.stdout.replace("\n" + " " * 29, " ")


RUNS = ("compare", "hand.csv", "--cap", "50%", "--strategy", "scripted", "--seeds", 5, "--jobs", 1)


def end_after(monkeypatch: pytest.MonkeyPatch, count: int, error: BaseException) -> None:
    """Raise `error` in place of the study after the first `count`."""
    made: list[Task] = []

    def run(contest: Contest, task: Task) -> Run | Skipped:
        made.append(task)
        if len(made) > count:
            raise error
        return run_task(contest, task)

    monkeypatch.setattr(sys.modules["tuner.arena.compare"], "run_task", run)  # the package has a function of that name


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ArenaError("it died", hint="more"), 3)])
def test_what_was_finished_before_the_end_is_kept(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    end_after(monkeypatch, 2, error)
    result = tune(*RUNS, "--json", "runs.json", "--plot", "regret.svg")
    assert result.code == code, result
    word = "interrupted" if code == 130 else "failed"
    assert [run["seed"] for run in json.loads(Path("runs.json").read_text())] == [0, 1]
    assert f"{word} after 2 of 5 studies; what is shown and written is of these alone" in result.out
    assert re.search(r"^scripted +2 ", result.out, re.MULTILINE)  # the table
    assert f"{word} after 2 of 5 studies".encode() in Path("regret.svg").read_bytes()
    assert result.err == ("" if code == 130 else "error: it died\n  hint: more\n")

    end_after(monkeypatch, 2, error)
    result = tune(*RUNS, "--json", "-")
    assert result.code == code
    runs = result.json if code == 130 else result.json["runs"]
    assert [run["seed"] for run in runs] == [0, 1]
    assert code == 130 or result.json["error"] == {"kind": "arena", "message": "it died", "hint": "more"}


def test_an_end_before_the_first_study_leaves_an_earlier_file(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("runs.json").write_text("earlier")
    end_after(monkeypatch, 0, KeyboardInterrupt())
    result = tune(*RUNS, "--json", "runs.json")
    assert (result.code, Path("runs.json").read_text()) == (130, "earlier")
    assert "interrupted after 0 of 5 studies; no file was written" in result.out
    assert tune(*RUNS, "--json", "-").json == []


@pytest.mark.parametrize("error", [InputError("cannot write"), ValueError("odd")])
def test_a_figure_that_fails_is_one_document_with_the_studies(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(compared: Compared, path: Path) -> None:
        raise error

    monkeypatch.setattr("tuner.report.arena_files.draw_regret", fail)
    result = tune(*RUNS, "--json", "-", "--plot", "x.svg")
    assert result.code == (2 if isinstance(error, InputError) else 3)
    assert len(result.json["runs"]) == 5
    assert result.json["error"]["message"]
    result = tune(*RUNS, "--json", "runs.json", "--plot", "x.svg")
    assert len(json.loads(Path("runs.json").read_text())) == 5
    assert len(result.err.strip().splitlines()) <= 2


def test_a_killed_process_is_told_in_words() -> None:
    contest = Contest(read_tables([Path("hand.csv")]), ("sobol",), parse_caps("50%"), seeds=3)
    with pytest.raises(ArenaError) as error:
        list(run_all(die, contest, contest.tasks(), 2, task_words))
    assert "the study of sobol on hand.csv (8 W, seed " in error.value.message
    assert "killed by SIGKILL" in error.value.message
    assert "Task(" not in error.value.message


def die(contest: Contest, task: Task) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("option", ["--json", "--plot"])
@pytest.mark.parametrize("length", [248, 300])  # such a name is one, but leaves no room for a file beside it
def test_a_file_that_cannot_be_written_is_found_before_the_work(tune: Tune, option: str, length: int) -> None:
    name = "x" * (length - 4) + ".svg"
    assert_refused(tune(*RUNS, option, name), f"{option}: cannot write", f"hint: {option} FILE")


@pytest.mark.parametrize("option", ["--json", "--plot", "--cap", "--strategy", "--transfer"])
def test_options_without_their_argument(tune: Tune, option: str) -> None:
    assert_refused(tune("compare", "hand.csv", option, ""), f"{option} is empty", f"hint: {option} ")
    words = (f"Option '{option}' requires an argument", "hint: tune compare --help")
    assert_refused(tune("compare", "hand.csv", option), *words)
    assert_refused(tune("compare", "hand.csv", option, "--seeds", "2"), *words)
    error = tune("compare", "hand.csv", "--json", "-", option).json["error"]
    assert (error["kind"], error["hint"]) == ("usage", "tune compare --help")


def test_a_cap_of_no_power_is_refused_at_once(tune: Tune) -> None:
    Path("zero.csv").write_text("batch_size,throughput,power_mean_w,status\n1,1,0,ok\n2,2,0,ok\n")
    words = ("--cap 25 %", "zero.csv", "0 W")
    assert_refused(tune("compare", "zero.csv", "--cap", "25%", "--strategy", "scripted"), *words)


def alive(group: int) -> str:
    return subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False).stdout


def test_ctrl_c_ends_at_once_and_leaves_no_process() -> None:
    command = [
        str(TUNE), "compare", "hand.csv", "--cap", "50%", "--strategy", "sobol", "--seeds", "500", "--jobs", "2",
        "--json", "runs.json",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("source: 1 profile")
    time.sleep(0.5)  # the processes are starting
    begin = time.monotonic()
    subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)  # as a terminal does: to all of them
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begin < 20
    assert process.returncode == 128 + signal.SIGINT, err
    assert "interrupted after" in out
    assert err == ""
    assert not Path("runs.json").exists()
    deadline = time.monotonic() + 5  # Python's own helper goes when it sees that the command has gone
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(process.pid) == ""
