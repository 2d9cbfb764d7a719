"""A table made by hand, with its answers known, and strategies that do what a test says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from devices.device import Setting
from devices.errors import UnsupportedError
from devices.profile import Profile, read_profile
from tuner.problem import Problem
from tuner.strategies import STRATEGIES, Strategy, Suggestion
from tuner.trial import Trial

# power_mean_w from 4 W to 12 W: 25 % is 6 W, 50 % is 8 W, 75 % is 10 W
HAND = """# device: Hand board
# workload: toy-net
gpu_freq_mhz,batch_size,throughput,power_mean_w,duration_s,status
300,8,10,4,10,ok
300,16,20,6,10,ok
300,32,24,7.9,10,ok
600,8,30,7,10,ok
600,16,40,8.2,10,ok
600,32,50,12,2,ok
300,64,,,,oom
600,64,,,,oom
"""
P95 = """gpu_freq_mhz,throughput,power_mean_w,power_p95_w,power_peak_w,status
100,10,4,5,6,ok
200,20,6,8,9,ok
300,30,8,11,12,ok
"""


def make_profile(text: str, folder: Path, name: str = "hand.csv") -> Profile:
    """A profile of that text."""
    path = folder / name
    path.write_text(text)
    return read_profile(path)


def at(gpu_freq_mhz: float, batch_size: float) -> Setting:
    """A setting of the table by hand."""
    return {"gpu_freq_mhz": gpu_freq_mhz, "batch_size": batch_size}


class ScriptedStrategy(Strategy):
    """Proposes the settings of `script`, then converges."""

    name = "scripted"
    script: ClassVar[tuple[Setting, ...]] = ()
    priors: ClassVar[list[int]] = []
    crash: ClassVar[BaseException | None] = None

    def suggest(self, problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        self.priors.append(len(problem.prior))
        if self.crash is not None:
            raise self.crash
        tried = [dict(trial.setting) for trial in trials]
        known = [s for s in self.script if set(s) == set(problem.space.names) and dict(s) not in tried]
        return Suggestion(tuple(known[:n]))


class RefusingStrategy(Strategy):
    """Applies to tables with a batch size only."""

    name = "refusing"

    def suggest(self, problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        if "batch_size" not in problem.space.names:
            raise UnsupportedError("it tunes the batch size", hint="another strategy")
        tried = [dict(trial.setting) for trial in trials]
        return Suggestion(tuple(s for s in problem.space.settings[:3] if dict(s) not in tried)[:n])


def register(
    monkeypatch: pytest.MonkeyPatch, script: Iterable[Setting] = (), crash: BaseException | None = None
) -> None:
    """Make both strategies known in this process, the first with that script."""
    monkeypatch.setattr(ScriptedStrategy, "script", tuple(script))
    monkeypatch.setattr(ScriptedStrategy, "crash", crash)
    monkeypatch.setattr(ScriptedStrategy, "priors", [])
    known = {
        **STRATEGIES,
        "scripted": (__name__, "ScriptedStrategy"),
        "refusing": (__name__, "RefusingStrategy"),
        "lut": (__name__, "ScriptedStrategy"),
    }
    monkeypatch.setattr("tuner.strategies.STRATEGIES", known)
    monkeypatch.setattr("tuner.arena.contest.STRATEGIES", known)
