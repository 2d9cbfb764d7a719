"""The agent's archive under every Python of this machine, spoken to as a host speaks, with a trainer without torch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from devices.agent import ALIVE, PROTOCOL, VERSION
from devices.agent.channel import Channel
from devices.agent.clock import Clock
from devices.archive import DATA_FOLDER, archive_path, build_archive
from tests.conftest import ROOT

FAKE_TRAINER = ROOT / "tests" / "data" / "fake_trainer.py"
PLAN = {"min_s": 0.5, "max_s": 1.0, "tolerance": 0.02, "accumulation": 1}
SETTING = {"batch_size": 8}


def _pythons() -> list[str]:
    """Every Python 3.6 or newer that runs here: on the path, and of pyenv; one of each minor version."""
    candidates = [sys.executable, *(shutil.which(f"python3.{minor}") or "" for minor in range(6, 20))]
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        candidates += [str(path) for path in sorted(Path(root).glob("versions/*/bin/python3"))] if root else []
    found: dict[str, str] = {}
    for path in filter(None, candidates):
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        version = done.stdout.strip()
        if done.returncode == 0 and version.startswith("3.") and int(version[2:]) >= 6:
            found.setdefault(version, path)
    return list(found.values())


PYTHONS = _pythons()


class Agent:
    """An agent as a child, and its trainer: the fake one, run by the same Python."""

    def __init__(self, python: str, folder: Path, *arguments: str) -> None:
        self.trainer = folder / "trainer"
        self.trainer.write_text(f'#!/bin/sh\nexec {python} {FAKE_TRAINER} "$@"\n')
        self.trainer.chmod(0o755)
        self.process = subprocess.Popen(
            [python, str(archive_path()), "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.channel = Channel(os.dup(self.process.stdout.fileno()), os.dup(self.process.stdin.fileno()), Clock())
        self.process.stdin.close()
        self.process.stdout.close()
        self.events: list[Any] = []
        self._requests = 0

    def send(self, request: str, **parameters: Any) -> int:
        self._requests += 1
        self.channel.send({"id": self._requests, "request": request, **parameters})
        return self._requests

    def answer(self) -> Mapping[str, Any]:
        """The next message that is no event."""
        while True:
            message = self.channel.receive(30)
            assert message is not None, "no answer"
            if "event" not in message:
                return message
            self.events.append(message["event"])

    def ask(self, request: str, **parameters: Any) -> Mapping[str, Any]:
        number = self.send(request, **parameters)
        answer = self.answer()
        assert answer["id"] == number
        return answer

    def hello(self, spec: str | None = "fine", **parameters: Any) -> Mapping[str, Any]:
        workload = None if spec is None else _workload(spec)
        python = str(self.trainer)
        return self.ask(
            "hello", **{"protocol": PROTOCOL, "device": "cpu", "python": python, "workload": workload} | parameters
        )

    def burst(self, spec: str = "fine", **plan: float) -> Any:
        answer = self.ask("burst", workload=_workload(spec), setting=SETTING, plan={**PLAN, **plan})
        return answer["reply"]["measurement"]

    def close(self) -> None:
        self.channel.close()
        assert self.process.stderr
        assert self.process.stderr.read() == b""
        self.process.stderr.close()
        assert self.process.wait(timeout=10) == 0


def _workload(spec: str) -> dict[str, Any]:
    return {"spec": spec, "args": {}, "data": None}


@pytest.fixture(params=PYTHONS, ids=lambda path: path.split("/versions/")[-1].split("/bin")[0])
def any_agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(request.param, tmp_path)
    yield agent
    agent.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(sys.executable, tmp_path)
    yield agent
    agent.close()


def _gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _wait_until_gone(pid: int, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not _gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return _gone(pid)


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_the_agent_works_under_every_python(any_agent: Agent) -> None:
    said = any_agent.hello()["reply"]
    assert said["protocol"] == PROTOCOL
    assert said["agent"] == VERSION
    assert said["workload"]["batch"] == 8
    assert [knob["name"] for knob in said["device"]["knobs"]] == ["cpu_threads"]
    assert any_agent.ask("apply", setting=SETTING)["reply"] == {"applied": SETTING, "fault": None}
    found = any_agent.burst()
    assert found["status"] == "ok"
    assert found["throughput"] == pytest.approx(800, rel=0.01)
    assert found["samples"] / found["duration_s"] == pytest.approx(found["throughput"])
    assert any_agent.burst("killed")["status"] == "oom"
    assert any_agent.burst()["status"] == "ok"
    plan = {"setting": SETTING, "steps": 3}
    assert any_agent.ask("train", workload=_workload("fine"), plan=plan)["reply"]["result"]["steps"] == 3
    assert any_agent.ask("restore")["reply"] == {"restored": []}
    any_agent.send("bye")
    assert any_agent.process.wait(timeout=10) == 0


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.split("/versions/")[-1].split("/bin")[0])
def test_a_python_without_torch_is_said(python: str, agent: Agent) -> None:
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip("this Python has torch")
    error = agent.hello("digits-cnn", python=python)["error"]
    assert error["kind"] == "device"
    assert "has no torch that works: ModuleNotFoundError" in error["message"]
    assert "--python" in error["hint"]


@pytest.mark.parametrize(
    ("spec", "status", "reason"),
    [
        ("killed", "oom", "the system killed the trainer"),
        ("oom", "oom", "NvMapMemAlloc"),
        ("bad_alloc", "oom", "std::bad_alloc"),
        ("raises", "crashed", "ValueError: no good"),
        ("exits", "crashed", "exit status 3; its last words: out of tea"),
        ("segfaults", "crashed", "SIGSEGV"),
        ("hangs", "timeout", "the trainer said nothing for"),
        ("stubborn threads", "clock_not_applied", "threads were asked for"),
    ],
)
def test_every_end_of_a_trainer_is_a_status(agent: Agent, spec: str, status: str, reason: str) -> None:
    agent.hello()
    found = agent.burst(spec, **({"min_s": 0.05, "max_s": 0.1, "tolerance": 0.0} if spec == "hangs" else {}))
    assert found["status"] == status
    assert reason in found["reason"]
    assert "throughput" not in found
    assert agent.burst()["status"] == "ok"  # the trainer was started anew


def test_a_trainer_that_does_not_start_is_an_error(agent: Agent) -> None:
    error = agent.hello(python="/no/such/python")["error"]
    assert error["kind"] == "device"
    assert "/no/such/python: No such file" in error["message"]


def test_a_workload_that_is_refused_or_hangs_while_loading(agent: Agent) -> None:
    assert agent.hello("absent")["error"]["kind"] == "input"
    error = agent.hello("never loads", start_up_s=0.5)["error"]
    assert error["kind"] == "input"
    assert "workload 'never loads' cannot be loaded: the trainer said nothing for" in error["message"]
    assert agent.hello()["reply"]["workload"]["batch"] == 8


def test_an_abort_ends_a_burst_and_says_so(agent: Agent) -> None:
    agent.hello()
    for spec in ("real time", "hangs"):
        number = agent.send(
            "burst", workload=_workload(spec), setting=SETTING, plan={**PLAN, "max_s": 60, "tolerance": 0}
        )
        time.sleep(0.3)
        agent.channel.send({"request": "abort"})
        answer = agent.answer()
        assert answer["id"] == number
        assert answer["reply"]["measurement"]["status"] == "aborted"
    agent.channel.send({"request": "abort"})  # nothing runs: nothing happens
    assert agent.burst()["status"] == "ok"


def test_an_aborted_training_ends_after_its_step(agent: Agent) -> None:
    agent.hello()
    agent.send("train", workload=_workload("fine"), plan={"setting": SETTING, "steps": 100000})
    time.sleep(0.3)
    agent.channel.send({"request": "abort"})
    result = agent.answer()["reply"]["result"]
    assert not result["finished"]
    assert 0 < result["steps"] < 100000


def test_a_burst_ends_before_the_machine_runs_out_of_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "root" / "proc" / "meminfo"
    meminfo.parent.mkdir(parents=True)
    meminfo.write_text("MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
    agent = Agent(sys.executable, tmp_path, str(tmp_path / "root"))
    agent.hello()
    agent.send("burst", workload=_workload("real time"), setting=SETTING, plan={**PLAN, "max_s": 60, "tolerance": 0})
    time.sleep(0.3)
    meminfo.write_text("MemTotal: 8000000 kB\nMemAvailable: 100000 kB\n")
    found = agent.answer()["reply"]["measurement"]
    assert found["status"] == "oom"
    assert "memory ran out: 97 MiB were left" in found["reason"]
    meminfo.write_text("MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
    assert agent.burst()["status"] == "ok"
    agent.close()


def test_a_knob_or_value_it_does_not_have_is_not_applied(agent: Agent) -> None:
    agent.hello()
    for setting in ({"gpu_freq_mhz": 510}, {"batch_size": 0}, {"cpu_threads": 1.5}):
        assert agent.ask("apply", setting=setting)["error"]["kind"] == "input"


def test_bye_ends_a_burst(agent: Agent) -> None:
    agent.hello()
    agent.send("burst", workload=_workload("real time"), setting=SETTING, plan={**PLAN, "max_s": 60, "tolerance": 0})
    time.sleep(0.2)
    agent.send("bye")
    assert agent.process.wait(timeout=5) == 0


def test_a_training_that_is_refused_does_no_harm_to_what_follows(agent: Agent) -> None:
    agent.hello()
    plan = {"setting": SETTING, "steps": 3}
    assert agent.ask("train", workload=_workload("refuses"), plan=plan)["error"]["kind"] == "input"
    assert agent.burst()["status"] == "ok"


def test_one_request_at_a_time(agent: Agent) -> None:
    agent.hello()
    burst = agent.send("burst", workload=_workload("real time"), setting=SETTING, plan=PLAN)
    apply = agent.send("apply", setting=SETTING)
    refusal, done = agent.answer(), agent.answer()
    assert refusal["id"] == apply
    assert "one request at a time" in refusal["error"]["message"]
    assert done["id"] == burst
    assert done["reply"]["measurement"]["status"] == "ok"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello\n", "no JSON"),
        (b"[1, 2]\n", "no JSON object"),
        (b"[" * 100_000 + b"\n", "no JSON"),
        (b'{"id": NaN, "request": "hello"}\n', "NaN is no number"),
        (b'{"id": 1e999, "request": "dance"}\n', "no request is named 'dance'"),
        (b"\xff\xfe\n", "no JSON"),
        (b"x" * 1_100_000 + b"\n", "a line of more than"),
        (b'{"id": 1}\n', "no request is named None"),
        (b'{"id": 1, "request": ["hello"]}\n', "no request is named"),
        (b'{"id": 1, "request": "dance"}\n', "no request is named 'dance'"),
        (b'{"id": 1, "request": "apply", "setting": {"batch_size": 1}}\n', "no device yet"),
        (b'{"id": 1, "request": "hello", "protocol": 99, "device": "cpu"}\n', "speaks protocol 1"),
        (b'{"id": 1, "request": "hello", "protocol": 1, "device": "toaster"}\n', "no 'toaster'"),
        (b'{"id": 1, "request": "hello", "protocol": 1, "device": "cpu", "workload": 3}\n', "malformed"),
    ],
)
def test_nonsense_is_refused_and_forgotten(agent: Agent, line: bytes, words: str) -> None:
    data = line
    while data:
        data = data[os.write(agent.channel.write_fd, data[:60000]) :]
    error = agent.answer()["error"]
    assert words in error["message"]
    assert "Traceback" not in error["message"]
    assert agent.hello()["reply"]["protocol"] == PROTOCOL


def test_a_message_in_pieces_and_two_in_one(agent: Agent) -> None:
    text = json.dumps({"id": 1, "request": "hello", "protocol": PROTOCOL, "device": "cpu"}).encode()
    for part in (text[:7], text[7:] + b"\n" + text + b"\n"):
        os.write(agent.channel.write_fd, part)
        time.sleep(0.05)
    assert "reply" in agent.answer()
    assert "reply" in agent.answer()


@pytest.mark.parametrize("end", ["end of input", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_nothing_is_left_when_the_agent_ends(tmp_path: Path, end: str) -> None:
    agent = Agent(sys.executable, tmp_path)
    agent.hello()
    agent.send("burst", workload=_workload("real time"), setting=SETTING, plan={**PLAN, "max_s": 60, "tolerance": 0})
    time.sleep(0.3)
    (trainer,) = _children(agent.process.pid)
    if end == "end of input":
        agent.channel.close()
    else:
        agent.process.send_signal(getattr(signal, end))
    agent.process.wait(timeout=5)
    if end == "SIGKILL":  # a real trainer asks the kernel to end with its parent; this one sees the end of its input
        assert _wait_until_gone(trainer)
    assert _gone(trainer)
    agent.channel.close()
    assert agent.process.stderr
    agent.process.stderr.close()


def test_what_a_trainer_started_ends_with_it(agent: Agent) -> None:
    agent.hello()
    found = agent.burst("leaves children")
    assert found["status"] == "crashed"
    assert _children(agent.process.pid) == []
    done = subprocess.run(["pgrep", "-f", "sleep 1234.5"], capture_output=True, text=True, check=False)
    assert all(_gone(int(pid)) for pid in done.stdout.split())


def test_the_agent_is_heard_while_its_trainer_thinks(agent: Agent) -> None:
    agent.send(
        "hello",
        protocol=PROTOCOL,
        device="cpu",
        python=str(agent.trainer),
        start_up_s=5,
        workload=_workload("never loads"),
    )
    agent.answer()
    assert ALIVE in agent.events


def test_the_archive_is_small_and_always_the_same() -> None:
    assert build_archive() == build_archive()
    assert len(build_archive()) < 200_000
    assert archive_path().read_bytes() == build_archive()
    assert not [path for path in DATA_FOLDER.iterdir() if path.read_bytes() in build_archive()]
