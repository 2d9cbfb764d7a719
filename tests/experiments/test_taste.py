"""`make taste`: its statistics and its memory by hand, a tiny run from beginning to end."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from devices.agent.workloads import load
from devices.device import BurstPlan, DeviceInfo, Knob, WorkloadSpec
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from devices.training import WorkloadInfo
from experiments.taste import __main__ as taste
from experiments.taste import continual
from experiments.taste.arms import ACCUMULATED, ALONE, ARMS, QUARTERS, REFERENCE, Lesson, in_turn
from experiments.taste.curves import curve_of
from experiments.taste.intervals import Interval, difference, interval, ratio
from experiments.taste.ledger import Ledger
from experiments.taste.reservoir import Reservoir
from experiments.taste.subjects import Subject

DIGITS = WorkloadInfo(batch=32, learning_rate=0.01, optimizer="SGD", train_samples=1437, test_samples=360)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tiny models gain nothing from a second thread."""
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def lesson(tuned: int) -> Lesson:
    """Of a study of digits-cnn that found this batch size."""
    effective = max(tuned, DIGITS.batch)
    frozen = {
        "device": "cpu",
        "source": "measured",
        "setting": {"batch_size": tuned},
        "workload": {"spec": "digits-cnn", "args": {}, "data": None, "files_sha256": {}},
        "reference": DIGITS.to_reference(),
        "effective_batch": effective,
        "accumulation_steps": -(-effective // tuned),
        "learning_rate": DIGITS.learning_rate * effective / DIGITS.batch,
        "seed": 0,
        "cap": None,
    }
    return Lesson(frozen, DeviceInfo("cpu", "measured", (Knob("batch_size", (1, 2, 256), 32),)), DIGITS)


# ---- statistics


def test_an_interval_is_students() -> None:
    mean, low, high = interval([1.0, 2.0, 3.0])
    half = 4.302653 / math.sqrt(3)  # the 97.5 % quantile with two degrees of freedom; the deviation is 1
    assert (mean, low, high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    assert difference([3.0, 5.0], [1.0, 3.0]) == (2.0, 2.0, 2.0)
    assert ratio([2.0, 8.0], [1.0, 1.0]).mean == pytest.approx(4.0)
    with pytest.raises(ValueError, match="two values"):
        interval([1.0])


@pytest.mark.parametrize(
    ("low", "high", "negligible"), [(-0.02, 0.001, True), (-0.004, -0.001, True), (-0.006, -0.001, False)]
)
def test_what_is_negligible(low: float, high: float, negligible: bool) -> None:
    assert Interval((low + high) / 2, low, high).is_negligible is negligible


def test_the_points_of_a_curve() -> None:
    speeds = {1: (10.0, 12.0), 4: (98.0, 99.0), 8: (100.0, 100.0), 16: (60.0, 62.0)}
    rows = [ProfileRow({"batch_size": b}, Status.OK, throughput=s) for b, both in speeds.items() for s in both]
    rows.append(ProfileRow({"batch_size": 32}, Status.OOM))
    curve = curve_of(Profile(ProfileMetadata(), ("batch_size",), tuple(rows)))
    assert (curve.ceiling.batch, curve.knee.batch, curve.largest.batch) == (8, 4, 16)
    assert (curve.ceiling.throughput, curve.out_of_memory) == (100.0, 32)
    assert curve.at(32) is None


# ---- the arms


@pytest.mark.parametrize(
    ("tuned", "arm", "micro", "effective", "rate"),
    [
        (8, REFERENCE, 32, 32, 0.01),
        (8, ACCUMULATED, 8, 32, 0.01),
        (8, ALONE, 8, 8, 0.01),
        (128, REFERENCE, 32, 32, 0.01),
        (128, ACCUMULATED, 128, 128, 0.04),
        (128, ALONE, 128, 128, 0.01),
        (128, QUARTERS, 8, 32, 0.01),
    ],
)
def test_the_arms(tuned: int, arm: str, micro: int, effective: int, rate: float) -> None:
    training = lesson(tuned).training(arm, epochs=20, seed=3)
    plan = training.plan
    assert (training.micro_batch, plan.effective_batch, plan.seed) == (micro, effective, 3)
    assert plan.learning_rate == pytest.approx(rate)
    assert plan.steps == 20 * -(-1437 // effective)
    assert (plan.warm_up_steps > 0) == (rate > 0.01)


def test_every_arm_comes_first_as_often() -> None:
    orders = [in_turn(seed) for seed in range(len(ARMS))]
    assert {order[0] for order in orders} == set(ARMS)
    assert all(sorted(order) == sorted(ARMS) for order in orders)


# ---- streams and memory


class Scripted(random.Random):
    """Gives the numbers it was made with."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__(0)
        self._numbers = list(numbers)

    def randrange(self, *_: Any) -> int:
        return self._numbers.pop(0)


def test_every_sample_is_kept_equally_often() -> None:
    """Over all numbers that can be drawn: 3 x 4 x 5 ways to see five samples with room for two."""
    kept: Counter[int] = Counter()
    for numbers in itertools.product(range(3), range(4), range(5)):
        memory = Reservoir(2, Scripted(numbers), random.Random(0))
        for sample in range(5):
            memory.add(sample)
        kept.update(memory.kept)
    assert kept == dict.fromkeys(range(5), 3 * 4 * 5 * 2 // 5)


@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 30), st.integers())
def test_what_is_kept_does_not_depend_on_what_is_drawn(capacity: int, length: int, count: int, seed: int) -> None:
    quiet = Reservoir(capacity, random.Random(seed), random.Random(1))
    asked = Reservoir(capacity, random.Random(seed), random.Random(2))
    for sample in range(length):
        quiet.add(sample)
        asked.add(sample)
        drawn = asked.draw(count)
        assert len(set(drawn)) == len(drawn) == min(count, capacity, sample + 1)
        assert set(drawn) <= set(asked.kept)
    assert quiet.kept == asked.kept


@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.integers(0, 1000))
def test_a_stream_holds_every_sample_once(labels: list[int], seed: int) -> None:
    labels = [*range(10), *labels]
    tasks = continual.stream(labels, seed)
    assert sorted(itertools.chain(*tasks)) == list(range(len(labels)))
    assert [len({labels[i] for i in task}) for task in tasks] == [2] * 5


@pytest.mark.parametrize("effective", [2, 8, 32, 64, 128, 256])
def test_the_work_is_the_same_at_every_batch(effective: int) -> None:
    new, steps = continual.pace(effective, 32)
    assert new <= effective // 2
    assert steps * effective == 32 * new


def test_forgetting() -> None:
    """Of three tasks the first fell from 0.9 to 0.6, the second from 0.8 to 0.7: Chaudhry et al. 2018, section 3."""
    accuracy = [[0.9, 0.0, 0.0], [0.7, 0.8, 0.0], [0.6, 0.7, 1.0]]
    assert continual.forgetting(accuracy) == pytest.approx((0.3 + 0.1) / 2)
    assert continual.forgetting([[0.9]]) == 0.0


def test_micro_batches_learn_a_stream_as_the_whole_batch_does() -> None:
    workload = load("digits-cnn")
    tasks = continual.stream(continual.labels_of(workload.train_data()), 0)[:2]
    whole, gathered = (
        continual.learn(workload, lesson(8).training(arm, steps=200, seed=0), tasks, rehearsed=8)
        for arm in (REFERENCE, ACCUMULATED)
    )
    assert gathered["accuracy"] == pytest.approx(whole["accuracy"], abs=0.02)
    assert gathered["trained"] == whole["trained"]
    assert whole["accuracy"] > 0.5


# ---- from beginning to end


def test_a_ledger_makes_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    key = {"seed": 0, "batches": (1, 2)}
    assert Ledger(path).recall(key, lambda: {"accuracy": 0.5}) == {"accuracy": 0.5}
    Ledger(path).recall({"seed": 1}, lambda: {"accuracy": 0.6})
    assert Ledger(path).recall(key, lambda: pytest.fail("made twice")) == {"accuracy": 0.5}


def test_a_tiny_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = BurstPlan(min_s=0.1, max_s=0.2, tolerance=0.5)
    subject = Subject(
        "digits", WorkloadSpec("digits-cnn"), (16, 32), 1, 3, short, epochs=1, seeds=2, streams=2, rehearsed=2
    )
    monkeypatch.setattr(taste, "subjects", lambda folder, quick: (subject,))
    monkeypatch.setattr("sys.argv", ["taste", "--out", str(tmp_path)])
    monkeypatch.delenv("QUICK", raising=False)
    assert taste.main() == 0
    first = (tmp_path / "taste.json").read_text()
    document = json.loads(first)
    assert [point["batch"] for point in document["curves"][0]["points"]] == [16, 32]
    assert [row["arm"] for row in document[taste.CONTINUAL]] == list(ARMS)
    for name in ("taste.md", "throughput.svg", "throughput.png", "accuracy.svg", "accuracy.png"):
        assert (tmp_path / name).stat().st_size > 0
    (tmp_path / "taste.json").unlink()
    assert taste.main() == 0
    assert (tmp_path / "taste.json").read_text() == first  # seconds and all: nothing was measured again
