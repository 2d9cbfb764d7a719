"""Hold: this machine held at a setting while something else than the agent's trainer trains on it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from devices.agent import PROTOCOL
from devices.client import AgentClient
from devices.device import HERE, Access, DeviceInfo, Knob, Pins, Setting
from devices.errors import DeviceError
from devices.knobs import check_steps
from devices.link import Link, LocalLink
from devices.measurement import Statistic
from devices.remote import device_info


@dataclass(frozen=True)
class OverCap:
    """Power that was more than 10 % above the cap for more than 2 s: what ends a burst.

    Attributes:
        power_w: Its mean in that time, at most the last minute.
        for_s: For how long.
    """

    power_w: float
    for_s: float


@dataclass(frozen=True)
class Reading:
    """What was seen of a machine that is held; None for what its meter does not tell.

    Attributes:
        power_w: The total now.
        statistic_w: The cap's statistic over the last minute.
        over_cap: How the cap was broken since the reading before, if it was.
        fault: Why the meter cannot be relied on now.
        slowed: How the setting does not hold, or what slows the machine down.
        energy_j, power_mean_w, power_peak_w: Since the first reading.
        time_over_cap_s: Seconds in which the cap's statistic was above the cap.
        unmetered_s: Seconds without a reading of the meter.
    """

    power_w: float | None = None
    statistic_w: float | None = None
    over_cap: OverCap | None = None
    fault: str | None = None
    slowed: str | None = None
    energy_j: float | None = None
    power_mean_w: float | None = None
    power_peak_w: float | None = None
    time_over_cap_s: float | None = None
    unmetered_s: float | None = None


class Hold:
    """The device of that name on this machine, without a trainer. As a context manager, leaving it restores.

    The agent puts everything back also where this process dies.

    Args:
        name: As the agent knows it.
        access: The root of the board's files, another meter.
        link: How the agent is reached; None: it is started as a child of this process.

    Attributes:
        info: What the device is: every knob with every value.

    Raises:
        DeviceError: no agent can be started.
    """

    def __init__(self, name: str, access: Access = HERE, link: Link | None = None) -> None:
        self._agent = AgentClient(link or LocalLink(root=access.root), name)
        try:
            answer = self._agent.ask("hello", protocol=PROTOCOL, device=name, meter=access.meter)
            offered = [knob["name"] for knob in answer["device"]["knobs"]]
            self.info: DeviceInfo = device_info(answer, None, offered, {}, Pins())
        except BaseException:
            self._agent.close()
            raise

    def apply(self, setting: Setting) -> None:
        """Hold the clocks and limits that a setting names, as far as the machine has them; again: the new ones.

        Raises:
            InputError: a value the machine does not have. Nothing was written.
            DeviceError: it may not be written, or does not hold.
        """
        held = {knob.name: setting[knob.name] for knob in self.knobs if knob.name in setting}
        for knob in self.knobs:
            if knob.name in held:
                check_steps(knob.name, [held[knob.name]], knob.values)
        fault = self._agent.ask("apply", setting=held)["fault"]
        if fault is not None:
            raise DeviceError(fault["reason"], hint="tune doctor tells what is in the way")

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Those that are set by writing; a batch size or a number of threads is not."""
        return tuple(knob for knob in self.info.knobs if self.info.writes.get(knob.name))

    def read(self, cap_w: float | None = None, statistic: Statistic = "p95") -> Reading:
        """What is seen now; the first call begins to sample the meter.

        Args:
            cap_w: The cap in watts, or None.
            statistic: The statistic of power it holds on.

        Raises:
            DeviceLostError: the agent has gone.
        """
        found = self._agent.ask("read", cap_w=cap_w, statistic=statistic)
        found["over_cap"] = found["over_cap"] and OverCap(**found["over_cap"])
        return Reading(**{name: found[name] for name in Reading.__dataclass_fields__})

    def close(self) -> None:
        """Put every knob back to what was found, and end the agent; may be called again.

        Raises:
            DeviceError: a value could not be put back; the message names it.
        """
        if not self.closed:
            try:
                self._agent.ask("restore")
            finally:
                self._agent.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed, or lost."""
        return self._agent.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
