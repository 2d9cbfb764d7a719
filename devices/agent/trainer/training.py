"""A full training: every optimizer step of a plan, with checkpoints, and a test of the model at the end."""

import math
import os
import time
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

import torch

from .checkpoint import Checkpoints, State, make_folder, save
from .data import in_order, length_of, windows, windows_per_epoch
from .learner import Learner
from .loop import synchronize
from .state import Asked, differences, essence, random_states, read_plan, seed_all, set_random_states

ALIVE_S = 5.0  # between two signs of life within a step, or a test
EVENT_S = 0.5  # between two events of progress, at least
CHECKPOINT_S = 1.0  # between two checkpoints, at least
LOCK_S = 10.0  # how long a resumption waits for the training before it to end
MODEL = "model.pt"

Result = Dict[str, Any]
Tell = Callable[[Dict[str, Any]], None]


def train(
    workload: Any, plan: Dict[str, Any], device: torch.device, tell: Tell, should_stop: Callable[[], bool]
) -> Result:
    """Train to the end of a plan, or until told to stop.

    A training that is resumed goes on as if it had not been disturbed: on a CPU bit for bit, with the same number of
    threads. Its checkpoints hold the weights, the optimizer, the place in the data and the random numbers.

    Args:
        workload: See `workloads`.
        plan: What `devices.training.TrainingPlan.to_json` gives.
        device: Where to train.
        tell: Receives the events of `devices.device.Device.train`. `step` is the number of steps made, `epoch` that of
            the epoch they are in, from 1; `loss` the mean of a term in the last step; `throughput` samples a second
            since the event before; `elapsed_s` seconds trained, those before a resumption included.
        should_stop: Asked between optimizer steps, and between the batches of the test.

    Returns:
        The fields of `devices.training.TrainingResult`.

    Raises:
        LossError: a loss that is no finite number.
        ValueError: a plan that does not fit the data, a checkpoint of another training, a folder that cannot be
            written or that another training holds; what the workload returned is not what its contract says.
    """
    asked = read_plan(plan)
    seed_all(asked.seed)
    training = _Training(workload, asked, device, tell, should_stop)
    with Checkpoints(asked.checkpoint_dir, LOCK_S if asked.resume else 0.0) as folder:
        return training.run(folder)


class _StopError(Exception):
    """Told to stop in the middle of a test."""


class _Training:
    folder: Checkpoints
    learner: Learner

    def __init__(
        self, workload: Any, asked: Asked, device: torch.device, tell: Tell, should_stop: Callable[[], bool]
    ) -> None:
        self.workload = workload
        self.asked = asked
        self.device = device
        self.tell = tell
        self.should_stop = should_stop
        self.data = workload.train_data()
        samples = length_of(self.data, "train_data")
        if asked.effective_batch > samples:
            raise ValueError(
                "the effective batch of {} is larger than the training data, {} samples; give one of at most {} with "
                "--effective-batch".format(asked.effective_batch, samples, samples)
            )
        self.test_data = workload.test_data()
        if asked.out_dir is not None:
            make_folder(os.path.expanduser(asked.out_dir), "--out")
        self.essence = essence(asked, samples)
        self.per_epoch = windows_per_epoch(samples, asked.effective_batch)
        self.step = 0
        self.loss_sum, self.terms = 0.0, 0  # of this epoch
        self.trained_s = 0.0  # in all
        self.run_s, self.run_samples = 0.0, 0  # in this run
        self.resumed = False
        self.path: Optional[str] = None  # of the last checkpoint
        self.written_s = -math.inf  # when

    def run(self, folder: Checkpoints) -> Result:
        self.folder = folder
        state = self._begin()
        if state is not None and state["step"] == self.asked.steps and state["result"] is not None:
            self._write_model(state["model"])
            return dict(state["result"], resumed=True, checkpoint=self.path)
        self.learner = Learner(self.workload, self.asked, self.device)
        for note in self.learner.notes():
            self._note(note)
        if state is not None:
            self._restore(state)
            del state  # a second copy of the weights
        complete = self._train()
        self._checkpoint()
        return self._finish() if complete else self._result(finished=False)

    def _begin(self) -> Optional[State]:
        """The checkpoint to go on from; None: train from the beginning."""
        if not self.asked.resume:
            aside = self.folder.put_aside()
            if aside is not None:
                self._note("earlier checkpoints of {} were moved to {}".format(self.folder.folder, aside))
            return None
        self.path, state, notes = self.folder.latest()
        for note in notes:
            self._note(note)
        if state is None:
            return None
        unlike = differences(state["essence"], self.essence, state["step"])
        if unlike:
            raise ValueError(
                "the checkpoints in {} are of another training ({}); train as there, or start anew without "
                "--resume".format(self.folder.folder, "; ".join(unlike))
            )
        if state["step"] > self.asked.steps:
            raise ValueError(
                "the training in {} has made {} steps already, more than the {} asked for; ask for at least as many, "
                "or start anew without --resume".format(self.folder.folder, state["step"], self.asked.steps)
            )
        self.resumed = True
        return state

    def _restore(self, state: State) -> None:
        self.learner.restore(state, str(self.path))
        threads = state.get("threads")
        if threads != torch.get_num_threads():
            self._note(
                "it was begun with {} threads and goes on with {}: the result is not the same to the last bit".format(
                    threads, torch.get_num_threads()
                )
            )
        self.step = state["step"]
        self.loss_sum, self.terms, self.trained_s = state["loss_sum"], state["terms"], state["trained_s"]
        set_random_states(state["random"], self.device)

    def _train(self) -> bool:
        """Make all steps that are left; False: told to stop before."""
        asked = self.asked
        told_s, told_samples, told_run_s = -math.inf, 0, 0.0
        steps = windows(self.data, asked.effective_batch, asked.micro_batch, asked.seed, self.step)
        while self.step < asked.steps:
            if self.should_stop():
                return False
            began = time.monotonic()
            sizes, batches = next(steps)
            loss_sum, terms, rate = self.learner.learn(self.step, sizes, self._alive(batches, "step"))
            if self.step % self.per_epoch == 0:
                self.loss_sum, self.terms = 0.0, 0
            self.step += 1
            self.loss_sum, self.terms = self.loss_sum + loss_sum, self.terms + terms
            last = self.step == asked.steps
            due = self.step % self.per_epoch == 0 and began - self.written_s >= CHECKPOINT_S
            if last or due:
                synchronize(self.device)
            now = time.monotonic()
            self.trained_s, self.run_s = self.trained_s + now - began, self.run_s + now - began
            self.run_samples += sum(sizes)
            if last or now - told_s >= EVENT_S:
                since_s = self.run_s - told_run_s
                event = {
                    "phase": "train",
                    "step": self.step,
                    "steps": asked.steps,
                    "epoch": (self.step - 1) // self.per_epoch + 1,
                    "loss": loss_sum / terms,
                    "learning_rate": rate,
                    "throughput": (self.run_samples - told_samples) / since_s if since_s > 0 else None,
                    "elapsed_s": self.trained_s,
                }
                self.tell(event)
                told_s, told_samples, told_run_s = now, self.run_samples, self.run_s
            if due and not last:
                self._checkpoint()
        return True

    def _finish(self) -> Result:
        """Test, write the model, and keep the result in the last checkpoint."""
        before = random_states(self.device)  # a longer training goes on from here, whatever the test draws
        accuracy = loss = None
        if self.test_data is not None and len(self.test_data) > 0:
            self.tell({"phase": "test"})
            batches = in_order(self.test_data, min(self.asked.micro_batch, self.asked.effective_batch))
            try:
                accuracy, loss, notes = self.learner.test(self._until_stopped(batches))
            except _StopError:
                return self._result(finished=False)
            for note in notes:
                self._note(note)
        if self.learner.skipped:
            text = "{} of {} optimizer steps were left out: their gradients overflowed fp16"
            self._note(text.format(self.learner.skipped, self.step))
        result = dict(self._result(finished=True), test_accuracy=accuracy, test_loss=loss)
        self._write_model(self.learner.model.state_dict())
        self.folder.write(self._state(before, result))
        return result

    def _until_stopped(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in self._alive(batches, "test"):
            if self.should_stop():
                raise _StopError
            yield batch

    def _alive(self, batches: Iterable[Any], phase: str) -> Iterator[Any]:
        """`batches`, with an event now and then: what takes minutes must not look like a hang."""
        told_s = time.monotonic()
        for batch in batches:
            if time.monotonic() - told_s >= ALIVE_S:
                self.tell({"phase": phase})
                told_s = time.monotonic()
            yield batch

    def _checkpoint(self) -> None:
        self.learner.require_finite(self.step)
        self.path = self.folder.write(self._state(random_states(self.device), None))
        self.written_s = time.monotonic()
        self.tell({"phase": "checkpoint", "path": self.path})

    def _state(self, random: Dict[str, Any], result: Optional[Result]) -> State:
        epoch, window = divmod(self.step, self.per_epoch)
        return {
            "step": self.step,
            "epoch": epoch,
            "window": window,
            "loss_sum": self.loss_sum,
            "terms": self.terms,
            "trained_s": self.trained_s,
            "random": random,
            "threads": torch.get_num_threads(),
            "plan": self.asked.plan,
            "essence": self.essence,
            "result": result,
            **self.learner.state(),
        }

    def _write_model(self, weights: Dict[str, Any]) -> None:
        """Write `model.pt`, with the weights on the CPU, where a folder for it was given."""
        if self.asked.out_dir is None:
            return
        path = os.path.join(os.path.abspath(os.path.expanduser(self.asked.out_dir)), MODEL)
        for name, value in weights.items():
            if isinstance(value, torch.Tensor):
                weights[name] = value.cpu()
        save(weights, path, "the model", "--out")

    def _result(self, finished: bool) -> Result:
        return {
            "steps": self.step,
            "finished": finished,
            "resumed": self.resumed,
            "final_train_loss": self.loss_sum / self.terms if self.terms else None,
            "test_accuracy": None,
            "test_loss": None,
            "throughput": self.run_samples / self.run_s if self.run_s > 0 else None,
            "duration_s": self.trained_s,
            "energy_j": None,
            "power_mean_w": None,
            "power_peak_w": None,
            "time_over_cap_s": None,
            "unmetered_s": None,
            "changes": [],
            "drift": None,
            "checkpoint": self.path,
        }

    def _note(self, text: str) -> None:
        self.tell({"phase": "note", "text": text})
