"""A principal: the program, as the broker knows it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import warnings
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from plimsoll_memory import _wire
from plimsoll_memory._errors import ForkedError, ResourceError
from plimsoll_memory._join import Wish
from plimsoll_memory._shared import Shared
from plimsoll_memory._socket import Place, candidates, environment
from plimsoll_memory._thread import start_quietly
from plimsoll_memory._watcher import Watcher

if TYPE_CHECKING:
    from plimsoll_memory._reading import Event, Reading

TIMEOUT = 1.0
"""How long each step of a join, and each call, may take, s."""
CLOSING = 5.0
"""How long `close` waits for the watcher at most, s."""


class Principal:
    """This program, as the broker knows it; with one thread that keeps its numbers current.

    Any thread may read, wait and report. No method may be called from a signal handler. After a fork the
    child may only read: there, reports are dropped, and what waits or changes raises ForkedError.

    Under ``plimsoll run`` the process is a principal already. That one is used, and keeps its name, weight,
    priority and maximum.
    """

    def __init__(
        self,
        name: str,
        *,
        weight: int | None = None,
        priority: int | None = None,
        maximum: int | None = None,
        adapter: str | None = "self",
        pid: int | None = None,
        socket: str | os.PathLike[str] | None = None,
        alone: bool = False,
        from_environment: bool = False,
        timeout: float = TIMEOUT,
    ) -> None:
        """Registers. Succeeds without a broker too: the numbers come from local sensing until one runs.

        If a broker hangs, this takes a few timeouts at most.

        Args:
            name: 1 to 64 bytes of printable text.
            weight: 1 to 10000; 100 if absent.
            priority: -100 to 100; 0 if absent. A higher class is served first.
            maximum: The most that it and its children together may ever use, bytes; 1 MiB at least. No bound
                if absent.
            adapter: Who steers the program: ``self`` if it adapts by itself. None for a passive program,
                which is never asked to give memory back.
            pid: The process, as the broker numbers it; the caller's own if absent.
            socket: Path of the broker's socket. The usual places if absent.
            alone: Uses no broker, only local sensing.
            from_environment: For code in a process that is not the program itself: uses the principal that
                the environment names (``PLIMSOLL_ID``, ``PLIMSOLL_PAGE``). Without such an environment
                nothing changes.
            timeout: How long each wait for the broker may take, s.

        Raises:
            ValueError: A parameter is out of range.
            RefusedError: The broker refuses.
            ProtocolError: The broker answers against the protocol.
            ResourceError: The kernel gives no thread or descriptor.
        """
        variables = environment()
        number = _number(variables.get("PLIMSOLL_ID"))
        page = variables.get("PLIMSOLL_PAGE")
        wish = Wish(
            name=_wire.check_name(name),
            pid=os.getpid() if pid is None else _wire.check_pid(pid),
            places=[] if alone else _places(socket, variables),
            timeout=timeout,
            adapter=None if adapter is None else _wire.check_adapter(adapter),
            existing=(number, page) if from_environment and number is not None and page else None,
            named=number,
            is_unnamed="PLIMSOLL_UNNAMED" in variables,
            standing=_wire.standing(weight, priority, maximum),
        )
        self._start(wish)

    def _start(self, wish: Wish) -> None:
        self._is_closed = True
        self._shared = Shared(wish)
        try:
            watcher = Watcher(self._shared)
        except BaseException:
            self._shared.waker.close()
            raise
        try:
            self._thread = start_quietly("plimsoll", watcher.run)
        except ResourceError:
            watcher.end()
            raise
        self._is_closed = False

    def child(
        self,
        name: str,
        *,
        weight: int | None = None,
        priority: int | None = None,
        maximum: int | None = None,
        adapter: str | None = None,
        pid: int | None = None,
        group: bool = False,
    ) -> Principal:
        """Registers a child, which shares what this principal gets, and rejoins with it.

        Args:
            name: 1 to 64 bytes of printable text.
            weight: Against the other children, 1 to 10000; 100 if absent.
            priority: Against the other children, -100 to 100; 0 if absent.
            maximum: The most that it may ever use, bytes. No bound if absent.
            adapter: Who steers it; None for a passive one.
            pid: Its process. If absent it comes later by `attach`; until then the broker grants nothing.
            group: It has no process and is only a parent of others.

        Raises:
            ValueError, RefusedError, ProtocolError, ResourceError, ForkedError: As when a principal is
            opened.
        """
        self._check_process()
        wish = self._shared.wish
        child = Principal.__new__(Principal)
        child._start(
            Wish(
                name=_wire.check_name(name),
                pid=None if pid is None else _wire.check_pid(pid),
                places=wish.places,
                timeout=wish.timeout,
                adapter=None if adapter is None else _wire.check_adapter(adapter),
                is_group=group,
                parent=self._shared,
                standing=_wire.standing(weight, priority, maximum),
            )
        )
        return child

    # Reading.

    def read(self) -> Reading:
        """The present numbers. Never fails and never blocks.

        Memory that `released` told of counts as given back at once.
        """
        return self._shared.read()

    @property
    def limit(self) -> int:
        """The memory that it may use now, bytes. Costs half as much as `read`."""
        return self._shared.limit()

    @property
    def id(self) -> int | None:
        """Its number at the broker; None while alone. Changes at a rejoin."""
        return self._shared.number

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @property
    def last_error(self) -> str | None:
        """Why the last try to join, report or release failed, for people to read; None after a join."""
        return self._shared.error

    # Waiting.

    def wait(self, timeout: float | None = None) -> Event:
        """Waits for the next event, for `timeout` seconds at most (for ever if absent).

        A principal has one stream of events: if several threads or tasks wait, each event goes to one of
        them. Changes that come faster are merged; the last numbers are always told.

        Returns:
            The event; its kind is TIMEOUT if nothing happened, or the principal was interrupted or closed.

        Raises:
            ForkedError: In a forked child.
        """
        self._check_process()
        return self._shared.wait(timeout)

    def interrupt(self) -> None:
        """Makes one `wait` return a timeout: one that is waiting in another thread, else the next one."""
        self._shared.interrupt()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events as an asynchronous iterator, which ends when the principal is closed.

        No thread waits meanwhile. Close the iterator (`aclose`) if you leave the loop early.

        Raises:
            ForkedError: In a forked child.
        """
        self._check_process()
        shared, loop, wake = self._shared, asyncio.get_running_loop(), asyncio.Event()

        def announce() -> None:
            # The loop may be closed already.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake.set)

        with shared.changed:
            shared.listeners.append(announce)
        try:
            while not shared.is_closing:
                wake.clear()
                event = shared.take_event()
                if event is not None:
                    yield event
                elif not shared.is_closing:
                    await wake.wait()
        finally:
            with shared.changed, contextlib.suppress(ValueError):
                shared.listeners.remove(announce)

    # Reporting.

    def report(
        self,
        *,
        demand: int | None = None,
        floor: int | None = None,
        live: int | None = None,
        allocation_rate: int | None = None,
        collection_speed: int | None = None,
        reaction_ms: int | None = None,
        collections: int | None = None,
        collection_ms: int | None = None,
        worth: int | None = None,
    ) -> None:
        """Reports what is known about the program. Absent values keep their last one. Does not wait.

        Args:
            demand: The most memory that it can make use of, bytes.
            floor: The least memory that it can come down to, bytes.
            live: Live bytes after the last full collection.
            allocation_rate: Bytes a second that it allocates.
            collection_speed: Bytes a second that a collection processes.
            reaction_ms: How long giving memory back takes, as measured, ms.
            collections: Collections since its start.
            collection_ms: Time spent in them since its start, ms.
            worth: The ns that a cache would save in a second with one more MiB; see `Ghost`.

        Raises:
            ValueError: A value is negative, or has more than 64 bits.
        """
        given = {
            "demand": demand,
            "floor": floor,
            "live": live,
            "allocation_rate": allocation_rate,
            "collection_speed": collection_speed,
            "reaction_ms": reaction_ms,
            "collections": collections,
            "collection_ms": collection_ms,
            "worth": worth,
        }
        known = {
            name: _wire.check_range(name, value, 0, _wire.U64)
            for name, value in given.items()
            if value is not None
        }
        if not self._shared.is_forked:
            self._shared.add_report(known)

    def released(self, size: int) -> None:
        """Reports that the program has given `size` bytes back. Does not wait.

        Call it after the memory was freed, with the bytes that really were: from then on they are not owed
        any more. If the broker then finds the memory still in use, it is owed again.

        Raises:
            ValueError: `size` is negative, or has more than 64 bits.
        """
        _wire.check_range("size", size, 0, _wire.U64)
        if not self._shared.is_forked:
            self._shared.add_released(size)

    # Changing.

    def set(
        self,
        *,
        weight: int | None = None,
        priority: int | None = None,
        maximum: int | None = None,
        own_weight: int | None = None,
        own_priority: int | None = None,
    ) -> None:
        """Changes its settings. Absent ones stay. If no broker runs, this is kept until one does.

        Waits for the broker, for two timeouts at most.

        Args:
            weight: 1 to 10000.
            priority: -100 to 100.
            maximum: The most that it and its children may ever use, bytes; 0 removes the bound.
            own_weight: The weight of its own memory against that of its children.
            own_priority: The priority of its own memory against that of its children.

        Raises:
            ValueError: A value is out of range.
            RefusedError: The broker refuses.
            ForkedError: In a forked child.
        """
        self._check_process()
        standing = _wire.standing(weight, priority, maximum)
        own = _wire.own_standing(own_weight, own_priority)

        def change(wish: Wish) -> Wish:
            return replace(wish, standing={**wish.standing, **standing}, own={**wish.own, **own})

        self._shared.change("Set", {**standing, **own}, change)

    def attach(self, pid: int) -> None:
        """Sets its process, as the broker numbers it. If no broker runs, this is kept until one does.

        Raises:
            ValueError: It is no process number.
            RefusedError: The broker refuses.
            ForkedError: In a forked child.
        """
        self._check_process()
        _wire.check_pid(pid)
        self._shared.change("Attach", {"pid": pid}, lambda wish: replace(wish, pid=pid))

    # Ending.

    def close(self) -> None:
        """Ends the registration. If the broker hangs, this takes some seconds at most.

        The last numbers can still be read.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._shared.stop()
        self._shared.end_waits()
        if not self._shared.is_forked and self._thread is not threading.current_thread():
            self._thread.join(CLOSING)

    def __enter__(self) -> Principal:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def __del__(self) -> None:
        """Ends the registration of a principal that nobody closed."""
        if not getattr(self, "_is_closed", True) and not self._shared.is_forked:
            self._is_closed = True
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._shared.stop()

    def __repr__(self) -> str:
        """Its name and number."""
        return f"<Principal {self._shared.wish.name!r}, number {self._shared.number}>"

    def _check_process(self) -> None:
        if self._shared.is_forked:
            raise ForkedError("a forked child may only read; open a principal of its own there")


def _places(socket: str | os.PathLike[str] | None, variables: Mapping[str, str]) -> list[Place]:
    return candidates(variables, os.getuid()) if socket is None else [Place(os.fspath(socket))]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 20 else None
