"""The power of a burst: from samples, and from a counter of energy where there is one."""

from __future__ import annotations

from typing import Any

import pytest

from devices.agent.clock import Clock
from devices.agent.meter import Channel, EnergyCounter, Meter, MeterFault
from devices.agent.metering import Metering
from devices.agent.power import Sample


class Script(Clock):
    """A clock that stands until it is moved; whoever sleeps does not wait."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Counter(EnergyCounter):
    def __init__(self, clock: Clock, watts: float, *, fails: bool = False) -> None:
        self._clock, self._watts, self._fails = clock, watts, fails

    def read_j(self) -> float:
        if self._fails:
            raise MeterFault("no counter today")
        return 1e6 + self._watts * self._clock.monotonic()

    @classmethod
    def used_j(cls, begin: tuple[float, float], end: tuple[float, float]) -> float:
        if end[0] - begin[0] < 2:
            raise MeterFault("too short")
        return end[1] - begin[1]


class Constant:
    """Stands for the sampler: 50 W, ten times a second, always."""

    latest = fault = None

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._clock = clock

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def between(self, begin_s: float, end_s: float) -> list[Sample]:
        return [Sample(begin_s + 0.1 * i, 50.0, {"GPU": 50.0}) for i in range(round((end_s - begin_s) / 0.1) + 1)]


class Frozen(Constant):
    """The same of 50.25 W."""

    def between(self, begin_s: float, end_s: float) -> list[Sample]:
        return [sample._replace(total_w=50.25) for sample in super().between(begin_s, end_s)]


def figures(monkeypatch: pytest.MonkeyPatch, counter: EnergyCounter | None, clock: Script, window_s: float) -> Any:
    monkeypatch.setattr("devices.agent.metering.Sampler", Constant)
    meter = Meter("GPU", [Channel("GPU", lambda: 50.0, True)], ["GPU"])
    meter.energy = counter
    made, begin = Metering(meter, clock), clock.now_s
    made.start()
    for phase in ("warm-up", "window", "window"):
        made.count(phase)
    clock.now_s += window_s
    made.count("done")
    made.stop()
    return made.add_to({"throughput": 10.0}, (begin, clock.now_s), "ok")


@pytest.mark.parametrize(
    ("watts", "fails", "window_s", "mean_w"),
    [
        (53.0, False, 10.0, 53.0),
        (53.0, False, 1.0, 50.0),  # too short for the counter
        (53.0, True, 10.0, 50.0),
        (None, False, 10.0, 50.0),
    ],
)
def test_a_counter_of_energy_is_believed_where_it_can_be(
    monkeypatch: pytest.MonkeyPatch, watts: float | None, fails: bool, window_s: float, mean_w: float
) -> None:
    clock = Script()
    counter = None if watts is None else Counter(clock, watts, fails=fails)
    found = figures(monkeypatch, counter, clock, window_s)
    assert found["power_mean_w"] == pytest.approx(mean_w)
    assert found["energy_j"] == pytest.approx(mean_w * window_s)
    assert found["energy_per_sample_j"] == pytest.approx(mean_w / 10)
    assert found["power_p95_w"] == pytest.approx(50.0)


def test_a_meter_that_never_moved_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.metering.Sampler", Frozen)
    told = [50.25, 50.25, 50.5]
    meter = Meter("GPU", [Channel("GPU", lambda: told.pop(0), True)], ["GPU"], lag_s=1.0)
    made = Metering(meter, Script())
    for moves in (False, False, True):
        meter.read()
        assert meter.moves == moves
        found = made.fault((0.0, 10.0))
        assert (found is None) == moves
    assert made.fault(None) is None


def test_a_coarse_meter_is_measured_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.metering.Sampler", Constant)
    for resolution_w, tight in ((0.04, True), (4.0, False), (None, True)):
        channels = [Channel("GPU", lambda: 25.0, True, resolution_w), Channel("SOC", lambda: 25.0, False, 9.0)]
        meter = Meter("GPU", channels, ["GPU"])
        assert meter.resolution_w == resolution_w
        assert Metering(meter, Script()).tight({"tolerance": 0.02})(0.0, 10.0) == tight
    both = [Channel(name, lambda: 25.0, False, step_w) for name, step_w in (("A", 3.0), ("B", 4.0), ("C", None))]
    assert Meter("A + B", both, ["A", "B"]).resolution_w == 4.0
    assert Meter("A + C", both, ["A", "C"]).resolution_w is None


def test_without_a_meter_nothing_is_added() -> None:
    made = Metering(None, Script())
    made.start()
    made.count("window")
    made.stop()
    assert made.add_to({"throughput": 1.0}, (0.0, 1.0), "ok") == {"throughput": 1.0}
    assert made.energy_j() == 0.0
    assert made.fault((0.0, 1.0)) is None
    assert made.tight({"tolerance": 0.01})(0.0, 1.0)
