"""A fake board as a folder: mounted, used by the real agent as its own processes, and gone afterwards."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.journal import Journal
from devices.agent.session import read_marker
from devices.agent.sysfs import SysFs
from devices.catalog import find_board
from devices.device import Access, BurstPlan, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.errors import DeviceError, DeviceLostError, InputError
from devices.fake.folder import is_mounted
from devices.fake.fuse import SPEED, Served, check_fuse, mounted, serve
from devices.measurement import Status
from devices.remote import AgentDevice

GPU = "/sys/class/devfreq/17000000.ga10b/"
SETTING = {"gpu_freq_mhz": 408.0, "batch_size": 16.0}


def _missing() -> str | None:
    """Why nothing can be mounted here."""
    try:
        check_fuse()
    except DeviceError as error:
        return error.message
    return None if os.geteuid() == 0 or os.access("/dev/fuse", os.W_OK) else "no right to use /dev/fuse"


needs_fuse = pytest.mark.skipif(_missing() is not None, reason=str(_missing()))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "board"
    with mounted(folder, Served()):
        yield folder
    assert not is_mounted(folder)
    assert list(folder.iterdir()) == []


@needs_fuse
def test_files_behave_behind_the_mount(root: Path) -> None:
    sysfs = SysFs(str(root))
    assert sysfs.read(GPU + "device/of_node/name") == "ga10b"
    sysfs.write(GPU + "max_freq", "408000000")
    sysfs.write(GPU + "min_freq", "612000000")
    assert sysfs.read(GPU + "min_freq") == "408000000"
    with pytest.raises(OSError, match="Invalid") as caught:
        sysfs.write(GPU + "min_freq", "fast")
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(BlockingIOError):
        sysfs.read("/sys/class/thermal/thermal_zone1/temp")
    assert sysfs.refusal(GPU + "cur_freq") == errno.EACCES
    assert sysfs.refusal(GPU + "min_freq") is None
    assert not sysfs.exists("/sys/nothing")
    assert "ina3221" in {sysfs.read_or(f"/sys/class/hwmon/{name}/name") for name in sysfs.list("/sys/class/hwmon")}


@needs_fuse
def test_the_agents_own_files_lie_inside(root: Path) -> None:
    sysfs = SysFs(str(root))
    journal = Journal(sysfs, Clock())
    journal.keep([GPU + "max_freq"])
    sysfs.write(GPU + "max_freq", "306000000")
    assert json.loads((root / "run/tuner/journal.json").read_text())["values"] == [[GPU + "max_freq", "624750000"]]
    assert journal.restore().failed == []
    assert sysfs.read(GPU + "max_freq") == "624750000"
    assert sysfs.list("/run/tuner") == []
    sysfs.replace("/run/tuner/long", "x" * 20000)
    sysfs.replace("/run/tuner/long", "short")
    assert sysfs.read("/run/tuner/long") == "short"


@needs_fuse
def test_the_marker_names_speed_and_trainer(root: Path) -> None:
    marker = read_marker(SysFs(str(root)))
    assert marker.speed == SPEED
    assert marker.trainer == [sys.executable, "-m", "devices.fake.trainer", str(root)]


@needs_fuse
def test_the_real_agent_finds_what_the_emulation_says(root: Path) -> None:
    workload = WorkloadSpec("resnet18")
    catalog = find_board("jetson-orin-nano")
    assert catalog is not None
    predicted = EmulatedDevice(catalog, preset="15W").predict(SETTING, workload)
    with AgentDevice("jetson-orin-nano", workload=workload, access=Access(root=str(root))) as device:
        assert device.describe().source == "emulated"
        measured = device.measure(SETTING, workload, BurstPlan(cap_w=20.0))
        assert measured.status is Status.OK, measured.reason
        assert measured.source == "emulated"
        assert measured.throughput == pytest.approx(predicted.throughput, rel=0.02)
        assert measured.power_mean_w == pytest.approx(predicted.power_mean_w, rel=0.05)
        failed = device.measure({**SETTING, "batch_size": 256.0}, workload, BurstPlan(cap_w=20.0))
        assert failed.status is Status.OOM
    assert SysFs(str(root)).read(GPU + "max_freq") == "624750000"
    assert SysFs(str(root)).list("/run/tuner") == []


@needs_fuse
def test_a_board_that_loses_its_power_takes_the_agent_with_it(tmp_path: Path) -> None:
    root, workload = tmp_path / "board", WorkloadSpec("resnet18")
    with mounted(root, Served(faults=("lost@1:5",))):
        sysfs = SysFs(str(root))
        boot_id = sysfs.read("/proc/sys/kernel/random/boot_id")
        with (
            AgentDevice("jetson-orin-nano", workload=workload, access=Access(root=str(root))) as device,
            pytest.raises(DeviceLostError),
        ):
            device.measure(SETTING, workload, BurstPlan(cap_w=20.0))
        assert sysfs.read("/proc/sys/kernel/random/boot_id") != boot_id
        assert sysfs.read(GPU + "max_freq") == "624750000"
        with AgentDevice("jetson-orin-nano", workload=workload, access=Access(root=str(root))) as device:
            assert device.measure(SETTING, workload, BurstPlan(cap_w=20.0)).status is Status.OK


@needs_fuse
def test_it_serves_as_long_as_the_command_runs(tmp_path: Path) -> None:
    root = tmp_path / "a board"  # a blank in the name
    script = "import sys; sys.exit(int(open(sys.argv[1] + '/proc/device-tree/model').read()[:4] == 'NVID') + 6)"
    assert serve(root, "jetson-nano", [sys.executable, "-c", script, str(root)]) == 7
    assert not is_mounted(root)
    assert serve(root, command=["sh", "-c", "kill -9 $$"]) == 128 + signal.SIGKILL
    with pytest.raises(InputError, match="cannot be started"):
        serve(root, command=["/no/such/program"])
    assert not is_mounted(root)


@needs_fuse
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_dead_mount_is_left(tmp_path: Path, number: signal.Signals) -> None:
    root = tmp_path / "board"
    program = f"from devices.fake.fuse import serve; serve({str(root)!r}, ready=lambda: print('here', flush=True))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert (root / "proc/uptime").read_text()
        process.send_signal(number)
        assert process.wait(20) == (-number if number == signal.SIGKILL else 0)
    deadline = time.monotonic() + 20
    while is_mounted(root) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_mounted(root)
    assert list(root.iterdir()) == []


def test_what_cannot_be_served(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        serve(tmp_path)
    with pytest.raises(InputError, match="is no folder"):
        serve(tmp_path / "file")
    with pytest.raises(InputError, match="no fake board"):
        serve(tmp_path / "board", "abacus")
    assert not (tmp_path / "board").exists()


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mfusepy", None)
    with pytest.raises(DeviceError, match=r"FUSE|/dev/fuse") as caught:
        check_fuse()
    assert caught.value.hint
