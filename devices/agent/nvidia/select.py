"""Which GPU: the first that CUDA will show to the trainer."""

import re
from typing import List, Mapping, Optional, Tuple

from ..board import Problem
from ..failures import AgentError
from .gpu import Gpu
from .library import Nvml

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def count_gpus(nvml: Nvml) -> int:
    """GPUs that NVML knows.

    Raises:
        NvmlError: it does not say.
    """
    return nvml.number("nvmlDeviceGetCount_v2")


def select_gpu(nvml: Nvml, environment: Mapping[str, str]) -> Tuple[Gpu, Optional[Problem]]:
    """The GPU that is device 0 to CUDA, and what is doubtful about that.

    CUDA numbers GPUs by their speed unless CUDA_DEVICE_ORDER says otherwise, NVML by their place on the bus: with GPUs
    of several kinds a number may not mean the same one.

    Raises:
        AgentError: `device`: there is no GPU, none is visible, or what is named is none.
        NvmlError: NVML does not answer.
    """
    gpus = [Gpu(nvml, index) for index in range(count_gpus(nvml))]
    if not gpus:
        raise AgentError("device", "NVML knows no GPU", "nvidia-smi -L lists them; start a container with --gpus all")
    wanted = environment.get(VISIBLE)
    word = "0" if wanted is None else wanted.split(",")[0].strip()
    if word.startswith("MIG-"):
        text = "{} names {}, a part of a GPU, whose power and clock are not its own".format(VISIBLE, word)
        raise AgentError("device", text, "name a whole GPU: nvidia-smi -L lists them")
    found = _by_uuid(gpus, word) if word.startswith("GPU-") else _by_number(gpus, word)
    if found is None:
        text = "{}='{}' hides every GPU of {}".format(VISIBLE, wanted, len(gpus))
        raise AgentError("device", text, "unset {}, or name one: nvidia-smi -L lists them".format(VISIBLE))
    kinds = {gpu.name for gpu in gpus}
    if word.startswith("GPU-") or len(kinds) == 1 or environment.get(ORDER) == "PCI_BUS_ID":
        return found, None
    text = "GPU {} may not be the one that CUDA takes: there are {}".format(word, ", ".join(sorted(kinds)))
    return found, Problem(text, "export {}=PCI_BUS_ID, or {}={}".format(ORDER, VISIBLE, found.uuid))


def _by_uuid(gpus: List[Gpu], word: str) -> Optional[Gpu]:
    found = [gpu for gpu in gpus if gpu.uuid.startswith(word)]
    return found[0] if len(found) == 1 else None


def _by_number(gpus: List[Gpu], word: str) -> Optional[Gpu]:
    return gpus[int(word)] if re.match(r"[0-9]{1,4}$", word) and int(word) < len(gpus) else None
