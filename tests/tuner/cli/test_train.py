"""`tune train` in front of a device that only says that it trains."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devices.device import Access, Device, Knob
from devices.errors import DeviceError, DeviceLostError, InputError
from devices.training import WorkloadInfo
from tests.tuner.cli.conftest import Result, Tune
from tests.tuner.cli.test_wrong_input import assert_refused
from tests.tuner.frozen_examples import EMULATED, REPLAYED, write_frozen
from tests.tuner.toys import ToyDevice, TrainableToy
from tuner import training_session
from tuner.cli.train import NOTHING_YET
from tuner.report.training import TrainingScreen
from tuner.training_request import TrainRequest

CONTRACT = {
    "test_accuracy", "final_train_loss", "throughput", "energy_j", "power_mean_w", "time_over_cap_s", "micro_batch",
    "effective_batch", "accumulation_steps", "learning_rate", "resumed",
}  # fmt: skip


Put = Callable[[Device], None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Makes a device the one that trains, whichever is named."""

    def replace(device: Device) -> None:
        monkeypatch.setattr(training_session, "open_training_device", lambda *_: (device, ()))

    return replace


@pytest.fixture
def toy(put: Put) -> TrainableToy:
    """A device that trains."""
    device = TrainableToy()
    put(device)
    return device


class TestResult:
    def test_the_document(self, tune: Tune, toy: TrainableToy, tmp_path: Path) -> None:
        write_frozen(cap={"watts": 7, "statistic": "p95"})
        result = tune("train", "frozen.json", "--epochs", 2, "--json", "--out", "trained")
        assert result.code == 0, result.err
        assert result.err == ""
        document = result.json
        assert document.keys() >= CONTRACT
        assert document.keys() == NOTHING_YET.keys()
        assert document["source"] == "measured"
        assert (document["steps"], document["epochs"], document["finished"]) == (32, 2, True)
        assert document["test_accuracy"] == 0.975
        assert document["energy_j"] is None
        assert document["notes"] == ["the cap of 7 W is not held: cpu has no power meter", "a toy's note"]
        assert document["go_on"] is None
        assert json.loads(Path("trained/result.json").read_text()) == document
        workload, plan = toy.trained[0]
        assert workload.spec == "digits-cnn"
        assert plan.out_dir == str(tmp_path / "trained")
        assert plan.checkpoint_dir == str(tmp_path / "checkpoints")
        assert Path("checkpoints").is_dir()
        assert toy.closed == 1

    def test_the_text(self, tune: Tune, toy: TrainableToy) -> None:
        write_frozen(learning_rate=0.2)
        result = tune("train", "frozen.json", "--effective-batch", 100, "--out", "trained", "--seed", 7)
        assert result.code == 0, result.err
        lines = result.out.splitlines()
        assert lines[0] == "source: measured - Toy machine: measured here"
        assert lines[1] == (
            "training digits-cnn: micro-batch 32 x 4 (the last of 4) = effective batch 100, "
            "learning rate 0.3125 (linear scaling, from 0.1 over 20 steps), 20 epochs (200 steps), seed 7"
        )
        assert "note: learning rate 0.2 stands in the file" in result.out
        assert "note: a toy's note" in result.out
        assert "test accuracy 97.50 %, test loss 0.08, training loss 0.005" in result.out
        assert "trained 200 steps in 2 s, 500 samples/s" in result.out
        assert "model: trained/model.pt, result: trained/result.json" in result.out
        assert "step-200.pt" in lines[-1]
        assert len([line for line in lines if line.startswith("step ")]) == 1  # no time passes

    def test_figures_that_are_no_numbers_are_null(self, tune: Tune, put: Put) -> None:
        put(TrainableToy(throughput=float("inf"), test_accuracy=None, test_loss=float("nan"), energy_j=1500.0))
        write_frozen()
        document = tune("train", "frozen.json", "--json").json
        assert (document["throughput"], document["test_loss"], document["energy_j"]) == (None, None, 1500.0)
        text = tune("train", "frozen.json").out
        assert "no test accuracy" in text
        assert "1.5 kJ" in text

    def test_options_reach_the_device(self, tune: Tune, toy: TrainableToy) -> None:
        write_frozen()
        options = ("--steps", 5, "--data", "digits.npz", "--checkpoint-dir", "saved", "--resume", "--seed", 0)
        document = tune("train", "frozen.json", *options, "--json").json
        workload, plan = toy.trained[0]
        assert (plan.steps, plan.seed, plan.resume, workload.data) == (5, 0, True, "digits.npz")
        assert toy.inspected == [workload]
        assert plan.checkpoint_dir.endswith("/saved")
        assert document["resumed"] is True
        assert "resumed from a checkpoint" in tune("train", "frozen.json", *options).out

    def test_a_changed_workload_file_is_said(self, tune: Tune, toy: TrainableToy) -> None:
        Path("net.py").write_text("x = 1\n")
        write_frozen(workload__spec="net.py:make", workload__files_sha256={"net.py": "0" * 64})
        assert "note: net.py has changed since the study" in tune("train", "frozen.json").out

    def test_a_replayed_config_takes_what_the_workload_was_made_for(self, tune: Tune, toy: TrainableToy) -> None:
        write_frozen(**REPLAYED, setting={"batch_size": 128, "power_limit_w": 125})
        document = tune("train", "frozen.json", "--device", "cpu", "--accept-source", "--json").json
        assert (document["effective_batch"], document["learning_rate"]) == (128, 0.2)
        assert (document["frozen_source"], document["source"]) == ("replayed", "measured")
        assert any("Bench GPU" in note for note in document["notes"])
        assert any("power_limit_w" in note for note in document["notes"])


class TestProgress:
    def test_lines_without_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        from tests.tuner.test_training import decided

        training, now = decided(epochs=4), [0.0]  # 16 steps an epoch
        event = {"phase": "train", "loss": 0.5, "throughput": 256.0}
        with TrainingScreen(clock=lambda: now[0]).progress(training) as sink:
            for step in range(1, 65):
                now[0] = step / 4  # 4 s an epoch
                sink({**event, "step": step, "epoch": 1 + (step - 1) // 16})
        lines = capsys.readouterr().out.splitlines()
        assert lines == [
            f"step {step}/64, epoch {epoch}/4, loss 0.5, 256 samples/s, {left} s left"
            for step, epoch, left in ((1, 1, 16), (17, 2, 12), (33, 3, 8), (49, 4, 4))
        ]
        with TrainingScreen(clock=lambda: 0.0).progress(training) as sink:
            for step in range(1, 65):
                sink({"phase": "train", "step": step, "epoch": 1 + (step - 1) // 16})
        assert len(capsys.readouterr().out.splitlines()) == 1
        with TrainingScreen(quiet=True).progress(training) as sink:
            sink({"phase": "train", "step": 1, "epoch": 1})
        assert capsys.readouterr() == ("", "")

    def test_a_bar_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tests.tuner.test_training import decided

        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with TrainingScreen().progress(decided()) as sink:
            sink({"phase": "train", "step": 80, "epoch": 5, "loss": 0.25, "throughput": 64.0})
            sink({"phase": "note", "text": "said above the bar"})
            sink({"phase": "checkpoint", "path": "x"})
        assert "80/320" in terminal.getvalue()
        assert "epoch 5/20, loss 0.25, 64 samples/s, 4.0 min left" in terminal.getvalue()
        assert "note: said above the bar" in terminal.getvalue()


class TestInterruption:
    def press(self, *numbers: signal.Signals, at: int = 3) -> Callable[[int], None]:
        def on_step(step: int) -> None:
            for number in numbers if step == at else ():
                os.kill(os.getpid(), number)

        return on_step

    def test_once_ends_after_the_step(self, tune: Tune, put: Put) -> None:
        toy = TrainableToy(on_step=self.press(signal.SIGINT))
        put(toy)
        write_frozen()
        result = tune("train", "frozen.json", "--json", "--out", "my out")
        assert result.code == 130
        assert "ending after this optimizer step" in result.err
        document = result.json
        assert (document["finished"], document["steps"], document["steps_planned"]) == (False, 3, 320)
        assert document["go_on"] == "tune train frozen.json --resume --out 'my out'"
        assert document["checkpoint"].endswith("step-3.pt")
        assert toy.aborted == 1
        assert not Path("my out/result.json").exists()  # beside a model.pt of an earlier training it would lie

    def test_the_text_says_how_to_go_on(self, tune: Tune, put: Put) -> None:
        put(TrainableToy(on_step=self.press(signal.SIGINT)))
        write_frozen()
        result = tune("train", "frozen.json")
        assert result.code == 130
        assert "interrupted after 3 of 320 steps" in result.out
        assert result.out.splitlines()[-1] == "go on with: tune train frozen.json --resume"

    @pytest.mark.parametrize("pressed", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM)])
    @pytest.mark.parametrize("raises", [False, True])
    def test_twice_ends_at_once(self, tune: Tune, put: Put, pressed: tuple[signal.Signals, ...], raises: bool) -> None:
        press = self.press(*pressed)

        def on_step(step: int) -> None:
            press(step)
            if raises and step == 3:
                raise DeviceError("aborted on request")

        toy = TrainableToy(on_step=on_step)
        put(toy)
        write_frozen()
        result = tune("train", "frozen.json", "--json")
        assert (result.code, toy.aborted) == (130, 2)
        assert result.json["steps"] == (2 if raises else 3)
        assert result.json["finished"] is False
        assert result.json["checkpoint"].endswith(f"step-{result.json['steps']}.pt")

    @pytest.mark.parametrize("pressed", [signal.SIGTERM, signal.SIGHUP])
    def test_the_system_lets_it_write_a_checkpoint(self, tune: Tune, put: Put, pressed: signal.Signals) -> None:
        toy = TrainableToy(on_step=self.press(pressed))
        put(toy)
        write_frozen()
        result = tune("train", "frozen.json", "--json")
        assert (result.code, toy.aborted) == (130, 1)
        assert result.json["checkpoint"].endswith("step-3.pt")

    @pytest.mark.parametrize(("presses", "document"), [(1, False), (2, True)])
    def test_before_anything_is_trained(self, tune: Tune, put: Put, presses: int, document: bool) -> None:
        class Slow(TrainableToy):
            def inspect(self, workload: Any) -> WorkloadInfo | None:
                for _ in range(presses):
                    os.kill(os.getpid(), signal.SIGINT)
                return super().inspect(workload)

        toy = Slow()
        put(toy)
        write_frozen()
        result = tune("train", "frozen.json", "--json", "--out", "o")
        assert result.code == 130
        assert toy.trained == []
        assert toy.closed == 1
        assert not Path("o/result.json").exists()
        if document:
            assert result.json == NOTHING_YET
        else:
            assert result.json["steps"] == 0
            assert result.json["go_on"] == "tune train frozen.json --out o"


class TestFailure:
    @pytest.mark.parametrize("error", [DeviceError("out of memory"), DeviceLostError("gone", hint="repeat it")])
    def test_the_command_that_goes_on(self, tune: Tune, put: Put, error: DeviceError) -> None:
        def fail(step: int) -> None:
            if step == 5:
                raise error

        put(TrainableToy(on_step=fail))
        write_frozen()
        assert_failed(tune("train", "frozen.json"), error.message, "tune train frozen.json --resume")
        document = tune("train", "frozen.json", "--json")
        assert document.code == 3
        assert document.json["error"]["message"] == error.message

    def test_before_the_first_checkpoint(self, tune: Tune, put: Put) -> None:
        def fail(step: int) -> None:
            raise DeviceError("out of memory", hint="a smaller batch")

        put(TrainableToy(on_step=fail))
        write_frozen()
        assert_failed(tune("train", "frozen.json"), "out of memory", "a smaller batch")

    def test_a_workload_that_cannot_be_loaded(self, tune: Tune, put: Put) -> None:
        class Refusing(TrainableToy):
            def inspect(self, workload: Any) -> WorkloadInfo | None:
                raise InputError(f"no workload is named '{workload.spec}'")

        put(Refusing())
        write_frozen(workload__spec="resnet19")
        assert_refused(tune("train", "frozen.json"), "resnet19")
        assert not Path("checkpoints").exists()

    def test_a_result_that_cannot_be_written(self, tune: Tune, toy: TrainableToy) -> None:
        def occupy(step: int) -> None:
            Path("o/result.json").mkdir(exist_ok=True)

        toy.on_step = occupy
        write_frozen()
        result = tune("train", "frozen.json", "--out", "o")
        assert_failed(result, "the training is finished", "result.json", "--resume")


def assert_failed(result: Result, *words: str) -> None:
    assert result.code == 3
    for word in words:
        assert word in result.err


class TestDevice:
    HERE = "tune train frozen.json --device cpu --accept-source"

    @pytest.mark.parametrize("options", [(), ("--accept-source",), ("--device", "jetson-orin")])
    def test_an_emulated_board_names_the_command_that_trains_here(self, tune: Tune, options: tuple[str, ...]) -> None:
        write_frozen(**EMULATED)
        result = tune("train", "frozen.json", *options)
        assert_refused(result, "cannot train: only a model of it is here")
        assert result.err.splitlines()[1] == f"  hint: {self.HERE}"
        assert not Path("checkpoints").exists()

    def test_a_recorded_profile(self, tune: Tune) -> None:
        write_frozen(**REPLAYED)
        result = tune("train", "frozen.json", "--json")
        assert result.code == 2
        assert result.json["error"]["hint"] == self.HERE
        assert "Bench GPU cannot train" in result.json["error"]["message"]

    def test_a_board_that_is_not_here(self, tune: Tune) -> None:
        write_frozen(device="a board of mine")
        assert_refused(tune("train", "frozen.json"), "a board of mine", "tune train frozen.json --device cpu")

    def test_unknown_devices(self, tune: Tune) -> None:
        write_frozen()
        assert_refused(tune("train", "frozen.json", "--device", "jetson-oring"), "unknown device", "jetson-orin")

    @pytest.mark.parametrize("changes", [EMULATED, REPLAYED])
    def test_an_unaccepted_source_is_refused_before_a_trainer_starts(self, tune: Tune, changes: dict[str, Any]) -> None:
        write_frozen(**changes)
        result = tune("train", "frozen.json", "--device", "cpu")
        assert_refused(result, "the figures of frozen.json are", changes["source"], changes["device"], self.HERE)

    def test_devices_that_train_nothing(self, tune: Tune, put: Put) -> None:
        write_frozen()
        put(ToyDevice())
        assert_refused(tune("train", "frozen.json"), "toy cannot train")

        class Silent(TrainableToy):
            def inspect(self, workload: Any) -> WorkloadInfo | None:
                return None

        put(Silent())
        assert_refused(tune("train", "frozen.json"), "cpu cannot train")

    @pytest.mark.parametrize("python", [None, "python3.8"])
    def test_how_the_cpu_is_opened(self, tune: Tune, monkeypatch: pytest.MonkeyPatch, python: str | None) -> None:
        asked: list[tuple[Any, dict[str, Any]]] = []

        def open_target(*arguments: Any, **options: Any) -> tuple[Device, tuple[str, ...]]:
            asked.append((arguments, options))
            return TrainableToy(knobs=(Knob("batch_size", (16, 32)), Knob("cpu_threads", (1, 2)))), ("a note",)

        monkeypatch.setattr(training_session, "open_target", open_target)
        write_frozen(setting={"batch_size": 32, "cpu_threads": 2})
        result = tune("train", "frozen.json", "--data", "d", *(["--python", python] if python else []), "--json")
        assert result.json["setting"] == {"batch_size": 32, "cpu_threads": 2}
        assert "a note" in result.json["notes"]
        (name, workload, _, cap), options = asked[0]
        assert (name, workload.data, cap, options["search"]) == ("cpu", "d", None, ["cpu_threads"])
        assert options["access"] == Access(python)


class TestWrongInput:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--epochs", 2, "--steps", 3), ("--epochs", "--steps")),
            (("--epochs", 0), ("--epochs",)),
            (("--steps", 0), ("--steps",)),
            (("--steps", "many"), ("--steps",)),
            (("--effective-batch", 0), ("--effective-batch",)),
            (("--effective-batch", 1001), ("1001", "--effective-batch 1000")),
            (("--seed", -1), ("--seed",)),
            (("--out", "frozen.json"), ("--out frozen.json", "is no folder")),
            (("--out", "frozen.json/x"), ("--out", "is no folder")),
            (("--out", "/proc/x/y"), ("--out /proc/x/y",)),
            (("--out", "x" * 300), ("--out", "File name too long")),
            (("--checkpoint-dir", "frozen.json"), ("--checkpoint-dir", "is no folder")),
            (("--checkpoint-dir", "/proc/x"), ("--checkpoint-dir /proc/x",)),
            (("--host", "pi@board"), ("--host",)),
            (("--stop",), ("--stop",)),
            (("--nonsense",), ("--nonsense",)),
            (("more.json",), ("more.json",)),
        ],
    )
    def test_options(self, tune: Tune, toy: TrainableToy, options: tuple[Any, ...], words: tuple[str, ...]) -> None:
        write_frozen()
        assert_refused(tune("train", "frozen.json", *options), *words)
        assert toy.trained == []
        assert not Path("out").exists()

    def test_folders_without_permission(self, tune: Tune, toy: TrainableToy, monkeypatch: pytest.MonkeyPatch) -> None:
        write_frozen()
        access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK and access(path, mode))  # root may all
        assert_refused(tune("train", "frozen.json", "--out", "o"), "no permission")

    def test_the_frozen_config_is_not_overwritten(self, tune: Tune, toy: TrainableToy) -> None:
        Path("o").mkdir()
        write_frozen(Path("o/result.json"))
        assert_refused(tune("train", "o/result.json", "--out", "o"), "overwrite")

    def test_no_file(self, tune: Tune, toy: TrainableToy) -> None:
        assert_refused(tune("train"), "FROZEN.json")
        assert_refused(tune("train", "none.json"), "cannot read none.json")
        assert_refused(tune("train", "."), "cannot read .")
        Path("x.json").write_text("not json")
        assert_refused(tune("train", "x.json"), "x.json is no JSON")

    @pytest.mark.parametrize("changes", [{"schema": 2}, {"setting": "fast"}, {"accumulation_steps": 3}])
    def test_a_file_edited_by_hand(self, tune: Tune, toy: TrainableToy, changes: dict[str, Any]) -> None:
        write_frozen(**changes)
        assert_refused(tune("train", "frozen.json"), "frozen.json", next(iter(changes)))


def test_every_field_of_the_request_is_an_option() -> None:
    from tuner.cli.train import train

    fields = set(vars(TrainRequest(Path("x"))))
    assert {parameter.name for parameter in train.params} == fields | {"as_json"}


def test_export_takes_frozen_configs_of_replays(tune: Tune) -> None:
    write_frozen(**REPLAYED)
    assert tune("export", "frozen.json").json["effective_batch"] is None
    assert tune("export", "frozen.json", "--format", "yaml").code == 0
