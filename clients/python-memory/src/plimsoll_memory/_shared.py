"""The state that the program's threads and the watcher share."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from plimsoll_memory import _pending, _wire
from plimsoll_memory._errors import AbsentError, PlimsollError, ResourceError
from plimsoll_memory._page import Page, is_stale
from plimsoll_memory._reading import NOTHING, Event, EventKind, Reading, Source, Told, news

if TYPE_CHECKING:
    from plimsoll_memory._connection import Connection
    from plimsoll_memory._join import Joined, Wish

LONGEST = 86_400.0
"""The longest single wait, s."""


class View(NamedTuple):
    """Where the numbers are read. It is replaced as a whole, so that readers need no lock."""

    page: Page | None
    """The broker's page; None where `last` has the numbers."""
    source: Source
    last: Reading
    """The numbers that were told last."""


class Waker:
    """Wakes the watcher, which waits for a descriptor."""

    def __init__(self) -> None:
        """Makes it. Raises ResourceError when no descriptors are left."""
        self._lock = threading.RLock()
        self._is_open = False
        try:
            self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ResourceError(f"cannot make a pipe: {error.strerror}") from error
        self._is_open = True

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._read

    def wake(self) -> None:
        """Makes it readable."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._is_open:
                os.write(self._write, b"\0")

    def drain(self) -> None:
        """Makes it unreadable."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)

    def close(self) -> None:
        """Closes it."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self._read)
                os.close(self._write)

    def __del__(self) -> None:
        """Closes it."""
        self.close()


class Shared:
    """The state of a principal. The watcher holds this and not the principal, which may be dropped."""

    def __init__(self, wish: Wish) -> None:
        """Makes the state of a principal that is alone. Raises ResourceError."""
        self.waker = Waker()
        self.changed = threading.Condition()
        """Guards all that follows but `control`; notified when there are events."""
        self.wish = wish
        self.view = View(None, Source.LOCAL, NOTHING)
        self.paid: _pending.Paid = ()
        self.now = Told(NOTHING, 0, False)
        self.told = self.now
        self.listeners: list[Callable[[], None]] = []
        self.report: dict[str, int] = {}
        """All reports so far, merged: a new broker gets all of it."""
        self.report_is_new = False
        self.released = 0
        """Bytes that were given back and not reported yet."""
        self.error: str | None = None
        self.is_interrupted = False
        self.is_closing = False
        self.is_forked = False
        self.calls = threading.RLock()
        """Held while somebody uses `control`."""
        self.control: Connection | None = None
        self.stream: Connection | None = None
        self.number: int | None = None
        """The principal's number at the present broker."""
        _track(self)

    # For readers.

    def read(self) -> Reading:
        """The present numbers, without a lock."""
        view = self.view
        page = view.page
        reading = view.last if page is None else page.read(view.source) or self._read_told(view)
        # In a forked child nobody watches the broker.
        if self.is_forked and is_stale(reading.heartbeat, time.monotonic_ns()):
            reading = reading._replace(source=Source.STALE)
        return _pending.settle(self.paid, reading)

    def _read_told(self, view: View) -> Reading:
        """The last numbers, for a page that is being written for long, or that was truncated."""
        if view.page is not None and not view.page.is_usable():
            self.wake()
            return view.last._replace(source=Source.STALE)
        return view.last

    def limit(self) -> int:
        """The limit alone, bytes."""
        page = self.view.page
        return (page.limit() if page is not None else 0) or self.read().limit

    def wait(self, timeout: float | None) -> Event:
        """The next event, or a timeout."""
        deadline = None if timeout is None else time.monotonic() + min(timeout, LONGEST)
        with self.changed:
            while True:
                event = self.take_event()
                if event is not None:
                    return event
                left = LONGEST if deadline is None else deadline - time.monotonic()
                if left <= 0 or self.is_interrupted or self.is_closing:
                    self.is_interrupted = False
                    break
                # Before Python 3.11 this wait goes by the wall clock, which may jump. So the watcher notifies
                # at least once a second.
                self.changed.wait(left)
        return Event(EventKind.TIMEOUT, self.read())

    def interrupt(self) -> None:
        """Makes one wait end without an event."""
        with self.changed:
            self.is_interrupted = True
            self.changed.notify_all()

    def take_event(self) -> Event | None:
        """The event since the last one, if any."""
        with self.changed:
            now = self._settled()
            event = news(self.told, now)
            # Small changes are taken over without an event.
            self.told = now
            return event

    def _settled(self) -> Told:
        return self.now._replace(reading=_pending.settle(self.paid, self.now.reading))

    # For callers.

    def add_report(self, report: dict[str, int]) -> None:
        """Merges a report, for the watcher to send."""
        with self.changed:
            self.report.update(report)
            self.report_is_new = True
        self.wake()

    def add_released(self, size: int) -> None:
        """Counts bytes that were given back."""
        with self.changed:
            self.released += size
            if size > 0:
                self.paid = _pending.add(self.paid, size, time.monotonic_ns(), self.now.reading)
                self._announce()
        self.wake()

    def call(self, method: str, parameters: Mapping[str, object]) -> None:
        """Makes a call for the principal. Raises AbsentError while alone, and as `Connection.call`."""
        with self.calls:
            self._call(_wire.INTERFACE + method, {"id": self.number, **parameters})

    def ping(self) -> None:
        """Asks whether the broker lives. Raises as `call`."""
        with self.calls:
            self._call(_wire.GET_INFO, {})

    def _call(self, method: str, parameters: Mapping[str, object]) -> None:
        if self.control is None:
            raise AbsentError("there is no broker just now; the numbers come from local sensing")
        try:
            self.control.call(method, parameters)
        finally:
            if self.control.is_broken:
                self.wake()

    def change(self, method: str, parameters: Mapping[str, object], wish: Callable[[Wish], Wish]) -> None:
        """Changes a setting: tells the broker, or keeps it for the join if there is none.

        Raises:
            RefusedError: The broker refuses. Then the setting is as it was.
        """
        with self.calls:
            with self.changed:
                before = self.wish
                self.wish = wish(before)
            try:
                self.call(method, parameters)
            except AbsentError:
                pass
            except BaseException:
                with self.changed:
                    self.wish = before
                raise

    def wake(self) -> None:
        """Wakes the watcher."""
        if not self.is_forked:
            self.waker.wake()

    def stop(self) -> None:
        """Makes the watcher end, within a second. Takes no lock, so that a finaliser may call it."""
        self.is_closing = True
        for connection in (self.stream, self.control):
            if connection is not None:
                connection.abandon()

    def end_waits(self) -> None:
        """Ends all waits, and wakes the watcher."""
        self.wake()
        with self.changed:
            self.changed.notify_all()
            self._call_listeners()

    # For the watcher.

    def show(self, page: Page | None, source: Source, last: Reading) -> None:
        """Sets where the numbers are read."""
        self.view = View(page, source, last)

    def tell(self, reading: Reading) -> None:
        """Takes new numbers over and wakes waiting threads."""
        with self.changed:
            self.now = self.now._replace(reading=reading)
            self._announce()

    def set_joined(self, wish: Wish, joined: Joined) -> bool:
        """Notes a join with these settings. The view shows the broker's numbers already.

        Returns False if the settings changed meanwhile, so that the broker has the old ones.
        """
        with self.calls, self.changed:
            self.number, self.control, self.stream = joined.id, joined.control, joined.stream
            self.now = Told(joined.first.reading, self.now.joins + 1, True)
            # A new broker needs the whole report, but released bytes are old news.
            self.report_is_new = bool(self.report)
            self.released = 0
            self._announce()
            return self.wish is wish

    def set_alone(self, reading: Reading) -> None:
        """Notes that the broker is gone."""
        self.disconnect()
        with self.changed:
            self.now = Told(reading, self.now.joins, False)
            self._announce()

    def disconnect(self) -> None:
        """Closes the connections to the broker. With the first one the principal ends."""
        with self.calls:
            for connection in (self.control, self.stream):
                if connection is not None:
                    connection.abandon()
                    connection.close()
            self.number = self.control = self.stream = None

    def take_outbox(self) -> tuple[int, dict[str, int]]:
        """Takes what is to be sent: bytes that were given back, and the report if it is new."""
        with self.changed:
            released, report = self.released, dict(self.report) if self.report_is_new else {}
            self.released, self.report_is_new = 0, False
            return released, report

    def set_error(self, error: Exception) -> None:
        """Notes why the last try failed."""
        self.error = str(error) if isinstance(error, PlimsollError) else repr(error)

    def _announce(self) -> None:
        if news(self.told, self._settled()) is not None:
            self.changed.notify_all()
            self._call_listeners()

    def _call_listeners(self) -> None:
        for listener in list(self.listeners):
            listener()

    def after_fork(self) -> None:
        """Makes this, in a forked child, safe to read, and not keep the parent's registration alive."""
        self.is_forked = True
        self.changed = threading.Condition()
        self.calls = threading.RLock()
        self.listeners = []
        self.waker._lock = threading.RLock()
        self.waker.close()
        for connection in (self.control, self.stream):
            if connection is not None:
                connection.close()
        self.number = self.control = self.stream = None


_all: weakref.WeakSet[Shared] = weakref.WeakSet()
_is_tracking = False


def _track(shared: Shared) -> None:
    global _is_tracking
    _all.add(shared)
    if not _is_tracking:
        _is_tracking = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    for shared in list(_all):
        shared.after_fork()
