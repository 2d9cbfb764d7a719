"""What the agent writes into a board is put back: by itself, by its guardian, by the next agent."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.agent.guardian import Guardian
from devices.agent.journal import NAME, Journal, load, recover
from devices.agent.sysfs import SysFs
from devices.archive import archive_path
from tests.conftest import ROOT
from tests.devices.agent.test_protocol import PYTHONS
from tests.devices.agent.trees import put

MIN, MAX = "/sys/class/devfreq/gpu/min_freq", "/sys/class/devfreq/gpu/max_freq"


class Kernel49(SysFs):
    """Refuses a minimum above the maximum and a maximum below the minimum."""

    def write(self, name: str, text: str) -> None:
        low, high = (int(text if name == n else self.read(n)) for n in (MIN, MAX))
        if low > high:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        super().write(name, text)


@pytest.fixture
def board(tmp_path: Path) -> SysFs:
    put(tmp_path, MIN, "306000000")
    put(tmp_path, MAX, "918000000")
    put(tmp_path, "/proc/sys/kernel/random/boot_id", "one")
    return Kernel49(str(tmp_path))


def state(board: SysFs) -> tuple[str, str]:
    return board.read(MIN), board.read(MAX)


FOUND = ("306000000", "918000000")


def hold(board: SysFs, value: str) -> None:
    for name in (MAX, MIN) if int(value) > int(board.read(MAX)) else (MIN, MAX):
        board.write(name, value)


@pytest.mark.parametrize("value", ["306000000", "612000000", "918000000", "1020000000", "114750000"])
def test_what_was_found_comes_back_whatever_the_order(board: SysFs, value: str) -> None:
    journal = Journal(board, Clock())
    journal.keep([MIN, MAX, "/sys/none"])
    for name in (MIN, MAX, MIN):
        with_order = value if name == MAX or int(value) <= int(board.read(MAX)) else None
        if with_order and (name == MIN or int(value) >= int(board.read(MIN))):
            board.write(name, with_order)
    assert journal.restore() == ([MIN, MAX], [])
    assert state(board) == FOUND
    assert not board.exists(NAME)
    assert journal.restore() == ([], [])


def test_the_first_values_count_and_are_on_disk_before_any_write(board: SysFs) -> None:
    journal = Journal(board, Clock())
    journal.keep([MAX])
    assert load(board) is not None
    assert json.loads(board.read(NAME))["values"] == [[MAX, "918000000"]]
    board.write(MAX, "612000000")
    journal.keep([MIN, MAX])
    assert journal.names == [MAX, MIN]
    journal.restore()
    assert state(board) == FOUND


def test_what_cannot_be_put_back_is_named(board: SysFs, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(board, Clock())
    journal.keep([MAX])
    board.write(MAX, "612000000")

    def refuse(name: str, text: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(board, "write", refuse)
    assert journal.restore().failed == [f"{MAX} holds 612000000, it held 918000000: Read-only file system"]
    assert board.exists(NAME)  # for whoever comes with more rights


def test_a_journal_of_another_boot_is_void(board: SysFs, tmp_path: Path) -> None:
    Journal(board, Clock()).keep([MAX])
    put(tmp_path, "/proc/sys/kernel/random/boot_id", "two")
    board.write(MAX, "612000000")
    assert recover(board, Clock()) == ([], [])
    assert board.read(MAX) == "612000000"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"values": 3}', '{"boot_id": "one", "pid": "x", "values": []}'])
def test_a_journal_that_is_none_harms_nobody(board: SysFs, text: str) -> None:
    board.replace(NAME, text)
    assert load(board) is None
    Journal(board, Clock()).keep([MAX])
    assert load(board) is not None


def test_an_agent_that_wrote_nothing_leaves_the_journal_of_another_alone(board: SysFs) -> None:
    first, second = Journal(board, Clock()), Journal(board, Clock())
    first.keep([MAX])
    assert second.restore() == ([], [])
    with pytest.raises(AgentError):
        second.keep([MIN])
    assert second.restore() == ([], [])
    assert board.exists(NAME)
    board.write(MAX, "612000000")
    assert first.restore() == ([MAX], [])


def test_a_journal_that_could_not_be_written_refuses_every_time(board: SysFs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = Journal(board, Clock())
    with monkeypatch.context() as patch:
        patch.setattr(board, "replace", full)
        for _ in range(2):
            with pytest.raises(AgentError, match=r"No space left on device.*so no knob is touched"):
                journal.keep([MAX])
    journal.keep([MAX])
    assert board.exists(NAME)


@pytest.mark.parametrize("groups", [[[1, "0"]], [[0, "1"]], [[os.getpid(), "0"]], [[-1, "5"]], [[2**22 + 1, None]]])
def test_only_the_group_that_was_noted_is_ended(board: SysFs, groups: list[list[object]]) -> None:
    Journal(board, Clock()).keep([MAX])
    document = json.loads(board.read(NAME))
    board.replace(NAME, json.dumps({**document, "groups": groups}))
    left = load(board)
    assert left is not None
    assert left["groups"] == []


def test_a_second_agent_is_refused_while_the_first_lives(board: SysFs) -> None:
    Journal(board, Clock()).keep([MAX])
    with pytest.raises(AgentError, match=f"another agent, process {os.getpid()}, tunes this board"):
        Journal(board, Clock()).keep([MIN])


def test_what_a_dead_agent_left_is_put_back_first(board: SysFs) -> None:
    Journal(board, Clock()).keep([MIN, MAX])
    document = json.loads(board.read(NAME))
    board.replace(NAME, json.dumps({**document, "pid": 2**22 + 1}))
    hold(board, "612000000")
    journal = Journal(board, Clock())
    journal.keep([MIN, MAX])
    assert state(board) == FOUND  # and so what was kept now is what was found by the first
    hold(board, "408000000")
    journal.restore()
    assert state(board) == FOUND


def test_where_no_journal_can_be_written_nothing_is_kept(board: SysFs, tmp_path: Path) -> None:
    put(tmp_path, "/run", "a file where the folder should be")
    with pytest.raises(AgentError, match="no knob is touched"):
        Journal(board, Clock()).keep([MAX])


AGENT = f"""
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from devices.agent.clock import Clock
from devices.agent.guardian import Guardian
from devices.agent.journal import Journal
from devices.agent.sysfs import SysFs
root, archive = sys.argv[1:]
board = SysFs(root)
journal = Journal(board, Clock())
journal.keep([{MIN!r}, {MAX!r}])
guardian = Guardian([sys.executable, archive], root)
board.write({MAX!r}, "612000000")
child = os.fork()
if not child:
    os.setsid()
    os.closerange(0, 64)  # as a trainer, which holds nothing of the agent's
    time.sleep(60)
journal.note_group(child)
print(guardian.pid, child, flush=True)
time.sleep(60)
"""


def until(done: object, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if done():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_guardian_puts_back_what_a_killed_agent_left(board: SysFs, tmp_path: Path) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path), str(archive_path())], stdout=subprocess.PIPE, text=True
    )
    assert agent.stdout
    guardian, child = map(int, agent.stdout.readline().split())
    assert board.read(MAX) == "612000000"
    os.kill(guardian, signal.SIGTERM)  # as with everything at a shutdown: it stays
    agent.send_signal(signal.SIGKILL)
    agent.communicate()
    assert until(lambda: state(board) == FOUND and not board.exists(NAME))
    assert until(lambda: not running(guardian) and not running(child))


def test_a_dismissed_guardian_does_nothing(board: SysFs, tmp_path: Path) -> None:
    journal = Journal(board, Clock())
    journal.keep([MAX])
    guardian = Guardian([sys.executable, str(archive_path())], str(tmp_path))
    pid = guardian.pid
    assert running(pid)
    board.write(MAX, "612000000")
    guardian.dismiss()
    guardian.dismiss()
    assert not running(pid)
    assert board.read(MAX) == "612000000"


def test_a_guardian_leaves_the_journal_of_another_agent_alone(board: SysFs, tmp_path: Path) -> None:
    Journal(board, Clock()).keep([MIN, MAX])
    hold(board, "612000000")
    command = [sys.executable, str(archive_path()), "guardian", str(tmp_path), str(os.getpid() + 1)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=30).returncode == 0
    assert state(board) == ("612000000", "612000000")
    assert board.exists(NAME)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_guardian_runs_under_every_python(board: SysFs, tmp_path: Path, python: str) -> None:
    Journal(board, Clock()).keep([MIN, MAX])
    hold(board, "612000000")
    command = [python, str(archive_path()), "guardian", str(tmp_path), str(os.getpid())]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    assert state(board) == FOUND
