"""`mode-table`: the vendor's power mode nearest to the cap, as its name says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devices.catalog import Board, Preset, find_board
from devices.device import Setting
from devices.errors import UnsupportedError
from tuner.goal import Cap
from tuner.problem import Problem
from tuner.strategies.proposal import ProposingStrategy
from tuner.strategies.untuned import narrowed, untuned_setting
from tuner.trial import Trial


class ModeTableStrategy(ProposingStrategy):
    """What a vendor offers: modes named by watts (7W, 15W, 30W_ALL); boards of the catalog only.

    Of the modes at or below the cap the largest, of all the smallest where the cap is below them, the largest without a
    cap. Its clocks and cores where these are knobs (the others are held as the study holds them), at the default batch
    size, or the largest that fits. Converges after that burst: nobody measures what a mode's name promises.
    """

    name = "mode-table"

    def part(self, problem: Problem, trials: Sequence[Trial]) -> Problem:
        board = find_board(problem.device) if problem.device is not None else None
        if board is None:
            raise UnsupportedError(
                f"mode-table knows power modes of boards in the catalog only, not of {problem.device or 'this device'}",
                hint="tune devices lists the boards",
            )
        wanted = mode_setting(board, vendor_mode(board, problem.cap), problem)
        space = problem.open_space(trials)
        values = {name: (value,) for name, value in wanted.items()}
        fitting = tuple(space.part(values).settings)
        if fitting:
            batches = narrowed(space, fitting)
            fitting = (batches.nearest(untuned_setting(problem.space), fitting),)
        elif not len(problem.space.part(values)):
            raise UnsupportedError("the power mode's setting is not among those that can be measured here")
        return replace(problem, space=narrowed(space, fitting) if fitting else replace(space, settings=()))

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        return next(iter(problem.space.untried(trial.setting for trial in trials)), None)


def vendor_mode(board: Board, cap: Cap | None) -> Preset:
    """The mode that a reader of the board's manual sets for that cap.

    Raises:
        UnsupportedError: the catalog has no mode of the vendor's.
    """
    # Of modes named by the same watts the first, which the board starts in if it starts in one of them.
    modes = {preset.nominal_w: preset for preset in reversed(board.presets) if preset.nominal_w is not None}
    if not modes:
        raise UnsupportedError(f"the vendor of {board.name} offers no power mode that is named by watts")
    within = [watts for watts in modes if cap is None or watts <= cap.watts]
    return modes[max(within) if within else min(modes)]


def mode_setting(board: Board, mode: Preset, problem: Problem) -> Setting:
    """The values of the mode for the knobs of `problem` that it stands for.

    Raises:
        UnsupportedError: one of them cannot be set here.
    """
    speed = board.speed_knob
    pinned = {name: mode.pinned(name) for name in board.pinned_knobs}
    values = {
        speed: board.speed_steps(mode)[-1],
        **{name: value for name, value in pinned.items() if value is not None},
    }
    if speed not in problem.space.names:
        raise UnsupportedError(f"a power mode sets {speed}, which is none of {', '.join(problem.space.names)}")
    for knob in problem.space.knobs:
        if knob.name in values and values[knob.name] not in knob.values:
            raise UnsupportedError(
                f"the mode {mode.name} of {board.name} runs {knob.name} at {values[knob.name]:g}, "
                "which is none of the values searched here"
            )
    return {name: value for name, value in values.items() if name in problem.space.names}
