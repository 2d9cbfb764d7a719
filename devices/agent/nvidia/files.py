"""What can be set by NVML, as files: the journal keeps and puts back any setting by a file's name and text.

| file                            | reads                                     | written                               |
|---------------------------------|-------------------------------------------|---------------------------------------|
| `/nvml/INDEX/power_limit_mw`    | the limit that is set, milliwatts         | sets it                               |
| `/nvml/INDEX/locked_clocks_mhz` | `LOW,HIGH` if this program locked the GPU | `LOW,HIGH` locks it, an empty text    |
|                                 | clock in this boot, else nothing          | ends the lock                         |

NVML can lock the GPU clock, but not say whether it is locked. What this program locks it therefore notes in a file of
its own, before the lock is made, so that a guardian or the next agent knows of it. A lock that somebody else made
cannot be read: it reads as nothing, and is gone once this program locked and ended its own.
"""

import errno
import json
import os
import re
from typing import Dict, Optional

from ..journal import boot_id
from ..sysfs import SysFs
from .gpu import Gpu
from .library import GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, Nvml, NvmlError

POWER_LIMIT, LOCKED_CLOCKS = "power_limit_mw", "locked_clocks_mhz"

_NAME = re.compile(r"/nvml/(\d+)/({}|{})$".format(POWER_LIMIT, LOCKED_CLOCKS))
_ERRORS = {2: errno.EINVAL, NOT_SUPPORTED: errno.EOPNOTSUPP, NO_PERMISSION: errno.EACCES, GPU_IS_LOST: errno.ENODEV}
_SYS_ADMIN = 21  # number of CAP_SYS_ADMIN


def setting_name(index: int, setting: str) -> str:
    """The file of a GPU's setting: `/nvml/0/power_limit_mw`."""
    return "/nvml/{}/{}".format(index, setting)


class NvmlFiles(SysFs):
    """The machine's files, and those above.

    NVML is loaded when one of those is first asked for, and kept: a lock may end with the last program that uses the
    driver.

    Args:
        root: As of SysFs. Under any but `/` there are no files of NVML.
        nvml: The library; None: this machine's.
    """

    def __init__(self, root: str = "/", nvml: Optional[Nvml] = None) -> None:
        super().__init__(root)
        self._nvml = nvml
        self._gpus: Dict[int, Gpu] = {}

    @property
    def nvml(self) -> Nvml:
        """The library.

        Raises:
            NvmlError: it cannot be used.
            OSError: these are not this machine's files.
        """
        if not self.real:
            raise OSError(errno.ENOENT, "NVML is not used under another root", self.root)
        if self._nvml is None:
            self._nvml = Nvml.open()
        return self._nvml

    def read(self, name: str) -> str:
        found = _NAME.match(name)
        if found is None:
            return super().read(name)
        if found.group(2) == LOCKED_CLOCKS:
            return self._noted(self._gpu(found.group(1)))
        try:
            return str(self._gpu(found.group(1)).power_limit_mw())
        except NvmlError as error:
            raise as_os_error(error, name) from error

    def write(self, name: str, text: str) -> None:
        found = _NAME.match(name)
        if found is None:
            super().write(name, text)
            return
        gpu = self._gpu(found.group(1))
        numbers = [int(word) for word in text.split(",") if re.match(r"[0-9]{1,9}$", word)]
        try:
            if found.group(2) == LOCKED_CLOCKS and not text.strip():
                gpu.unlock_clocks()
                self.remove(_note_name(gpu))
            elif found.group(2) == LOCKED_CLOCKS and len(numbers) == 2:
                self._lock(gpu, numbers[0], numbers[1])
            elif found.group(2) == POWER_LIMIT and len(numbers) == 1:
                gpu.set_power_limit_mw(numbers[0])
            else:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        except NvmlError as error:
            raise as_os_error(error, name) from error

    def exists(self, name: str) -> bool:
        return super().exists(name) if _NAME.match(name) is None else self.read_or(name) is not None

    def canonical(self, name: str) -> str:
        return super().canonical(name) if _NAME.match(name) is None else name

    def refusal(self, name: str) -> Optional[int]:
        """As of SysFs. NVML has no way to ask: EACCES for a user who is not root, EPERM for a root without the right of
        the administrator, as in most containers."""
        if _NAME.match(name) is None:
            return super().refusal(name)
        try:
            self.read(name)
        except OSError as error:
            return error.errno
        found = re.search(r"^CapEff:\s*([0-9a-f]+)$", self.read_or("/proc/self/status") or "", flags=re.MULTILINE)
        if found is not None and int(found.group(1), 16) >> _SYS_ADMIN & 1:
            return None
        return errno.EPERM if os.geteuid() == 0 else errno.EACCES

    def _gpu(self, index: str) -> Gpu:
        number = int(index)
        try:
            if number not in self._gpus:
                self._gpus[number] = Gpu(self.nvml, number)
        except NvmlError as error:
            raise as_os_error(error, "/nvml/{}".format(number)) from error
        return self._gpus[number]

    def _lock(self, gpu: Gpu, low_mhz: int, high_mhz: int) -> None:
        before = self._noted(gpu)
        self._note(gpu, "{},{}".format(low_mhz, high_mhz))
        try:
            gpu.lock_clocks(low_mhz, high_mhz)
        except NvmlError:
            self._note(gpu, before)
            raise

    def _noted(self, gpu: Gpu) -> str:
        try:
            note = json.loads(self.read_or(_note_name(gpu)) or "{}")
            return str(note["locked_mhz"]) if note["boot_id"] == boot_id(self) else ""
        except (ValueError, KeyError, TypeError):
            return ""

    def _note(self, gpu: Gpu, locked_mhz: str) -> None:
        if locked_mhz:
            note = {"boot_id": boot_id(self), "locked_mhz": locked_mhz}
            self.replace(_note_name(gpu), json.dumps(note))
        else:
            self.remove(_note_name(gpu))


def as_os_error(error: NvmlError, name: str) -> OSError:
    """The same error as one of a file."""
    return OSError(_ERRORS.get(error.code, errno.EIO), error.reason, name)


def _note_name(gpu: Gpu) -> str:
    return "/run/tuner/nvml-{}.json".format(re.sub(r"[^\w-]", "_", gpu.uuid))
