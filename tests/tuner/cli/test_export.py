"""What `tune export --to` prints starts a training: one real optimizer step with each library."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.cli.conftest import Tune
from tests.tuner.cli.test_wrong_input import assert_refused
from tests.tuner.frozen_examples import EMULATED, REPLAYED, write_frozen
from tests.tuner.tiny import Counter, train_with_accelerate, train_with_huggingface, train_with_lightning
from tuner.batches import whole_batches
from tuner.cli.studies import LIBRARIES as NAMES
from tuner.export import LIBRARIES
from tuner.frozen_check import frozen_training
from tuner.outcome import Stopped

CASES: list[tuple[dict[str, Any], int, float]] = [
    ({}, 64, 0.1),
    ({"setting": {"batch_size": 16}, "accumulation_steps": 4}, 64, 0.1),
    ({"effective_batch": 100, "accumulation_steps": 4, "learning_rate": 0.15625}, 100, 0.15625),
    ({"effective_batch": 97, "accumulation_steps": 4, "learning_rate": 0.1515625}, 96, 0.15),
    ({"effective_batch": 8, "accumulation_steps": 1, "learning_rate": 0.0125}, 8, 0.0125),
]


def check(counter: Counter, samples: int, learning_rate: float) -> None:
    assert counter.steps == [samples]
    assert counter.learning_rates == [pytest.approx(learning_rate)]


@pytest.mark.parametrize(("changes", "samples", "learning_rate"), CASES)
class TestOneStep:
    def test_huggingface(
        self, tune: Tune, tmp_path: Path, changes: dict[str, Any], samples: int, learning_rate: float
    ) -> None:
        arguments = tune("export", write_frozen(**changes), "--to", "huggingface").json
        check(train_with_huggingface(arguments, tmp_path / "out")[0], samples, learning_rate)

    def test_lightning(self, tune: Tune, changes: dict[str, Any], samples: int, learning_rate: float) -> None:
        exported = tune("export", write_frozen(**changes), "--to", "lightning").json
        assert exported.keys() == {"trainer", "batch_size", "learning_rate", "source"}
        check(train_with_lightning(exported)[0], samples, learning_rate)

    def test_accelerate(self, tune: Tune, changes: dict[str, Any], samples: int, learning_rate: float) -> None:
        exported = tune("export", write_frozen(**changes), "--to", "accelerate", "--json").json
        check(train_with_accelerate(exported), samples, learning_rate)

    @pytest.mark.parametrize("how", ["set -a; . ./tuned.env", "export $(cat tuned.env)"])
    def test_env(self, tune: Tune, changes: dict[str, Any], samples: int, learning_rate: float, how: str) -> None:
        changes = {**changes, "cap": {"watts": 7, "statistic": "p95"}}
        assert tune("export", write_frozen(**changes), "--to", "env", "--out", "tuned.env").code == 0
        script = f"{how}; echo $((TUNER_MICRO_BATCH * TUNER_ACCUMULATION_STEPS)) $TUNER_EFFECTIVE_BATCH; "
        script += "echo $TUNER_LEARNING_RATE $TUNER_SOURCE $TUNER_CAP_W"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        product, effective, rate, source, cap_w = done.stdout.split()
        assert int(product) == int(effective) == samples
        assert float(rate) == pytest.approx(learning_rate)
        assert (source, float(cap_w), done.stderr) == ("measured", 7, "")


def test_the_lines_are_words_for_env(tune: Tune) -> None:
    Path("tuned.env").write_text(tune("export", write_frozen(), "--to", "env").out)
    done = subprocess.run(
        ["env", "-S", Path("tuned.env").read_text() + " printenv TUNER_MICRO_BATCH"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "32\n"
    assert json.loads(tune("export", "frozen.json", "--to", "env", "--json").out)["TUNER_MICRO_BATCH"] == 32


def notes(tune: Tune, *arguments: object) -> list[str]:
    result = tune("export", *arguments)
    assert result.code == 0
    return [line.removeprefix("note: ") for line in result.err.splitlines()]


class TestNotes:
    @pytest.mark.parametrize("library", NAMES)
    def test_where_figures_come_from_is_never_hidden(self, tune: Tune, library: str) -> None:
        assert notes(tune, write_frozen(), "--to", library) == []
        path = write_frozen(**EMULATED)
        said = ["the figures are emulated: a model of jetson-orin-nano gave them, nothing was measured"]
        assert notes(tune, path, "--to", library) == said
        result = tune("export", path, "--to", library, "--out", "arguments")
        assert result.err.splitlines() == [f"note: {said[0]}", "wrote arguments"]
        assert ("emulated" in Path("arguments").read_text()) == (library != "huggingface")

    def test_an_effective_batch_that_whole_micro_batches_do_not_give(self, tune: Tune) -> None:
        found = notes(tune, write_frozen(effective_batch=100, accumulation_steps=4, learning_rate=None), "--to", "env")
        assert found[0] == "the micro-batch is 25, not 32, which is no divisor of the effective batch 100"
        found = notes(tune, write_frozen(effective_batch=97, accumulation_steps=4, learning_rate=None), "--to", "env")
        assert found[0].startswith("the effective batch is 96, not 97, which is no multiple of the micro-batch 32")
        found = notes(tune, write_frozen(effective_batch=8, accumulation_steps=1, learning_rate=None), "--to", "env")
        assert found == ["the micro-batch is 8, not 32, which is above the effective batch 8"]

    def test_a_larger_learning_rate_wants_a_warm_up(self, tune: Tune) -> None:
        path = write_frozen(effective_batch=128, accumulation_steps=4, learning_rate=0.2)
        (note,) = notes(tune, path, "--to", "lightning")
        assert note.startswith("the learning rate 0.2 is above the 0.1 of a batch of 64: let it grow from there")

    def test_one_written_by_hand_follows_the_effective_batch(self, tune: Tune) -> None:
        path = write_frozen(effective_batch=97, accumulation_steps=4, learning_rate=0.5)
        assert tune("export", path, "--to", "accelerate").json["learning_rate"] == pytest.approx(0.5 * 96 / 97)
        assert (
            "learning rate 0.5 stands in the file for an effective batch of 97" in notes(tune, path, "--to", "env")[1]
        )

    def test_a_learning_rate_nobody_knows_is_left_out(self, tune: Tune) -> None:
        path = write_frozen(**REPLAYED)
        assert tune("export", path, "--to", "huggingface").json == {
            "per_device_train_batch_size": 32,
            "gradient_accumulation_steps": 1,
        }
        assert "TUNER_LEARNING_RATE" not in tune("export", path, "--to", "env").out
        assert notes(tune, path, "--to", "env")[1].startswith("the study knew no learning rate")


@pytest.mark.parametrize("micro", [1, 2, 3, 7, 32, 384, 10**9 + 7])
@pytest.mark.parametrize("effective", [1, 2, 31, 97, 100, 128, 10_007, 10**15 + 37])
def test_whole_batches_stay_near(micro: int, effective: int) -> None:
    document = json.loads(
        write_frozen(setting={"batch_size": micro}, effective_batch=effective, accumulation_steps=None).read_text()
    )
    found = whole_batches(frozen_training(document, Path("frozen.json")))
    assert 1 <= found.micro_batch <= micro
    assert found.micro_batch >= min(0.75 * micro, effective)
    assert abs(found.effective_batch - effective) <= micro / 2
    assert found.learning_rate == pytest.approx(0.1 * found.effective_batch / effective)
    assert (found.effective_batch, found.micro_batch) == (effective, micro) or found.notes


class TestStudies:
    def test_the_recommendation_of_a_study(self, tune: Tune) -> None:
        ran = tune(
            "run", "--device", "jetson-orin", "--cap", "7W", "--strategy", "sobol", "--bursts", 6, "--study", "mine"
        )
        assert ran.code == 0
        for library in NAMES:
            from_study, from_file = (tune("export", what, "--to", library) for what in ("mine", "frozen.json"))
            assert (from_study.out, from_study.err) == (from_file.out, from_file.err)
        import yaml

        as_json = tune("export", "mine", "--to", "lightning").json
        assert yaml.safe_load(tune("export", "mine", "--to", "lightning", "--format", "yaml").out) == as_json

    def test_one_of_a_replay(self, tune: Tune, profile: Path) -> None:
        tune("run", "--replay", profile, "--cap", "130W", "--study", "mine")
        assert tune("export", "mine", "--to", "huggingface").json["per_device_train_batch_size"] == 32
        assert "replayed" in tune("export", "mine", "--to", "huggingface").err

    def test_one_that_recommends_nothing(self, tune: Tune, profile: Path) -> None:
        tune("run", "--replay", profile, "--cap", "20W", "--study", "none")
        result = tune("export", "none", "--to", "env", "--out", "x")
        assert (result.code, result.out) == (1, "")
        assert result.err == "note: the study 'none' recommends no setting: tune show none\n"
        assert not Path("x").exists()
        result = tune("export", "none", "--to", "huggingface", "--json")
        assert (result.code, result.json) == (1, {"recommended": None})

    def test_one_that_is_not_finished(self, tune: Tune, profile: Path) -> None:
        from tuner import Study
        from tuner.session import Request, open_request
        from tuner.store import open_store

        target = open_request(Request(replay=profile))
        with Study(target.device, target.workload, store=open_store(), name="half", cap_w=130) as study:
            while study.outcome(Stopped.BUDGET).verdict.recommended is None:
                (trial,) = study.ask()
                study.tell(trial, target.device.measure(trial.setting, target.workload, study.plan))
        assert notes(tune, "half", "--to", "env")[0] == "the study 'half' is not finished: this is its answer so far"


class TestWrongInput:
    def test_names_and_forms(self, tune: Tune) -> None:
        path = write_frozen()
        assert_refused(tune("export", path, "--to", "keras"), "keras", "lightning")
        assert_refused(tune("export", path, "--to"), "--to")
        assert_refused(tune("export", path, "--to", ""), "--to is empty")
        assert_refused(tune("export", path, "--to", "env", "--format", "csv"), "arguments are no table")
        assert_refused(tune("export", "nobody", "--to", "env"), "no study 'nobody'")
        assert_refused(tune("export", path, "--to", "env", "--out", path), "--out", "frozen.json")
        assert sorted(NAMES) == sorted(LIBRARIES)

    @pytest.mark.parametrize("library", NAMES)
    def test_no_frozen_config(self, tune: Tune, library: str) -> None:
        Path("x.json").write_text("not json")
        assert_refused(tune("export", "x.json", "--to", library), "x.json is no JSON")
        assert_refused(tune("export", write_frozen(setting={"gpu_freq_mhz": 306}), "--to", library), "batch_size")
        path = write_frozen(
            reference__learning_rate=1e308, learning_rate=None, effective_batch=6400, accumulation_steps=200
        )
        assert_refused(tune("export", path, "--to", library), "no finite number")

    def test_a_knob_with_any_name_is_a_variable(self, tune: Tune) -> None:
        lines = tune(
            "export", write_frozen(setting={"batch_size": 32, "a b;$(reboot)": 1.5, "µ": 2}), "--to", "env"
        ).out.splitlines()
        assert "TUNER_KNOB_A_B_REBOOT_=1.5" in lines
        assert all(shlex.split(line) == [line] for line in lines)
