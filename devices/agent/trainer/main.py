"""The trainer child: loads a workload once, then runs bursts and trainings of it as the agent asks.

It talks with the agent by JSON lines on what were its standard input and output, moved out of the way before any code
of the user's runs: what a workload prints goes to standard error, and what it reads is empty.

    {"id": 0, "event": {"ready": {"python": ..., "torch": ...}}}          once, when torch is there
    load   workload, device                     -> reply: what `devices.device.WorkloadInfo` needs
    burst  micro_batch, accumulation, threads   -> events {"steps": [[end_s, duration_s], ...], "threads": n} until
                                                   `stop`; reply {}
    train  plan, threads                        -> events of `Device.train`, until done or `stop`; reply: the result

`burst` and `train` name workload and device too; `threads` may be null: torch's own choice.
"""

import importlib
import importlib.util
import itertools
import json
import os
import platform
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ..channel import Channel, Message
from ..clock import Clock
from ..failures import is_ours, is_out_of_memory
from ..processes import end_with_parent

LONGEST_TEXT = 2000  # characters of an exception that are passed on
REPORT_S = 0.1  # between two reports of steps: rarer than steps of a small model, often enough to end a burst in time


def main(parent_pid: int) -> int:
    """Serve the agent until it goes away; the exit status."""
    end_with_parent(parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent decides
    channel = Channel(os.dup(0), os.dup(1), Clock())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.path.append(os.getcwd())  # for MODULE:FACTORY; last, so that no file there hides a module of others
    try:
        import torch
    except Exception as error:
        text = "{} has no torch that works: {}: {}".format(sys.executable, type(error).__name__, error)
        hint = "--python PATH, of a Python that imports torch"
        channel.send({"id": 0, "error": {"kind": "device", "message": text, "hint": hint}})
        return 1
    if importlib.util.find_spec("numpy") is not None:  # imported now, it is seeded before the workload draws from it
        importlib.import_module("numpy")
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.cuda.is_available():
        versions["gpu"] = torch.cuda.get_device_name(0)
    channel.send({"id": 0, "event": {"ready": versions}})
    return Trainer(channel).run()


class Trainer:
    """Answers one request after another. Its process does not outlive an error of the user's code: see `run`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._id = 0
        self._stopped = False
        self._key: Optional[Tuple[str, str, Optional[str], str]] = None
        self._device: Any = None
        self._workload: Any = None
        self._data: Any = None

    def run(self) -> int:
        """Serve until the agent goes away, or a burst or training failed: its memory is not to be trusted then."""
        while True:
            message = self._channel.receive(3600)
            if self._channel.closed:
                return 0
            if message is None or message.get("request") == "stop":  # a stop that came too late
                continue
            self._id = message.get("id", 0)
            self._stopped = False
            try:
                reply = self._answer(message)
            except Exception as error:
                self._send({"error": self._explain(message, error)})
                if message.get("request") != "load":
                    return 1
            else:
                self._send({"reply": reply})

    def _answer(self, message: Message) -> Dict[str, Any]:
        if message["request"] == "load":
            return self._load(message["workload"], message["device"])
        if message["request"] == "burst":
            self._load(message["workload"], message["device"])
            return self._burst(message["micro_batch"], message["accumulation"], message["threads"])
        if message["request"] == "train":
            self._load(message["workload"], message["device"])
            return self._train(message["plan"], message["threads"])
        raise ValueError("no request is named {!r}".format(message["request"]))

    def _send(self, message: Message) -> None:
        if os.getpid() != self._pid:  # code of the user's forked, and the fork came back to us
            os._exit(0)
        message["id"] = self._id
        self._channel.send(message)

    def _should_stop(self) -> bool:
        """Whether the agent has asked to stop, or has gone."""
        message = self._channel.receive(0)
        if message is not None and message.get("request") == "stop":
            self._stopped = True
        return self._stopped or self._channel.closed

    def _explain(self, message: Message, error: BaseException) -> Dict[str, Any]:
        """What the agent is told of an exception: `oom`, `crashed`, or `input` where the user can mend it."""
        from ..workloads import explain, file_of
        from .checkpoint import StorageError
        from .loop import LossError

        spec = message.get("workload", {}).get("spec", "")
        ours = is_ours(error)
        text = str(error) if ours else explain(error, file_of(spec))
        hint = None
        if isinstance(error, MemoryError) or is_out_of_memory(text):
            kind = "oom"
        elif isinstance(error, StorageError):
            kind = "store"
        elif isinstance(error, LossError):
            kind, hint = "crashed", "a lower learning_rate in the frozen config, and a new start without --resume"
        elif ours and message["request"] in ("load", "train"):
            kind = "input"
        else:
            kind = "crashed"
        return {"kind": kind, "message": text[:LONGEST_TEXT], "hint": hint}

    def _load(self, asked: Dict[str, Any], device: str) -> Dict[str, Any]:
        """Make the workload, unless it is the one that is loaded, and try a step of it.

        Raises:
            ValueError: in words for the user.
        """
        import torch

        from ..workloads import load
        from .check import try_step
        from .state import seed_all

        key = (asked["spec"], json.dumps(asked["args"], sort_keys=True), asked["data"], device)
        if key != self._key:
            self._key = None
            seed_all(0)  # whatever the workload draws while it is made is the same in every process
            workload = load(asked["spec"], asked["args"], asked["data"])
            self._device = torch.device(device)
            self._info, self._data = try_step(asked["spec"], workload, self._device)
            self._workload = workload
            self._key = key
        return self._info

    def _burst(self, micro_batch: int, accumulation: int, threads: Optional[int]) -> Dict[str, Any]:
        """Train from new weights until told to stop, and report every optimizer step."""
        import torch

        from .data import endless, synthetic
        from .loop import place, synchronize, train_window

        if threads is not None:
            torch.set_num_threads(threads)
        torch.manual_seed(0)
        workload, device = self._workload, self._device
        model = workload.model().to(device)
        model.train()
        optimizer = workload.optimizer(list(model.parameters()), workload.reference_lr)
        if self._data is None:
            batches = synthetic(workload, micro_batch)
        else:
            batches = endless(self._data, micro_batch, 0)
        self._send({"event": {"steps": [], "threads": torch.get_num_threads()}})
        steps: List[Tuple[float, float]] = []
        reported = before = time.monotonic()
        while True:
            taken = (place(batch, device) for batch in itertools.islice(batches, accumulation))
            train_window(workload, model, optimizer, taken)
            synchronize(device)
            now = time.monotonic()
            steps.append((now, now - before))
            before = now
            if now - reported >= REPORT_S:
                self._send({"event": {"steps": steps, "threads": torch.get_num_threads()}})
                steps, reported = [], now
                if self._should_stop():
                    return {}

    def _train(self, plan: Dict[str, Any], threads: Optional[int]) -> Dict[str, Any]:
        import torch

        from .training import train

        if threads is not None:
            torch.set_num_threads(threads)

        def tell(event: Dict[str, Any]) -> None:
            self._send({"event": event})

        result: Dict[str, Any] = train(self._workload, plan, self._device, tell, self._should_stop)
        return result
