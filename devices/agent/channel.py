"""JSON lines over two file descriptors."""

import json
import os
from typing import Any, Dict, List, Optional

from .clock import Clock

Message = Dict[str, Any]
MAX_LINE = 1 << 20  # bytes; a longer line is no message of this protocol


class Channel:
    """A two-way line of JSON objects.

    Args:
        read_fd, write_fd: Open file descriptors; they belong to the channel.
        clock: Waits.

    Attributes:
        closed: Whether the other side has gone, as seen by the last `receive` or `send`.
    """

    def __init__(self, read_fd: int, write_fd: int, clock: Clock) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.closed = False
        self._clock = clock
        self._buffer = b""
        self._skipping = False
        self._messages: List[Message] = []

    def send(self, message: Message) -> None:
        """Send one message. Nothing happens where the other side has gone; `closed` tells."""
        if self.closed:
            return
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("utf-8") + b"\n"
        try:
            while data:
                data = data[os.write(self.write_fd, data) :]
        except OSError:
            self.closed = True

    def receive(self, timeout_s: float) -> Optional[Message]:
        """The next message, None where none came in that time or the other side has gone.

        A line that is no JSON object comes as `{"unreadable": why}`.
        """
        deadline = self._clock.monotonic() + timeout_s
        while not self._messages and not self.closed:
            left = deadline - self._clock.monotonic()
            if self.read_fd in self._clock.wait([self.read_fd], left):
                self._fill()
            elif left <= 0:
                break
        return self._messages.pop(0) if self._messages else None

    def close(self) -> None:
        """Close both file descriptors; may be called again."""
        self.closed = True
        for fd in {self.read_fd, self.write_fd}:
            try:
                os.close(fd)
            except OSError:
                pass
        self.read_fd = self.write_fd = -1

    def _fill(self) -> None:
        try:
            data = os.read(self.read_fd, 65536)
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if self._skipping:  # the rest of a line that was too long
                self._skipping = False
            elif line.strip():
                self._messages.append(_parse(line))
        if self._skipping or len(self._buffer) > MAX_LINE:
            self._buffer = b""
            if not self._skipping:
                self._messages.append({"unreadable": "a line of more than {} bytes".format(MAX_LINE)})
            self._skipping = True


def _refuse_constant(name: str) -> None:
    raise ValueError("{} is no number of JSON".format(name))


def _parse(line: bytes) -> Message:
    try:
        message = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return {"unreadable": "no JSON: {}".format(error)}
    return message if isinstance(message, dict) else {"unreadable": "no JSON object"}
