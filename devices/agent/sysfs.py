"""SysFs: the one way by which the agent reaches the files of the kernel, so that a fake board can stand behind it."""

import errno
import os
from typing import List, Optional

_MOST_LINKS = 40  # as the kernel allows; more is a loop
_CHUNK = 65536


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
            OSError: it cannot be read; EAGAIN where the kernel has no value now (an unpowered sensor).
        """
        descriptor = os.open(self.path(name), os.O_RDONLY)  # not open(): its text layer makes a TypeError of EAGAIN
        try:
            data = b""
            while True:
                more = os.read(descriptor, _CHUNK)
                if not more:
                    return data.decode("utf-8", "replace").strip().strip("\0").strip()
                data += more
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
        descriptor = os.open(self.path(name), os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode("utf-8"))
        finally:
            os.close(descriptor)

    def replace(self, name: str, text: str) -> None:
        """Make or replace a file of our own, whole on disk when this returns; folders are made as needed.

        Raises:
            OSError: it cannot be written.
        """
        path = self.path(name)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        draft = "{}.{}".format(path, os.getpid())
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
            os.close(os.open(self.path(name), os.O_WRONLY))
        except OSError as error:
            return error.errno
        return None
