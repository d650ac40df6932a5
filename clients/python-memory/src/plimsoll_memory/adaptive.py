"""Calls a function with the memory that may be used now, for programs that adapt by themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from plimsoll_memory._principal import Principal
from plimsoll_memory._reading import EventKind, Reading
from plimsoll_memory._thread import start_quietly

AGAIN = 1.0
"""The pause between two calls without news, s."""
CLOSING = 5.0
"""How long `close` waits for a call that is running, s."""


class Adaptive:
    """Calls a function at each change, on a thread of its own. Takes the principal's events."""

    def __init__(
        self,
        principal: Principal,
        change: Callable[[Reading], int | None],
        *,
        look: Callable[[], None] | None = None,
    ) -> None:
        """Calls `change` at once, at each change of the numbers, and each second while memory is owed.

        Args:
            principal: Whose numbers.
            change: Frees what is owed and nothing more: the limit is that of the whole program, and what is
                owed is already the part of its use that is above. Returns how many bytes it freed, which
                the broker is told; None for none. An exception in it ends the calls and nothing else.
            look: Called each second and after each call of `change`, if given.

        Raises:
            ResourceError: The kernel gives no thread.
        """
        self.principal = principal
        self._change = change
        self._look = look
        self._is_closed = False
        self._thread = start_quietly("plimsoll-adapt", self._run)

    def close(self) -> None:
        """Ends the calls. The principal stays open."""
        if not self._is_closed:
            self._is_closed = True
            self.principal.interrupt()
            self._thread.join(CLOSING)

    def __enter__(self) -> Adaptive:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the calls."""
        self.close()

    def _run(self) -> None:
        self._tell(self.principal.read())
        while not self._is_closed and not self.principal.is_closed:
            owes = self.principal.read().owed > 0
            event = self.principal.wait(AGAIN if owes or self._look is not None else None)
            if self._is_closed:
                break
            if event.kind is not EventKind.TIMEOUT:
                self._tell(event.reading)
            elif owes:
                # Memory was given back since the last event, so read again.
                self._tell(self.principal.read())
            if self._look is not None:
                self._look()

    def _tell(self, now: Reading) -> None:
        freed = self._change(now)
        if freed:
            self.principal.released(freed)
