"""Frozen configs as people edit them, and what they remember of a workload's files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from devices.device import WorkloadSpec
from devices.errors import InputError
from tests.tuner.frozen_examples import MISSING, REPLAYED, write_frozen
from tests.tuner.test_training import decided
from tests.tuner.toys import ToyDevice
from tuner.frozen import freeze, read_frozen
from tuner.study import Study
from tuner.workload_files import changed_files


def cases(field: str, words: str, *values: Any) -> list[tuple[str, Any, str]]:
    """`field` with each of `values`, which is refused in these words."""
    return [(field, value, words) for value in values]


class TestFile:
    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("schema", 2, "schema 2; this version knows 1"),
            ("schema", 0, "'schema' must be 1"),
            ("schema", -1, "'schema' must be 1"),
            ("schema", True, "'schema' must be 1"),
            ("schema", None, "'schema' must be 1"),
            ("schema", "1", "'schema' must be 1"),
            *cases("device", "'device' must be a text", None, 3, "", " ", []),
            *cases("source", "'source' must be one of measured", None, "guessed", 1, []),
            *cases("setting", "'setting' must be", None, {}, [], "x", {"batch_size": True}, {"x": None}, {"x": "8"}),
            *cases("setting", "'setting' must be", {"x": []}, {"x": 10**400}),
            *cases("setting__batch_size", "'setting.batch_size' must be a whole", 0, -8, 1.5),
            *cases("workload", "'workload' must be an object", None, "resnet18", 3, []),
            *cases("workload__spec", "'workload.spec' must be a text", None, 3, ""),
            *cases("workload__args", "'workload.args' must be", None, [], "x"),
            *cases("workload__data", "'workload.data' must be a path or null", 3, "", {}),
            *cases("workload__files_sha256", "'workload.files_sha256' must be", None, [], {"a": 1}),
            *cases("reference", "'reference' must be", [], 64),
            *cases("reference__batch", "'reference.batch' must be", None, 0, -1, 2.5, "64"),
            *cases("reference__learning_rate", "'reference.learning_rate' must be", None, 0, -0.1, "0.1"),
            *cases("reference__optimizer", "'reference.optimizer' must be", None, 1),
            *cases("effective_batch", "'effective_batch' must be", 0, -64, 64.5, "64", True),
            *cases("accumulation_steps", "'accumulation_steps' must be", 0, -1, 1.5, "2"),
            *cases("learning_rate", "'learning_rate' must be a number above 0", 0, -0.1, "0.1", {}),
            *cases("cap", "'cap' must be", 7, "7W"),
            *[("cap", {"watts": w, "statistic": "p95"}, "'cap.watts' must be") for w in (None, 0, -7, "7W")],
            *[("cap", {"watts": 7, "statistic": s}, "'cap.statistic' must be") for s in (None, "median", 3)],
            *cases("seed", "'seed' must be", None, -1, 0.5, "0"),
        ],
    )
    def test_a_field_edited_by_hand(self, field: str, value: Any, words: str) -> None:
        with pytest.raises(InputError, match=r"frozen\.json") as refused:
            read_frozen(write_frozen(**{field: value}))
        assert words in refused.value.message
        assert refused.value.hint
        assert len(refused.value.message) < 160

    @pytest.mark.parametrize(
        "field",
        [
            "schema", "device", "source", "setting", "workload", "workload__spec", "workload__args", "workload__data",
            "workload__files_sha256", "reference", "reference__batch", "reference__learning_rate",
            "reference__optimizer", "effective_batch", "accumulation_steps", "learning_rate", "cap", "seed",
        ],
    )  # fmt: skip
    def test_a_field_that_is_missing(self, field: str) -> None:
        with pytest.raises(InputError, match=f"no frozen config: it has no '{field.replace('__', '.')}'"):
            read_frozen(write_frozen(**{field: MISSING}))

    @pytest.mark.parametrize("field", ["setting__batch_size", "learning_rate", "reference__batch", "context"])
    @pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
    def test_numbers_that_json_does_not_have(self, field: str, text: str) -> None:
        path = write_frozen(**{field: "HERE"})
        path.write_text(path.read_text().replace('"HERE"', text))
        with pytest.raises(InputError, match=f"frozen.json .*{text}"):
            read_frozen(path)

    @pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b"\xff\x00", b"[" * 100_000, b"1" * 5000])
    def test_no_frozen_config_at_all(self, content: bytes) -> None:
        Path("f.json").write_bytes(content)
        with pytest.raises(InputError, match=r"f\.json") as refused:
            read_frozen(Path("f.json"))
        assert "tune run" in str(refused.value.hint)

    def test_a_byte_order_mark_is_no_fault(self) -> None:
        path = write_frozen()
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert read_frozen(path)["device"] == "cpu"

    @pytest.mark.parametrize(
        ("changes", "hint"),
        [
            ({"effective_batch": 128}, '"accumulation_steps": 4, or "effective_batch": 64'),
            ({"accumulation_steps": 1}, '"accumulation_steps": 2, or "effective_batch": 32'),
            ({"setting__batch_size": 64}, '"accumulation_steps": 1, or "effective_batch": 128'),
        ],
    )
    def test_accumulation_that_does_not_fit(self, changes: dict[str, Any], hint: str) -> None:
        with pytest.raises(InputError, match="does not fit") as refused:
            decided(changes)
        assert refused.value.hint == hint

    def test_a_consistent_change_is_taken(self) -> None:
        training = decided({"effective_batch": 128, "accumulation_steps": 4, "learning_rate": 0.2})
        assert (training.plan.effective_batch, training.plan.learning_rate, training.notes) == (128, 0.2, ())

    def test_unknown_steps_and_rates_are_worked_out(self) -> None:
        training = decided({"effective_batch": 128, "accumulation_steps": None, "learning_rate": None})
        assert training.accumulation_steps == 4
        assert training.plan.learning_rate == pytest.approx(0.2)

    def test_training_needs_a_batch_size_and_reading_does_not(self) -> None:
        changes = {**REPLAYED, "setting": {"power_limit_w": 125}}
        assert read_frozen(write_frozen(**changes))["source"] == "replayed"
        with pytest.raises(InputError, match="no batch_size"):
            decided(changes)


class TestFiles:
    def freeze(self, spec: str) -> dict[str, str]:
        with Study(ToyDevice(clocks=2, batches=2), WorkloadSpec(spec), strategy="grid", bursts=6) as study:
            config = freeze(study.run(), study.workload, None)
        digests: dict[str, str] = config["workload"]["files_sha256"]
        return digests

    def test_the_digest_of_a_users_file(self) -> None:
        Path("net.py").write_text("x = 1\n")
        digests = self.freeze("./net.py:make")
        assert digests == {"./net.py": hashlib.sha256(b"x = 1\n").hexdigest()}
        assert changed_files(digests) == ()
        Path("net.py").write_text("x = 2\n")
        assert changed_files(digests) == ("./net.py",)
        Path("net.py").unlink()
        assert changed_files(digests) == ()

    @pytest.mark.parametrize("spec", ["resnet18", "package.module:make", "gone.py:make"])
    def test_nothing_to_digest(self, spec: str) -> None:
        assert self.freeze(spec) == {}
