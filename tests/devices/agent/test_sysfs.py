"""The files of the kernel, and what passes for one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from devices.agent.knobs import find_knobs
from devices.agent.sysfs import MOST_BYTES, SysFs
from devices.fake.board import FakeBoard
from devices.fake.sysfs import FakeSysFs
from tests.devices.agent.knobs.kernels import FakeClock
from tests.devices.agent.trees import plant

GPU = "/sys/class/devfreq/17000000.gpu/"


def test_a_pipe_or_a_device_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/full")
    sysfs = SysFs("/")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="it is no regular file") as refused:
            sysfs.read(str(tmp_path / name))
        assert refused.value.errno == errno.EINVAL
        with pytest.raises(OSError, match="it is no regular file"):
            sysfs.write(str(tmp_path / name), "1")
    assert sysfs.refusal(str(tmp_path / "pipe")) == errno.ENXIO
    with pytest.raises(IsADirectoryError):
        sysfs.read(str(tmp_path))


def test_a_file_that_is_larger_than_any_of_the_kernel_is_not_read(tmp_path: Path) -> None:
    sysfs = SysFs(str(tmp_path))
    (tmp_path / "long").write_bytes(b"x" * MOST_BYTES)
    assert len(sysfs.read("/long")) == MOST_BYTES
    with (tmp_path / "long").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="File too large") as refused:
        sysfs.read("/long")
    assert refused.value.errno == errno.EFBIG


def test_the_same_of_a_fake_board() -> None:
    sysfs = FakeSysFs(FakeBoard())
    sysfs.replace("/run/tuner/long", "x" * MOST_BYTES)
    assert len(sysfs.read("/run/tuner/long")) == MOST_BYTES
    sysfs.replace("/run/tuner/long", "x" * (MOST_BYTES + 1))
    with pytest.raises(OSError, match="File too large"):
        sysfs.read("/run/tuner/long")


@pytest.mark.parametrize("name", ["available_frequencies", "max_freq"])
def test_a_knob_says_what_passes_for_its_file(name: str, tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    path = Path(sysfs.path(GPU + name))
    path.unlink()
    os.mkfifo(path)
    knobs, problems = find_knobs(sysfs, FakeClock())
    problems += [problem for knob in knobs for problem in knob.problems()]
    assert any(f"{GPU}{name} cannot be read: it is no regular file" in problem.what for problem in problems)


def test_what_the_agent_keeps_can_be_read_by_a_user_who_asks_the_doctor(tmp_path: Path) -> None:
    SysFs(str(tmp_path)).replace("/run/tuner/journal.json", "{}")
    assert stat.S_IMODE((tmp_path / "run/tuner/journal.json").stat().st_mode) & 0o444 == 0o444
