"""The thread that reads a meter: time stamps, faults, gaps, an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.meter import Channel, Meter, MeterFault
from devices.agent.sampler import Sampler


class Script:
    """A channel that answers as told."""

    def __init__(self) -> None:
        self.watts = 5.0
        self.failure: Exception | None = None
        self.reads = 0
        self.before: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        self.reads += 1
        self.before()
        if self.failure is not None:
            raise self.failure
        return self.watts


class TickClock(Clock):
    """Time goes on only while somebody waits; the sampler waits until the test lets it tick."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.waits: list[float] = []
        self._free = False
        self._go = threading.Semaphore(0)
        self._waiting = threading.Semaphore(0)

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, readable: Sequence[int], timeout_s: float) -> list[int]:
        self.waits.append(timeout_s)
        self._waiting.release()
        self._go.acquire()
        self.now_s += max(timeout_s, 0.0)
        return super().wait(readable, 5.0 if self._free else 0.0)

    def settle(self) -> None:
        """Until the first reading is done."""
        assert self._waiting.acquire(timeout=5)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self._go.release()
            assert self._waiting.acquire(timeout=5)

    def let_go(self) -> None:
        """From now on wait for real: for `stop`."""
        self._free = True
        self._go.release()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def clock() -> TickClock:
    return TickClock()


def fault_of(sampler: Sampler) -> str | None:
    return sampler.fault


def meter_of(script: Script) -> Meter:
    return Meter(
        "VDD_IN (module input)", [Channel("VDD_IN", script, True), Channel("VDD_SOC", lambda: 1.0)], ["VDD_IN"]
    )


@pytest.fixture
def sampler(script: Script, clock: TickClock) -> Iterator[Sampler]:
    sampler = Sampler(meter_of(script), clock)
    sampler.start()
    clock.settle()
    yield sampler
    clock.let_go()
    sampler.stop()


def test_samples_carry_time_stamps(sampler: Sampler, script: Script, clock: TickClock) -> None:
    script.watts = 6.0
    clock.tick(4)
    times_s = [sample.time_s for sample in sampler.between(0, 1e9)]
    assert times_s == pytest.approx([100.0, 100.1, 100.2, 100.3, 100.4])
    assert [sample.total_w for sample in sampler.between(100.0, 100.15)] == [5.0, 6.0]
    latest = sampler.latest
    assert latest is not None
    assert latest.rails == {"VDD_IN": 6.0, "VDD_SOC": 1.0}
    assert fault_of(sampler) is None
    assert sampler.longest_gap(100.0, 100.4) == pytest.approx(0.1)
    assert sampler.longest_gap(100.0, 101.4) == pytest.approx(1.0)
    assert sampler.between(200, 300) == []


def test_a_slow_reading_neither_drifts_nor_is_made_up_for(sampler: Sampler, script: Script, clock: TickClock) -> None:
    def slowly() -> None:
        clock.now_s += 0.26

    script.before = slowly
    clock.tick()
    script.before = lambda: None
    clock.tick(2)
    times_s = [sample.time_s for sample in sampler.between(0, 1e9)]
    assert times_s == pytest.approx([100.0, 100.36, 100.4, 100.5])  # back on the grid, two ticks left out
    assert sampler.longest_gap(100.0, 100.5) == pytest.approx(0.36)


def test_one_fault_is_none_and_four_are(sampler: Sampler, script: Script, clock: TickClock) -> None:
    script.failure = MeterFault("curr1_input is empty")
    clock.tick(3)
    assert fault_of(sampler) is None
    clock.tick()
    assert fault_of(sampler) == "curr1_input is empty"
    script.failure = None
    clock.tick()
    assert fault_of(sampler) is None
    assert len(sampler.between(0, 1e9)) == 2
    assert sampler.longest_gap(100.0, 100.5) == pytest.approx(0.5)


def test_a_fault_of_more_than_half_a_second(sampler: Sampler, script: Script, clock: TickClock) -> None:
    def slowly() -> None:
        clock.now_s += 0.55

    script.failure, script.before = MeterFault("no answer"), slowly
    clock.tick()
    assert fault_of(sampler) == "no answer"


def test_zero_watts_are_a_fault(sampler: Sampler, script: Script, clock: TickClock) -> None:
    script.watts = 0.0
    clock.tick(4)
    assert fault_of(sampler) == "VDD_IN (module input) reads 0 W: no meter of a running machine does"
    assert [sample.total_w for sample in sampler.between(0, 1e9)] == [5.0]


def test_what_a_driver_raises_does_not_end_the_thread(sampler: Sampler, script: Script, clock: TickClock) -> None:
    script.failure = ZeroDivisionError("division by zero")
    clock.tick(4)
    assert fault_of(sampler) == "VDD_IN (module input) cannot be read: ZeroDivisionError: division by zero"
    script.failure = None
    clock.tick()
    assert fault_of(sampler) is None


def test_a_rail_that_cannot_be_read_is_left_out(clock: TickClock, script: Script) -> None:
    meter = Meter("x", [Channel("VDD_IN", lambda: 5.0, True), Channel("VDD_SOC", script)], ["VDD_IN"])
    sampler = Sampler(meter, clock)
    sampler.start()
    clock.settle()
    script.failure = MeterFault("gone")
    clock.tick()
    assert [sample.rails for sample in sampler.between(0, 1e9)] == [
        {"VDD_IN": 5.0, "VDD_SOC": 5.0},
        {"VDD_IN": 5.0},
    ]
    assert fault_of(sampler) is None
    clock.let_go()
    sampler.stop()


def test_old_samples_are_dropped(clock: TickClock, script: Script) -> None:
    sampler = Sampler(meter_of(script), clock, keep_s=2.0)
    sampler.start()
    clock.settle()
    clock.tick(200)
    kept = sampler.between(0, 1e9)
    assert 20 <= len(kept) <= 22
    assert kept[-1].time_s == pytest.approx(120.0)
    assert kept[0].time_s == pytest.approx(120.0 - 0.1 * (len(kept) - 1))
    assert kept[0].rails == {"VDD_IN": 5.0, "VDD_SOC": 1.0}
    clock.let_go()
    sampler.stop()


def test_a_reading_that_hangs_is_seen(script: Script) -> None:
    class LaterClock(Clock):
        ahead_s = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead_s

    clock, hangs, go_on = LaterClock(), threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        go_on.wait()

    script.before = hang
    sampler = Sampler(meter_of(script), clock)
    assert fault_of(sampler) is None
    sampler.start()
    assert hangs.wait(5)
    assert fault_of(sampler) is None
    assert sampler.latest is None
    clock.ahead_s = 3.0
    reason = fault_of(sampler)
    assert reason is not None
    assert reason.startswith("VDD_IN (module input) has not answered for 3.")
    go_on.set()
    sampler.stop()
    assert fault_of(sampler) is None


def test_a_reading_that_never_ends_does_not_hold_up_the_end(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr("devices.agent.sampler._LAST_S", 0.01)
    hangs, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        go_on.wait()

    script.before = hang
    sampler = Sampler(meter_of(script), Clock())
    sampler.start()
    assert hangs.wait(5)
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "sampler")
    sampler.stop()
    assert thread.is_alive()
    go_on.set()
    thread.join(5)
    assert not thread.is_alive()  # it ends once its reading does
    assert script.reads == 1
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_ten_a_second_until_the_end_and_again(script: Script) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    sampler = Sampler(meter_of(script), Clock())
    sampler.stop()  # before any start
    for _ in range(2):
        before = len(sampler.between(0, 1e12))
        sampler.start()
        sampler.start()
        time.sleep(0.55)
        began = time.monotonic()
        sampler.stop()
        sampler.stop()
        assert time.monotonic() - began < 0.09  # not the rest of the period
        assert 4 <= len(sampler.between(0, 1e12)) - before <= 7
    reads = script.reads
    time.sleep(0.15)
    assert script.reads == reads
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    stamps = [sample.time_s for sample in sampler.between(0, 1e12)]
    assert stamps == sorted(set(stamps))
