"""ReplayDevice: a device that answers from a recorded profile."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import stdev

import numpy as np

from devices.device import BATCH_KNOB, BurstPlan, Device, DeviceInfo, EventSink, Knob, Setting, WorkloadSpec, knob_value
from devices.errors import InputError, UnsupportedError
from devices.measurement import Measurement, Source, seconds_per_unit
from devices.profile import METRICS, Profile, ProfileRow, format_setting

STANDARD_WINDOW_S = 10.0  # a plan of k times this window is a burst of k times the length
LONGEST_CHARGE_S = 5.0  # an epoch that took an hour is not what a burst would have taken
CHANGE_CHARGE_S = 3.0
_POWERS = ("power_mean", "power_p95", "power_peak")


class ReplayDevice(Device):
    """Answers every burst with a recorded row, at once and with the recorded statuses.

    Of several replicates the plan's `replicate` draws one, in recorded order. The answer depends on (seed, setting,
    replicate, length of the plan) alone, except for the cost, which counts 3 s where the setting differs from the
    previous burst's.

    Args:
        profile: The recorded table; an emulated one answers with source `emulated`.
        seed: Of the added noise.
        noise_throughput: Standard deviation of the logarithm of throughput over bursts of the standard window, added
            to the recorded value; 0 replays exactly. A burst of k times the window has 1 / sqrt(k) of it.
        noise_power: The same for power, one draw for all its statistics.
        values: Restricts knobs to some of their recorded values.

    Raises:
        InputError: a noise outside [0, 1], an unknown knob or value in `values`, or no valid measurement left.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        seed: int = 0,
        noise_throughput: float = 0.0,
        noise_power: float = 0.0,
        values: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        for noise in (noise_throughput, noise_power):
            if not 0 <= noise <= 1:
                raise InputError(f"the noise {noise:g} is not between 0 and 1", hint="2 % is written 0.02")
        self._profile = profile
        self._seed = seed
        self._noise_throughput = noise_throughput
        self._noise_power = noise_power
        self._source: Source = "emulated" if profile.metadata.provenance == "emulated" else "replayed"
        self._knobs = _restricted(profile.knobs, values or {})
        self._settings = [setting for setting in profile.settings if self._offered(setting)]
        self._measurable = [s for s in self._settings if any(row.ok for row in profile.replicates(s))]
        if not self._measurable:
            raise InputError("the values chosen leave no valid measurement in the profile", hint="choose more values")
        self._previous: Setting | None = None

    def describe(self) -> DeviceInfo:
        """What the profile says of its device; see `Device.describe`."""
        metadata = self._profile.metadata
        default, notes = self._default_setting()
        complete = len(self._settings) == math.prod(len(knob.values) for knob in self._knobs)
        if not complete:
            notes.append(f"{len(self._settings)} settings were recorded, not the full grid of the knobs' values")
        if not self._profile.statistics:
            notes.append("the profile records no power: a cap cannot be held")
        if self._noise_throughput or self._noise_power:
            notes.append(
                f"noise is added to the recorded values: {self._noise_throughput:.3g} of throughput, "
                f"{self._noise_power:.3g} of power"
            )
        return DeviceInfo(
            name=metadata.device or "recorded profile",
            model=metadata.device,
            source=self._source,
            knobs=tuple(replace(knob, default=default[knob.name]) for knob in self._knobs),
            statistics=self._profile.statistics,
            meter="power as recorded" if self._profile.statistics else None,
            throughput_unit=self._profile.throughput_unit,
            settings=None if complete else tuple(dict(setting) for setting in self._settings),
            default_setting=default,
            notes=tuple(notes),
            origin=self._origin(),
            fingerprint=self._fingerprint(),
        )

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        """The recorded burst at `setting`, at once and without events; see `Device.measure`.

        `cost_s` is min(duration, 5 s), times k for a plan of k times the standard window, plus 3 s for a change of
        setting.

        Raises:
            InputError: a setting that was not recorded, or is restricted away.
            UnsupportedError: a cap on power that was not recorded.
        """
        rows = self._rows(setting)
        if plan.cap_w is not None:
            self._check_cap(plan)
        lengths = max(plan.min_s / STANDARD_WINDOW_S, 1.0)
        row = rows[plan.replicate % len(rows)]
        noise_throughput = self._noise_throughput / math.sqrt(lengths)
        noise_power = self._noise_power / math.sqrt(lengths)
        speed = math.exp(noise_throughput * self._draw(row, plan, "throughput")) if noise_throughput else 1.0
        power = math.exp(noise_power * self._draw(row, plan, "power")) if noise_power else 1.0
        # The window keeps its recorded duration: noise changes the work done and the energy used in it.
        factors = {"throughput": speed, "samples": speed, "step_time_s": 1 / speed, "duration_s": 1.0}
        found = {name: _scaled(getattr(row, name), factors.get(name, power)) for name in METRICS}
        errors = {"throughput_sem": _standard_error(rows, row, "throughput", found["throughput"], noise_throughput)}
        for name in _POWERS:
            errors[f"{name}_sem_w"] = _standard_error(rows, row, f"{name}_w", found[f"{name}_w"], noise_power)
        cost_s = lengths * min(row.duration_s or LONGEST_CHARGE_S, LONGEST_CHARGE_S)
        cost_s += CHANGE_CHARGE_S if setting != self._previous else 0.0
        self._previous = dict(setting)
        return Measurement(
            status=row.status,
            source=self._source,
            reason=None if row.ok else f"recorded as {row.status}",
            energy_per_sample_j=self._energy_per_unit_j(found["power_mean_w"], found["throughput"]),
            cost_s=cost_s,
            cost_j=(found["power_mean_w"] or 0.0) * cost_s,
            extra={},
            **found,
            **errors,
        )

    def _origin(self) -> dict[str, str]:
        metadata = self._profile.metadata
        origin = {"origin": metadata.origin, "licence": metadata.licence}
        if self._noise_throughput or self._noise_power:
            origin["noise"] = f"{self._noise_throughput:g} of throughput, {self._noise_power:g} of power, added"
        return {key: value for key, value in origin.items() if value}

    def _fingerprint(self) -> str:
        """Of everything that decides the answers and is not in the description: the rows and the noise."""
        rows = [
            [self._profile.key(r.setting), r.status, *(getattr(r, name) for name in METRICS)]
            for r in self._profile.rows
        ]
        content = json.dumps([rows, self._noise_throughput, self._noise_power])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _offered(self, setting: Setting) -> bool:
        return all(setting[knob.name] in knob.values for knob in self._knobs)

    def _default_setting(self) -> tuple[Setting, list[str]]:
        """The default setting and what the user should know of it."""
        recorded = self._profile.metadata.default_setting
        if recorded is not None and self._offered(recorded) and self._profile.replicates(recorded):
            return dict(recorded), []
        # Batch size last: the largest batch that trained, at the highest value of every other knob.
        others = [knob.name for knob in self._knobs if knob.name != BATCH_KNOB]
        assumed = max(self._measurable, key=lambda s: [*(s[name] for name in others), s.get(BATCH_KNOB, 0)])
        why = "the profile does not say what the device runs at untuned"
        if recorded is not None:
            why = f"the device's default ({format_setting(recorded)}) is not among the settings here"
        return dict(assumed), [
            f"{why}: {format_setting(assumed)} is assumed (the highest of every knob, the largest batch that trained)"
        ]

    def _rows(self, setting: Setting) -> tuple[ProfileRow, ...]:
        """The replicates at `setting`."""
        names = [knob.name for knob in self._knobs]
        if set(setting) != set(names):
            raise InputError(
                f"the setting ({', '.join(setting)}) does not name each knob of the profile once",
                hint=f"the knobs are {', '.join(names)}",
            )
        for knob in self._knobs:
            value = setting[knob.name]
            if value not in knob.values:
                raise _not_recorded(knob, value)
        rows = self._profile.replicates(setting)
        if not rows:
            raise InputError(
                f"the setting {format_setting(setting)} was not recorded",
                hint="choose one of the recorded settings (`tune profile show` lists what is missing)",
            )
        return rows

    def _check_cap(self, plan: BurstPlan) -> None:
        recorded = self._profile.statistics
        if not recorded:
            raise UnsupportedError(
                "the profile does not record power_mean_w in every valid row, so no cap can be held",
                hint="leave out --cap, or record a profile with a power meter",
            )
        if plan.statistic not in recorded:
            raise UnsupportedError(
                f"the profile does not record the {plan.statistic} power that the cap is to hold on",
                hint=f"use --cap-on {recorded[0]}",
            )

    def _draw(self, row: ProfileRow, plan: BurstPlan, what: str) -> float:
        """A standard normal number that depends on its arguments and the seed alone."""
        key = [self._seed, [[name, float(row.setting[name])] for name in sorted(row.setting)], plan.replicate, what]
        digest = hashlib.sha256(json.dumps(key).encode()).digest()
        return float(np.random.default_rng(int.from_bytes(digest[:16], "big")).standard_normal())

    def _energy_per_unit_j(self, power_mean_w: float | None, throughput: float | None) -> float | None:
        if power_mean_w is None or not throughput:
            return None
        return power_mean_w * seconds_per_unit(throughput, self._profile.throughput_unit)


def _restricted(knobs: Sequence[Knob], values: Mapping[str, Sequence[float]]) -> tuple[Knob, ...]:
    """`knobs` with the recorded values that `values` names."""
    names = [knob.name for knob in knobs]
    for name in values:
        if name not in names:
            raise InputError(f"the profile has no knob '{name}'", hint=f"its knobs are {', '.join(names)}")
    restricted = []
    for knob in knobs:
        chosen = tuple(sorted({knob_value(value) for value in values.get(knob.name, knob.values)}))
        for value in chosen:
            if value not in knob.values:
                raise _not_recorded(knob, value)
        restricted.append(Knob(knob.name, chosen, knob.default))
    return tuple(restricted)


def _not_recorded(knob: Knob, value: float) -> InputError:
    nearest = min(knob.values, key=lambda recorded: abs(recorded - value))
    return InputError(
        f"{knob.name}={value} is not among the recorded values; the nearest is {nearest}",
        hint=f"use {knob.name}={nearest}",
        knob=knob.name,
        nearest=nearest,
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _standard_error(
    rows: Sequence[ProfileRow], row: ProfileRow, name: str, value: float | None, noise: float
) -> float | None:
    """Of `value`: the spread of the recorded replicates and the added noise, which are independent."""
    if value is None:
        return None
    alike = [recorded for r in rows if r.status is row.status and (recorded := getattr(r, name)) is not None]
    return math.hypot(stdev(alike) if len(alike) > 1 else 0.0, noise * value)
