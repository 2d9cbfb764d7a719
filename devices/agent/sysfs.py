"""SysFs: the one way by which the agent reaches the files of the kernel, so that a fake board can stand behind it."""

import errno
import os
import stat
from typing import List, Optional

MARKER = "/.fake-board"  # a fake board's files have it, and say by it how fast its time runs and who trains
_MOST_LINKS = 40  # as the kernel allows; more is a loop
_CHUNK = 65536
MOST_BYTES = 1 << 20  # of a file: the longest that a kernel shows, /proc/cpuinfo of many CPUs, is shorter


class SysFs:
    """The files below /sys, /proc, /etc, /run and /dev, under a root.

    Names are absolute paths of the board. Another implementation (a fake board in memory) overrides the methods below.

    Args:
        root: `/` for this machine; another folder holds a copy of a board's files.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root

    @property
    def real(self) -> bool:
        """Whether these are this machine's own files: else no command of the host and no library of its drivers may
        answer in their place, and nothing is ever `measured`."""
        return os.path.realpath(self.root) == "/"

    @property
    def shared(self) -> bool:
        """Whether another process sees the same files by the same root; those in memory belong to one alone."""
        return True

    def path(self, name: str) -> str:
        """Where the file `name` really lies. Links are followed inside the root, absolute ones too."""
        if self.root == "/":
            return name
        parts = name.split("/")[::-1]
        found: List[str] = []
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                found = found[:-1]
                continue
            here = os.path.join(self.root, *found, part)
            try:
                target = os.readlink(here)
            except OSError:  # no link
                found.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            if target.startswith("/"):
                found = []
            parts.extend(target.split("/")[::-1])
        return os.path.join(self.root, *found)

    def read(self, name: str) -> str:
        """The text of a file, without the white space and NUL bytes around it.

        Raises:
            OSError: it cannot be read; EAGAIN where the kernel has no value now (an unpowered sensor), EFBIG where it
                is longer than `MOST_BYTES`, EINVAL where it is a pipe or a device.
        """
        # Not open(): its text layer makes a TypeError of EAGAIN.
        descriptor = os.open(self._regular(name), os.O_RDONLY | os.O_NONBLOCK)
        try:
            data = b""
            while len(data) <= MOST_BYTES:
                more = os.read(descriptor, _CHUNK)
                if not more:
                    return plain_text(data.decode("utf-8", "replace"))
                data += more
            raise too_long(name)
        finally:
            os.close(descriptor)

    def read_or(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """The text of a file, or `default` where it cannot be read."""
        try:
            return self.read(name)
        except OSError:
            return default

    def write(self, name: str, text: str) -> None:
        """Write into a file that is there, with one system call, as the kernel wants it.

        Raises:
            OSError: it cannot be written.
        """
        descriptor = os.open(self._regular(name), os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
        try:
            os.write(descriptor, text.encode("utf-8"))
        finally:
            os.close(descriptor)

    def replace(self, name: str, text: str) -> None:
        """Make or replace a file of our own that all may read, whole on disk when this returns; folders are made as
        needed.

        Raises:
            OSError: it cannot be written.
        """
        path = self.path(name)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        draft = "{}.{}".format(path, os.getpid())
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            data = text.encode("utf-8")
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)

    def remove(self, name: str) -> None:
        """Remove a file of our own, if it is there."""
        try:
            os.remove(self.path(name))
        except OSError:
            pass

    def list(self, name: str) -> List[str]:
        """The sorted names in a folder; empty where there is none."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        return os.path.exists(self.path(name))

    def canonical(self, name: str) -> str:
        """`name` with all links followed: the same text for the same file."""
        if self.root == "/":
            return os.path.realpath(name)
        inside = os.path.relpath(self.path(name), self.root)
        return "/" + ("" if inside == "." else inside)

    def refusal(self, name: str) -> Optional[int]:
        """The error number a write into `name` would end with (EACCES, EROFS, ENOENT), without writing; or None."""
        try:
            os.close(os.open(self.path(name), os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            return error.errno
        return None

    def _regular(self, name: str) -> str:
        """Where a regular file lies, as all of the kernel's are: opening a pipe waits for its other end, and opening a
        device may set it going."""
        path = self.path(name)
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", name)
        return path


def is_copy(sysfs: SysFs) -> bool:
    """Whether neither a kernel nor a fake board answers behind the files: they only keep what is written."""
    return sysfs.shared and not sysfs.real and not sysfs.exists(MARKER)


def plain_text(text: str) -> str:
    """What a file says, without the white space and NUL bytes around it."""
    return text.strip().strip("\0").strip()


def too_long(name: str) -> OSError:
    """The error of a file that is longer than `MOST_BYTES`."""
    return OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
