"""Every device passes the one contract suite."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from devices.catalog import find_board
from devices.device import BurstPlan, Device, DeviceInfo, EventSink, Setting, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.measurement import Measurement, Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from devices.replay import ReplayDevice

pytest.register_assert_rewrite("devices.testing")
from devices.testing import DeviceContract  # noqa: E402


def grid_profile(*, power: bool = True, replicates: int = 1) -> Profile:
    """Three clocks by four batch sizes, the largest batch out of memory."""
    rows = []
    for clock in (306, 612, 918):
        for batch in (8, 16, 32, 64):
            for replicate in range(replicates):
                if batch == 64:
                    rows.append(ProfileRow({"gpu_freq_mhz": clock, "batch_size": batch}, Status.OOM))
                    continue
                speed = clock / 10 * batch / (batch + 8) * (1 + 0.01 * replicate)
                power_w = 3 + clock / 200 + 0.02 * replicate if power else None
                rows.append(
                    ProfileRow(
                        {"gpu_freq_mhz": clock, "batch_size": batch},
                        Status.OK,
                        throughput=speed,
                        step_time_s=batch / speed,
                        power_mean_w=power_w,
                        power_p95_w=None if power_w is None else power_w + 0.3,
                        energy_j=None if power_w is None else 12 * power_w,
                        duration_s=12.0,
                        samples=12 * speed,
                    )
                )
    metadata = ProfileMetadata(device="bench board", default_setting={"gpu_freq_mhz": 918, "batch_size": 16})
    return Profile(metadata, ("gpu_freq_mhz", "batch_size"), tuple(rows))


class TestExactReplay(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        with ReplayDevice(grid_profile()) as device:
            yield device


class TestReplicatedReplay(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        with ReplayDevice(grid_profile(replicates=3)) as device:
            yield device


class TestNoisyReplay(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        with ReplayDevice(grid_profile(), seed=7, noise_throughput=0.05, noise_power=0.03) as device:
            yield device


class TestReplayWithMissingCells(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        full = grid_profile()
        with ReplayDevice(Profile(full.metadata, full.knob_names, full.rows[1:-1])) as device:
            yield device


class TestReplayWithoutPower(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        with ReplayDevice(grid_profile(power=False)) as device:
            yield device


class TestEmulated(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        board = find_board("jetson-orin")
        assert board is not None
        with EmulatedDevice(board, preset="15W", seed=0) as device:
            yield device


class _Faulty(ReplayDevice):
    """A replay with one fault, which the suite must find."""

    def __init__(self, fault: str) -> None:
        super().__init__(grid_profile(replicates=2), noise_throughput=0.05)
        self._fault = fault
        self._bursts = 0

    def describe(self) -> DeviceInfo:
        info = super().describe()
        if self._fault == "unstable":
            return replace(info, notes=(f"after {self._bursts} bursts",))
        if self._fault == "meterless":
            return replace(info, statistics=(), meter=None)
        return info

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        self._bursts += 1
        if self._fault == "running noise":
            plan = replace(plan, replicate=self._bursts)
        if self._fault == "deaf":
            names = [knob.name for knob in super().describe().knobs]
            setting = {name: setting.get(name, 8) for name in names}
        found = super().measure(setting, workload, plan, on_event)
        faults: dict[str, dict[str, Any]] = {
            "not a number": {"power_mean_w": math.nan},
            "negative": {"power_mean_sem_w": -0.1},
            "watt-hours": {"energy_j": 0.001},
            "per batch": {"samples": 1.0},
            "boastful": {"source": "measured"},
        }
        return replace(found, **faults.get(self._fault, {}))

    def abort(self) -> None:
        if self._fault == "abort":
            raise RuntimeError("nothing to abort")

    def close(self) -> None:
        if self._fault == "closes once" and self._bursts < 0:
            raise RuntimeError("closed already")
        self._bursts = -1


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("unstable", "test_describe_is_stable"),
        ("meterless", "test_a_cap_needs_a_meter"),
        ("running noise", "test_the_same_replicate_is_the_same_and_another_differs"),
        ("deaf", "test_a_setting_it_does_not_have_is_refused"),
        ("not a number", "test_offered_settings_can_be_measured"),
        ("negative", "test_offered_settings_can_be_measured"),
        ("watt-hours", "test_an_ok_burst_has_what_the_device_promises"),
        ("per batch", "test_an_ok_burst_has_what_the_device_promises"),
        ("boastful", "test_an_ok_burst_has_what_the_device_promises"),
        ("abort", "test_abort_without_a_burst_does_nothing"),
        ("closes once", "test_leaving_the_context_closes"),
    ],
)
def test_the_suite_finds_faults(fault: str, check: str) -> None:
    info = _Faulty("none").describe()
    assert info.default_setting is not None
    offered: dict[str, Any] = {
        "workload": WorkloadSpec("resnet18"),
        "setting": info.default_setting,
        "plan": BurstPlan(),
        "cap_w": 1000.0,
        "fault": "missing knob",
    }
    test = getattr(DeviceContract(), check)
    arguments = {name: offered[name] for name in inspect.signature(test).parameters if name != "device"}
    test(device=_Faulty("none"), **arguments)
    with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception)):
        test(device=_Faulty(fault), **arguments)
