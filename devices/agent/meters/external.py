"""A meter of the user's own: a command or an HTTP address that gives watts, one number a line.

A command may run on and print a line again and again, or print one and end: then it is run anew for every sample. It is
no shell's line (`sh -c '...'` makes it one). It leads a process group of its own, which `close` kills; should this
process be killed first, the kernel ends the command, and what it started meets a closed pipe with its next line.
"""

import http.client
import math
import os
import re
import select
import shlex
import socket
import subprocess
import threading
import urllib.parse
from typing import Callable, List, Optional, Tuple

from ..clock import Clock
from ..failures import describe_end
from ..meter import Channel, Meter, MeterFault
from ..processes import end_group, end_with_parent
from .files import ReadFault, positive

STALE_S = 2.0  # a value older than this says nothing of now
_FETCH_S = 0.5  # an address is asked twice a second at most: plug meters have a new value once a second
_POLL_S = 0.01
_LOOK_S = 0.05  # between two looks at a command's output: one that never pauses would cost a whole processor
_PIPE = 65536  # bytes that a pipe holds: one look takes all of them, so that what waits there is never older
_LAG_S = 1.0  # assumed: plug meters average about a second
_LONGEST = 4096  # bytes of a line, of an answer, of last words
_REDIRECTS = 3
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_NAME = "external"
_MEND = "try it by hand, it must give a number of watts at least every 2 s: {}"


class ExternalMeter(Meter):
    """The total as the user's own meter gives it.

    Args:
        source: A command line, or an address that begins with http:// or https://.
        clock: Time.

    Raises:
        ValueError: an empty command line, or one whose quotes do not match.
    """

    def __init__(self, source: str, clock: Clock) -> None:
        source = source.strip()
        self._command: Optional[_Command] = None
        if re.match(r"https?://", source):
            self._read_w: Callable[[], float] = _Address(source, clock).read_w
            self._mend = _MEND.format("curl " + source)
        else:
            self._command = _Command(source, clock)
            self._read_w = self._command.read_w
            self._mend = _MEND.format(source)
        note = "what the meter is wired to, as `{}` gives it".format(source)
        name = "external meter ({})".format(source)
        super().__init__(
            name, [Channel(_NAME, positive(name, self._watts, self._mend), True)], [_NAME], lag_s=_LAG_S, note=note
        )

    def close(self) -> None:
        """End the command; the next reading would start it again."""
        if self._command is not None:
            self._command.close()

    def _watts(self) -> float:
        try:
            return self._read_w()
        except MeterFault as fault:
            raise ReadFault(str(fault), self._mend) from fault


def parse_watts(text: str, source: str) -> float:
    """The watts that a line gives. Raises MeterFault where it is no number >= 0."""
    text = text.strip()
    watts = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not (math.isfinite(watts) and watts >= 0):
        said = repr(text[:60]) if text else "an empty line"
        raise MeterFault("the external meter `{}` says {}: no number of watts".format(source, said))
    return watts


class _Address:
    """Watts from an HTTP address."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._last: Optional[Tuple[float, float]] = None

    def read_w(self) -> float:
        """The last value, of at most 0.5 s ago; else waits at most 2 s for a new one. Raises MeterFault."""
        now_s = self._clock.monotonic()
        if self._last is None or now_s - self._last[0] >= _FETCH_S:
            self._last = None
            self._last = (now_s, parse_watts(_Fetch(self._url).text(), self._url))
        return self._last[1]


class _Fetch(threading.Thread):
    """One question to an address.

    A thread of its own asks it: a time-out of a socket holds for every byte anew, and the look-up of a name has none.
    No proxy is asked, as a meter stands in the local network.
    """

    def __init__(self, url: str) -> None:
        super().__init__(name="external meter's answer", daemon=True)
        self._url = url
        self._socket: Optional[socket.socket] = None
        self._late = False
        self._text: Optional[str] = None
        self._why = ""

    def text(self) -> str:
        """What the address answers, within 2 s. Raises MeterFault."""
        self.start()
        self.join(STALE_S)
        if self.is_alive():
            self._cut()
            self._why = "does not answer: no whole answer within {:g} s".format(STALE_S)
        elif self._text is not None:
            return self._text
        raise MeterFault("the external meter {} {}".format(self._url, self._why))

    def run(self) -> None:
        """Ask."""
        try:
            self._text = self._get(self._url, _REDIRECTS)
        except Exception as error:  # no network, no HTTP, or cut in the midst of anything
            if not self._late:
                self._why = "does not answer: {}".format(error)

    def _get(self, url: str, redirects: int) -> Optional[str]:
        parts = urllib.parse.urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme.lower() == "https" else http.client.HTTPConnection
        connection = kind(parts.netloc, timeout=STALE_S)
        try:
            connection.connect()
            self._socket = connection.sock
            if self._late:
                return None
            question = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
            connection.request("GET", question, headers={"Connection": "close"})
            answer = connection.getresponse()
            elsewhere = answer.getheader("Location")
            if 300 <= answer.status < 400 and elsewhere and redirects:
                return self._get(urllib.parse.urljoin(url, elsewhere), redirects - 1)
            if not 200 <= answer.status < 300:
                self._why = "answers {} {}".format(answer.status, answer.reason)
                return None
            return answer.read(_LONGEST).decode("utf-8", "replace")
        finally:
            connection.close()

    def _cut(self) -> None:
        """Have the thread end soon."""
        self._late = True
        try:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has ended by itself
            pass


class _Command:
    """Watts from a child process. A thread starts it when it is wanted, and keeps the last line it printed."""

    def __init__(self, line: str, clock: Clock) -> None:
        try:
            self._words = shlex.split(line)
        except ValueError as error:
            raise ValueError(
                "the command of the external meter, {}, is no command line: {}".format(line, error)
            ) from error
        if not self._words:
            raise ValueError("the command of the external meter is empty")
        self._line = line
        self._clock = clock
        self._lock = threading.Lock()  # of all below
        self._thread: Optional[threading.Thread] = None
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._closed = False
        self._running = False
        self._since_s = 0.0  # when the child was wanted, or printed last
        self._value: Optional[str] = None  # what it printed last
        self._end = ""  # how the last child ended

    def read_w(self) -> float:
        """The last value, of at most 2 s ago; waits as long for a first one. Raises MeterFault."""
        with self._lock:
            if not self._running:
                self._start()
        while True:
            with self._lock:
                value, running = self._value, self._running
                age_s = self._clock.monotonic() - self._since_s
                end = self._end
            if value is not None and age_s <= STALE_S:
                return parse_watts(value, self._line)
            if not running:
                raise MeterFault("the external meter `{}` gave no value: it {}".format(self._line, end))
            if age_s > STALE_S:
                raise MeterFault("the external meter `{}` gave no value for {:.1f} s".format(self._line, age_s))
            self._clock.sleep(_POLL_S)

    def close(self) -> None:
        """Kill the child and its group; may be called again."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if self._process is not None:
                end_group(self._process.pid)
        if thread is not None:
            thread.join(STALE_S)

    def _start(self) -> None:
        self._closed = False
        self._running = True
        self._value = None
        self._since_s = self._clock.monotonic()
        self._thread = threading.Thread(target=self._run, name="external meter", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._lock:
            if self._closed:
                self._running = False
                return
            agent_pid = os.getpid()
            try:
                # this thread lives as long as the command: what the kernel takes for the parent is the thread
                self._process = process = subprocess.Popen(
                    self._words,
                    preexec_fn=lambda: end_with_parent(agent_pid),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                )
            except OSError as error:
                self._end = "cannot be started: {}".format(error.strerror or error)
                self._running = False
                return
        last_words = self._listen(process)
        end_group(process.pid)  # before it is reaped: until then its number is its own
        with self._lock:
            self._process = None
            self._end = describe_end(process.wait(), last_words)
            self._running = False
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def _listen(self, process: "subprocess.Popen[bytes]") -> str:
        """Keep the last line of its output until that ends; the last of what it said beside."""
        assert process.stdout is not None and process.stderr is not None
        output, errors = process.stdout.fileno(), process.stderr.fileno()
        open_fds: List[int] = [output, errors]
        rest = b""
        words = b""
        while True:
            ready, _, _ = select.select(open_fds, [], [])  # nothing to time: close() ends the child, and so this
            if errors in ready:
                more = os.read(errors, _PIPE)
                words = (words + more)[-_LONGEST:]
                if not more:
                    open_fds.remove(errors)
            if output in ready:
                more = os.read(output, _PIPE)
                lines, feed, rest = (rest + more).rpartition(b"\n")
                if feed or (rest and not more):  # a last line needs no line feed
                    self._keep(lines.rpartition(b"\n")[2] if feed else rest)
                if not more:
                    return words.decode("utf-8", "replace")
                rest = rest[-_LONGEST:]
            self._clock.sleep(_LOOK_S)

    def _keep(self, line: bytes) -> None:
        with self._lock:
            self._value = line.decode("utf-8", "replace")
            self._since_s = self._clock.monotonic()
