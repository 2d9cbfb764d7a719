"""Settings of a GPU as files: written, noted, put back by whoever comes next."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.agent.journal import Journal, recover
from devices.agent.nvidia.board import Nvidia
from devices.agent.nvidia.files import NvmlFiles
from devices.agent.nvidia.library import NAMES, Nvml
from devices.agent.sysfs import SysFs
from tests.devices.agent.nvidia.fake import FakeGpu, FakeNvml
from tests.devices.agent.nvidia.support import LIMIT, LOCK, Make, put


def test_settings_are_put_back_as_files(make: Make) -> None:
    gpu = FakeGpu(limit_mw=650_000)
    files = make(FakeNvml(gpu))
    journal = Journal(files, Clock())
    journal.keep([LIMIT, LOCK])
    assert (files.read(LIMIT), files.read(LOCK)) == ("650000", "")
    files.write(LIMIT, "300000")
    files.write(LOCK, "1005,1005")
    assert (gpu.limit_mw, gpu.locked) == (300_000, (1005, 1005))
    assert (files.read(LIMIT), files.read(LOCK)) == ("300000", "1005,1005")
    assert journal.restore().failed == []
    assert (gpu.limit_mw, gpu.locked) == (650_000, None)
    assert (files.read(LIMIT), files.read(LOCK)) == ("650000", "")


def test_another_process_puts_back_what_a_dead_one_locked(make: Make, tmp_path: Path) -> None:
    gpu = FakeGpu()
    files = make(FakeNvml(gpu))
    Journal(files, Clock()).keep([LOCK, LIMIT])
    files.write(LOCK, "345,345")
    files.write(LIMIT, "200000")
    put(tmp_path, "run/tuner/journal.json", files.read("/run/tuner/journal.json").replace(str(os.getpid()), "999999"))
    other = make(FakeNvml(gpu))
    assert other.read(LOCK) == "345,345"
    assert recover(other, Clock()).failed == []
    assert (gpu.locked, gpu.limit_mw) == (None, 700_000)


def test_after_a_reboot_nothing_is_locked(make: Make, tmp_path: Path) -> None:
    files = make(FakeNvml())
    files.write(LOCK, "345,345")
    put(tmp_path, "proc/sys/kernel/random/boot_id", "boot-2")
    assert files.read(LOCK) == ""


@pytest.mark.parametrize("note", ["", "{", "[]", "3", '{"boot_id": "boot-1"}'])
def test_a_broken_note_of_a_lock_is_none(note: str, make: Make, tmp_path: Path) -> None:
    put(tmp_path, "run/tuner/nvml-GPU-aaaa-1.json", note)
    assert make(FakeNvml()).read(LOCK) == ""


def test_a_lock_that_is_refused_is_not_noted(make: Make) -> None:
    library = FakeNvml()
    library.errors["nvmlDeviceSetGpuLockedClocks"] = 4
    files = make(library)
    with pytest.raises(OSError, match="NVML_ERROR_NO_PERMISSION") as caught:
        files.write(LOCK, "345,345")
    assert caught.value.errno == errno.EACCES
    assert files.read(LOCK) == ""


@pytest.mark.parametrize(
    ("code", "number"), [(2, errno.EINVAL), (3, errno.EOPNOTSUPP), (15, errno.ENODEV), (999, errno.EIO)]
)
def test_errors_of_nvml_as_errors_of_files(code: int, number: int, make: Make) -> None:
    library = FakeNvml()
    files = make(library)
    library.errors["nvmlDeviceGetPowerManagementLimit"] = code
    with pytest.raises(OSError, match=NAMES[code]) as caught:
        files.read(LIMIT)
    assert caught.value.errno == number
    assert files.read_or(LIMIT) is None
    assert not files.exists(LIMIT)
    assert files.refusal(LIMIT) == number


@pytest.mark.parametrize(("name", "text"), [(LIMIT, ""), (LIMIT, "x"), (LOCK, "345"), (LOCK, "a,b"), (LIMIT, "1,2")])
def test_nonsense_is_not_written(name: str, text: str, make: Make) -> None:
    gpu = FakeGpu()
    files = make(FakeNvml(gpu))
    with pytest.raises(OSError) as caught:  # noqa: PT011
        files.write(name, text)
    assert caught.value.errno == errno.EINVAL
    assert (gpu.limit_mw, gpu.locked) == (700_000, None)


def test_other_files_are_the_machines(make: Make, tmp_path: Path) -> None:
    files = make(FakeNvml())
    put(tmp_path, "sys/value", "1")
    files.write("/sys/value", "2")
    assert files.read("/sys/value") == "2"
    assert files.exists("/sys/value")
    assert files.refusal("/sys/value") is None
    assert files.canonical(LIMIT) == LIMIT
    assert files.read_or("/nvml/7/power_limit_mw") is None
    assert files.read_or("/nvml/0/other") is None


def test_under_another_root_no_library_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nvml, "open", lambda: pytest.fail("NVML was loaded"))
    files = NvmlFiles(str(tmp_path))
    assert files.read_or(LIMIT) is None
    assert files.refusal(LOCK) == errno.ENOENT
    with pytest.raises(AgentError, match="not used under the root") as caught:
        Nvidia(SysFs(str(tmp_path)), Clock())
    assert caught.value.kind == "device"
