"""A tree of files in memory: those of the kernel answer by functions, those of programs keep what is written."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable

Read = Callable[[], str]
Write = Callable[[str], None]

_KERNELS = ("/sys/", "/proc/")  # where no program makes files
_DEBUG = "/sys/kernel/debug"
_MOST_LINKS = 40


def fail(number: int, name: str) -> OSError:
    """The error of the kernel with that number."""
    return OSError(number, os.strerror(number), name)


class File:
    """A file of the kernel.

    Attributes:
        read: Its text, without the line feed at the end. Raises OSError.
        write: Takes a text, or raises OSError; None: it cannot be written.
    """

    __slots__ = ("read", "write")

    def __init__(self, read: Read, write: Write | None = None) -> None:
        self.read = read
        self.write = write


class Files:
    """A tree. Names are absolute; links are followed in every part of a name, except where it is said.

    Attributes:
        errors: Files that answer reads with that error number.
        texts: Files that hold that text instead of their own.
        write_error: What every write ends with: EACCES, as for a user, or EROFS, as in a container, where only files of
            the kernel are meant; None: root.
        links: Name -> target.
    """

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.write_error: int | None = None
        self.links: dict[str, str] = {}
        self._files: dict[str, File] = {}
        self._own: dict[str, str] = {}
        self._folders: dict[str, set[str]] = {"/": set()}
        self._resolved: dict[str, str] = {}

    # ---- the tree is made

    def add(self, name: str, read: Read | str, write: Write | None = None) -> None:
        """A file of the kernel. Its parents are made."""
        self._enter(name)
        self._files[name] = File(read if callable(read) else lambda: read, write)

    def link(self, name: str, target: str) -> None:
        """A link to an absolute name; it is kept relative, as sysfs does."""
        self._enter(name)
        self.links[name] = posixpath.relpath(target, posixpath.dirname(name))
        self._resolved.clear()

    def folder(self, name: str) -> None:
        """A folder, with its parents."""
        if name not in self._folders:
            self._enter(name)
            self._folders[name] = set()

    def _enter(self, name: str) -> None:
        parent, _, last = name.rpartition("/")
        self.folder(parent or "/")
        self._folders[parent or "/"].add(last)

    # ---- and used

    def canonical(self, name: str) -> str:
        """The name with all links followed.

        Raises:
            OSError: ELOOP.
        """
        found = self._resolved.get(name)
        if found is None:
            found = self._resolved[name] = self._resolve(name)
        return found

    def kind(self, name: str) -> str | None:
        """`link`, `folder`, `file` of the kernel, `own` of a program, or None. A link at the end is not followed."""
        parent, _, last = name.rstrip("/").rpartition("/")
        name = (self.canonical(parent or "/").rstrip("/") + "/" + last) if last else "/"
        if name in self.links:
            return "link"
        if self.errors.get(name) == errno.ENOENT or (self._hidden(name) and self.write_error == errno.EROFS):
            return None
        if name in self._folders:
            return "folder"
        if name in self._files:
            return "file"
        return "own" if name in self._own else None

    def read(self, name: str) -> str:
        """The text of a file, as read at once. Raises OSError."""
        name = self.canonical(name)
        if self.errors and name in self.errors:
            raise fail(self.errors[name], name)
        if self.write_error is not None and self._hidden(name):
            raise fail(errno.EACCES if self.write_error == errno.EACCES else errno.ENOENT, name)
        file = self._files.get(name)
        if file is not None:
            text = self.texts.get(name) if self.texts else None
            text = file.read() if text is None else text
            return text if text.endswith("\0") else text + "\n"
        if name in self._own:
            return self._own[name]
        raise fail(errno.EISDIR if name in self._folders else errno.ENOENT, name)

    def write(self, name: str, text: str) -> None:
        """Write into a file that is there. Raises OSError."""
        number = self.refusal(name)
        if number is not None:
            raise fail(number, name)
        name = self.canonical(name)
        file = self._files.get(name)
        if file is None:
            self._own[name] = text
        elif file.write is not None:
            file.write(text.strip())

    def refusal(self, name: str) -> int | None:
        """The error number a write into a file would end with, or None."""
        name = self.canonical(name)
        if name in self._folders:
            return errno.EISDIR
        file = self._files.get(name)
        if (file is None and name not in self._own) or self.errors.get(name) == errno.ENOENT:
            return errno.ENOENT
        if self._denied(name):
            return self.write_error
        return errno.EACCES if file is not None and file.write is None else None

    def put(self, name: str, text: str) -> None:
        """Make or replace a file of a program; folders are made as needed. Raises OSError."""
        name = self.canonical(name)
        if self._denied(name):
            raise fail(self.write_error or errno.EACCES, name)
        if name.startswith(_KERNELS) or name in self._files:
            raise fail(errno.EACCES, name)
        if name in self._folders:
            raise fail(errno.EISDIR, name)
        self._enter(name)
        self._own[name] = text

    def make_folder(self, name: str) -> None:
        """A folder of a program. Raises OSError."""
        name = self.canonical(name)
        if name in self._folders or name in self._files or name in self._own:
            raise fail(errno.EEXIST, name)
        if self._denied(name) or name.startswith(_KERNELS):
            raise fail(self.write_error or errno.EACCES, name)
        self.folder(name)

    def remove(self, name: str) -> None:
        """Remove a file of a program, or an empty folder. Raises OSError."""
        name = self.canonical(name)
        if name in self._files or self._denied(name) or name.startswith(_KERNELS):
            raise fail(self.write_error or errno.EACCES, name)
        if self._folders.get(name):
            raise fail(errno.ENOTEMPTY, name)
        if name not in self._own and name not in self._folders:
            raise fail(errno.ENOENT, name)
        self._own.pop(name, None)
        self._folders.pop(name, None)
        parent, _, last = name.rpartition("/")
        self._folders[parent or "/"].discard(last)

    def rename(self, old: str, new: str) -> None:
        """Rename a file of a program, over another one where there is one. Raises OSError."""
        if self.canonical(old) not in self._own:
            raise fail(errno.ENOENT, old)
        self.put(new, self._own[self.canonical(old)])
        self.remove(old)

    def clear(self, folder: str) -> None:
        """Remove every file of a program below a folder, as a reboot empties /run."""
        for name in [name for name in self._own if name.startswith(folder + "/")]:
            del self._own[name]
            parent, _, last = name.rpartition("/")
            self._folders[parent].discard(last)

    def names(self, name: str) -> list[str]:
        """The sorted names in a folder. Raises OSError."""
        name = self.canonical(name)
        if name not in self._folders or (self.write_error is not None and self._hidden(name)):
            raise fail(errno.ENOTDIR if name in self._files else errno.ENOENT, name)
        prefix = name.rstrip("/") + "/"
        return sorted(last for last in self._folders[name] if self.errors.get(prefix + last) != errno.ENOENT)

    def walk(self) -> list[str]:
        """Every file of the kernel, by name."""
        return sorted(self._files)

    def _denied(self, name: str) -> bool:
        if self.write_error is None or name.startswith("/.fake-board"):
            return False
        return self.write_error != errno.EROFS or name.startswith(_KERNELS)

    @staticmethod
    def _hidden(name: str) -> bool:
        """Whether only root sees a file; containers have no debugfs at all."""
        return name.startswith(_DEBUG)

    def _resolve(self, name: str) -> str:
        parts = name.split("/")[::-1]
        found: list[str] = []
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                found = found[:-1]
                continue
            target = self.links.get("/" + "/".join([*found, part]))
            if target is None:
                found.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise fail(errno.ELOOP, name)
            parts.extend(target.split("/")[::-1])
        return "/" + "/".join(found)
