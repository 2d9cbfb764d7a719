"""Which board a tree of files is, whatever is missing from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices.agent.identity import Identity, identify
from devices.agent.sysfs import SysFs
from tests.devices.agent.trees import NAMES, plant, put

MODEL, COMPATIBLE, RELEASE = "proc/device-tree/model", "proc/device-tree/compatible", "etc/nv_tegra_release"

# module, soc, l4t, jetpack, family
FOUND = {
    "orin-nano-super-jp6": ("jetson-orin-nano-super", "tegra234", "36.4.7", "6.2.1", "jetson"),
    "orin-nano-jp5": ("jetson-orin-nano", "tegra234", "35.3.1", "5.1.1", "jetson"),
    "xavier-nx-jp5": ("jetson-xavier-nx", "tegra194", "35.3.1", "5.1.1", "jetson"),
    "xavier-nx-jp4": ("jetson-xavier-nx", "tegra194", "32.7.1", "4.6.1", "jetson"),
    "nano-jp4": ("jetson-nano", "tegra210", "32.6.1", "4.6", "jetson"),
    "agx-orin-jp6": ("jetson-agx-orin", "tegra234", None, None, "jetson"),
    "thor-jp7": ("jetson-agx-thor", "tegra264", None, "7", "jetson"),
    "rpi5": ("raspberry-pi-5", "bcm2712", None, None, "raspberry-pi"),
    "rapl-intel": (None, None, None, None, None),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_tree_is_known(name: str, tmp_path: Path) -> None:
    found = identify(plant(name, tmp_path))
    assert tuple(found)[1:] == FOUND[name]
    if name != "rapl-intel":
        assert found.model == (tmp_path / MODEL).read_text().rstrip("\0")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rapl-intel"])
@pytest.mark.parametrize("lost", [MODEL, COMPATIBLE])
@pytest.mark.parametrize("garbage", [None, b"", b"\0\0", b"\xff\xfe\x80\0" * 50, b"A" * 100_000])
def test_one_of_two_names_is_enough(name: str, lost: str, garbage: bytes | None, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    (tmp_path / lost).unlink()
    if garbage is not None:
        (tmp_path / lost).write_bytes(garbage)
    found = identify(sysfs)
    module, soc, l4t, jetpack, family = FOUND[name]
    assert (found.module, found.soc, found.family) == (module, soc, family)
    assert (found.l4t, found.jetpack) == (l4t, jetpack)
    assert (found.model is None) == (lost == MODEL)


def test_nothing_is_known_of_an_empty_root(tmp_path: Path) -> None:
    assert identify(SysFs(str(tmp_path))) == Identity(None, None, None, None, None, None)


@pytest.mark.parametrize(
    ("compatible", "module"),
    [
        ("nvidia,p3768-0000+p3767-0000-super\0nvidia,p3767-0000\0nvidia,tegra234\0", "jetson-orin-nx"),
        ("nvidia,p3768-0000+p3767-0001\0nvidia,tegra234\0", "jetson-orin-nx"),
        ("nvidia,p3768-0000+p3767-0004\0nvidia,tegra234\0", "jetson-orin-nano"),
        ("nvidia,p3768-0000+p3767-0003-super\0nvidia,tegra234\0", "jetson-orin-nano-super"),
        ("nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0", "jetson-agx-orin"),
        ("nvidia,p2972-0000+p2888-0004\0nvidia,tegra194\0", "jetson-agx-xavier"),
        ("nvidia,p2597-0000+p3310-1000\0nvidia,tegra186\0", "jetson-tx2"),
        ("nvidia,p3509-0000+p3636-0001\0nvidia,tegra186\0", "jetson-tx2"),
        ("nvidia,p3542-0000+p3448-0003\0nvidia,tegra210\0", "jetson-nano"),
        ("raspberrypi,4-model-b\0brcm,bcm2711\0", "raspberry-pi-4"),
        ("raspberrypi,4-compute-module\0brcm,bcm2711\0", "raspberry-pi-4"),
        ("nvidia,p9999-0000\0nvidia,tegra234\0", None),
        ("raspberrypi,3-model-b\0brcm,bcm2837\0", None),
    ],
)
def test_modules_by_their_ids(compatible: str, module: str | None, tmp_path: Path) -> None:
    put(tmp_path, COMPATIBLE, compatible)
    assert identify(SysFs(str(tmp_path))).module == module


@pytest.mark.parametrize(
    ("model", "module"),
    [
        ("NVIDIA Orin Nano Developer Kit", "jetson-orin-nano"),
        ("NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", "jetson-orin-nano-super"),
        ("NVIDIA Orin NX Developer Kit", "jetson-orin-nx"),
        ("Jetson-AGX", "jetson-agx-xavier"),
        ("quill", "jetson-tx2"),
        ("Raspberry Pi 4 Model B Rev 1.4", "raspberry-pi-4"),
        ("Raspberry Pi 3 Model B Plus Rev 1.3", None),
        ("Thorough Machines 4", None),
    ],
)
def test_modules_by_their_words(model: str, module: str | None, tmp_path: Path) -> None:
    put(tmp_path, "sys/firmware/devicetree/base/model", model + "\0")
    found = identify(SysFs(str(tmp_path)))
    assert found.module == module
    assert found.model == model


@pytest.mark.parametrize(
    ("line", "l4t", "jetpack"),
    [
        ("# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic", "36.4.3", "6.2"),
        ("# R36 (release), REVISION: 5.0, GCID: 1", "36.5.0", "6.2.2"),
        ("# R36 (release), REVISION: 9.9, GCID: 1", "36.9.9", "6"),
        ("# R32 (release), REVISION: 7.4, GCID: 1", "32.7.4", "4.6.4"),
        ("# R39 (release), REVISION: 2.0, GCID: 1", "39.2.0", "7.2"),
        ("# R99 (release), REVISION: 1.0, GCID: 1", "99.1.0", None),
        ("", None, "6"),
        ("# R (release), REVISION: ,", None, "6"),
        ("R36", None, "6"),
    ],
)
def test_releases(line: str, l4t: str | None, jetpack: str | None, tmp_path: Path) -> None:
    sysfs = plant("agx-orin-jp6", tmp_path)
    put(tmp_path, "proc/sys/kernel/osrelease", "5.15.148-tegra")  # the generation, where there is no release
    put(tmp_path, RELEASE, line)
    assert (identify(sysfs).l4t, identify(sysfs).jetpack) == (l4t, jetpack)


def test_a_release_without_a_device_tree_is_of_a_jetson(tmp_path: Path) -> None:
    put(tmp_path, RELEASE, "# R36 (release), REVISION: 4.7, GCID: 1")
    found = identify(SysFs(str(tmp_path)))
    assert (found.family, found.jetpack, found.module) == ("jetson", "6.2.1", None)


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: Test  CPU @ 3 GHz\n", "Test CPU @ 3 GHz"),
        ("model name\t: ARMv8\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n", "Raspberry Pi 4 Model B Rev 1.4"),
        ("model name\t: 6\n", None),
    ],
)
def test_a_machine_without_a_device_tree(cpuinfo: str, model: str | None, tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", cpuinfo)
    assert identify(SysFs(str(tmp_path))).model == model
