"""SysFs: the one way by which the agent reaches the files of the kernel, so that a fake board can stand behind it."""

import os
from typing import List, Optional


class SysFs:
    """The files below /sys, /proc and /dev, under a root.

    Args:
        root: `/` for this machine; another folder holds a copy of a board's files.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def path(self, name: str) -> str:
        """Where the file `name`, an absolute path of the board, really lies."""
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name: str) -> str:
        """The text of a file, without the white space around it.

        Raises:
            OSError: it cannot be read.
        """
        with open(self.path(name), "r", encoding="utf-8", errors="replace") as file:
            return file.read().strip()

    def read_or(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """The text of a file, or `default` where it cannot be read."""
        try:
            return self.read(name)
        except OSError:
            return default

    def write(self, name: str, text: str) -> None:
        """Write into a file that is there.

        Raises:
            OSError: it cannot be written.
        """
        with open(self.path(name), "r+", encoding="utf-8") as file:
            file.write(text)

    def list(self, name: str) -> List[str]:
        """The sorted names in a folder; empty where there is none."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []
