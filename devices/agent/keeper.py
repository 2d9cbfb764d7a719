"""The keeper: watches a full training from its first step to its last, and holds the cap by the clock.

A burst ends when the cap is broken or the board slows down. A training goes on: its clock steps down, and up again when
there is room; what was changed from outside is held again. Only where nothing helps does it end, with a checkpoint.
"""

import os
import re
from typing import Any, Callable, Dict, List, Optional

from .board import Board, Fault
from .failures import AgentError
from .governor import ALLOWED, Governor, Move
from .hands import Hands
from .ledger import Ledger
from .power import statistic_w
from .sampler import Sampler
from .thermal import DEFAULT_LIMIT_C, limits, temperatures

Tell = Callable[[Dict[str, Any]], None]

SPEED = ("gpu_freq_mhz", "power_limit_w", "cpu_freq_mhz")
"""Knobs that a cap is held by, the first that a setting has."""
CAP_FILE = "cap"  # beside the checkpoints: another cap for the training that runs
LOOK_S = 1.0
VERIFY_S = 5.0  # between two looks at clocks and temperatures
SAVE_S = 10.0
METER_LOST_S = 60.0  # without a reading, before a cap counts as not held
SAY_S = 60.0  # between two notes of the same kind
_SETTLE_LAGS = 3.0
_WORKING_S = 2.0  # after a step, the board works
_POWER = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(m?)W?\s*$")


class Keeper:
    """Of one training.

    Args:
        board, hands: The board, whose knobs are held at the plan's setting.
        plan: `devices.training.TrainingPlan.to_json`.
        tell: Gets events: notes, and `{"phase": "clock", "knob", "from", "to", "reason", "at_s"}` for every change.

    Attributes:
        drift: How conditions differ from those of the study, where that ended the training; else None.
    """

    def __init__(self, board: Board, hands: Hands, plan: Dict[str, Any], tell: Tell) -> None:
        self._board = board
        self._hands = hands
        self._clock = board.clock
        folder = plan.get("checkpoint_dir")
        self._folder = None if folder is None else os.path.abspath(os.path.expanduser(folder))
        self._setting: Dict[str, float] = dict(plan["setting"])
        self._statistic: str = plan.get("statistic", "p95")
        self._retune = plan.get("on_drift") == "retune"
        self._tell = tell
        self._ledger = Ledger(self._folder, bool(plan.get("resume")))
        self._sampler = None if board.meter is None else Sampler(board.meter, self._clock)
        self._lag_s = 0.0 if board.meter is None else board.meter.lag_s
        self._knob = next((name for name in SPEED if name in self._setting and name in self._names()), None)
        steps = [] if self._knob is None else self._names()[self._knob]
        now_s = self._clock.monotonic()
        tuned = None if self._knob is None else self._setting[self._knob]
        self._governor = Governor(steps, tuned, plan.get("cap_w"), now_s, _SETTLE_LAGS * self._lag_s)
        self._limits = limits(board.sysfs)
        self._watches = board.watches()
        self._began_s = self._looked_s = self._verified_s = self._saved_s = now_s
        self._marked_s = now_s  # samples until then are in the ledger
        self._stepped_s: Optional[float] = None
        self._silent_s: Optional[float] = None
        self._said_s: Dict[str, float] = {}
        self._doubted = False
        self._cap_path = os.path.join(self._folder or os.sep, CAP_FILE)
        self._cap_stamp = None if plan.get("resume") else self._stamp()  # one of an earlier training does not count
        self._ended: Optional[AgentError] = None
        self.drift: Optional[str] = None

    def start(self) -> None:
        """Begin to watch."""
        if self._sampler is not None:
            self._sampler.start()

    def stop(self) -> None:
        """End watching; may be called again."""
        if self._sampler is not None:
            self._sampler.stop()
        self._count()
        self._ledger.save()

    def hear(self, event: Dict[str, Any]) -> bool:
        """Pass an event of the trainer on, with the power; whether the training must end."""
        if event.get("phase") == "train":
            self._stepped_s = self._clock.monotonic()
            latest = None if self._sampler is None else self._sampler.latest
            event = event if latest is None else dict(event, power_w=latest.total_w)
        self._tell(event)
        return self._ended is not None or self.drift is not None

    def look(self) -> bool:
        """Watch, about once a second; never ends the training at once."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s < LOOK_S or self._ended is not None:
            return False
        self._looked_s = now_s
        try:
            self._count()
            self._follow_cap(now_s)
            self._watch_power(now_s)
            if now_s - self._verified_s >= VERIFY_S:
                self._verified_s = now_s
                self._verify(now_s)
                self._watch_board(now_s)
        except AgentError as error:  # the board does not let itself be held
            self._ended = error
        if self._retune and self.drift is None:
            self.drift = self._governor.drift(now_s)
        if now_s - self._saved_s >= SAVE_S:
            self._saved_s = now_s
            self._ledger.save()
        return False

    def add_to(self, result: Dict[str, Any]) -> Dict[str, Any]:
        """The trainer's result with the figures of power.

        Raises:
            AgentError: the training was ended here, before its last step.
        """
        if self._ended is not None and not result["finished"]:
            raise self._ended
        drift = None if result["finished"] else self.drift
        return dict(result, drift=drift, **self._ledger.figures(self._governor.cap_w is not None))

    # ---- power

    def _count(self) -> None:
        """Take new samples into the ledger."""
        if self._sampler is None:
            return
        samples = [
            s for s in self._sampler.between(self._marked_s, self._clock.monotonic()) if s.time_s > self._marked_s
        ]
        if samples:
            self._marked_s = samples[-1].time_s
            self._ledger.add(samples)

    def _watch_power(self, now_s: float) -> None:
        if self._sampler is None:
            move = self._governor.power({}, now_s)  # after heat, up again
        else:
            self._watch_meter(now_s)
            move = self._governor.power(self._windows(now_s), now_s)
        if move is not None:
            self._hold(move, now_s)
        if self._governor.stuck(now_s):
            lowest = (
                "" if self._knob is None else ", at the lowest {} of {:g}".format(self._knob, self._governor.value or 0)
            )
            text = "the cap of {:g} W cannot be held{}; the training ended with a checkpoint"
            hint = "a higher --cap, and --resume"
            self._ended = AgentError("device", text.format(self._governor.cap_w or 0.0, lowest), hint)

    def _windows(self, now_s: float) -> Dict[float, float]:
        """The cap's statistic over the last seconds, by their number, as `Governor.power` wants it."""
        assert self._sampler is not None
        found: Dict[float, float] = {}
        for seconds in self._governor.open_windows_s(now_s):
            samples = self._sampler.between(now_s - seconds, now_s)
            if len(samples) < seconds:  # gaps: nothing can be told
                continue
            lowest = seconds == ALLOWED[0][1]
            found[seconds] = min(s.total_w for s in samples) if lowest else statistic_w(samples, self._statistic)
        since_s = max(self._governor.since_s, now_s - ALLOWED[-1][1])
        samples = self._sampler.between(since_s, now_s)
        cap_w = self._governor.cap_w
        if cap_w is not None and len(samples) > 1 and statistic_w(samples, self._statistic) > cap_w:
            self._ledger.over_cap_s += LOOK_S
        return found

    def _watch_meter(self, now_s: float) -> None:
        assert self._sampler is not None
        fault = self._sampler.fault
        if fault is None:
            if self._silent_s is not None:
                self._note("the power meter answers again")
            self._silent_s = None
            return
        if self._silent_s is None:
            self._silent_s = now_s
            self._note("the power meter fell silent: {}".format(fault))
        elif self._governor.cap_w is not None and now_s - self._silent_s > METER_LOST_S:
            text = "the power meter was silent for {:g} s, so that the cap cannot be watched: {}"
            self._ended = AgentError("device", text.format(METER_LOST_S, fault), None)

    def _follow_cap(self, now_s: float) -> None:
        """Take another cap from the file beside the checkpoints, once for every time that it is written."""
        stamp = self._stamp()
        if stamp is None or stamp == self._cap_stamp:
            return
        self._cap_stamp = stamp
        try:
            with open(self._cap_path, encoding="utf-8", errors="replace") as file:
                text = file.read(100).strip()
        except OSError:
            return
        found = _POWER.match(text)
        cap_w = float(found.group(1)) / (1000.0 if found.group(2) else 1.0) if found else 0.0
        if self._sampler is None or not cap_w > 0:
            why = "there is no power meter" if self._sampler is None else "'{}' is no power such as 6W".format(text)
            self._note("{} is passed over: {}".format(self._cap_path, why))
            return
        before = self._governor.cap_w
        if cap_w != before:
            self._governor.set_cap(cap_w, now_s)
            self._changed("cap_w", before, cap_w, "asked for by {}".format(self._cap_path), now_s)

    def _stamp(self) -> Optional[int]:
        try:
            return os.stat(self._cap_path).st_mtime_ns
        except OSError:
            return None

    # ---- the board

    def _verify(self, now_s: float) -> None:
        """Look at the clocks; what was changed from outside is held again.

        Raises:
            AgentError: it cannot be.
        """
        working = self._stepped_s is not None and now_s - self._stepped_s < _WORKING_S
        fault = self._hands.fault(working)
        if fault is None:
            self._doubted = False
        elif fault.status == "throttled" or self._doubted:  # holding it again did not help
            self._heat(fault, now_s)
        else:
            self._doubted = True
            self._hands.hold(self._setting)
            self._note("{}: held again".format(fault.reason), now_s, "held")

    def _watch_board(self, now_s: float) -> None:
        """Look at what slows a board down: temperature, alerts, over-current, swap, another power mode."""
        for name, temperature_c in temperatures(self._board.sysfs).items():
            limit_c = self._limits.get(name, DEFAULT_LIMIT_C)
            if temperature_c >= limit_c:
                self._heat(
                    Fault("throttled", "{} reached {:g} C of {:g} C".format(name, temperature_c, limit_c)), now_s
                )
        faults = [fault for fault in (watch.fault(None) for watch in self._watches) if fault is not None]
        for fault in faults:
            if fault.status == "throttled":
                self._heat(fault, now_s)
            else:
                self._note(fault.reason, now_s)
        if faults:
            self._watches = self._board.watches()  # each tells its first fault for ever

    def _heat(self, fault: Fault, now_s: float) -> None:
        move = self._governor.heat(fault.reason, now_s)
        if move is not None:
            self._hold(move, now_s)
        else:
            self._note(fault.reason, now_s, "heat")

    def _hold(self, move: Move, now_s: float) -> None:
        assert self._knob is not None
        before = self._setting[self._knob]
        self._setting[self._knob] = move.value
        self._hands.hold(self._setting)
        self._changed(self._knob, before, move.value, move.reason, now_s)

    def _changed(self, knob: str, before: Optional[float], now: float, reason: str, now_s: float) -> None:
        change = {"knob": knob, "from": before, "to": now, "reason": reason, "at_s": round(now_s - self._began_s, 1)}
        self._ledger.changed(change)
        self._tell(dict(change, phase="clock"))

    def _note(self, text: str, now_s: Optional[float] = None, kind: Optional[str] = None) -> None:
        """Tell a sentence; one of the same kind (text, unless named) once a minute at most."""
        now_s = self._clock.monotonic() if now_s is None else now_s
        said_s = self._said_s.get(kind or text)
        if said_s is None or now_s - said_s >= SAY_S:
            self._said_s[kind or text] = now_s
            self._tell({"phase": "note", "text": text})

    def _names(self) -> Dict[str, List[float]]:
        return {knob.name: knob.steps for knob in self._board.knobs}
