"""Online class-incremental learning in four arms: five tasks of two classes each, with experience replay.

The stream gives 16 new samples at a time, each of them once. The learner makes a few optimizer steps on them; every
step takes the new samples and fills its effective batch with others, drawn anew from a memory: a reservoir of 200.
(While that holds too few, the batch is smaller.) Then the new samples are offered to the memory. The head has all ten
classes from the beginning, no step is told the task, and none mixes new samples of two.

What the tuned batch means here: the micro-batch is the tuned one, and the effective batch, new and replayed samples
together, is what `tune train` makes of it: the reference batch, gathered in micro-batches, or the tuned batch itself
where that is larger. A larger batch replays more, in fewer steps. It does not wait for more new samples, and the work
is the same in all arms: for each sample of the stream, `rehearsed` go through the model. An effective batch of less
than 32 takes half of its samples from the stream.

Sources: Chaudhry et al. 2019, arXiv:1902.10486: experience replay with a reservoir; Chaudhry et al. 2018,
arXiv:1801.10112: average accuracy and forgetting.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from devices.agent.trainer.data import fetch, split
from devices.agent.trainer.learner import Learner
from devices.agent.trainer.state import read_plan, seed_all
from devices.agent.workloads import load
from experiments.taste.arms import Lesson, described, in_turn, key_of
from experiments.taste.curves import Tell
from experiments.taste.ledger import Ledger
from experiments.taste.reservoir import Reservoir
from experiments.taste.subjects import Subject
from tuner.training import Training

BUFFER = 200
CLASSES_A_TASK = 2
INCREMENT = 16

Task = list[int]
"""Samples of a task, by their place in the data set, in the order of the stream."""


def run_arms(subject: Subject, lesson: Lesson, ledger: Ledger, tell: Tell) -> list[dict[str, Any]]:
    """Learn every stream in every arm; the seed decides initial weights, the order of classes and samples, and what the
    memory keeps.

    Returns:
        A row a stream and arm: `arm`, `seed`, what `described` says, `accuracy` and `forgetting` (0 to 1) after the
        last task, `seconds` in which it learnt, `trained`: samples that went through the model.
    """
    torch.set_num_threads(int(lesson.info.held_fixed["cpu_threads"]))
    workload = load(subject.workload.spec, dict(subject.workload.args), subject.workload.data)
    labels = labels_of(workload.train_data())
    rows = []
    for seed in range(subject.streams):
        tasks = stream(labels, seed)
        for arm in in_turn(seed):
            new, steps = pace(lesson.training(arm, steps=1).plan.effective_batch, subject.rehearsed)
            training = lesson.training(arm, steps=sum(-(-len(task) // new) * steps for task in tasks), seed=seed)

            def make(training: Training = training, tasks: list[Task] = tasks) -> dict[str, Any]:
                return learn(workload, training, tasks, subject.rehearsed)

            found = ledger.recall({"continual": key_of(training), "buffer": BUFFER, "pace": [new, steps]}, make)
            tell(f"  seed {seed}, {arm}: {found['accuracy']:.1%}, forgot {found['forgetting']:.1%}")
            rows.append({"arm": arm, "seed": seed, **described(training), **found})
    return rows


def pace(effective_batch: int, rehearsed: int) -> tuple[int, int]:
    """New samples of a step, and optimizer steps with the same new ones: `rehearsed` samples go through the model for
    each new one."""
    new = min(INCREMENT, max(effective_batch // 2, 1))
    return new, max(round(rehearsed * new / effective_batch), 1)


def learn(workload: Any, training: Training, tasks: Sequence[Task], rehearsed: int) -> dict[str, Any]:
    """Learn one stream; what `run_arms` puts into a row."""
    train, test = workload.train_data(), workload.test_data()
    asked = read_plan(training.plan.to_json())
    seed_all(asked.seed)
    learner = Learner(workload, asked, torch.device("cpu"))
    keeping, drawing, mixing = (random.Random(f"{what} {asked.seed}") for what in ("keep", "draw", "mix"))
    memory = Reservoir(BUFFER, keeping, drawing)
    labels = labels_of(train)
    exams = [_of_classes(test, {labels[i] for i in task}) for task in tasks]
    count, steps = pace(asked.effective_batch, rehearsed)
    accuracy: list[list[float]] = []
    step, trained, seconds = 0, 0, 0.0
    for task in tasks:
        began = time.perf_counter()
        for at in range(0, len(task), count):
            new = task[at : at + count]
            for _ in range(steps):
                window = new + memory.draw(asked.effective_batch - len(new))
                mixing.shuffle(window)
                sizes = split(len(window), asked.micro_batch)
                learner.learn(step, sizes, fetch(train, torch.split(torch.tensor(window), sizes)))
                step, trained = step + 1, trained + len(window)
            for sample in new:
                memory.add(sample)
        seconds += time.perf_counter() - began
        accuracy.append([learner.test(fetch(test, [exam]))[0] or 0.0 for exam in exams])
    return {
        "accuracy": statistics.fmean(accuracy[-1]),
        "forgetting": forgetting(accuracy),
        "seconds": seconds,
        "trained": trained,
    }


def stream(labels: Sequence[int], seed: int) -> list[Task]:
    """The tasks of a stream: the classes in an order of the seed's, two a task, their samples shuffled."""
    chosen = random.Random(f"stream {seed}")
    classes = sorted(set(labels))
    chosen.shuffle(classes)
    tasks = []
    for at in range(0, len(classes), CLASSES_A_TASK):
        wanted = classes[at : at + CLASSES_A_TASK]
        task = [i for i, label in enumerate(labels) if label in wanted]
        chosen.shuffle(task)
        tasks.append(task)
    return tasks


def forgetting(accuracy: Sequence[Sequence[float]]) -> float:
    """How much was known once and is not any more, mean over all tasks but the last: the best accuracy in a task after
    any earlier task, less that after the last.

    Args:
        accuracy: (tasks learnt, task examined), 0 to 1.
    """
    *earlier, last = accuracy
    if not earlier:
        return 0.0
    return statistics.fmean(max(row[task] for row in earlier) - last[task] for task in range(len(earlier)))


def labels_of(dataset: Any) -> list[int]:
    """The label of every sample of a classification."""
    found: list[int] = dataset.tensors[1].tolist()
    return found


def _of_classes(dataset: Any, classes: set[int]) -> torch.Tensor:
    return torch.tensor([i for i, label in enumerate(labels_of(dataset)) if label in classes])
