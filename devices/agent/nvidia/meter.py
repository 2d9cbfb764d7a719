"""Power and energy of an NVIDIA GPU, as NVML reads them."""

from typing import Optional, Tuple

from ..meter import Channel, EnergyCounter, Meter, MeterFault
from ..meters.files import ReadFault
from .gpu import Gpu
from .library import NvmlError

NAME = "GPU board power (NVML)"
RAIL = "GPU board"
INSTANT_LAG_S = 0.1  # readings change about that often (assumed)
_RESOLUTION_W = 1e-3
AVERAGE_LAG_S = 1.0  # the mean of the last second


class NvmlEnergy(EnergyCounter):
    """The counter of energy.

    Args:
        gpu: The GPU.

    Raises:
        MeterFault: it has no counter.
    """

    SHORTEST_S = 2.0  # the counter stands still for up to 0.1 s: 5 % of a shorter window

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        if self.read_j() <= 0:
            raise MeterFault("the energy counter of {} stands at 0 J".format(gpu.name))

    def read_j(self) -> float:
        """Joules since the driver was loaded.

        Raises:
            MeterFault: it cannot be read.
        """
        try:
            return self._gpu.energy_mj() / 1000.0
        except NvmlError as error:
            text = "the energy of {} cannot be read: {}".format(self._gpu.name, error.reason)
            raise ReadFault(text, error.mend) from error

    @classmethod
    def used_j(cls, begin: Tuple[float, float], end: Tuple[float, float]) -> float:
        """Joules between two readings, each with its time: (seconds, joules).

        Raises:
            MeterFault: they are too close together, or the counter began anew or stood still between them.
        """
        duration_s, used_j = end[0] - begin[0], end[1] - begin[1]
        if duration_s < cls.SHORTEST_S:
            text = "{:g} s are too short for the energy counter, which needs {:g} s"
            raise MeterFault(text.format(duration_s, cls.SHORTEST_S))
        if used_j < 0:
            raise MeterFault("the energy counter began anew: the driver was loaded again")
        if used_j == 0:
            raise MeterFault("the energy counter stands still")
        return used_j


class NvmlMeter(Meter):
    """Power of the whole GPU board: chip, memory, and its converters; not of the machine around it.

    From Ampere on, but for the A100's chip, the usual reading is the mean of the last second; the field of the
    instantaneous power is taken where the driver has it.

    Args:
        gpu: The GPU.

    Attributes:
        energy: The counter of energy, or None.

    Raises:
        MeterFault: NVML gives no power.
    """

    def __init__(self, gpu: Gpu) -> None:
        if gpu.is_stub:
            raise MeterFault(
                "{} is a Jetson's GPU: NVML reads no power there, the board's own rails do".format(gpu.name)
            )
        self._gpu = gpu
        try:
            averages = gpu.averages_power()
            self._instant = averages and _has_instant(gpu)
        except NvmlError as error:
            raise ReadFault("NVML does not answer: {}".format(error.reason), error.mend) from error
        lag_s = INSTANT_LAG_S
        note: Optional[str] = None
        if averages and not self._instant:
            lag_s = AVERAGE_LAG_S
            note = "{} is read as the mean of the last second: its peaks are not seen".format(NAME)
        super().__init__(NAME, [Channel(RAIL, self._read_w, True, _RESOLUTION_W)], [RAIL], lag_s=lag_s, note=note)
        self.read()
        try:
            self.energy = NvmlEnergy(gpu)
        except MeterFault:  # older than Volta
            self.energy = None

    def _read_w(self) -> float:
        try:
            milliwatts = self._gpu.instant_power_mw() if self._instant else self._gpu.power_mw()
        except NvmlError as error:
            text = "the power of {} cannot be read: {}".format(self._gpu.name, error.reason)
            raise ReadFault(text, error.mend) from error
        return milliwatts / 1000.0


def _has_instant(gpu: Gpu) -> bool:
    try:
        return gpu.instant_power_mw() > 0
    except NvmlError:
        return False
