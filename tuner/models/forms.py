"""The analytic forms of step time and power over the knobs, as functions of positive coefficients.

Time of a step of b samples, the host working beside the accelerator (rho = 1: one after the other, as published):

    host  = t0 + t_cpu/f_cpu + b c_cpu/(f_cpu n)              launches, loading
    accel = t1/f + b^(1+delta) (c1/f + c0 + c_emc/f_emc)      kernels that wait, compute, memory
    T     = (host^rho + accel^rho)^(1/rho)

Power, u being the share of the time in which the accelerator works and w that of the host's time in which it is busy:

    u = (accel + w (T - accel)) / T
    P = p0 + u b^hump (p1 f + p3 f^3) + q n f_cpu^2 (0.3 + 0.7 host/T) + r f_emc

Under a power limit L the accelerator slows its clock: P = softmin(P, a L), and its compute takes 1/s times as long, s
being the share of the clock that the power left over its idle power allows: proportional to it below the knee of the
voltage curve, its cube root above. A step has phases that draw more and less than the limit, so that its mean power
bends towards the limit long before: the exponent `mix` of the soft minimum says how softly. With rho = 1, delta = hump
= 0 and no further knobs these are the published forms T = t0 + t1/f + b (c0 + c1/f) and P = p0 + u (p1 f + p3 f^3).

Inside, every coefficient is a logarithm (a logit where it is a share), so that it cannot become negative; clocks are
shares of the highest one, batch sizes shares of the geometric middle of the list, and times and powers have one scale
each. The priors say what boards have in common, in those units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from devices.device import BATCH_KNOB, Knob, Setting

Array = npt.NDArray[np.float64]

GPU, CPU, EMC, CORES, THREADS, LIMIT = (
    "gpu_freq_mhz",
    "cpu_freq_mhz",
    "emc_freq_mhz",
    "cpu_cores",
    "cpu_threads",
    "power_limit_w",
)
RISING = frozenset({GPU, CPU, EMC, CORES, THREADS, LIMIT})
"""Knobs that power rises with at a fixed batch size."""
_KNOWN = {BATCH_KNOB, *RISING}
_IDLE_CORE = 0.3  # of a busy core's power
_DELTA = {False: 0.06, True: 0.15}  # a CPU's caches do not hold what a large batch needs; a GPU hides that
_VAGUE = 5.0
_IDLE_TO_WORK = 3.5  # logarithm: idle power of a device that is hardly loaded, in units of what work adds


@dataclass(frozen=True)
class Coefficient:
    """A coefficient and what is believed of it before anything is measured: normal, in the logarithm or logit."""

    name: str
    mean: float
    sd: float


class Form:
    """Step time and power over some knobs.

    Args:
        knobs: The knobs of the space. Names the house does not know act by a factor each on time and power.
        plain: Leave out what the published forms do not have: overlap, and powers of the batch size.
        physics: Whether to know what the knobs do; else each acts by a power, for comparison.
    """

    def __init__(self, knobs: Sequence[Knob], *, plain: bool = False, physics: bool = True) -> None:
        self.knobs = {knob.name: knob for knob in knobs}
        names = set(self.knobs) if physics else set()
        self.plain, self.physics = plain, physics
        self.batch, self.limit, self.emc = BATCH_KNOB in names, LIMIT in names, EMC in names
        self.cores = next((name for name in (CORES, THREADS) if name in names), None)
        self.cpu_works = GPU not in names and not self.limit and bool(names & {CPU, CORES, THREADS})
        self.on_cpu = physics and GPU not in names and not self.limit
        self.gpu = GPU in names or self.cpu_works
        self.cpu = CPU in names and not self.cpu_works
        self.host_cores = self.cores if not self.cpu_works else None
        self.others = [knob.name for knob in knobs if knob.name not in _KNOWN or not physics]
        self.coefficients = self._priors()
        self.index = {c.name: i for i, c in enumerate(self.coefficients)}
        self.mean = np.array([c.mean for c in self.coefficients])
        self.sd = np.array([c.sd for c in self.coefficients])

    def _priors(self) -> tuple[Coefficient, ...]:
        """What boards have in common. Scales follow the first burst; a device with a limit is built for its highest."""
        found = [Coefficient("time", 0.0, _VAGUE), Coefficient("t0", -1.0, 1.5)]
        if not self.plain:
            found.append(Coefficient("rho", 0.7, 0.5))
        if self.gpu:
            found.append(Coefficient("t1", -2.0, 1.5))
        if self.batch:
            found.append(Coefficient("c0", -2.0, 1.2))
            if not self.plain:
                found += [Coefficient("delta", 0.0, _DELTA[self.on_cpu]), Coefficient("hump", 0.0, 0.08)]
        if self.cpu:
            found.append(Coefficient("t_cpu", -2.0, 1.5))
        if (self.batch and not self.plain) or self.cpu or self.host_cores:
            found.append(Coefficient("c_cpu", -3.0, 1.5))
        if self.emc:
            found.append(Coefficient("c_emc", -1.2, 1.2))
        if self.limit:
            top = math.log(0.75 * self.knobs[LIMIT].values[-1])
            found += [Coefficient("power", top, 0.9), Coefficient("p0", -1.6, 0.5)]
        else:
            found += [Coefficient("power", 3.0, 2.5), Coefficient("p0", -0.5, 0.8)]
        found.append(Coefficient("w", -1.0, 2.0))
        if self.gpu:
            found.append(Coefficient("p3", 0.0, 1.0))
        if self.cpu or self.host_cores:
            found.append(Coefficient("q", -1.5, 1.0))
        if self.emc:
            found.append(Coefficient("r", -2.0, 1.0))
        if self.limit:
            found += [
                Coefficient("a", math.log(0.97), 0.04),
                Coefficient("mix", 2.0, 0.7),
                Coefficient("knee", 1.0, 0.7),
            ]
        for name in self.others:
            found += [Coefficient(f"time:{name}", 0.0, 2.0), Coefficient(f"power:{name}", 0.0, 1.0)]
        return tuple(found)

    @property
    def hardly_loaded(self) -> tuple[Array, Array]:
        """Means and standard deviations of the coefficients where nearly all power is idle power, shape (k,) each."""
        mean, sd = self.mean.copy(), self.sd.copy()
        power, idle = self.index["power"], self.index["p0"]
        if self.limit:
            mean[power] -= _IDLE_TO_WORK
            sd[power], sd[idle] = 0.8, 1.0
        else:
            mean[idle] += _IDLE_TO_WORK
        return mean, sd

    def columns(self, settings: Sequence[Setting]) -> dict[str, Array]:
        """The settings' values, shape (n,) each, in the units of the form: shares, and watts for a limit."""
        columns = {}
        for name, knob in self.knobs.items():
            values = np.array([float(setting[name]) for setting in settings])
            if name in self.others:
                columns[name] = _stretch(values, knob)
            elif name == LIMIT:
                columns[name] = values
            elif name == BATCH_KNOB:
                columns[name] = values / self.batch_middle
            else:
                columns[name] = values / knob.values[-1]
        return columns

    @property
    def batch_middle(self) -> float:
        """The batch size that counts as 1."""
        values = self.knobs[BATCH_KNOB].values
        return math.exp(sum(math.log(v) for v in values) / len(values))

    def log_values(self, theta: Array, columns: Mapping[str, Array]) -> tuple[Array, Array]:
        """Logarithms of step time and power, shape (..., n) each, for coefficients of shape (..., k)."""

        def exp(name: str) -> Array:
            return np.exp(theta[..., self.index[name], None])

        def share(name: str) -> Array:
            return np.asarray(1 / (1 + np.exp(-theta[..., self.index[name], None])))

        def raw(name: str) -> Array:
            return theta[..., self.index[name], None] if name in self.index else zero

        zero = np.zeros(1)
        one = np.ones(len(next(iter(columns.values()))))
        known = columns if self.physics else {}
        batch = known.get(BATCH_KNOB, one)
        cpu_clock, cores = known.get(CPU, one), known[self.cores] if self.cores else one
        clock = cpu_clock * cores if self.cpu_works else known.get(GPU, one)
        samples = batch ** (1 + raw("delta")) if "delta" in self.index else batch

        host = exp("t0") * one
        if "t_cpu" in self.index:
            host = host + exp("t_cpu") / cpu_clock
        if "c_cpu" in self.index:
            host = host + batch * exp("c_cpu") / (np.ones(1) if self.cpu_works else cpu_clock * cores)
        waiting = exp("t1") / clock if "t1" in self.index else zero
        if "c0" in self.index:
            waiting = waiting + samples * exp("c0")
        if self.emc:
            waiting = waiting + samples * exp("c_emc") / columns[EMC]
        compute = samples / clock
        rho = np.maximum(exp("rho"), 1.0) if "rho" in self.index else np.ones(1)

        def overlapped(accelerator: Array) -> Array:
            longest = np.maximum(host, accelerator)
            return np.asarray(longest * ((host / longest) ** rho + (accelerator / longest) ** rho) ** (1 / rho))

        time = overlapped(waiting + compute)
        busy = (waiting + compute + share("w") * (time - waiting - compute)) / time
        dynamic = one
        if self.gpu:
            cubic = share("p3")
            dynamic = (1 - cubic) * clock + cubic * clock**3
        if "hump" in self.index:
            dynamic = dynamic * batch ** raw("hump")
        idle = exp("p0")
        if self.limit:  # a share of the highest limit: the device is built for that, whatever the workload makes of it
            idle = idle * self.knobs[LIMIT].values[-1] / exp("power")
        power = idle + busy * dynamic
        if "q" in self.index:
            working = _IDLE_CORE + (1 - _IDLE_CORE) * np.minimum(host / time, 1)
            power = power + exp("q") * cores * cpu_clock**2 * working
        if self.emc:
            power = power + exp("r") * columns[EMC]
        if self.limit:
            allowed = exp("a") * columns[LIMIT] / exp("power")
            drawn, power = power, _soft_min(power, allowed, exp("mix"))
            compute = compute / _clock_share(idle, power, drawn, share("knee"))
            time = overlapped(waiting + compute)
        log_time, log_power = raw("time") + np.log(time), raw("power") + np.log(power)
        for name in self.others:
            log_time = log_time + raw(f"time:{name}") * columns[name]
            log_power = log_power + raw(f"power:{name}") * columns[name]
        return np.broadcast_arrays(log_time, log_power)  # type: ignore[return-value]


def _stretch(values: Array, knob: Knob) -> Array:
    """0 at the highest value to -1 at the lowest, in the logarithm where it can be had: a power law."""
    low, high = knob.values[0], knob.values[-1]
    if low > 0:
        values, low, high = np.log(values), math.log(low), math.log(high)
    return np.asarray((values - high) / (high - low)) if high > low else np.zeros_like(values)


def _soft_min(left: Array, right: Array, exponent: Array) -> Array:
    low = np.minimum(left, right)
    return np.asarray(low * ((low / left) ** exponent + (low / right) ** exponent) ** (-1 / exponent))


def _clock_share(idle: Array, power: Array, drawn: Array, knee: Array) -> Array:
    """The share of its clock an accelerator keeps when it may draw `power` of the `drawn` it would take.

    Above the knee the voltage falls with the clock and the dynamic power with its cube; below, the voltage is at its
    floor. The smooth floor keeps a limit below the idle power from asking for no clock at all.
    """
    left = (power - idle) / (drawn - idle)
    left = np.minimum((left + np.sqrt(left**2 + 0.03**2)) / 2, 1)
    return np.minimum(left / knee**2, left ** (1 / 3))
