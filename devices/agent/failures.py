"""How a trainer's end is read: what boards really print when memory runs out, and what exit statuses mean."""

import os
import re
import signal
from typing import Optional

# CUDA on Jetson answers a failed allocation with an internal assert of NVML (pytorch/pytorch#185240) or with errors of
# NvMap, never with torch's own out-of-memory error alone.
OUT_OF_MEMORY = re.compile(
    r"out of memory|outofmemory|not enough memory|memoryerror|std::bad_alloc|cudacachingallocator\.cpp"
    r"|cudaerrormemoryallocation|cuda_error_out_of_memory|c(ublas|udnn)_status_alloc_failed"
    r"|nvmapmemalloc|nvmap_alloc|nvmap.{0,40}error 12\b"
    r"|(failed|unable|cannot|can't|could not) (to )?allocate\b.*(memory|bytes|\b[\d.]+ ?[kmgt]i?b\b)",
    re.IGNORECASE | re.DOTALL,
)


class AgentError(Exception):
    """A request that is not answered with a result.

    Args:
        kind: As in the protocol: `input`, `device`, `store`, `internal`; or how a trainer failed: `oom`, `crashed`,
            `timeout`, `aborted`.
        message, hint: In words for the user.
    """

    def __init__(self, kind: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


def is_out_of_memory(text: str) -> bool:
    """Whether an error's text tells that memory ran out."""
    return OUT_OF_MEMORY.search(text) is not None


def is_ours(error: BaseException) -> bool:
    """Whether a ValueError was raised by this program, whose sentences need no type and line, not by what it called."""
    trace = error.__traceback__
    if not isinstance(error, ValueError) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__) + os.sep)


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
