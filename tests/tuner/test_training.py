"""What a frozen config becomes: batch sizes, learning rate, steps, and what a changed file means."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from devices.agent.trainer.data import split
from devices.device import BATCH_KNOB, DeviceInfo, Knob
from devices.errors import InputError
from devices.training import Recipe, WorkloadInfo
from tests.tuner.frozen_examples import EMULATED, REPLAYED, write_frozen
from tuner.frozen import read_frozen
from tuner.frozen_check import frozen_training
from tuner.report.training import recipe
from tuner.training import Training, cannot_train, decide, last_micro_batch, provenance, refuse_source
from tuner.training_request import TrainRequest, check_request

CPU = DeviceInfo(name="cpu", source="measured", knobs=(Knob(BATCH_KNOB, (16, 32, 64)),))
FOUND = WorkloadInfo(64, 0.1, "SGD", train_samples=1000, test_samples=200)


def decided(
    changes: dict[str, Any] | None = None, found: WorkloadInfo = FOUND, info: DeviceInfo = CPU, **options: Any
) -> Training:
    path = write_frozen(**(changes or {}))
    return decide(TrainRequest(path, **options), frozen_training(read_frozen(path), path), info, found)


class TestBatches:
    def test_the_frozen_config_as_it_stands(self) -> None:
        training = decided()
        assert (training.micro_batch, training.plan.effective_batch, training.accumulation_steps) == (32, 64, 2)
        assert training.plan.setting == {"batch_size": 32}
        assert training.plan.learning_rate == 0.1
        assert training.plan.seed == 3
        assert training.notes == ()

    def test_below_the_micro_batch(self) -> None:
        training = decided(effective_batch=8)
        assert (training.micro_batch, training.plan.effective_batch, training.accumulation_steps) == (8, 8, 1)
        assert training.plan.setting == {"batch_size": 8}
        assert training.notes == ("the micro-batch is lowered from 32 to the effective batch 8",)

    def test_no_multiple(self) -> None:
        training = decided(effective_batch=100)
        assert (training.micro_batch, training.plan.effective_batch, training.accumulation_steps) == (32, 100, 4)
        assert "last micro-batch of each step has 4" in training.notes[0]

    def test_larger_than_the_data(self) -> None:
        assert decided(effective_batch=1000).plan.effective_batch == 1000
        with pytest.raises(InputError, match="1001 is larger than the training data of digits-cnn: 1000") as refused:
            decided(effective_batch=1001, epochs=3)
        assert refused.value.hint == "tune train frozen.json --effective-batch 1000 --epochs 3"
        with pytest.raises(InputError, match="larger"):
            decided(found=WorkloadInfo(64, 0.1, "SGD", train_samples=63))

    @pytest.mark.parametrize(("micro", "effective"), [(32, 64), (128, 128)])
    def test_without_a_reference_the_workload_says_it(self, micro: int, effective: int) -> None:
        training = decided({**REPLAYED, "setting__batch_size": micro})
        assert training.plan.effective_batch == effective
        assert training.plan.learning_rate == pytest.approx(0.1 * effective / 64)

    def test_knobs_the_device_does_not_have(self) -> None:
        training = decided({"setting": {"gpu_freq_mhz": 408, "batch_size": 32.0, "cpu_threads": 2}})
        assert training.plan.setting == {"batch_size": 32}
        assert isinstance(training.plan.setting["batch_size"], int)
        assert len([note for note in training.notes if "left alone" in note]) == 2
        info = DeviceInfo("cpu", "measured", (Knob(BATCH_KNOB, (16, 32)), Knob("cpu_threads", (1, 2))))
        assert decided({"setting": {"batch_size": 32, "cpu_threads": 2}}, info=info).plan.setting == {
            "batch_size": 32,
            "cpu_threads": 2,
        }


class TestLearningRate:
    @pytest.mark.parametrize(("effective", "rate"), [(32, 0.05), (64, 0.1), (256, 0.4)])
    def test_linear_scaling(self, effective: int, rate: float) -> None:
        assert decided(effective_batch=effective).plan.learning_rate == pytest.approx(rate)

    @pytest.mark.parametrize(
        ("optimizer", "rule", "rate"),
        [
            ("SGD", "linear", 0.4),
            ("AdamW", "sqrt", 0.2),
            ("RMSprop", "sqrt", 0.2),
            ("NAdam", "sqrt", 0.2),
            ("LARS", "linear", 0.4),
        ],
    )
    def test_the_rule_is_that_of_the_optimizer(self, optimizer: str, rule: str, rate: float) -> None:
        written = {"reference": {"batch": 64, "learning_rate": 0.1, "optimizer": optimizer}}
        training = decided(written, effective_batch=256, epochs=100)
        assert training.lr_scaling == rule
        assert training.plan.learning_rate == pytest.approx(rate)
        assert f"learning rate {rate} ({rule} scaling, from 0.1 over 20 steps)" in recipe(training)

    @pytest.mark.parametrize(("rule", "rate"), [("linear", 0.4), ("sqrt", 0.2), ("none", 0.1)])
    def test_a_rule_of_choice(self, rule: str, rate: float) -> None:
        training = decided(effective_batch=256, lr_scaling=rule)
        assert training.plan.learning_rate == pytest.approx(rate)
        assert ("not scaled" if rule == "none" else f"{rule} scaling") in recipe(training)

    def test_a_rate_written_by_hand(self) -> None:
        training = decided({"learning_rate": 0.2})
        assert training.plan.learning_rate == 0.2
        assert training.notes == ("learning rate 0.2 stands in the file; linear scaling would give 0.1",)
        scaled = decided({"learning_rate": 0.2}, effective_batch=128)
        assert scaled.plan.learning_rate == pytest.approx(0.4)
        assert "0.2 stands in the file for an effective batch of 64" in scaled.notes[-1]

    def test_warm_up_only_above_the_reference(self) -> None:
        plan = decided(effective_batch=64, epochs=100).plan
        assert (plan.warm_up_steps, plan.warm_up_from) == (0, plan.learning_rate)

    @pytest.mark.parametrize(
        ("options", "steps"),
        [
            ({"epochs": 100}, 5 * 8),  # 8 steps an epoch; 10 % would be 80
            ({"epochs": 10}, 8),  # 10 % of 80
            ({"steps": 9}, 0),
            ({"steps": 1000}, 40),
        ],
    )
    def test_length_of_the_warm_up(self, options: dict[str, Any], steps: int) -> None:
        plan = decided(effective_batch=128, **options).plan
        assert plan.warm_up_steps == steps
        assert plan.warm_up_from == pytest.approx(0.1 if steps else 0.2)

    def test_a_rate_below_the_reference_is_not_warmed_up_downwards(self) -> None:
        assert decided({"learning_rate": 0.01}, effective_batch=128, epochs=100).plan.warm_up_steps == 0


class TestRecipe:
    def test_it_is_as_asked_for_and_printed(self) -> None:
        options: dict[str, Any] = {"clip_norm": 1.0, "precision": "bf16", "batch_norm": "group", "decay": "cosine"}
        training = decided(**options)
        assert training.plan.recipe == Recipe(**options)
        words = recipe(training)
        assert "(linear scaling, then cosine to 0), gradients clipped at 1, bf16, batch norm group, 20 epochs" in words
        assert training.notes == ("the study measured fp32: speed and power differ in bf16",)

    @pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_clip_that_cannot_be(self, value: float) -> None:
        with pytest.raises(InputError, match="--clip-norm must be a number above 0"):
            check_request(TrainRequest(Path("frozen.json"), clip_norm=value))


class TestLength:
    @pytest.mark.parametrize(
        ("options", "steps", "epochs"),
        [({}, 320, 20), ({"epochs": 3}, 48, 3), ({"steps": 8}, 8, 0.5), ({"effective_batch": 1000}, 20, 20)],
    )
    def test_steps_and_epochs(self, options: dict[str, Any], steps: int, epochs: float) -> None:
        training = decided(**options)
        assert (training.plan.steps, training.epochs) == (steps, epochs)

    @pytest.mark.parametrize("options", [{"epochs": 3}, {"steps": 50}, {}])
    def test_no_training_data(self, options: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=r"its train_data\(\) gives None"):
            decided(found=WorkloadInfo(64, 0.1, "SGD"), **options)

    def test_a_rate_beyond_all_numbers(self) -> None:
        with pytest.raises(InputError, match="is no finite number"):
            decided({"learning_rate": 1e308}, effective_batch=1000)

    def test_a_single_sample_left_over_is_lent_another(self) -> None:
        training = decided(effective_batch=65)
        assert "the last micro-batches of each step have 31 and 2" in training.notes[0]
        assert split(65, 32)[-2:] == [31, last_micro_batch(65, 32)]
        assert "micro-batch 32 x 3 (the last of 2) = effective batch 65" in recipe(training)

    def test_the_last_micro_batch_is_the_trainers(self) -> None:
        for micro in range(1, 9):
            assert [last_micro_batch(n, micro) for n in range(1, 40)] == [split(n, micro)[-1] for n in range(1, 40)]


class TestPlan:
    def test_paths_are_absolute_and_the_seed_is_the_users(self, tmp_path: Path) -> None:
        plan = decided(seed=0, out=Path("trained"), resume=True).plan
        assert plan.seed == 0
        assert plan.checkpoint_dir == str(tmp_path / "checkpoints")
        assert plan.out_dir == str(tmp_path / "trained")
        assert plan.resume
        assert decided().plan.out_dir is None

    def test_the_identity_holds_what_decides_the_result(self) -> None:
        first = decided().plan.identity
        assert json.loads(json.dumps(first)) == first
        assert decided(resume=True, out=Path("x"), checkpoint_dir=Path("y")).plan.identity == first
        assert decided(epochs=20).plan.identity == first  # a longer training goes on from a shorter one
        assert decided(data="x").plan.identity != first
        assert decided({"workload__spec": "resnet18"}).plan.identity != first

    def test_data_replace_those_of_the_study(self) -> None:
        assert decided({"workload__data": "old"}).workload.data == "old"
        assert decided({"workload__data": "old"}, data="new").workload.data == "new"


class TestSource:
    def ask(self, changes: dict[str, Any], **options: Any) -> tuple[TrainRequest, Any]:
        path = write_frozen(**changes)
        return TrainRequest(path, **options), frozen_training(read_frozen(path), path)

    @pytest.mark.parametrize(("changes", "words"), [(EMULATED, "nothing was measured"), (REPLAYED, "Bench GPU")])
    def test_refused_on_a_real_device(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words) as refused:
            refuse_source(*self.ask(changes, device="cpu", epochs=2), "measured")
        assert refused.value.hint == "tune train frozen.json --device cpu --epochs 2 --accept-source"

    def test_accepted(self) -> None:
        request, config = self.ask(EMULATED, device="cpu", accept_source=True)
        refuse_source(request, config, "measured")
        assert "emulated" in provenance(config, CPU)[0]
        request, config = self.ask(EMULATED)
        refuse_source(request, config, "emulated")

    def test_measured_elsewhere_is_said(self) -> None:
        _, config = self.ask({"device": "raspberry-pi-4"})
        assert "measured on raspberry-pi-4" in provenance(config, CPU)[0]
        _, config = self.ask({})
        assert provenance(config, CPU) == ()

    def test_the_command_that_trains_here(self) -> None:
        request, config = self.ask(EMULATED)
        assert cannot_train(request, config, "x", "emulated").hint == (
            "tune train frozen.json --device cpu --accept-source"
        )
        request, config = self.ask({"device": "raspberry-pi-4"})
        assert cannot_train(request, config, "x", "measured").hint == "tune train frozen.json --device cpu"

    def test_a_command_is_one_for_a_shell(self) -> None:
        request = TrainRequest(Path("my frozen.json"), data="it's", seed=0, resume=True, checkpoint_dir=Path("c"))
        assert shlex.split(request.command()) == [
            "tune", "train", "my frozen.json", "--data", "it's", "--seed", "0", "--checkpoint-dir", "c", "--resume",
        ]  # fmt: skip


@pytest.mark.parametrize("options", [{"effective_batch": 0}, {"epochs": 0}, {"steps": -1}, {"seed": -1}])
def test_numbers_too_small(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="at least"):
        check_request(TrainRequest(Path("f.json"), **options))
