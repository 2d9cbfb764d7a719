"""How boards differ in their files: paths, part numbers, clusters and rails. What they can do stands in the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from devices.catalog import Board, Preset, find_board
from devices.errors import InputError

KERNELS = {"4.9": "32.7.1", "5.10": "35.3.1", "5.15": "36.4.7"}
"""Kernel -> NVIDIA's release that comes with it: JetPack 4, 5, 6."""
_DEVICES = {"4.9": "/sys/devices", "5.10": "/sys/devices/platform", "5.15": "/sys/devices/platform/bus@0"}
_BOARDS = {"32": "t186ref", "35": "t186ref", "36": "generic"}
_ZONES = {
    "4.9": ("AO-therm", "CPU-therm", "GPU-therm", "PLL-therm", "PMIC-Die"),
    "5.10": ("CPU-therm", "GPU-therm", "SOC0-therm", "tj-therm"),
    "5.15": ("cpu-thermal", "gpu-thermal", "cv0-thermal", "soc0-thermal", "tj-thermal"),
}


@dataclass(frozen=True)
class Layout:
    """The files of one board.

    Attributes:
        model, compatible: Of the device tree.
        kernel: The one it comes with; one of `KERNELS`, or another of a board that is no Jetson.
        clusters: CPUs that share a clock.
        gpu: Device and name of the GPU; None without one. On kernel 5.15 and Orin both are `gpu`.
        i2c: Device and bus of the meters.
        chips: Meters by address on that bus, each with the labels of its three channels.
    """

    model: str
    compatible: tuple[str, ...]
    kernel: str
    clusters: tuple[tuple[int, ...], ...]
    gpu: str | None = None
    i2c: str = ""
    chips: tuple[tuple[str, tuple[str, str, str]], ...] = ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """All CPUs in the order in which power modes count them: a TX2's ARM cores before its Denver ones."""
        return tuple(cpu for cluster in self.clusters for cpu in cluster)

    @property
    def is_jetson(self) -> bool:
        return self.gpu is not None

    @property
    def kernels(self) -> tuple[str, ...]:
        """Those it can be shown with."""
        return tuple(KERNELS) if self.is_jetson else (self.kernel,)

    def devices(self, kernel: str) -> str:
        """The folder of the devices of the SoC."""
        return _DEVICES.get(kernel, "/sys/devices/platform")

    def gpu_device(self, kernel: str) -> str:
        """`17000000.ga10b`, or `17000000.gpu`."""
        gpu = self.gpu or ""
        return gpu.replace("ga10b", "gpu") if kernel == "5.15" else gpu

    def release(self, kernel: str) -> str:
        """The two lines of /etc/nv_tegra_release."""
        major, _, minor = KERNELS[kernel].partition(".")
        board = "t210ref" if "tegra210" in self.compatible[-1] else _BOARDS[major]
        date = "Sun Mar 19 15:19:21 UTC 2023"
        return f"# R{major} (release), REVISION: {minor}, GCID: 1, BOARD: {board}, EABI: aarch64, DATE: {date}"

    def zones(self, kernel: str) -> tuple[str, ...]:
        """Types of the thermal zones."""
        return _ZONES.get(kernel, ("cpu-thermal",))


def _row(*counts: int) -> tuple[tuple[int, ...], ...]:
    """Clusters of so many CPUs, one after another."""
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return tuple(tuple(range(start, start + count)) for start, count in zip(starts, counts, strict=True))


_VDD_IN = ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")
_ORIN = {"gpu": "17000000.ga10b", "i2c": "c240000.i2c/i2c-1"}

LAYOUTS = {
    "jetson-orin-nano": Layout(
        "NVIDIA Orin Nano Developer Kit",
        ("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"),
        "5.10",
        _row(4, 2),
        chips=(("1-0040", _VDD_IN),),
        **_ORIN,
    ),
    "jetson-orin-nano-super": Layout(
        "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
        ("nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"),
        "5.15",
        _row(4, 2),
        chips=(("1-0040", _VDD_IN),),
        **_ORIN,
    ),
    "jetson-orin-nx": Layout(
        "NVIDIA Jetson Orin NX Engineering Reference Developer Kit Super",
        ("nvidia,p3768-0000+p3767-0000-super", "nvidia,p3767-0000", "nvidia,tegra234"),
        "5.15",
        _row(4, 4),
        chips=(("1-0040", _VDD_IN),),
        **_ORIN,
    ),
    "jetson-agx-orin": Layout(
        "NVIDIA Jetson AGX Orin Developer Kit",
        ("nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234"),
        "5.15",
        _row(4, 4, 4),
        chips=(("1-0040", ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")), ("1-0041", ("NC", "VDDQ_VDD2_1V8AO", "NC"))),
        **_ORIN,
    ),
    "jetson-xavier-nx": Layout(
        "NVIDIA Jetson Xavier NX Developer Kit",
        ("nvidia,p3449-0000+p3668-0000", "nvidia,p3509-0000+p3668-0000", "nvidia,tegra194"),
        "5.10",
        _row(2, 2, 2),
        gpu="17000000.gv11b",
        i2c="c250000.i2c/i2c-7",
        chips=(("7-0040", _VDD_IN),),
    ),
    "jetson-agx-xavier": Layout(
        "Jetson-AGX",
        ("nvidia,p2972-0000", "nvidia,p2888-0001", "nvidia,tegra194"),
        "5.10",
        _row(2, 2, 2, 2),
        gpu="17000000.gv11b",
        i2c="c240000.i2c/i2c-1",
        chips=(("1-0040", ("GPU", "CPU", "SOC")), ("1-0041", ("CV", "VDDRQ", "SYS5V"))),
    ),
    "jetson-tx2": Layout(
        "quill",
        ("nvidia,p2597-0000+p3310-1000", "nvidia,quill", "nvidia,tegra186"),
        "4.9",
        ((0, 3, 4, 5), (1, 2)),
        gpu="17000000.gp10b",
        i2c="3160000.i2c/i2c-0",
        chips=(
            ("0-0040", ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI")),
            ("0-0041", ("VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR")),
        ),
    ),
    "jetson-nano": Layout(
        "NVIDIA Jetson Nano Developer Kit",
        ("nvidia,p3449-0000-b00+p3448-0000-b00", "nvidia,jetson-nano", "nvidia,tegra210"),
        "4.9",
        _row(4),
        gpu="57000000.gpu",
        i2c="7000c400.i2c/i2c-1/i2c-6",
        chips=(("6-0040", ("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU")),),
    ),
    "raspberry-pi-4": Layout(
        "Raspberry Pi 4 Model B Rev 1.4", ("raspberrypi,4-model-b", "brcm,bcm2711"), "6.6", _row(4)
    ),
    "raspberry-pi-5": Layout(
        "Raspberry Pi 5 Model B Rev 1.0", ("raspberrypi,5-model-b", "brcm,bcm2712"), "6.6", _row(4)
    ),
}
"""By the board's name in the catalog."""


def find(model: str) -> tuple[Board, Layout]:
    """Facts and files of a board by name or alias. Raises InputError."""
    board = find_board(model)
    if board is None or board.name not in LAYOUTS:
        raise InputError(f"no fake board is named '{model}'", hint=f"boards: {', '.join(LAYOUTS)}")
    return board, LAYOUTS[board.name]


def power_modes(board: Board, preset: str | None) -> list[Preset]:
    """The power modes, the one that holds first: the vendor's, and the one that was asked for. Raises InputError."""
    chosen = board.presets[0] if preset is None else board.preset(preset)
    if chosen is None:
        names = ", ".join(known.name for known in board.presets)
        raise InputError(f"{board.name} has no preset '{preset}'", hint=f"presets: {names}")
    vendors = [known for known in board.presets if known.nominal_w is not None or known.name.startswith("MAXN")]
    return [chosen, *(known for known in vendors if known is not chosen)]
