"""The governor: down when the cap is broken for longer than allowed, up when there is room."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from devices.agent import governor as rules
from devices.agent.governor import ALLOWED, Governor

STEPS = [306.0, 408.0, 510.0, 612.0]


class Night:
    """A board whose power follows its clock, watched once a second."""

    def __init__(
        self, watts: Callable[[float, float], float], tuned: float | None = 510.0, cap_w: float | None = 7.0
    ) -> None:
        self.now_s = 0.0
        self.watts = watts
        self.governor = Governor(STEPS, tuned, cap_w, 0.0)
        self.moves: list[tuple[float, float]] = []
        self.reasons: list[str] = []

    def run(self, seconds: float, hot: str | None = None) -> list[tuple[float, float]]:
        """Pass some time; the moves made meanwhile, each with its moment."""
        before = len(self.moves)
        for _ in range(int(seconds)):
            self.now_s += 1.0
            governor, value = self.governor, self.governor.value or 0.0
            reading = self.watts(value, self.now_s)
            found = dict.fromkeys(governor.open_windows_s(self.now_s), reading)
            move = governor.heat(hot, self.now_s) if hot else governor.power(found, self.now_s)
            if move is not None:
                self.moves.append((self.now_s, move.value))
                self.reasons.append(move.reason)
        return self.moves[before:]


def draws(per_step_w: dict[float, float]) -> Callable[[float, float], float]:
    return lambda value, now_s: per_step_w[value]


@pytest.mark.parametrize(("above", "seconds"), [(0.12, 2), (0.05, 20), (0.01, 60)])
def test_the_further_above_the_sooner_down(above: float, seconds: float) -> None:
    night = Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 7.0 * (1 + above)}))
    assert night.run(100)[0] == (seconds, 408.0)
    assert night.reasons[0].endswith(f"W over {seconds} s is above the cap of 7 W")


def test_it_stays_where_the_cap_holds() -> None:
    assert Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 7.0})).run(3600) == []


def test_one_step_after_another_each_with_its_own_time() -> None:
    night = Night(draws({306.0: 6.5, 408.0: 8.0, 510.0: 9.0}))
    assert night.run(60) == [(2.0, 408.0), (4.0, 306.0)]


def test_up_when_the_cap_is_raised_again() -> None:
    night = Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 6.9}))
    night.run(100)
    night.governor.set_cap(6.0, night.now_s)
    assert [value for _, value in night.run(300)] == [408.0]
    night.governor.set_cap(7.0, night.now_s)
    (at, value), *more = night.run(300)
    assert (value, more) == (510.0, [])
    assert at == 460.0


def test_never_above_the_tuned_clock_nor_where_there_is_no_room() -> None:
    night = Night(draws({306.0: 2.0, 408.0: 3.0, 510.0: 4.0, 612.0: 4.5}))
    assert night.run(3600) == []
    night.governor.set_cap(3.2, night.now_s)
    assert [value for _, value in night.run(3600)] == [408.0]


def test_what_a_clock_drew_is_remembered_when_conditions_change() -> None:
    """Leakage of a hot afternoon: every clock draws 8 % more for a while."""
    night = Night(lambda value, now_s: {306.0: 6.0, 408.0: 6.4, 510.0: 6.8}[value] * (1.08 if now_s < 1501 else 1.0))
    assert [value for _, value in night.run(1500)] == [408.0]
    assert [value for _, value in night.run(600)] == [510.0]


def test_a_clock_that_breaks_the_cap_is_tried_again_rarely() -> None:
    night = Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 7.3}))
    moves = night.run(8 * 3600)
    ups = [at for at, value in moves if value == 510.0]
    assert min(b - a for a, b in itertools.pairwise(ups)) > rules.LONGEST_WAIT_S
    assert 12 < len(ups) < 16
    downs = [at for at, value in moves if value == 408.0]
    assert max(down - up for up, down in zip(ups, downs[1:], strict=False)) == 20.0


def test_a_clock_that_heats_the_board_again_is_tried_later_and_later() -> None:
    night = Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 6.5}))
    waits = []
    for _ in range(6):
        night.run(60)
        began = night.now_s
        night.run(1, hot="throttle alert")
        while night.governor.value != 510.0:
            night.run(1)
        waits.append(night.now_s - began)
    assert waits[:4] == pytest.approx([rules.COOL_S * factor for factor in (1, 2, 4, 8)], abs=2)
    assert waits[-1] == pytest.approx(rules.LONGEST_WAIT_S, abs=2)


def test_heat_steps_down_every_ten_seconds_and_up_after_it_has_cooled() -> None:
    night = Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 6.5}))
    night.run(100)
    assert night.run(15, hot="tj at 96 C") == [(101.0, 408.0), (111.0, 306.0)]
    assert night.reasons == ["tj at 96 C", "tj at 96 C"]
    ups = night.run(600)
    assert [value for _, value in ups] == [408.0, 510.0]
    assert ups[0][0] >= 115 + rules.COOL_S


def test_without_a_cap_only_heat_counts() -> None:
    night = Night(draws(dict.fromkeys(STEPS, 50.0)), cap_w=None)
    assert night.run(300) == []
    assert [value for _, value in night.run(1, hot="throttle alert")] == [408.0]
    assert [value for _, value in night.run(300)] == [510.0]
    assert night.reasons[-1].startswith("no sign of heat for 1")


def test_stuck_at_the_lowest_clock() -> None:
    night = Night(draws({306.0: 7.5, 408.0: 8.0, 510.0: 9.0}))
    night.run(60)
    assert not night.governor.stuck(night.now_s)
    night.run(60)
    assert night.governor.stuck(night.now_s)
    night.watts = draws({306.0: 6.9})
    night.run(60)
    assert not night.governor.stuck(night.now_s)


def test_without_a_knob_the_cap_is_watched_all_the_same() -> None:
    for steps, tuned in (([], 510.0), (STEPS, None)):
        governor = Governor(steps, tuned, 7.0, 0.0)
        assert governor.value is None
        assert governor.power({ALLOWED[0][1]: 9.0}, 2.0) is None
        assert governor.heat("hot", 3.0) is None
        assert not governor.stuck(60.0)
        assert governor.stuck(70.0)


def test_drift_is_a_clock_below_the_tuned_one_or_another_cap() -> None:
    night = Night(draws({306.0: 5.0, 408.0: 6.0, 510.0: 7.5}))
    night.run(rules.DRIFT_S)
    assert night.governor.drift(night.now_s) is None
    night.run(60)
    assert night.governor.drift(night.now_s) == "the tuned clock has not been held for 11 min"
    other = Night(draws(dict.fromkeys(STEPS, 5.0)))
    other.governor.set_cap(8.0, 0.0)
    assert other.run(rules.DRIFT_S + 1) == []
    assert other.governor.drift(other.now_s) == "the cap is 8 W, it was tuned under 7 W"
    other.governor.set_cap(7.0, other.now_s)
    other.run(rules.DRIFT_S + 1)
    assert other.governor.drift(other.now_s) is None
