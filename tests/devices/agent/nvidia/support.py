"""What the tests of NVIDIA GPUs share: a folder that is taken for this machine, with the fake library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from devices.agent.nvidia.files import NvmlFiles
from devices.agent.nvidia.gpu import Gpu
from devices.agent.nvidia.library import Nvml
from tests.devices.agent.nvidia.fake import FakeNvml

LIMIT, LOCK = "/nvml/0/power_limit_mw", "/nvml/0/locked_clocks_mhz"
ROOT = "0000003fffffffff"
CONTAINER = "00000000a80425fb"  # what docker leaves to root
USER = "0000000000000000"


class OwnFiles(NvmlFiles):
    """The files of a machine with that library: of a folder, but taken for this machine's own."""

    def __init__(self, root: Path, library: FakeNvml) -> None:
        super().__init__(str(root), Nvml(library))

    @property
    def real(self) -> bool:
        return True


Make = Callable[..., OwnFiles]


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def gpu_of(library: FakeNvml) -> Gpu:
    return Gpu(Nvml(library), 0)
