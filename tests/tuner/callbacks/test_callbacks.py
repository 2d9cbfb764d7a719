"""The callbacks on a fake board: both hold the setting from the first step to the last, and watch the cap alike."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from devices.errors import InputError
from devices.fake.board import FakeBoard
from tests.devices.fake.test_device import state
from tests.tuner.applied_board import FOUND_ON, stand_on
from tests.tuner.frozen_examples import write_frozen
from tests.tuner.tiny import AfterStep, Counter, train_with_huggingface, train_with_lightning
from tuner.callbacks import huggingface, lightning
from tuner.cli.studies import LIBRARIES
from tuner.export import export_arguments
from tuner.frozen import read_frozen
from tuner.frozen_check import frozen_training

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
LOW: dict[str, Any] = {**FOUND_ON, "cap": {"watts": 2, "statistic": "p95"}}
"""A cap below what the board draws when it does nothing."""


class Train(Protocol):
    """A training with one of the libraries; some optimizer steps, with a callback for the frozen config."""

    def __call__(self, steps: int, after_step: AfterStep, **options: Any) -> Counter: ...


def with_huggingface(steps: int, after_step: AfterStep, **options: Any) -> Counter:
    callback = huggingface.TunedCallback("frozen.json", **options)
    with callback:
        return train_with_huggingface(arguments("huggingface"), Path("out"), [callback], steps, after_step)[0]


def with_lightning(steps: int, after_step: AfterStep, **options: Any) -> Counter:
    callback = lightning.TunedCallback("frozen.json", **options)
    return train_with_lightning(arguments("lightning"), [callback], steps, after_step)[0]


def arguments(library: str) -> dict[str, Any]:
    assert library in LIBRARIES
    path = Path("frozen.json")
    return export_arguments(frozen_training(read_frozen(path), path), library)[0]


@pytest.fixture(params=[with_huggingface, with_lightning])
def train(request: pytest.FixtureRequest) -> Train:
    found: Train = request.param
    return found


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> FakeBoard:
    return stand_on(monkeypatch)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Warnings of the libraries' loggers, which pass nothing on to the root."""
    found: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    for module in (huggingface, lightning):
        monkeypatch.setattr(module._logger, "handlers", [Ear(level=logging.WARNING)])
        monkeypatch.setattr(module._logger, "propagate", False)
    return found


def work(board: FakeBoard, seen: list[dict[str, str]]) -> Callable[[], None]:
    """A step that takes a second and a half of the board's time."""

    def step() -> None:
        seen.append(state(board))
        board.clock.sleep(1.5)

    return step


def test_the_setting_is_held_to_the_last_step(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**FOUND_ON)
    before = state(board)
    seen: list[dict[str, str]] = []
    counter = train(3, work(board, seen))
    assert counter.steps == [16, 16, 16]
    assert all(state != before for state in seen)
    assert state(board) == before
    assert said == []


def test_a_broken_cap_ends_the_training(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**LOW)
    before = state(board)
    counter = train(7, work(board, []))
    assert 1 < len(counter.steps) < 5
    assert state(board) == before
    (text,) = said
    assert text.endswith(" s is more than 10 % above the cap of 2 W; the training ends")
    watts, seconds = float(text.split()[0]), float(text.split()[3])
    assert watts > 2.2
    assert 2 < seconds < 5


def test_or_is_warned_of_once(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**LOW)
    before = state(board)
    assert len(train(7, work(board, []), on_breach="warn").steps) == 7
    assert state(board) == before
    (text,) = said
    assert text.endswith("; the training goes on")


def test_an_exception_puts_everything_back(train: Train, board: FakeBoard) -> None:
    write_frozen(**FOUND_ON)
    before = state(board)
    seen: list[dict[str, str]] = []

    def fail() -> None:
        seen.append(state(board))
        raise ArithmeticError("a loss that is no number")

    with pytest.raises(ArithmeticError):
        train(3, fail)
    assert seen[0] != before
    assert state(board) == before


def test_an_agent_that_goes_ends_the_training(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**FOUND_ON)

    def lose() -> None:
        board.reboot()
        board.clock.sleep(1.5)

    assert len(train(7, lose).steps) == 1
    assert said[0].startswith("the agent of jetson-orin-nano stopped answering")
    assert said[0].endswith("the training ends")


def test_a_silent_meter_ends_it_after_a_minute(
    train: Train, board: FakeBoard, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_frozen(**FOUND_ON)

    def step() -> None:
        monkeypatch.setattr(board, "show_w", lambda label: 0.0)
        board.clock.sleep(20)

    assert 3 < len(train(7, step).steps) < 7
    assert said[-1].startswith("the cap of 7 W cannot be watched: ")


def test_what_slows_the_board_is_said_once(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**FOUND_ON)

    def step() -> None:
        board.over_current[3] += 7
        board.clock.sleep(1.5)

    assert len(train(4, step).steps) == 4
    (text,) = said
    assert "over-current" in text


def test_what_is_not_put_back_is_said(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**FOUND_ON)

    def step() -> None:
        board.change(lambda: board.set_mode(1))

    assert len(train(2, step).steps) == 2
    assert said[-1].startswith("not put back: /sys/")
    assert said[-1].endswith("(sudo tune doctor --restore)")


def test_other_batches_than_those_tuned_are_said(train: Train, board: FakeBoard, said: list[str]) -> None:
    write_frozen(**{**FOUND_ON, "setting": {"gpu_freq_mhz": 306, "batch_size": 16}, "accumulation_steps": 1})
    other = Path("frozen.json").rename("other.json")
    write_frozen(**FOUND_ON)
    if train is with_huggingface:
        callback = huggingface.TunedCallback(other)
        train_with_huggingface(arguments("huggingface"), Path("out"), [callback])
    else:
        train_with_lightning(arguments("lightning"), [lightning.TunedCallback(other)])
    assert said == ["micro-batches of 8 x 2 are trained; 16 x 1 were tuned"]


@pytest.mark.parametrize("kind", [huggingface.TunedCallback, lightning.TunedCallback])
def test_wrong_input_is_refused_before_a_training(kind: Any) -> None:
    with pytest.raises(InputError, match="cannot read none"):
        kind("none.json")
    write_frozen()
    with pytest.raises(InputError, match="on_breach is stop or warn, not 'slow'"):
        kind("frozen.json", on_breach="slow")


def test_another_device_is_refused_as_training_begins(train: Train) -> None:
    write_frozen(**FOUND_ON)
    with pytest.raises(InputError, match="which is not this machine"):
        train(1, lambda: None)
    assert len(train(2, lambda: None, accept_source=True).steps) == 2


def test_several_processes_are_refused(board: FakeBoard) -> None:
    write_frozen(**FOUND_ON)
    callback = huggingface.TunedCallback("frozen.json")
    with pytest.raises(InputError, match="this callback is for one process, 2 train"):
        callback._guard.begin(2, 8, 2)


def test_the_trainers_hear_of_the_power(board: FakeBoard) -> None:
    write_frozen(**FOUND_ON)
    callback = huggingface.TunedCallback("frozen.json")
    step = work(board, [])
    _, trainer = train_with_huggingface(arguments("huggingface"), Path("out"), [callback], 4, step)
    entry = trainer.state.log_history[-1]
    assert entry["energy_j"] == pytest.approx(6 * entry["power_mean_w"], rel=0.1)
    assert entry["step"] == 4
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(".", name="log", version="one")
    train_with_lightning(arguments("lightning"), [lightning.TunedCallback("frozen.json")], 4, step, logger)
    logger.save()
    assert "power_mean_w" in Path("log/one/metrics.csv").read_text()


def test_one_callback_sees_two_trainings(board: FakeBoard) -> None:
    write_frozen(**FOUND_ON)
    before = state(board)
    callback = lightning.TunedCallback("frozen.json")
    for _ in range(2):
        counter, _ = train_with_lightning(arguments("lightning"), [callback], 2, work(board, []))
        assert counter.steps == [16, 16]
        assert state(board) == before


def test_a_callback_that_is_dropped_after_an_exception_puts_everything_back(board: FakeBoard) -> None:
    write_frozen(**FOUND_ON)
    before = state(board)
    guard = huggingface.TunedCallback("frozen.json")._guard
    guard.begin(1, 8, 2)
    assert state(board) != before
    del guard
    assert state(board) == before
