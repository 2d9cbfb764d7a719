"""The contract of `Device` as a test suite, for every implementation, yours too. Needs pytest.

Subclass `DeviceContract` in a test module, give it a fixture `device` that yields a fresh device, and override the
other fixtures where the defaults do not suit:

    class TestMyBoard(DeviceContract):
        @pytest.fixture
        def device(self) -> Iterator[Device]:
            with MyBoard() as device:
                yield device
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from devices.device import BATCH_KNOB, BurstPlan, Device, DeviceInfo, Setting, WorkloadSpec
from devices.errors import InputError, UnsupportedError
from devices.measurement import STATISTICS, Measurement, Status, seconds_per_unit
from devices.training import TrainingPlan

_FEW_SETTINGS = 12


class DeviceContract:
    """Every sentence of the Device contract that a test can check.

    Attributes:
        repeatable: Whether noise that is not of a real device is a function of the replicate; not on a fake board,
            where the agent measures as on a real one.
    """

    repeatable = True

    @pytest.fixture
    def device(self) -> Iterator[Device]:
        """A fresh device; to be overridden."""
        raise NotImplementedError("give the subclass a fixture `device`")

    @pytest.fixture
    def workload(self) -> WorkloadSpec:
        """A workload the device can run."""
        return WorkloadSpec("resnet18")

    @pytest.fixture
    def setting(self, device: Device) -> Setting:
        """A setting at which a burst ends `ok`."""
        info = device.describe()
        return info.default_setting or next(info.enumerate_settings())

    @pytest.fixture
    def cap_w(self) -> float:
        """A cap in watts that the burst at `setting` keeps."""
        return 1000.0

    @pytest.fixture
    def plan(self) -> BurstPlan:
        """The shortest plan that the device can be judged by."""
        return BurstPlan()

    def test_describe_is_stable(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        before = device.describe()
        device.measure(setting, workload, plan)
        assert device.describe() == before

    def test_what_describe_returns_belongs_to_the_caller(self, device: Device) -> None:
        info = device.describe()
        before = [dict(s) for s in islice(info.enumerate_settings(), _FEW_SETTINGS)]
        for returned in (*islice(info.enumerate_settings(), _FEW_SETTINGS), info.default_setting or {}):
            if isinstance(returned, dict):
                returned.clear()
        again = device.describe()
        assert [dict(s) for s in islice(again.enumerate_settings(), _FEW_SETTINGS)] == before
        assert again.default_setting != {}

    def test_knobs_ascend_and_have_one_name_each(self, device: Device) -> None:
        knobs = device.describe().knobs
        assert knobs
        assert len({knob.name for knob in knobs}) == len(knobs)
        for knob in knobs:
            assert list(knob.values) == sorted(set(knob.values))
            assert all(math.isfinite(value) for value in knob.values)

    def test_settings_name_the_knobs_with_their_values(self, device: Device) -> None:
        info = device.describe()
        settings = list(info.enumerate_settings())
        assert settings
        for setting in settings:
            _assert_on_grid(setting, info)
        assert len({tuple(sorted(setting.items())) for setting in settings}) == len(settings)

    def test_the_default_setting_names_the_knobs(self, device: Device) -> None:
        info = device.describe()
        if info.default_setting is not None:
            assert list(info.default_setting) == [knob.name for knob in info.knobs]

    def test_statistics_and_meter_go_together(self, device: Device) -> None:
        info = device.describe()
        assert set(info.statistics) <= set(STATISTICS)
        assert bool(info.statistics) == (info.meter is not None)

    def test_offered_settings_can_be_measured(self, device: Device, workload: WorkloadSpec, plan: BurstPlan) -> None:
        settings = list(device.describe().enumerate_settings())
        for setting in settings[:: max(1, len(settings) // _FEW_SETTINGS)]:
            found = device.measure(setting, workload, plan)
            _assert_sound(found, device.describe())
            assert found.ok or found.reason

    def test_an_ok_burst_has_what_the_device_promises(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        info = device.describe()
        found = device.measure(setting, workload, plan)
        assert found.status is Status.OK, found.reason
        _assert_sound(found, info)
        assert found.throughput is not None
        assert found.throughput > 0
        assert found.throughput_sem is not None
        assert found.cost_s > 0
        for statistic in info.statistics:
            power = found.power(statistic)
            assert power is not None
            assert power.value > 0
        if found.energy_j is not None and found.power_mean_w is not None and found.duration_s is not None:
            assert found.energy_j == pytest.approx(found.power_mean_w * found.duration_s, rel=0.05)
        unit_s = seconds_per_unit(found.throughput, info.throughput_unit)
        if found.samples is not None and found.duration_s is not None:
            assert found.duration_s == pytest.approx(found.samples * unit_s, rel=0.05)
        if found.power_mean_w is not None:
            assert found.energy_per_sample_j == pytest.approx(found.power_mean_w * unit_s, rel=0.05)

    def test_measurements_survive_json(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        found = device.measure(setting, workload, plan)
        text = json.dumps(found.to_json(), allow_nan=False)
        assert Measurement.from_json(json.loads(text)) == found

    def test_the_same_replicate_is_the_same_and_another_differs(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        if device.describe().source == "measured" or not self.repeatable:
            pytest.skip("a real device cannot repeat a burst exactly")
        first, second = (replace(plan, replicate=replicate) for replicate in (0, 1))
        a, b, c = (_without_cost(device.measure(setting, workload, chosen)) for chosen in (first, second, first))
        assert a == c
        if a.throughput_sem:
            assert a.throughput != b.throughput
        else:
            assert a.throughput == b.throughput

    def test_events_are_named_phases(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        events: list[Mapping[str, Any]] = []
        device.measure(setting, workload, plan, events.append)
        assert all(isinstance(event["phase"], str) for event in events)

    @pytest.mark.parametrize("fault", ["unknown knob", "missing knob", "no step"])
    def test_a_setting_it_does_not_have_is_refused(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, fault: str
    ) -> None:
        knob = device.describe().knobs[-1]
        wrong: dict[str, float] = dict(setting)
        if fault == "unknown knob":
            wrong["no_such_knob"] = 1
        elif fault == "missing knob":
            del wrong[knob.name]
        else:
            wrong[knob.name] = knob.values[-1] * 1.37 + 0.5
        with pytest.raises(InputError) as refusal:
            device.measure(wrong, workload, plan)
        assert refusal.value.message
        assert device.measure(setting, workload, plan).status is Status.OK

    def test_a_cell_that_is_not_offered_is_refused(
        self, device: Device, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        info = device.describe()
        if info.settings is None:
            pytest.skip("the device offers the full grid")
        offered = {tuple(setting[knob.name] for knob in info.knobs) for setting in info.settings}
        full = replace(info, settings=None).enumerate_settings()
        missing = next(s for s in full if tuple(s[knob.name] for knob in info.knobs) not in offered)
        with pytest.raises(InputError):
            device.measure(missing, workload, plan)

    def test_a_cap_needs_a_meter(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, cap_w: float
    ) -> None:
        statistic = device.describe().default_statistic
        if statistic is None:
            with pytest.raises(InputError):
                device.measure(setting, workload, replace(plan, cap_w=cap_w, statistic="mean"))
            assert device.measure(setting, workload, plan).status is Status.OK
        else:
            found = device.measure(setting, workload, replace(plan, cap_w=cap_w, statistic=statistic))
            assert found.status is Status.OK
            power = found.power(statistic)
            assert power is not None
            assert power.value <= cap_w

    def test_a_statistic_it_does_not_give_is_refused(
        self, device: Device, workload: WorkloadSpec, setting: Setting, plan: BurstPlan
    ) -> None:
        for statistic in set(STATISTICS) - set(device.describe().statistics):
            with pytest.raises(InputError):
                device.measure(setting, workload, replace(plan, cap_w=1000.0, statistic=statistic))

    def test_the_statistics_of_power_are_in_order(
        self, device: Device, workload: WorkloadSpec, setting: Setting, plan: BurstPlan
    ) -> None:
        measurement = device.measure(setting, workload, plan)
        found = [e.value for name in ("mean", "p95", "peak") if (e := measurement.power(name)) is not None]
        assert found == sorted(found)

    def test_a_burst_far_above_the_cap_says_so(
        self, device: Device, workload: WorkloadSpec, setting: Setting, plan: BurstPlan
    ) -> None:
        statistic = device.describe().default_statistic
        if statistic is None:
            pytest.skip("no meter")
        plain = device.measure(setting, workload, plan).power(statistic)
        assert plain is not None
        cap_w = plain.value / 3
        measurement = device.measure(setting, workload, replace(plan, cap_w=cap_w, statistic=statistic))
        assert measurement.status in (Status.OK, Status.OVER_CAP)
        power = measurement.power(statistic)
        assert power is not None
        assert power.value > cap_w

    def test_abort_without_a_burst_does_nothing(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        device.abort()
        thread = threading.Thread(target=device.abort)
        thread.start()
        thread.join(timeout=10)
        assert not thread.is_alive()
        assert device.measure(setting, workload, plan).status is Status.OK

    def test_abort_during_a_burst_is_a_status(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        found = device.measure(setting, workload, plan, lambda event: device.abort())
        assert found.status in (Status.OK, Status.ABORTED)
        assert device.measure(setting, workload, plan).status is Status.OK

    def test_what_it_finds_of_a_workload(self, device: Device, workload: WorkloadSpec) -> None:
        found = device.inspect(workload)
        if found is None:
            pytest.skip("the device loads no workload")
        assert found.batch >= 1
        assert 0 < found.learning_rate < math.inf
        assert found.optimizer
        assert device.inspect(workload) == found
        with pytest.raises(InputError):
            device.inspect(WorkloadSpec("no-such-workload"))
        assert device.inspect(workload) == found

    def test_it_trains_to_the_end_or_says_that_it_cannot(
        self, device: Device, setting: Setting, workload: WorkloadSpec, tmp_path: Path
    ) -> None:
        plan = TrainingPlan(setting, 4, 0.01, 0.01, 0, 3, 0, str(tmp_path / "checkpoints"), str(tmp_path / "out"))
        if type(device).train is Device.train or device.describe().source != "measured":
            with pytest.raises(UnsupportedError):
                device.train(workload, plan)
            assert not list(tmp_path.iterdir())
            return
        events: list[Mapping[str, Any]] = []
        small = replace(plan, setting={**setting, BATCH_KNOB: 2})
        result = device.train(workload, small, events.append)
        assert (result.finished, result.steps, result.resumed) == (True, 3, False)
        assert result.checkpoint is not None
        assert Path(result.checkpoint).is_file()
        assert (tmp_path / "out" / "model.pt").is_file()
        assert {event["phase"] for event in events} >= {"train", "checkpoint"}
        again = device.train(workload, replace(small, resume=True))
        assert again.resumed
        assert again.final_train_loss == result.final_train_loss
        with pytest.raises(InputError):
            device.train(workload, replace(small, resume=True, learning_rate=0.02))

    def test_restore_and_close_may_be_repeated(
        self, device: Device, setting: Setting, workload: WorkloadSpec, plan: BurstPlan
    ) -> None:
        device.restore()
        device.measure(setting, workload, plan)
        device.restore()
        device.restore()
        assert device.measure(setting, workload, plan).status is Status.OK
        device.close()
        device.close()

    def test_leaving_the_context_closes(self, device: Device) -> None:
        with device as entered:
            assert entered is device
        device.close()


def _assert_on_grid(setting: Setting, info: DeviceInfo) -> None:
    assert list(setting) == [knob.name for knob in info.knobs]
    for knob in info.knobs:
        assert setting[knob.name] in knob.values


def _assert_sound(found: Measurement, info: DeviceInfo) -> None:
    """What holds of every measurement, whatever its status."""
    assert found.source == info.source
    assert isinstance(found.status, Status)
    for field in fields(found):
        value = getattr(found, field.name)
        if isinstance(value, int | float):
            assert math.isfinite(value), field.name
            assert value >= 0, field.name
    for name, estimate in found.extra.items():
        assert math.isfinite(estimate.value), name
        assert estimate.sem >= 0, name


def _without_cost(found: Measurement) -> Measurement:
    return replace(found, cost_s=0.0, cost_j=0.0)
