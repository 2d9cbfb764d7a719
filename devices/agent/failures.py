"""How a trainer's end is read: what boards really print when memory runs out, and what exit statuses mean."""

import signal
from typing import Optional

# In lower case. CUDA on Jetson answers a failed allocation with an internal assert of NVML (pytorch/pytorch#185240) or
# with errors of NvMap, never with torch's own out-of-memory error alone.
OUT_OF_MEMORY = (
    "out of memory",
    "outofmemory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "memoryerror",
    "unable to allocate",
    "std::bad_alloc",
    "cudacachingallocator.cpp",
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "nvmapmemalloc",
    "nvmap_alloc",
    "nvmapreserveop",
    "failed to allocate",
    "enomem",
)


def is_out_of_memory(text: str) -> bool:
    """Whether an error's text tells that memory ran out."""
    lower = text.lower()
    nvmap = "nvmap" in lower and ("error 12" in lower or "12" in lower.split("nvmap", 1)[1][:40].split())
    return nvmap or any(sign in lower for sign in OUT_OF_MEMORY)


def was_killed(returncode: Optional[int]) -> bool:
    """Whether a process ended as the kernel ends one when memory is short: SIGKILL, or 137 from a container."""
    return returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)


def describe_end(returncode: Optional[int], last_words: str) -> str:
    """How a process ended, in words: `ended with exit status 3; its last words: ...`."""
    if returncode is None:
        how = "closed its connection"
    elif returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = "signal {}".format(-returncode)
        how = "was ended by {}".format(name)
    else:
        how = "ended with exit status {}".format(returncode)
    words = " ".join(last_words.split())
    return "{}; its last words: {}".format(how, words[-300:]) if words else how
