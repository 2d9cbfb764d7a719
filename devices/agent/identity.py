"""Which board this is: its model, module and release, as far as its files tell."""

import re
from typing import List, NamedTuple, Optional

from .sysfs import SysFs

JETSON = "jetson"
RASPBERRY_PI = "raspberry-pi"

_DEVICE_TREES = ("/proc/device-tree/", "/sys/firmware/devicetree/base/")
_RELEASE = "/etc/nv_tegra_release"
_LONGEST_NAME = 200

# Board number of a module, and its variants where they differ: `p3767-0005` is board 3767, variant 0005.
_MODULES = {
    "3767": "jetson-orin-nano",
    "3701": "jetson-agx-orin",
    "3668": "jetson-xavier-nx",
    "2888": "jetson-agx-xavier",
    "3310": "jetson-tx2",
    "3636": "jetson-tx2",  # TX2 NX: the same chip and clocks
    "3448": "jetson-nano",
    "3834": "jetson-agx-thor",
}
_VARIANTS = {"3767-0000": "jetson-orin-nx", "3767-0001": "jetson-orin-nx"}
# What a model or a compatible string says where no module id does; the first that fits.
_WORDS = (
    (r"orin[ -]nano", "jetson-orin-nano"),
    (r"orin[ -]nx", "jetson-orin-nx"),
    (r"agx[ -]orin", "jetson-agx-orin"),
    (r"xavier[ -]nx", "jetson-xavier-nx"),
    (r"agx[ -]xavier|jetson[ -]xavier|^jetson-agx$", "jetson-agx-xavier"),
    (r"\bthor\b", "jetson-agx-thor"),
    (r"\btx2\b|\bquill\b", "jetson-tx2"),
    (r"jetson[ -]nano", "jetson-nano"),
    (r"raspberry ?pi[ ,-]*5", "raspberry-pi-5"),
    (r"raspberry ?pi[ ,-]*4", "raspberry-pi-4"),
)
_SOCS = {
    "jetson-orin-nano": "tegra234",
    "jetson-orin-nano-super": "tegra234",
    "jetson-orin-nx": "tegra234",
    "jetson-agx-orin": "tegra234",
    "jetson-xavier-nx": "tegra194",
    "jetson-agx-xavier": "tegra194",
    "jetson-tx2": "tegra186",
    "jetson-nano": "tegra210",
    "jetson-agx-thor": "tegra264",
    "raspberry-pi-4": "bcm2711",
    "raspberry-pi-5": "bcm2712",
}
_JETPACKS = {
    "32.4.3": "4.4",
    "32.4.4": "4.4.1",
    "32.5.0": "4.5",
    "32.5.1": "4.5.1",
    "32.6.1": "4.6",
    "34.1.0": "5.0",
    "34.1.1": "5.0.1",
    "35.1.0": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "35.5.0": "5.1.3",
    "35.6.0": "5.1.4",
    "35.6.1": "5.1.5",
    "36.3.0": "6.0",
    "36.4.0": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.4.7": "6.2.1",
    "36.5.0": "6.2.2",
    "38.2.0": "7.0",
    "38.4.0": "7.1",
    "39.2.0": "7.2",
}
_GENERATIONS = {28: "3", 32: "4", 34: "5", 35: "5", 36: "6", 38: "7", 39: "7"}
_KERNELS = {"4.9": "4", "5.10": "5", "5.15": "6", "6.8": "7"}  # what JetPacks come with


class Identity(NamedTuple):
    """What a board's files tell of it; None for what they do not.

    Attributes:
        model: In words, as the device tree (or the processor of a PC) says.
        module: Its name in our catalog: `jetson-orin-nano`.
        soc: `tegra234`, `bcm2712`.
        l4t: Release of NVIDIA's Linux: `36.4.7`.
        jetpack: What it is sold as: `6.2.1`; only `6` where no more is known.
        family: `jetson` or `raspberry-pi`.
    """

    model: Optional[str]
    module: Optional[str]
    soc: Optional[str]
    l4t: Optional[str]
    jetpack: Optional[str]
    family: Optional[str]

    @property
    def is_tegra(self) -> bool:
        """Whether CPU and GPU share their memory, as on every Jetson."""
        return self.family == JETSON


def identify(sysfs: SysFs) -> Identity:
    """Which board this is. Files that are missing, empty or garbage leave gaps, never an error."""
    compatible = _compatible(sysfs)
    model = _model(sysfs)
    module = _module_by_id(compatible) or _module_by_words([*compatible, model or ""])
    if module == "jetson-orin-nano" and any(re.search(r"\bsuper\b", text, re.I) for text in [*compatible, model or ""]):
        module = "jetson-orin-nano-super"
    soc = _soc(compatible) or _SOCS.get(module or "")
    l4t = _l4t(sysfs)
    family = None
    if l4t is not None or (soc or "").startswith("tegra"):
        family = JETSON
    elif (soc or "").startswith("bcm") and any("raspberry" in text.lower() for text in [*compatible, model or ""]):
        family = RASPBERRY_PI
    return Identity(
        model=model or _processor(sysfs),
        module=module,
        soc=soc,
        l4t=l4t,
        jetpack=_jetpack(sysfs, l4t, soc) if family == JETSON else None,
        family=family,
    )


def _text(sysfs: SysFs, name: str) -> str:
    """A file of the device tree, or nothing where it is missing or no text."""
    for folder in _DEVICE_TREES:
        text = sysfs.read_or(folder + name) or ""
        if text and "\ufffd" not in text:
            return text
    return ""


def _words(text: str) -> Optional[str]:
    """A name in words: one line, printable, with letters in it; else None."""
    name = " ".join(text.split("\0")[0].split())
    fits = re.search("[A-Za-z]{2}", name) and name.isprintable() and len(name) <= _LONGEST_NAME
    return name if fits else None


def _model(sysfs: SysFs) -> Optional[str]:
    return _words(_text(sysfs, "model"))


def _processor(sysfs: SysFs) -> Optional[str]:
    """The board (Raspberry Pi) or the processor (a PC) by /proc/cpuinfo."""
    text = sysfs.read_or("/proc/cpuinfo") or ""
    for key in ("Model", "model name"):
        found = re.search(r"^{}\s*:(.+)$".format(key), text, re.MULTILINE)
        if found and _words(found.group(1)):
            return _words(found.group(1))
    return None


def _compatible(sysfs: SysFs) -> List[str]:
    return [part for part in _text(sysfs, "compatible").split("\0") if part]


def _module_by_id(compatible: List[str]) -> Optional[str]:
    """By NVIDIA's part numbers. A string such as `p3768-0000+p3767-0005-super` names the carrier board first."""
    for board, variant in re.findall(r"\bp(\d{4})-(\d{4})", " ".join(compatible)):
        module = _VARIANTS.get("{}-{}".format(board, variant)) or _MODULES.get(board)
        if module:
            return module
    return None


def _module_by_words(texts: List[str]) -> Optional[str]:
    for pattern, module in _WORDS:
        if any(re.search(pattern, text, re.IGNORECASE) for text in texts):
            return module
    return None


def _soc(compatible: List[str]) -> Optional[str]:
    found = re.search(r"\bnvidia,(tegra\d+)|\bbrcm,(bcm\d+)", " ".join(compatible))
    return (found.group(1) or found.group(2)) if found else None


def _l4t(sysfs: SysFs) -> Optional[str]:
    """`# R36 (release), REVISION: 4.7, ...` is 36.4.7."""
    found = re.search(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*(\d+(?:\.\d+)*)", sysfs.read_or(_RELEASE) or "")
    return "{}.{}".format(*found.groups()) if found else None


def _jetpack(sysfs: SysFs, l4t: Optional[str], soc: Optional[str]) -> Optional[str]:
    """By the release; without one only the generation can be said, by the kernel. Thor began with 7."""
    if l4t is not None:
        major, _, revision = l4t.partition(".")
        if major == "32" and revision.startswith("7."):
            return "4.6.{}".format(revision[2:])
        return _JETPACKS.get(l4t) or _GENERATIONS.get(int(major))
    kernel = re.match(r"(\d+\.\d+)\.", sysfs.read_or("/proc/sys/kernel/osrelease") or "")
    by_kernel: Optional[str] = _KERNELS.get(kernel.group(1)) if kernel else None
    return by_kernel or ("7" if soc == "tegra264" else None)
