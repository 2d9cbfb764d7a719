"""The coefficients of a form in physical units, and forms some of whose coefficients are held at a value.

Inside, a form's coefficients are logarithms relative to scales of its own (see `tuner.models.forms`). In physical units
the logarithm of each is a sum of those, except for p1 and p3, which are the shares of a sum:
log p1 = power - log(1 + e^p3) + constant, log p3 = power - log(1 + e^-p3) + constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from devices.device import BATCH_KNOB, Knob
from devices.errors import InputError
from tuner.models.analytic_input import check_knobs, check_size
from tuner.models.forms import CORES, CPU, EMC, GPU, LIMIT, RISING, Array, Form

Scale = Literal["log", "logit", "raw"]

_NOTHING = -40.0  # logarithm or logit of what is held at 0


@dataclass(frozen=True)
class Physical:
    """One coefficient in physical units.

    Attributes:
        name: As in the formulas of `tuner.models.forms`.
        unit: Of the value; empty where it has none.
        scale: What is normal in it: the logarithm, the logit, or the value itself.
        slopes: Of the scaled value in the form's own coefficients, by their names.
        constant: Added to those.
        inside: The form's own coefficient that gives way when this one is held.
        cubic: +1 for the cubic share of a sum of two, -1 for the linear one, else 0.
        least: The value is not below it.
        of_power: Whether only readings of power tell it.
    """

    name: str
    unit: str
    scale: Scale
    slopes: Mapping[str, float]
    inside: str
    constant: float = 0.0
    cubic: int = 0
    least: float = -math.inf
    of_power: bool = field(default=False)

    def scaled(self, theta: Array, index: Mapping[str, int]) -> Array:
        """Logarithm, logit or value, shape (...), for coefficients of shape (..., k)."""
        total = self.constant + sum(slope * theta[..., index[name]] for name, slope in self.slopes.items())
        if self.cubic:
            total = total - np.logaddexp(0.0, -self.cubic * theta[..., index["p3"]])
        return np.asarray(total)

    def value(self, scaled: float) -> float:
        """The value of which `scaled` is the logarithm, the logit or itself."""
        if self.scale == "raw":
            found = scaled
        else:
            found = math.exp(scaled) if self.scale == "log" else 1 / (1 + math.exp(-scaled))
        return max(found, self.least)

    def inverse(self, value: float) -> float:
        """Logarithm, logit or itself of `value`; 0 and 1 as what is as good as them.

        Raises:
            InputError: a value this coefficient cannot have.
        """
        most = 1.0 if self.scale == "logit" else math.inf
        least = self.least if self.scale == "raw" else max(self.least, 0.0)
        if not (math.isfinite(value) and least <= value <= most):
            bounds = f"between {least:g} and {most:g}" if math.isfinite(most) else f"a number not below {least:g}"
            raise InputError(f"the coefficient {self.name} is {bounds}, not {value:g}")
        if self.scale == "raw":
            return value
        logarithm = math.log(value) if value > 0 else _NOTHING
        if self.scale == "log":
            return logarithm
        return logarithm - math.log1p(-value) if value < 1 else -_NOTHING


class PhysicalForm(Form):
    """A form that knows its coefficients in physical units, and holds some of them.

    `log_values` takes the free coefficients, those of `free`; `complete` gives all of them. Terms that cannot be told
    from another one over the knobs at hand (with a fixed batch size t1/f from b c1/f) are left out.

    Args:
        knobs: As of `Form`.
        plain: As of `Form`.
        held: Values of coefficients that are not to be fitted, by their names, in physical units.

    Raises:
        InputError: no knob, a faulty one, an unknown name in `held`, or a value that the coefficient cannot have.
    """

    def __init__(self, knobs: Sequence[Knob], *, plain: bool, held: Mapping[str, float] | None = None) -> None:
        knobs = check_knobs(knobs, (BATCH_KNOB, *RISING))
        super().__init__(knobs, plain=plain)
        self.whole = Form(knobs, plain=plain)
        self._left_out = _left_out(self)
        self.physical = tuple(_physical(self, self._left_out))
        by_name = {physical.name: physical for physical in self.physical}
        if not isinstance(held, Mapping | None):
            raise InputError(f"coefficients are values by name, not {held!r:.60}")
        held = {
            name: check_size(value, f"the coefficient {name}", "that is finite") for name, value in (held or {}).items()
        }
        for name in held:
            if name not in by_name:
                raise InputError(f"there is no coefficient '{name}' here", hint=f"one of {', '.join(by_name)}")
        self.held = held
        scaled = {name: by_name[name].inverse(value) for name, value in held.items()}
        if held.get("c1") == 0:
            raise InputError("the coefficient c1 sets the scale of the step time and cannot be 0")
        if held.get("p1") == 0 and (not self.gpu or held.get("p3") == 0):
            raise InputError("the coefficient p1, or p3, sets the scale of the power: one of them cannot be 0")
        self._share = self._held_share(held, scaled)
        follow = [by_name[name] for name in held if not (name in ("p1", "p3") and held[name] == 0)]
        # What is relative to a scale follows from it, and the scales from the powers of the batch size.
        order = {"time": 1, "power": 2}
        follow.sort(key=lambda p: order.get(p.inside, 0 if len(p.slopes) == 1 else 3))
        self._following = [(physical, scaled[physical.name]) for physical in follow]
        bound = {p.inside for p in follow} | set(self._left_out) | ({"p3"} if self._share is not None else set())
        self.free = np.array([i for i, c in enumerate(self.coefficients) if c.name not in bound], dtype=int)

    def _held_share(self, held: Mapping[str, float], scaled: Mapping[str, float]) -> float | None:
        """Logit of the cubic share of the dynamic power; None where it is free."""
        if held.get("p3") == 0:
            return _NOTHING
        if held.get("p1") == 0:
            return -_NOTHING
        if "p1" in held and "p3" in held:
            constants = {p.name: p.constant for p in self.physical}
            return (scaled["p3"] - constants["p3"]) - (scaled["p1"] - constants["p1"])
        return None

    def complete(self, theta: Array) -> Array:
        """All of the form's own coefficients, shape (..., k), for the free ones, shape (..., f)."""
        full = np.full((*theta.shape[:-1], len(self.coefficients)), _NOTHING)
        full[..., self.free] = theta
        if self._share is not None:
            full[..., self.index["p3"]] = self._share
        for physical, scaled in self._following:
            at = self.index[physical.inside]
            full[..., at] = 0.0
            full[..., at] = (scaled - physical.scaled(full, self.index)) / physical.slopes[physical.inside]
        return full

    def log_values(self, theta: Array, columns: Mapping[str, Array]) -> tuple[Array, Array]:
        """Logarithms of step time and power, shape (..., n) each, for free coefficients of shape (..., f)."""
        return super().log_values(self.complete(theta), columns)


def _product(*units: str) -> str:
    return " ".join(unit for unit in units if unit)


def _left_out(form: Form) -> tuple[str, ...]:
    """The form's own coefficients that others make up for, over these knobs."""
    found = []
    if not form.batch:
        found += ["t1"] if form.gpu else []
        found += ["c_cpu"] if form.cpu and not form.host_cores else []
    return tuple(found)


def _physical(form: Form, left_out: Sequence[str]) -> list[Physical]:
    """The formulas of `tuner.models.forms`, with clocks in GHz, batch sizes in samples and counts of cores."""

    def highest(name: str, divisor: float = 1.0) -> float:
        return math.log(form.knobs[name].values[-1] / divisor) if name in form.knobs else 0.0

    cpu, emc, cores = highest(CPU, 1e3), highest(EMC, 1e3), highest(form.cores) if form.cores else 0.0
    count = "" if form.cores is None else "core" if form.cores == CORES else "thread"
    batch = math.log(form.batch_middle) if form.batch else 0.0
    per_sample = "/sample" if form.batch else ""
    if form.cpu_works:
        clock, clock_unit = cpu + cores, _product("GHz" if CPU in form.knobs else "", count)
        host_clock, host_unit = 0.0, ""
    else:
        clock, clock_unit = (highest(GPU, 1e3), "GHz") if form.gpu else (0.0, "")
        host_clock, host_unit = cpu + cores, _product("GHz" if form.cpu else "", count)
    per_clock = f"/({clock_unit})" if " " in clock_unit else f"/{clock_unit}"
    squared = _product("GHz^2" if form.cpu else "", count)
    per_cpu = f"/({squared})" if " " in squared else f"/{squared}"
    power_of_batch = {"delta": -batch} if "delta" in form.index else {}
    hump = {"hump": -batch} if "hump" in form.index else {}

    found: list[Physical] = []

    def add(name: str, unit: str, slopes: Mapping[str, float], inside: str = "", **more: object) -> None:
        inside = inside or name
        if inside in form.index and inside not in left_out:
            scale = more.pop("scale", "log")
            found.append(Physical(name, unit, scale, {**slopes, inside: 1.0}, inside, **more))  # type: ignore[arg-type]

    time, power = {"time": 1.0}, {"power": 1.0}
    add("t0", "s", time)
    add("t1", _product("s", clock_unit), time, constant=clock)
    add("c0", f"s{per_sample}", {**time, **power_of_batch}, constant=-batch)
    add("c1", _product("s", clock_unit) + per_sample, power_of_batch, "time", constant=clock - batch)
    add("t_cpu", "s GHz", time, constant=cpu)
    add("c_cpu", _product("s", host_unit) + per_sample, time, constant=host_clock - batch)
    add("c_emc", f"s GHz{per_sample}", {**time, **power_of_batch}, constant=emc - batch)
    add("rho", "", {}, least=1.0)
    add("delta", "", {}, scale="raw")
    add("p0", "W", {} if form.limit else power, constant=highest(LIMIT), of_power=True)
    if form.gpu:
        add("p1", f"W{per_clock}", hump, "power", constant=-clock, cubic=-1, of_power=True)
        add("p3", f"W{per_clock}^3", hump, "power", constant=-3 * clock, cubic=1, of_power=True)
    else:
        add("p1", "W", hump, "power", of_power=True)
    add("hump", "", {}, scale="raw", of_power=True)
    add("w", "", {}, scale="logit", of_power=True)
    add("q", f"W{per_cpu}", power, constant=-2 * cpu - cores, of_power=True)
    add("r", "W/GHz", power, constant=-emc, of_power=True)
    add("a", "", {}, of_power=True)
    add("mix", "", {}, of_power=True)
    add("knee", "", {}, scale="logit", of_power=True)
    for name in form.others:
        low, high = form.knobs[name].values[0], form.knobs[name].values[-1]
        octaves = math.log(high / low) if high > low > 0 else 1.0  # an exponent; else the change over the range
        for output in ("time", "power"):
            own = f"{output}:{name}"
            found.append(Physical(own, "", "raw", {own: 1 / octaves}, own, of_power=output == "power"))
    return found
