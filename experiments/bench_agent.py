"""What the agent costs the machine it measures: memory, processor time, size, and time added to a training step."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from devices.archive import build_archive
from devices.device import BurstPlan, WorkloadSpec
from devices.remote import AgentDevice

TINY = """
import torch
class Tiny:
    reference_batch, reference_lr = 1, 0.1
    def model(self): return torch.nn.Linear(1, 1)
    def loss(self, model, batch): return model(batch).sum(), len(batch)
    def optimizer(self, params, lr): return torch.optim.SGD(params, lr=lr)
    def train_data(self): return None
    def test_data(self): return None
    def example_input(self, batch_size): return torch.zeros(batch_size, 1)
def make(): return Tiny()
"""
"""A workload whose step takes as little as a step can: what is added to it shows."""

_PAIRS = 5
_WINDOW_S = 1.0


def agent_lines() -> list[str]:
    """Size of the archive; memory and processor time of the agent itself while a burst runs; overhead of a step."""
    plan = BurstPlan(min_s=5.0, max_s=5.0)
    workload = WorkloadSpec("digits-cnn")
    with AgentDevice("cpu", workload=workload) as device:
        cpu_s, began = _cpu_seconds(device.pid), time.monotonic()
        device.measure({"batch_size": 32}, workload, plan)
        share = (_cpu_seconds(device.pid) - cpu_s) / (time.monotonic() - began)
        peak_mb = _status_mb(device.pid, "VmHWM")
    size_kb = len(build_archive()) / 1000
    return [
        f"agent: {peak_mb:.1f} MB at most, {share:.2%} of a core during a burst; archive {size_kb:.0f} kB",
        _step_overhead(),
    ]


def _step_overhead() -> str:
    """A step of the tiny workload alone, and in a burst, turn about."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.py"
        path.write_text(TINY)
        workload = WorkloadSpec(f"{path}:make")
        alone_s, burst_s = [], []
        with AgentDevice("cpu", workload=workload, values={"batch_size": [1]}, search=["cpu_threads"]) as device:
            setting = {"batch_size": 1, "cpu_threads": 1}
            for _ in range(_PAIRS):
                alone_s.append(_alone_step_s(workload))
                found = device.measure(setting, workload, BurstPlan(min_s=_WINDOW_S, max_s=_WINDOW_S))
                burst_s.append(found.step_time_s or 0.0)
    alone, burst = statistics.median(alone_s) * 1e6, statistics.median(burst_s) * 1e6
    return f"a step of next to nothing: {alone:.1f} us alone, {burst:.1f} us in a burst: {burst - alone:+.1f} us a step"


def _alone_step_s(workload: WorkloadSpec) -> float:
    """Seconds of a step of the same loop without an agent."""
    import torch

    from devices.agent import workloads
    from devices.agent.trainer.data import synthetic
    from devices.agent.trainer.loop import train_window

    torch.set_num_threads(1)
    loaded = workloads.load(workload.spec)
    model = loaded.model()
    optimizer = loaded.optimizer(list(model.parameters()), 0.1)
    batches = synthetic(loaded, 1)
    for _ in range(2000):
        train_window(loaded, model, optimizer, [next(batches)])
    steps, began = 0, time.monotonic()
    while time.monotonic() - began < _WINDOW_S:
        train_window(loaded, model, optimizer, [next(batches)])
        steps += 1
    return (time.monotonic() - began) / steps


def _cpu_seconds(pid: int) -> float:
    """User and system seconds of a process itself, not of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {name} in the status of process {pid}")
