"""What FUSE asks of a fake board: one method for each call of the kernel."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from importlib import import_module
from typing import Any

from devices.fake.board import FakeBoard
from devices.fake.files import fail

_PAGE = 4096  # sysfs tells this size of all files


class _Handle:
    """An open file: the text as it was read first, or what is written into a file of a program."""

    def __init__(self, text: bytes | None = None) -> None:
        self.text = text
        self.changed = False


def operations(board: FakeBoard, ready: Callable[[], None]) -> Any:
    """The board as mfusepy wants it; `ready` is called once it is mounted.

    Made in a function, for the library is optional.
    """
    base: Any = import_module("mfusepy").Operations

    class Operations(base):  # type: ignore[misc]
        use_ns = True

        def __init__(self) -> None:
            self._handles: dict[int, _Handle] = {}
            self._next = 1

        def init(self, path: str) -> None:
            ready()

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            kind = board.files.kind(path)
            if kind is None:
                raise fail(errno.ENOENT, path)
            mode, size, links = {
                "folder": (stat.S_IFDIR | 0o755, 0, 2),
                "link": (stat.S_IFLNK | 0o777, 0, 1),
                "file": (stat.S_IFREG | 0o644, _PAGE, 1),
                "own": (stat.S_IFREG | 0o644, 0, 1),
            }[kind]
            if kind == "own":
                handle = self._handles.get(fh or 0)
                text = handle.text if handle is not None and handle.text is not None else None
                size = len(board.files.read(path).encode() if text is None else text)
            return {"st_mode": mode, "st_size": size, "st_nlink": links, "st_uid": os.getuid(), "st_gid": os.getgid()}

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", *board.files.names(path)]

        def readlink(self, path: str) -> str:
            parent, _, last = path.rpartition("/")
            return board.files.links[board.files.canonical(parent or "/").rstrip("/") + "/" + last]

        def access(self, path: str, amode: int) -> int:
            number = board.files.refusal(path) if amode & os.W_OK else None
            if number not in (None, errno.EISDIR):
                raise fail(number or errno.EACCES, path)
            return 0

        def open(self, path: str, flags: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                number = board.files.refusal(path)
                if number is not None:
                    raise fail(number, path)
            if board.files.kind(path) is None:  # vanished since the kernel looked
                raise fail(errno.ENOENT, path)
            return self._keep(_Handle(b"" if flags & os.O_TRUNC else None))

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            board.files.put(path, "")
            return self._keep(_Handle(b""))

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            handle = self._handles[fh]
            if offset == 0 or handle.text is None:
                handle.text = board.read(path).encode()
            return handle.text[offset : offset + size]

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            if board.files.kind(path) != "own":
                board.write(path, data.decode("utf-8", "replace"))
                return len(data)
            handle = self._handles[fh]
            text = handle.text if handle.text is not None else board.files.read(path).encode()
            handle.text = text[:offset].ljust(offset, b"\0") + data + text[offset + len(data) :]
            board.files.put(path, handle.text.decode("utf-8", "replace"))
            return len(data)

        def truncate(self, path: str, length: int, fh: int | None = None) -> int:
            if board.files.kind(path) == "own":
                text = board.files.read(path).encode()[:length].ljust(length, b"\0")
                board.files.put(path, text.decode("utf-8", "replace"))
            return 0

        def release(self, path: str, fh: int) -> int:
            self._handles.pop(fh, None)
            return 0

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            return 0

        def flush(self, path: str, fh: int) -> int:
            return 0

        def unlink(self, path: str) -> int:
            board.files.remove(path)
            return 0

        def rmdir(self, path: str) -> int:
            board.files.remove(path)
            return 0

        def mkdir(self, path: str, mode: int) -> int:
            board.files.make_folder(path)
            return 0

        def rename(self, old: str, new: str) -> int:
            board.files.rename(old, new)
            return 0

        def chmod(self, path: str, mode: int) -> int:
            return 0

        def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
            return 0

        def statfs(self, path: str) -> dict[str, int]:
            return {"f_bsize": _PAGE, "f_namemax": 255}

        def _keep(self, handle: _Handle) -> int:
            number, self._next = self._next, self._next + 1
            self._handles[number] = handle
            return number

    return Operations()
