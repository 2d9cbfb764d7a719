"""Doctor: what a board is, what can be set and measured on it, and what is wrong, each with what mends it."""

import errno
import os
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import journal
from .board import BoardKnob, Problem
from .clock import Clock
from .failures import AgentError
from .identity import JETSON, Identity, identify
from .meter import Meter, MeterFault
from .power_mode import Runner, read_modes, run_command
from .surroundings import held_fixed, memory, problems
from .sysfs import SysFs, is_copy
from .thermal import over_current_files, temperatures

FindKnobs = Callable[[SysFs, Clock], Tuple[List[BoardKnob], List[Problem]]]
FindMeter = Callable[[SysFs, Clock], Tuple[Optional[Meter], List[Problem]]]

_UNITS = {"mhz": "MHz", "w": "W"}
_GPU = "gpu_freq_mhz"
_SEE_DRIVER = "see whether the GPU's driver is loaded: ls -l /sys/class/devfreq; lsmod | grep nv; sudo dmesg | tail"
_NO_CAP = "tune without a cap (leave out --cap), or connect a meter and look again: tune doctor"
_COPY = (
    "these are plain files that nothing answers: whether clocks hold, what is drawn under load and whether the board's "
    "own torch works cannot be told from them"
)
_FAILURES = (OSError, ValueError, LookupError, AgentError, MeterFault)  # what files that hold anything can cause


def examine(
    sysfs: SysFs,
    clock: Clock,
    find_knobs: Optional[FindKnobs] = None,
    find_meter: Optional[FindMeter] = None,
    runner: Runner = run_command,
) -> Dict[str, Any]:
    """The doctor's document. Nothing is written, and whatever the files hold, nothing is raised: faults are problems.

    Args:
        sysfs, clock: The machine's.
        find_knobs, find_meter: Knobs and the meter, with what is wrong about them; those of `knobs` and `meters`.
        runner: Runs commands of the host; only on its own root.

    Returns:
        model, module, family, jetpack, source, gpu (whether there is one that torch should see), knobs, meters,
        held_fixed, problems, notes (what to know that is no fault); and what is only true now: total (the power that a
        cap would hold on), memory, temperatures_c, over_current_events.
    """
    identity = identify(sysfs)
    left = journal.load(sysfs)
    kept = set(left["values"]) if left is not None else set()
    knobs, knob_problems = _knobs(sysfs, clock, find_knobs, identity, kept)
    meters, total, meter_problems = _meters(sysfs, clock, find_meter)
    found = [*_journal_problems(left), *knob_problems, *meter_problems, *problems(sysfs, identity, runner, kept)]
    return {
        "model": identity.model,
        "module": identity.module,
        "family": identity.family,
        "jetpack": identity.jetpack,
        "source": "measured" if sysfs.real else "emulated",
        "gpu": identity.family == JETSON or any(knob["name"].startswith("gpu_") for knob in knobs),
        "knobs": knobs,
        "meters": meters,
        "total": total,
        "held_fixed": held_fixed(sysfs, identity, runner),
        "memory": memory(sysfs),
        "temperatures_c": temperatures(sysfs),
        "over_current_events": _over_current(sysfs),
        "problems": [{"what": problem.what, "mend": problem.mend} for problem in _once(found)],
        "notes": [_COPY] if is_copy(sysfs) else [],
    }


def examine_as(device: Optional[str], sysfs: SysFs, clock: Clock) -> Dict[str, Any]:
    """The doctor's document of the machine as the device of that name: `nvidia` is its GPU, every other the machine."""
    from .nvidia.board import Nvidia

    if device != Nvidia.name:
        return examine(sysfs, clock)
    try:
        board = Nvidia(sysfs, clock)
    except AgentError as error:
        report = examine(sysfs, clock, lambda files, time: ([], []), lambda files, time: (None, []))
        problem = {"what": error.message, "mend": error.hint or "look at: nvidia-smi"}
        return dict(report, model=None, gpu=False, problems=[problem])
    report = examine(
        board.sysfs,
        clock,
        lambda files, time: (list(board.all_knobs), board.problems()),
        lambda f, t: (board.meter, []),
    )
    return dict(report, model=board.model, gpu=True, held_fixed=dict(board.held_fixed, **board.identity()))


def _knobs(
    sysfs: SysFs, clock: Clock, find: Optional[FindKnobs], identity: Identity, kept: Set[str]
) -> Tuple[List[Dict[str, Any]], List[Problem]]:
    if find is None:
        from .knobs import find_knobs

        find = find_knobs
    try:
        knobs, found = find(sysfs, clock)
    except _FAILURES as error:
        knobs, found = [], [Problem("the knobs cannot be read: {}".format(_words(error)), _SEE_DRIVER)]
    described, wrong = [], list(found)
    for knob in knobs:
        try:
            entry, more = _describe(sysfs, knob, identity, kept)
        except _FAILURES as error:
            wrong.append(Problem("{} cannot be read: {}".format(knob.name, _words(error)), _SEE_DRIVER))
            continue
        described.append(entry)
        wrong += more
    said = any("gpu" in problem.what.lower() for problem in wrong)
    if identity.family == JETSON and not said and not any(entry["name"] == _GPU for entry in described):
        wrong.append(Problem("no GPU clock was found in /sys/class/devfreq", _SEE_DRIVER))
    return described, wrong


def _describe(
    sysfs: SysFs, knob: BoardKnob, identity: Identity, kept: Set[str]
) -> Tuple[Dict[str, Any], List[Problem]]:
    """A knob, and what is wrong with it.

    Args:
        kept: Files that an agent has changed: what narrows a knob of theirs is that agent's doing.
    """
    low, high = knob.allowed()
    refused = [(name, number) for name, number in ((name, sysfs.refusal(name)) for name in knob.files()) if number]
    entry = {
        "name": knob.name,
        "unit": _UNITS.get(knob.name.rpartition("_")[2], ""),
        "values": list(knob.steps),
        "allowed": [low, high],
        "writable": not refused,
    }
    found = knob.problems()
    if not found and refused:
        found = [_refusal(knob.name, *refused[0])]
    if kept.intersection(knob.files()):
        return entry, found
    found = found + knob.narrowed()
    if not found and (low > knob.steps[0] or high < knob.steps[-1]):
        text = "{} may only be {:g} to {:g} now, its steps reach from {:g} to {:g}"
        text = text.format(knob.name, low, high, knob.steps[0], knob.steps[-1])
        found = [Problem(text, _widen(sysfs, knob, identity))]
    return entry, found


def _widen(sysfs: SysFs, knob: BoardKnob, identity: Identity) -> str:
    if identity.family != JETSON:
        return "see what narrows it: head {}".format(" ".join(knob.files()))
    mode = read_modes(sysfs).widest()
    number = "ID, one of /etc/nvpmodel.conf" if mode is None else "{} ({})".format(mode.number, mode.name)
    return "use a power mode that allows more, if the power supply does: sudo nvpmodel -m {}".format(number)


def _refusal(knob: str, name: str, number: int) -> Problem:
    what = "{} cannot be set: {}: {}".format(knob, name, os.strerror(number))
    if number == errno.EROFS:
        return Problem(what, "the container's /sys is read-only: start it with --privileged, or run outside of it")
    if number in (errno.EACCES, errno.EPERM):
        return Problem(what, "run the agent as root: sudo tune doctor")
    return Problem(what, "see what is there: ls -l {}".format(name))


def _meters(
    sysfs: SysFs, clock: Clock, find: Optional[FindMeter]
) -> Tuple[List[Dict[str, Any]], Optional[Dict[str, Any]], List[Problem]]:
    if find is None:
        from .meters import find_meter

        find = find_meter
    try:
        meter, found = find(sysfs, clock)
    except _FAILURES as error:
        meter, found = None, [Problem("the power meter cannot be read: {}".format(_words(error)), _NO_CAP)]
    wrong = list(found)
    if meter is None:
        return [], None, wrong or [Problem("no power meter was found, so no cap can be held", _NO_CAP)]
    total: Dict[str, Any] = {"name": meter.name, "watts": None, "note": meter.note}
    try:
        total["watts"] = meter.read()[0]
    except _FAILURES as error:
        wrong = wrong or [Problem("{} cannot be read: {}".format(meter.name, _words(error)), _NO_CAP)]
    try:
        rails = meter.describe()
    except _FAILURES as error:
        rails = []
        wrong.append(Problem("the rails of {} cannot be read: {}".format(meter.name, _words(error)), _NO_CAP))
    for rail in rails:
        if rail["is_total"] and not (rail["watts"] or 0) > 0:
            rail["watts"] = None  # a running machine draws power: a problem says so
    return rails, total, wrong


def _journal_problems(left: Optional[Dict[str, Any]]) -> List[Problem]:
    if left is None:
        return []
    if journal.is_held(left):
        text = "another agent, process {}, tunes this board: clocks are as it needs them"
        return [Problem(text.format(left["pid"]), "wait until it has ended")]
    return [Problem("an earlier run left knobs changed: {}".format(", ".join(left["values"])), journal.MEND)]


def _over_current(sysfs: SysFs) -> Dict[str, int]:
    """Counts since boot, by what they count; those that can be read."""
    found = {}
    for name, what in over_current_files(sysfs).items():
        text = sysfs.read_or(name) or ""
        if text.isdigit():
            found[what] = int(text)
    return found


def _once(found: List[Problem]) -> List[Problem]:
    return [problem for i, problem in enumerate(found) if problem not in found[:i]]


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return "{}: {}".format(error.filename, error.strerror) if error.filename else error.strerror or str(error)
    return str(error) or type(error).__name__
