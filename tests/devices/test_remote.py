"""The device `cpu`: this machine, through the agent, with a real trainer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devices.device import Access, BurstPlan, Device, Setting, WorkloadSpec, open_device
from devices.errors import DeviceError, DeviceLostError, InputError
from devices.measurement import Status
from devices.remote import AgentDevice
from devices.training import TrainingPlan
from tests.conftest import ROOT

pytest.register_assert_rewrite("devices.testing")
from devices.testing import DeviceContract  # noqa: E402

MISBEHAVING = ROOT / "tests" / "data" / "misbehaving.py"
SHORT = BurstPlan(min_s=0.1, max_s=0.5)  # a step may then take 6 s on a busy machine


def spec(what: str = "nothing", **arguments: Any) -> WorkloadSpec:
    return WorkloadSpec(f"{MISBEHAVING}:make", {"what": what, **arguments})


class Shared:
    """One device for many tests: starting torch takes seconds."""

    def __init__(self) -> None:
        self.devices: list[AgentDevice] = []

    def open(self) -> AgentDevice:
        if not self.devices or self.devices[-1].closed:
            self.devices.append(AgentDevice("cpu", workload=spec(), search=("cpu_threads",)))
        return self.devices[-1]


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    shared = Shared()
    yield shared
    for device in shared.devices:
        device.close()


@pytest.fixture
def cpu(shared: Shared) -> AgentDevice:
    return shared.open()


class TestCpu(DeviceContract):
    @pytest.fixture
    def device(self, shared: Shared) -> Device:
        return shared.open()

    @pytest.fixture
    def workload(self) -> WorkloadSpec:
        return spec()

    @pytest.fixture
    def plan(self) -> BurstPlan:
        return SHORT


def setting(device: Device, batch_size: int = 8) -> Setting:
    return {**(device.describe().default_setting or {}), "batch_size": batch_size}


def test_what_it_says_of_itself(cpu: AgentDevice) -> None:
    info = cpu.describe()
    assert info.name == "cpu"
    assert info.source == "measured"
    assert info.statistics == ()
    assert [knob.name for knob in info.knobs] == ["batch_size", "cpu_threads"]
    assert list(info.knobs[0].values) == [1, 2, 4, 8, 16, 32, 64]  # there are 64 samples
    assert info.knobs[0].default == 8
    few = AgentDevice("cpu", workload=WorkloadSpec(f"{MISBEHAVING}:one_sample"))
    assert few.describe().default_setting == {"batch_size": 1}
    few.close()
    assert max(info.knobs[1].values) >= len(os.sched_getaffinity(0))
    assert {"torch", "python", "cpus"} <= set(info.held_fixed)
    found = cpu.inspect(spec())
    assert found is not None
    assert (found.batch, found.learning_rate, found.optimizer) == (8, 0.01, "SGD")
    assert (found.train_samples, found.test_samples, found.batch_norm) == (64, 0, False)


def test_threads_are_held_fixed_unless_searched() -> None:
    with open_device("cpu", spec()) as device:
        info = device.describe()
        assert [knob.name for knob in info.knobs] == ["batch_size"]
        assert info.held_fixed["cpu_threads"] >= 1
        found = device.measure({"batch_size": 4}, spec(), SHORT)
        assert found.ok, found.reason
        assert found.duration_s is not None
        assert found.duration_s >= SHORT.min_s


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"search": ["gpu_freq_mhz"]}, "cannot search 'gpu_freq_mhz'"),
        ({"values": {"cpu_threads": [1]}}, "cpu_threads is held at"),
        ({"values": {"gpu_freq_mhz": [510]}}, "has no knob 'gpu_freq_mhz'"),
        ({"values": {"batch_size": [8, 65]}}, "batch_size 65 is larger than the training data, 64 samples"),
        ({"values": {"batch_size": [1.5]}}, "whole number"),
        ({"values": {"batch_size": [0]}}, "whole number"),
        ({"values": {"cpu_threads": [100000]}, "search": ["cpu_threads"]}, "no step 100000"),
        ({"preset": "15W"}, "has no preset"),
        ({"access": Access("no-such-python")}, "no program 'no-such-python'"),
    ],
)
def test_wrong_options(options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        open_device("cpu", spec(), **options)
    assert refusal.value.hint


def test_batch_sizes_of_ones_own() -> None:
    with open_device("cpu", spec("few"), values={"batch_size": [10, 3]}) as device:
        assert device.describe().knobs[0].values == (3, 10)
        assert device.measure({"batch_size": 10}, spec("few"), SHORT).ok


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (WorkloadSpec("no-such-net"), "no workload is named 'no-such-net'"),
        (WorkloadSpec("nowhere.py:make"), "there is no file 'nowhere.py'"),
        (WorkloadSpec("no_such_module:make"), "module 'no_such_module' cannot be imported"),
        (WorkloadSpec(f"{MISBEHAVING}:absent"), "has no factory 'absent'"),
        (WorkloadSpec(f"{MISBEHAVING}:factory_raises"), "raised ValueError: first line second line"),
        (WorkloadSpec("digits-cnn", data="/no/such/digits.gz"), "the data cannot be read: /no/such/digits.gz"),
        (spec("model raises"), r"fails in model\(\): RuntimeError: no layers left \(line \d+\)"),
        (spec("raises"), r"fails in a training step: KeyError: 'pixels' \(line \d+\)"),
        (spec("nan"), "fails in a training step: .*the loss is nan"),
        (spec("says goodbye"), "SystemExit: goodbye"),
        (spec("torch refuses"), r"fails in a training step: ValueError: Expected input batch_size .* \(line \d+\)"),
        (spec("talks"), "fails in a training step: RuntimeError: xxxx"),
        (WorkloadSpec(f"{MISBEHAVING}:judges_badly"), "fails in a test: evaluate.* returned"),
        (spec("leaves"), "cannot be loaded: the trainer ended with exit status 7"),
    ],
)
def test_a_workload_that_cannot_be_trained_is_refused_in_one_sentence(
    cpu: AgentDevice, workload: WorkloadSpec, words: str
) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        cpu.inspect(workload)
    assert "\n" not in refusal.value.message
    assert "Traceback" not in refusal.value.message
    assert cpu.measure(setting(cpu), spec(), SHORT).ok


def test_a_workload_that_does_not_fit_is_no_matter_of_typing(cpu: AgentDevice) -> None:
    with pytest.raises(DeviceError, match=r"cannot be loaded: .*MemoryError"):
        cpu.inspect(spec("memory error"))
    assert cpu.measure(setting(cpu), spec(), SHORT).ok


def test_a_workload_that_hangs_while_loading() -> None:
    began = time.monotonic()
    with pytest.raises(InputError, match="cannot be loaded: the trainer said nothing for"):
        AgentDevice("cpu", workload=WorkloadSpec(f"{MISBEHAVING}:factory_hangs"), start_up_s=8)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("raises", Status.CRASHED, "KeyError: 'pixels'"),
        ("nan", Status.CRASHED, "the loss is nan"),
        ("leaves", Status.CRASHED, "exit status 7"),
        ("says goodbye", Status.CRASHED, "goodbye"),
        ("memory error", Status.OOM, "MemoryError"),
        ("too large", Status.OOM, "allocate"),
    ],
)
def test_what_goes_wrong_at_a_setting_is_a_status(cpu: AgentDevice, what: str, status: Status, words: str) -> None:
    workload = spec(what, from_batch=16)
    cpu.inspect(workload)
    found = cpu.measure(setting(cpu, 16), workload, SHORT)
    assert found.status is status
    assert found.reason is not None
    assert words in found.reason
    assert found.throughput is None
    assert cpu.measure(setting(cpu, 8), workload, SHORT).ok  # below, it trains


def test_a_hang_at_a_setting_is_a_status() -> None:
    workload = spec("hangs", from_batch=16)
    with AgentDevice("cpu", workload=workload, start_up_s=10) as device:
        found = device.measure({"batch_size": 16}, workload, SHORT)
        assert found.status is Status.TIMEOUT
        assert found.reason is not None
        assert "said nothing for" in found.reason
        assert device.measure({"batch_size": 8}, workload, SHORT).ok


@pytest.mark.parametrize("what", ["prints", "reads", "forks", "leaks", "synthetic"])
def test_what_does_no_harm(cpu: AgentDevice, what: str) -> None:
    found = cpu.measure(setting(cpu), spec(what), SHORT)
    assert found.ok, found.reason


@pytest.mark.parametrize("factory", ["factory_forks", "factory_daemons"])
def test_a_factory_that_forks(factory: str) -> None:
    workload = WorkloadSpec(f"{MISBEHAVING}:{factory}")
    with AgentDevice("cpu", workload=workload) as device:
        assert device.measure({"batch_size": 8}, workload, SHORT).ok
        pid = device.pid
    assert _session_is_empty(pid)


def _session_is_empty(pid: int) -> bool:
    """Whether no process of the agent's, or of a trainer's, session is left (zombies aside)."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done = subprocess.run(["ps", "-eo", "stat=,args="], capture_output=True, text=True, check=True)
        left = [line for line in done.stdout.splitlines() if f"trainer {pid}" in line and not line.startswith("Z")]
        if not left:
            return True
        time.sleep(0.05)
    return False


def test_threads_that_are_not_what_was_asked_for(cpu: AgentDevice) -> None:
    if len(cpu.describe().knobs[1].values) < 2:
        pytest.skip("one thread is all there is")
    found = cpu.measure({"batch_size": 8, "cpu_threads": 1}, spec(), SHORT)
    assert found.ok
    found = cpu.measure({"batch_size": 8, "cpu_threads": 2}, spec(), SHORT)
    assert found.ok


def test_what_a_workload_draws_is_the_same_in_every_process() -> None:
    workload = WorkloadSpec(f"{MISBEHAVING}:draws")
    rates = set()
    for _ in range(2):
        with AgentDevice("cpu", workload=workload) as device:
            found = device.inspect(workload)
            assert found is not None
            rates.add(found.learning_rate)
    assert len(rates) == 1


def test_a_python_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrap").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "wrap").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with AgentDevice("cpu", workload=spec(), access=Access("./wrap")) as device:
        assert device.describe().name == "cpu"
    (tmp_path / "wrap").write_text(f'#!/bin/sh\n{sys.executable} "$@"\n')
    with pytest.raises(DeviceError, match="a wrapper must exec Python"):
        AgentDevice("cpu", workload=spec(), access=Access("./wrap"))


def test_what_fails_to_load_again_is_a_status(tmp_path: Path) -> None:
    """A server that answered once: the burst crashes, the study goes on."""
    flag = tmp_path / "flag"
    source = MISBEHAVING.read_text() + (
        "\n\ndef flaky():\n"
        f"    if os.path.exists({str(flag)!r}):\n        raise RuntimeError('server busy')\n"
        "    return Workload('leaves', 16)\n"
    )
    (tmp_path / "flaky.py").write_text(source)
    workload = WorkloadSpec(f"{tmp_path}/flaky.py:flaky")
    with AgentDevice("cpu", workload=workload) as device:
        flag.touch()
        assert device.measure({"batch_size": 16}, workload, SHORT).status is Status.CRASHED
        found = device.measure({"batch_size": 8}, workload, SHORT)
        assert found.status is Status.CRASHED
        assert found.reason is not None
        assert "server busy" in found.reason


def test_a_lost_agent_is_an_exception() -> None:
    device = AgentDevice("cpu", workload=spec())
    killer = threading.Timer(0.5, os.kill, (device.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(DeviceLostError, match="stopped answering"):
        device.measure({"batch_size": 8}, spec(), replace(SHORT, min_s=20, max_s=30))
    assert _session_is_empty(device.pid)
    device.close()


def test_the_host_may_be_killed(tmp_path: Path) -> None:
    script = tmp_path / "host.py"
    script.write_text(
        "from devices.remote import AgentDevice\n"
        "from devices.device import Access, BurstPlan, WorkloadSpec\n"
        f"workload = WorkloadSpec({str(MISBEHAVING) + ':make'!r})\n"
        "device = AgentDevice('cpu', workload=workload)\n"
        "print(device.pid, flush=True)\n"
        "device.measure({'batch_size': 8}, workload, BurstPlan(min_s=60, max_s=60))\n"
    )
    host = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert host.stdout
    pid = int(host.stdout.readline())
    time.sleep(0.3)
    host.kill()
    host.wait()
    host.stdout.close()
    assert _session_is_empty(pid)


def test_a_python_without_torch(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    python.chmod(0o755)
    with pytest.raises(DeviceError, match="has no torch that works") as refusal:
        AgentDevice("cpu", workload=spec(), access=Access(str(python)))
    assert "--python" in (refusal.value.hint or "")


def endless(cpu: AgentDevice, folder: Path) -> TrainingPlan:
    return TrainingPlan(setting(cpu), 8, 0.01, 0.01, 0, 10**9, 0, str(folder / "checkpoints"))


def test_abort_ends_a_training_after_its_step_with_a_checkpoint(cpu: AgentDevice, tmp_path: Path) -> None:
    aborts = iter([cpu.abort])
    result = cpu.train(spec(), endless(cpu, tmp_path), lambda event: next(aborts, lambda: None)())
    assert not result.finished
    assert result.steps > 0
    assert result.checkpoint is not None
    assert Path(result.checkpoint).is_file()


def test_abort_twice_ends_a_training_at_once(cpu: AgentDevice, tmp_path: Path) -> None:
    def twice(event: Mapping[str, Any]) -> None:
        cpu.abort()
        cpu.abort()

    with pytest.raises(DeviceError, match="aborted on request"):
        cpu.train(spec(), endless(cpu, tmp_path), twice)
    assert cpu.measure(setting(cpu), spec(), SHORT).ok


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("raises", DeviceError, "KeyError: 'pixels'"),
        ("torch refuses", DeviceError, r"ValueError: Expected input batch_size .* \(line \d+\)"),
        ("nan", DeviceError, "the loss is nan"),
        ("leaves", DeviceError, "exit status 7"),
        ("memory error", DeviceError, "MemoryError"),
    ],
)
def test_a_training_that_fails(cpu: AgentDevice, tmp_path: Path, what: str, error: type[Exception], words: str) -> None:
    workload = spec(what, from_batch=8)  # the check before takes two samples
    with pytest.raises(error, match=words):
        cpu.train(workload, endless(cpu, tmp_path), None)
    assert cpu.measure(setting(cpu), spec(), SHORT).ok
