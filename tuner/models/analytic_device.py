"""The analytic model as a Device: what it predicts, with the noise of bursts on top."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from devices.device import BATCH_KNOB, DeviceInfo, Setting
from devices.errors import InputError
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from devices.replay import ReplayDevice
from tuner.models.analytic import AnalyticModel
from tuner.models.analytic_input import check_list, check_size

NAME = "analytic"


class AnalyticDevice(ReplayDevice):
    """Answers every burst with the model's prediction, at once: a replay of the table the model predicts.

    Noise is a function of (seed, setting, replicate, length of the plan), 0 is exact, and `cost_s` is counted, as in
    `ReplayDevice`; the source is `emulated`. Power is the mean; without power in the model there is no meter. A batch
    never runs out of memory: the model knows none.

    Args:
        model: What is predicted; its knobs are the device's, all combinations of their values its settings.
        seed: Of the noise.
        noise_throughput: Standard deviation of the logarithm of throughput over bursts of the standard window.
        noise_power: The same for power.
        values: Restricts knobs to some of their values.

    Raises:
        InputError: no model, a noise outside [0, 1], a seed below 0, or an unknown knob or value in `values`.
    """

    def __init__(
        self,
        model: AnalyticModel,
        *,
        seed: int = 0,
        noise_throughput: float = 0.0,
        noise_power: float = 0.0,
        values: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        for name, noise in (("throughput", noise_throughput), ("power", noise_power)):
            check_size(noise, f"the noise of {name}", "from 0 to 1")
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"a seed is a whole number of 0 or more, not {seed!r}")
        for name, chosen in (values or {}).items():
            for value in check_list(chosen, object, f"the values of {name}"):
                check_size(value, f"a value of {name}", "that is finite")
        super().__init__(
            predicted_profile(model),
            seed=seed,
            noise_throughput=noise_throughput,
            noise_power=noise_power,
            values=values,
        )
        self.model = model

    def describe(self) -> DeviceInfo:
        """The model's knobs; see `Device.describe`."""
        info = super().describe()
        assumed = "no default is known: the highest of every knob is assumed"
        known = all(knob.default is not None and knob.default in knob.values for knob in self.model.knobs)
        note = "an analytic model answers"
        if self.model.points:
            note += f"; its mean errors where it was fitted: {self.model.time_error:.1%} of step time"
            note += "" if self.model.power_error is None else f", {self.model.power_error:.1%} of power"
        return replace(
            info,
            model=None,
            meter="power by the analytic model" if info.statistics else None,
            notes=(note, *(() if known else (assumed,))),
        )


def predicted_profile(model: AnalyticModel, settings: Sequence[Setting] | None = None) -> Profile:
    """The table a model predicts, without noise: mean power, and samples a second (steps a second without batch sizes).

    Args:
        model: The model.
        settings: The rows; None: all combinations of the knobs' values.

    Raises:
        InputError: no model, no setting, one that does not name every knob, or a value that is not positive.
    """
    if not isinstance(model, AnalyticModel):
        raise InputError(f"an analytic device answers for an AnalyticModel, not {model!r:.60}")
    names = [knob.name for knob in model.knobs]
    if settings is None:
        combinations = itertools.product(*(knob.values for knob in model.knobs))
        settings = [dict(zip(names, values, strict=True)) for values in combinations]
    default = {knob.name: knob.default for knob in model.knobs if knob.default in knob.values}
    return Profile(
        ProfileMetadata(
            device=NAME,
            origin="an analytic model",
            throughput_unit="samples/s" if BATCH_KNOB in names else "steps/s",
            provenance="emulated",
            default_setting={n: v for n, v in default.items() if v is not None} if len(default) == len(names) else None,
        ),
        tuple(names),
        tuple(
            ProfileRow(
                dict(p.setting),
                Status.OK,
                throughput=p.throughput.value,
                step_time_s=p.step_time_s.value,
                power_mean_w=None if p.power_w is None else p.power_w.value,
            )
            for p in model.predict_all(settings)
        ),
    )
