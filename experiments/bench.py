"""Speed of what a user waits for: `make bench`. Times depend on the machine; compare figures of one run only."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tuner.problem import Problem
from tuner.strategies import STRATEGIES, Strategy, Suggestion, open_strategy
from tuner.testing import drive, toy_measurement, toy_problem
from tuner.trial import Trial

_REPEATS = 9
_BURSTS = 20


class Timed(Strategy):
    """A strategy that notes how long each suggestion of another took."""

    name = "timed"

    def __init__(self, inner: Strategy) -> None:
        self._inner = inner
        self.times_s: list[float] = []

    def suggest(self, problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        begin = time.monotonic()
        suggestion = self._inner.suggest(problem, trials, n, state)
        self.times_s.append(time.monotonic() - begin)
        return suggestion


def command_cost(arguments: Sequence[str]) -> tuple[float, float]:
    """Median wall seconds and peak resident MB of a command over some runs."""
    times_s, peaks_mb = [], []
    for _ in range(_REPEATS):
        begin = time.monotonic()
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        times_s.append(time.monotonic() - begin)
        peaks_mb.append(usage.ru_maxrss / 1024)
    return statistics.median(times_s), max(peaks_mb)


def main() -> None:
    """Print every figure."""
    say = sys.stdout.write
    for arguments in (["--help"], ["run", "--help"]):
        time_s, peak_mb = command_cost([str(Path(sys.executable).with_name("tune")), *arguments])
        say(f"tune {' '.join(arguments)}: {time_s:.3f} s, {peak_mb:.0f} MB at most (median of {_REPEATS})\n")
    time_s, peak_mb = command_cost([sys.executable, "-c", "pass"])
    say(f"python -c pass, for comparison: {time_s:.3f} s, {peak_mb:.0f} MB\n")
    problem = toy_problem(clocks=8, batches=9)
    for name in STRATEGIES:
        timed = Timed(open_strategy(name))
        trials, state = drive(timed, problem, toy_measurement, _BURSTS)
        say(
            f"{name}: {statistics.median(timed.times_s):.3f} s a suggestion in the median, {max(timed.times_s):.3f} s "
            f"at most, over {len(trials)} bursts of {len(problem.space)} settings; state {len(state or '') / 1000:.0f} kB\n"
        )


if __name__ == "__main__":
    main()
