"""The host's side of the agent protocol (`devices.agent`): one request after another, and their answers."""

from __future__ import annotations

from typing import Any

from devices.agent import ALIVE
from devices.agent.channel import Message
from devices.device import EventSink
from devices.errors import DeviceError, DeviceLostError, InputError, StoreError, UnsupportedError
from devices.link import Link

SILENCE_S = 30.0  # the agent itself answers within milliseconds, and says every other second that it is there
_ERRORS = {"input": InputError, "unsupported": UnsupportedError, "store": StoreError}


class AgentClient:
    """A conversation with an agent.

    Args:
        link: How it is reached; closed with this object.
        name: Of the device, for messages.

    Attributes:
        pid: Process id of the agent.
        closed: Whether it was closed, or lost.
    """

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self._name = name
        self._requests = 0
        self._running = False
        self.pid = link.pid
        self.closed = False

    def ask(self, request: str, on_event: EventSink | None = None, **parameters: Any) -> Message:
        """The reply to a request; events are told as they come.

        Raises:
            InputError, UnsupportedError, DeviceError, StoreError: what the agent refused.
            DeviceLostError: the agent has gone.
        """
        self._requests += 1
        self._running = True
        try:
            self._link.channel.send({**parameters, "id": self._requests, "request": request})
            while True:
                message = self._link.channel.receive(SILENCE_S)
                if message is None:
                    self._lose()
                elif message.get("id") != self._requests:
                    continue
                elif "reply" in message:
                    reply: Message = message["reply"]
                    return reply
                elif "error" in message:
                    error = message["error"]
                    raise _ERRORS.get(error["kind"], DeviceError)(error["message"], hint=error["hint"])
                elif on_event is not None and message["event"] != ALIVE:
                    on_event(message["event"])
        finally:
            self._running = False

    def abort(self) -> None:
        """Ask the agent to end what runs; nothing where nothing does. May be called from a signal handler."""
        if self._running:
            self._link.channel.send({"request": "abort"})

    def close(self) -> None:
        """End the agent; may be called again."""
        if not self.closed:
            self.closed = True
            self._link.channel.send({"request": "bye"})  # its input does not end while a forked process holds it too
            self._link.close()

    def _lose(self) -> None:
        words = self._link.last_words()
        self.close()
        raise DeviceLostError(
            f"the agent of {self._name} stopped answering" + (f"; its last words: {words}" if words else ""),
            hint="repeat the command: it goes on where it was",
        )
