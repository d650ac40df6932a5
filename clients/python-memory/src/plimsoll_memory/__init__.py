"""How much memory this program may use now, as Plimsoll's broker gives it by weight and priority.

A program opens a `Principal` and reads at any time how much memory it may use now. It waits for changes where
that suits it, gives back what it owes, and reports that it did. If no broker runs, or the broker dies, the
numbers come from local sensing. Every wait for a broker is bounded, and reading cannot fail.

    from plimsoll_memory import EventKind, Principal

    with Principal("my-cache", weight=50) as principal:
        while True:
            event = principal.wait(timeout=60)
            if event.kind is EventKind.OWED:
                principal.released(drop_bytes(event.reading.owed))

All sizes are bytes. Times are nanoseconds of `time.monotonic_ns()` unless a name says otherwise.

Loading the package does nothing. An open principal has one thread (with all signals blocked but faults), and
a few descriptors (five while it is joined), which are closed on exec.
"""

from __future__ import annotations

from plimsoll_memory._errors import (
    AbsentError,
    ForkedError,
    PageError,
    PlimsollError,
    ProtocolError,
    RefusedError,
    ResourceError,
    UntrustedError,
)
from plimsoll_memory._principal import Principal
from plimsoll_memory._reading import Event, EventKind, Level, Reading, Source
from plimsoll_memory.adaptive import Adaptive
from plimsoll_memory.ghost import Ghost

__all__ = [
    "AbsentError",
    "Adaptive",
    "Event",
    "EventKind",
    "ForkedError",
    "Ghost",
    "Level",
    "PageError",
    "PlimsollError",
    "Principal",
    "ProtocolError",
    "Reading",
    "RefusedError",
    "ResourceError",
    "Source",
    "UntrustedError",
]
__version__ = "0.1.0"
