"""A connection to a broker. Every call has a deadline, whatever the other side does."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll_memory import _wire
from plimsoll_memory._errors import AbsentError, PlimsollError, ProtocolError, UntrustedError
from plimsoll_memory._socket import Place

CHUNK = 64 * 1024
QUEUE_FULL = 0.01
"""The pause between two tries to connect while the broker's queue of connections is full, s."""
BURST = 16
"""The most chunks that are taken from a stream at a time."""


def first(places: Iterable[Place], timeout: float) -> Connection:
    """Connects to the first of these places where a broker answers that can be trusted.

    Raises:
        AbsentError: None answers.
        UntrustedError: Only untrusted processes listen.
    """
    refused: UntrustedError | None = None
    tried = []
    for place in places:
        try:
            return Connection(place, timeout)
        except UntrustedError as error:
            refused = refused or error
        except PlimsollError:
            pass
        tried.append(place.path)
    if refused is not None:
        raise refused
    raise AbsentError(
        f"no broker runs (looked at {', '.join(tried)}); start one with `plimsolld` or use `plimsoll run`"
    )


class Connection:
    """One connection to a broker.

    After a timeout or an answer that breaks the protocol it is closed for good, because the next answer could
    belong to another call. One thread may use it at a time; `abandon` may be called from any.
    """

    def __init__(self, place: Place, timeout: float) -> None:
        """Connects. `timeout` (s) bounds this and each later call.

        Raises:
            AbsentError: No broker answers there.
            UntrustedError: The socket is not to be trusted.
        """
        self.place = place
        self.is_broken = False
        self._timeout = timeout
        self._buffer = bytearray()
        place.check_directory()
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            raise self._fault("connect to", error) from error
        try:
            self._connect()
            place.check_peer(self._socket)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._socket.connect(self.place.path)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise self._fault("connect to", error) from error
            except (OSError, ValueError) as error:
                raise self._fault("connect to", error) from error
            time.sleep(QUEUE_FULL)

    def fileno(self) -> int:
        """The descriptor, for `poll`; -1 once it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Closes this process's descriptor."""
        self.is_broken = True
        self._socket.close()

    def abandon(self) -> None:
        """Ends the connection, also for a call that waits in another thread, and for forked children."""
        self.is_broken = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def call(
        self, method: str, parameters: Mapping[str, object], *, most: int = _wire.MOST_READ
    ) -> dict[str, Any]:
        """Makes a call with one answer of at most `most` bytes. Returns the answer's parameters.

        Raises:
            RefusedError: The broker refused.
            AbsentError: The broker closed the connection or did not answer in time.
            ProtocolError: The answer does not follow the interface.
        """
        self.send(method, parameters)
        reply = self.receive(time.monotonic() + self._timeout, most)
        if reply is None:
            raise self._late()
        if reply.continues:
            raise self.against("more than one answer to a call that wants one")
        return reply.parameters

    def send(self, method: str, parameters: Mapping[str, object], *, more: bool = False) -> None:
        """Sends a call. Raises as `call` does, or ValueError if it is too long."""
        if self.is_broken:
            raise self._closed()
        message = memoryview(_wire.encode_call(method, parameters, more=more))
        deadline = time.monotonic() + self._timeout
        while message:
            try:
                message = message[self._socket.send(message, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                if not self._is_ready(select.POLLOUT, deadline):
                    raise self._late() from None
            except (BrokenPipeError, ConnectionResetError):
                raise self._closed() from None
            except OSError as error:
                raise self._fault("send to", error) from error

    def receive(self, deadline: float, most: int = _wire.MOST_READ) -> _wire.Reply | None:
        """The next answer; None if none came until `deadline` (s, monotonic). Raises as `call` does."""
        while True:
            end = self._buffer.find(0)
            if end >= 0:
                message = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return self.parse(message)
            if len(self._buffer) > most:
                raise self.against(f"a message is longer than {most} bytes")
            data = self._receive_now()
            if data is not None:
                self._buffer += data
                if b"\0" not in data and time.monotonic() > deadline:
                    return None
            elif not self._is_ready(select.POLLIN, deadline):
                return None

    def newest(self) -> bytes | None:
        """The last whole message of those that have arrived; None if none has. Does not wait."""
        last = self._cut()
        for _ in range(BURST):
            data = self._receive_now()
            if data is None:
                break
            self._buffer += data
            last = self._cut() or last
        return last

    def _cut(self) -> bytes | None:
        """Takes all whole messages out of the buffer. Returns the last one."""
        *messages, rest = bytes(self._buffer).split(b"\0")
        if messages:
            self._buffer = bytearray(rest)
        if len(rest) > _wire.MOST_READ:
            raise self.against(f"a message is longer than {_wire.MOST_READ} bytes")
        return messages[-1] if messages else None

    def parse(self, message: bytes) -> _wire.Reply:
        """The message as an answer. Raises RefusedError or ProtocolError."""
        try:
            return _wire.parse_reply(message)
        except ValueError as error:
            raise self.against(str(error)) from error

    def against(self, why: str) -> ProtocolError:
        """Breaks the connection. Returns the error that says why."""
        self.is_broken = True
        return ProtocolError(
            f"the broker at {self.place.path} answered against the protocol: {why[:200]}; "
            "update the older of the two"
        )

    def _receive_now(self) -> bytes | None:
        if self.is_broken:
            raise self._closed()
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            raise self._closed() from None
        except OSError as error:
            raise self._fault("receive from", error) from error
        if not data:
            raise self._closed()
        return data

    def _is_ready(self, flags: int, deadline: float) -> bool:
        poll = select.poll()
        poll.register(self._socket.fileno(), flags)
        left = max(deadline - time.monotonic(), 0)
        return bool(poll.poll(left * 1000))

    def _closed(self) -> AbsentError:
        self.is_broken = True
        return AbsentError(f"the broker at {self.place.path} closed the connection; open another")

    def _late(self) -> AbsentError:
        self.is_broken = True
        return AbsentError(
            f"the broker at {self.place.path} did not answer within {self._timeout * 1000:.0f} ms; "
            "look with `plimsoll doctor`"
        )

    def _fault(self, doing: str, error: Exception) -> AbsentError:
        self.is_broken = True
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return AbsentError(f"cannot {doing} {self.place.path}: {why}")
