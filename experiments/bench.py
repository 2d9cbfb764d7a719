"""Speed of what a user waits for: `make bench`. Times depend on the machine; compare figures of one run only."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_REPEATS = 9
_BURSTS = 20


def command_cost(arguments: Sequence[str]) -> tuple[float, float]:
    """Median wall seconds and peak resident MB of a command over some runs.

    The peak of a child is at least this process's own, which therefore imports nothing large before.
    """
    times_s, peaks_mb = [], []
    for _ in range(_REPEATS):
        begin = time.monotonic()
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        times_s.append(time.monotonic() - begin)
        peaks_mb.append(usage.ru_maxrss / 1024)
    return statistics.median(times_s), max(peaks_mb)


def start_up() -> list[str]:
    """Cost of the help pages, beside that of Python itself."""
    tune = str(Path(sys.executable).with_name("tune"))
    lines = []
    for arguments in ([tune, "--help"], [tune, "run", "--help"], [sys.executable, "-c", "pass"]):
        time_s, peak_mb = command_cost(arguments)
        command = " ".join([Path(arguments[0]).name, *arguments[1:]])
        lines.append(f"{command}: {time_s:.3f} s, {peak_mb:.0f} MB")
    return lines


def suggestions() -> list[str]:
    """Seconds a suggestion of every strategy, on a space of 72 settings."""
    from tuner.strategies import STRATEGIES, open_strategy
    from tuner.testing import drive, toy_measurement, toy_problem

    problem = toy_problem(clocks=8, batches=9)
    lines = []
    for name in STRATEGIES:
        times_s: list[float] = []
        trials, state = drive(open_strategy(name), problem, toy_measurement, _BURSTS, times_s)
        lines.append(
            f"{name}: {statistics.median(times_s):.3f} s a suggestion in the median, {max(times_s):.3f} s at most, "
            f"over {len(trials)} bursts of {len(problem.space)} settings; state {len(state or '') / 1000:.0f} kB"
        )
    return lines


if __name__ == "__main__":
    from experiments.bench_agent import agent_lines

    for line in (*start_up(), *agent_lines(), *suggestions()):
        sys.stdout.write(f"{line}\n")
