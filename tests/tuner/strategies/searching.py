"""Problems to search, and how a search over them went."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting
from devices.measurement import Measurement, Status
from tuner.goal import GOALS, Cap, Goal
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.strategies.proposal import excess
from tuner.testing import drive, toy_measurement
from tuner.trial import Trial

Measure = Callable[[Setting], Measurement]

CLOCK = Knob("gpu_freq_mhz", tuple(range(300, 1000, 100)))
BATCH = Knob(BATCH_KNOB, (4, 8, 16, 32, 64))
LIMIT = Knob("power_limit_w", (100, 125, 150, 175, 200, 225, 250))
BOTH = pytest.mark.parametrize("goal", GOALS.values(), ids=lambda goal: goal.name)


def problem_with(*knobs: Knob, cap_w: float | None = None, goal: Goal = GOALS["throughput"]) -> Problem:
    cap = None if cap_w is None else Cap(cap_w, "mean")
    return Problem(Space.of(DeviceInfo("board", "emulated", knobs)), goal, cap)


def answer(throughput: float, power_w: float, sem: float = 0.01) -> Measurement:
    """A burst that found this, without luck."""
    return Measurement(
        Status.OK,
        "emulated",
        throughput=throughput,
        throughput_sem=sem * throughput,
        power_mean_w=power_w,
        power_mean_sem_w=sem * power_w,
        energy_per_sample_j=power_w / throughput,
        cost_s=10.0,
    )


def toy(setting: Setting) -> Measurement:
    return toy_measurement(setting, sem=0.01)


def limited_gpu(setting: Setting) -> Measurement:
    """A desk GPU: power bends towards its limit, and the clock with the cube root of what the limit leaves."""
    batch, limit = setting.get(BATCH_KNOB, 32), setting["power_limit_w"]
    wanted = 40 + 200 * batch / (batch + 8)
    power = (wanted**-8 + limit**-8) ** (-1 / 8)
    clock = ((power - 40) / (wanted - 40)) ** (1 / 3)
    return answer(batch / (0.01 + batch * 0.002 / clock), power)


def board(setting: Setting) -> Measurement:
    """Five knobs, by the physics of a board."""
    f, cpu, emc = (setting[f"{which}_freq_mhz"] / top for which, top in (("gpu", 900), ("cpu", 1600), ("emc", 3200)))
    batch, cores = setting[BATCH_KNOB], setting["cpu_cores"]
    host = 0.01 + 0.005 / cpu + 0.0003 * batch / (cpu * cores)
    busy = batch * (0.002 / f + 0.0006 / emc)
    time = host + busy
    power = 3 + (busy + 0.3 * host) / time * (3 * f + 3 * f**3) + 0.3 * cores * cpu**2 + 0.8 * emc
    return answer(batch / time, power)


FIVE = (
    CLOCK,
    BATCH,
    Knob("cpu_freq_mhz", (800, 1200, 1600)),
    Knob("cpu_cores", (2, 4)),
    Knob("emc_freq_mhz", (1600, 3200)),
)


@dataclass(frozen=True)
class Search:
    """How a search went, by what its bursts found.

    Attributes:
        trials: Its bursts.
        until: Bursts until a setting within 2 % of the best that holds the cap; 99 where never.
        broken: Bursts above the cap.
        far: Bursts more than 5 % above it.
    """

    trials: list[Trial]
    until: int
    broken: int
    far: int


def value(problem: Problem, found: Measurement | None) -> float | None:
    """The logarithm of the goal, larger is better; None where the cap was broken or nothing found."""
    if found is None or not found.ok or (problem.cap and (found.power_mean_w or math.inf) > problem.cap.watts):
        return None
    estimate = problem.goal.estimate(found)
    assert estimate is not None
    return math.log(estimate.value) * (1 if problem.goal.maximize else -1)


def search(problem: Problem, measure: Measure, bursts: int = 25, name: str = "cap-aware") -> Search:
    trials, _ = drive(open_strategy(name), problem, measure, bursts)
    best = max((v for s in problem.space.settings if (v := value(problem, measure(s))) is not None), default=math.inf)
    near = (i for i, t in enumerate(trials, 1) if (value(problem, t.measurement) or -math.inf) >= best - 0.02)
    over = [excess(problem, trial) or 0.0 for trial in trials]
    return Search(trials, next(near, 99), sum(e > 0 for e in over), sum(e > 0.05 for e in over))
