"""What the screen of a study says."""

from __future__ import annotations

import pytest

from devices.device import BurstPlan, Setting
from devices.measurement import Measurement, Status
from tests.tuner.toys import ToyDevice, failed
from tuner.report.screen import Screen, print_studies
from tuner.store import MemoryStore
from tuner.study import Study
from tuner.testing import toy_measurement


def test_repeated_attempts_are_bursts_too(capsys: pytest.CaptureFixture[str]) -> None:
    def flaky(setting: Setting, plan: BurstPlan) -> Measurement | None:
        return failed(Status.THROTTLED) if plan.replicate == 0 else None

    study, screen = Study(ToyDevice(script=flaky), "toy", strategy="grid", bursts=4), Screen()
    with screen.progress(study) as watchers:
        document = study.run(watchers.burst).to_json()
    screen.end(document, None)
    out = capsys.readouterr().out
    assert "[4/4] " in out
    assert "ok (attempt 2)" in out
    assert "\n4 bursts, " in out


def test_a_burst_that_was_interrupted_was_not_made(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()
    with Study(ToyDevice(), "toy", strategy="grid", bursts=4, store=store) as study:
        (trial,) = study.ask()
        study.tell(trial, toy_measurement(trial.setting))
        study.ask()
    with Study(ToyDevice(), "toy", strategy="grid", bursts=4, store=store) as study:
        Screen().begin(study, ())
    assert "going on after 1 burst\n" in capsys.readouterr().out


def test_studies_keep_to_the_width(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a-study-with-quite-a-long-name-as-they-have"
    row = {"study": name, "source": "measured", "goal": "throughput", "cap": {"watts": 7.0}, "bursts": 25}
    rows = [{**row, "stopped": "budget", "recommended": {"setting": {"gpu_freq_mhz": 408.0, "batch_size": 64.0}}}]
    for columns in ("60", "80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        print_studies(rows)
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= int(columns)
        assert name in out
        assert "GPU 408 MHz, batch 64" in " ".join(out.split())
