"""A training that was interrupted ends as one that was not, to the last bit."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devices.agent.trainer import checkpoint, training
from tests.conftest import ROOT

from .tiny import Items, Run, Tiny, weights_of

MEASURED = ("throughput", "duration_s", "checkpoint", "resumed")  # what may differ


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch of a tiny workload takes less than the time between two checkpoints."""
    monkeypatch.setattr(training, "CHECKPOINT_S", 0.0)


def learnt(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in MEASURED}


class Noisy(Tiny):
    """Draws random numbers in the model, for every item, and in the test, from all three generators."""

    def __init__(self) -> None:
        super().__init__(dropout=0.3)
        self.kind = NoisyItems


class NoisyItems(Items):
    def __getitem__(self, index: int) -> Any:
        point, label = super().__getitem__(index)
        return point + random.gauss(0, 0.1) + np.random.normal(0, 0.1) + torch.randn(3).double() * 0.1, label


@pytest.mark.parametrize("kind", [Tiny, Noisy])
def test_interrupted_after_any_step(kind: Any, tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", kind())
    undisturbed = whole(out_dir=str(tmp_path / "out"), steps=7)
    weights = weights_of(tmp_path / "out" / "model.pt")
    for step in range(8):
        run = Run(tmp_path / f"at-{step}", kind())
        first = run(stop_at=step)
        assert (first["finished"], first["steps"], first["resumed"]) == (False, step, False)
        assert run.names()[-1] == f"step-{step}.pt"
        assert first["test_accuracy"] is None
        second = run(resume=True, out_dir=str(tmp_path / f"out-{step}"))
        assert learnt(second) == learnt(undisturbed)
        assert second["resumed"]
        assert second["duration_s"] >= first["duration_s"]
        torch.testing.assert_close(weights_of(tmp_path / f"out-{step}" / "model.pt"), weights, rtol=0, atol=0)


def test_interrupted_after_every_step_in_turn(tmp_path: Path) -> None:
    undisturbed = Run(tmp_path / "whole", Noisy())()
    run = Run(tmp_path / "again", Noisy())
    results = [run(stop_at=1, resume=True) for _ in range(7)]
    assert [result["steps"] for result in results] == [1, 2, 3, 4, 5, 6, 7]
    assert not results[-1]["finished"]  # it was stopped in its test
    assert learnt(run(resume=True)) == learnt(undisturbed)


def test_a_longer_training_goes_on_from_a_finished_one(tmp_path: Path) -> None:
    long = Run(tmp_path / "whole", Noisy())(steps=9)
    run = Run(tmp_path / "again", Noisy())
    assert run(steps=4)["finished"]
    longer = run(steps=9, resume=True, warm_up_steps=3)  # in time over, whether of 2 or of 3 steps
    assert learnt(longer) == learnt(long)


def test_killed_at_any_moment(tmp_path: Path) -> None:
    def checkpoints() -> set[Path]:
        return set((tmp_path / "killed").glob("checkpoints/step-*.pt"))

    def start(folder: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.devices.agent.trainer.victim", str(folder)]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    whole = start(tmp_path / "whole")
    draw = random.Random(1)
    for _ in range(3):
        before = checkpoints()
        victim = start(tmp_path / "killed")
        assert victim.stdin is not None
        victim.stdin.write("\n" * draw.randrange(4, 12))  # more than an epoch's, less than all in three tries
        victim.stdin.flush()
        until = time.monotonic() + 30
        while checkpoints() == before and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.01))
        victim.kill()
        assert victim.wait() == -9
        victim.stdin.close()
        assert victim.stdout is not None
        victim.stdout.close()
        assert checkpoints() != before
        for path in checkpoints():
            assert checkpoint.load(str(path))["step"] > 0
    resumed = json.loads(start(tmp_path / "killed").communicate("", timeout=60)[0])
    undisturbed = json.loads(whole.communicate("", timeout=60)[0])
    assert learnt(resumed) == learnt(undisturbed)
    assert resumed["resumed"]
    assert not undisturbed["resumed"]
    weights = weights_of(tmp_path / "whole" / "out" / "model.pt")
    torch.testing.assert_close(weights_of(tmp_path / "killed" / "out" / "model.pt"), weights, rtol=0, atol=0)
    assert not list(tmp_path.rglob("*.partial"))


def test_an_empty_folder_is_begun(tmp_path: Path) -> None:
    run = Run(tmp_path)
    result = run(resume=True)
    assert (result["finished"], result["resumed"]) == (True, False)
    assert run.notes() == []


def test_a_finished_run_gives_its_result_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    result = run()
    out = tmp_path / "out"
    again = run(resume=True, out_dir=str(out))
    assert again == {**result, "resumed": True}
    assert run.events == []
    (out / "model.pt").write_bytes(b"of another training")
    assert run(resume=True, out_dir=str(out)) == again
    state = checkpoint.load(result["checkpoint"])
    torch.testing.assert_close(weights_of(out / "model.pt"), dict(state["model"]), check_device=True)


def test_a_corrupt_last_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    undisturbed = Run(tmp_path / "whole")(steps=7)
    run = Run(tmp_path / "again")
    run(stop_at=4)
    assert run.names() == [".lock", "step-3.pt", "step-4.pt"]
    last = tmp_path / "again" / "step-4.pt"
    last.write_bytes(last.read_bytes()[:-700])
    assert learnt(run(resume=True)) == learnt(undisturbed)
    assert len(run.notes()) == 1
    assert "step-4.pt cannot be read" in run.notes()[0]
    assert "going on from step-3.pt" in run.notes()[0]
    assert run.names() == [".lock", "step-4.pt.broken", "step-6.pt", "step-7.pt"]


def test_a_checkpoint_with_a_flipped_bit_is_not_believed(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run(stop_at=3)
    run(stop_at=1, resume=True)
    path = tmp_path / "step-4.pt"
    data = bytearray(path.read_bytes())
    weights = checkpoint.load(str(path))["model"]["0.weight"].numpy().tobytes()
    data[data.index(weights)] ^= 255
    path.write_bytes(data)
    assert run(resume=True)["finished"]
    assert "step-4.pt cannot be read" in run.notes()[0]


def test_nothing_is_begun_over_checkpoints_that_cannot_be_read(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run(stop_at=4)
    for path in tmp_path.glob("step-*.pt"):
        path.write_bytes(b"")
    names = run.names()
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be read \(step-4.pt: .*start anew"):
        run(resume=True)
    assert run.names() == names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"micro_batch": 4}, "micro-batch: 3 there, 4 here"),
        ({"effective_batch": 9}, "effective batch: 8 there, 9 here"),
        ({"learning_rate": 0.3}, "learning rate: 0.2 there, 0.3 here"),
        ({"warm_up_from": 0.1}, "begins with: 0.05 there, 0.1 here"),
        ({"warm_up_steps": 5}, "steps of the warm-up: 2 there, 5 here"),
        ({"seed": 4}, "seed: 3 there, 4 here"),
        ({"identity": {"workload": {"spec": "other"}}}, 'workload.spec: "tiny" there, "other" here'),
        ({"identity": {}}, 'workload.spec: "tiny" there, none here'),
        ({"steps": 3}, "has made 4 steps already, more than the 3"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run(stop_at=4)
    names = run.names()
    with pytest.raises(ValueError, match=said):
        run(resume=True, **change)
    assert run.names() == names


def test_other_data_are_another_training(tmp_path: Path) -> None:
    Run(tmp_path)(stop_at=4)
    with pytest.raises(ValueError, match="training samples: 20 there, 21 here"):
        Run(tmp_path, Tiny(train=21))(resume=True)


def test_another_model_is_refused(tmp_path: Path) -> None:
    Run(tmp_path)(stop_at=4)
    workload = Tiny()
    workload.model = lambda: torch.nn.Linear(3, 2).double()  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"step-4.pt does not fit the model \(.*start anew without --resume"):
        Run(tmp_path, workload)(resume=True)


def test_without_resume_earlier_checkpoints_are_put_aside(tmp_path: Path) -> None:
    run = Run(tmp_path)
    first = run()
    kept = Path(first["checkpoint"]).read_bytes()
    for number in (1, 2):
        run(steps=2)
        assert len(run.notes()) == 1
        assert f"moved to {tmp_path / f'earlier-{number}'}" in run.notes()[0]
    assert (tmp_path / "earlier-1" / "step-7.pt").read_bytes() == kept
    assert run.names() == [".lock", "earlier-1", "earlier-2", "step-2.pt"]
