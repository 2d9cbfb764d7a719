"""The machine that the tests of NVIDIA GPUs run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.devices.agent.nvidia.fake import FakeNvml
from tests.devices.agent.nvidia.support import ROOT, Make, OwnFiles, put


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    put(tmp_path, "proc/sys/kernel/random/boot_id", "boot-1")
    put(tmp_path, "proc/self/status", f"Name:\tpython\nCapEff:\t{ROOT}\n")

    def files(library: FakeNvml, rights: str = ROOT) -> OwnFiles:
        put(tmp_path, "proc/self/status", f"Name:\tpython\nCapEff:\t{rights}\n")
        return OwnFiles(tmp_path, library)

    return files
