"""The numbers of a principal, and the events that tell of them."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Level(enum.IntEnum):
    """How short memory is, for programs that know levels only."""

    NORMAL = 0
    """It is within its limit."""
    WARNING = 1
    """It is at its limit and wants more, or it owes and has time left."""
    CRITICAL = 2
    """It owes, and the deadline is near or past."""


class Source(enum.Enum):
    """Where the numbers come from."""

    BROKER = "broker"
    """A broker that is alive."""
    STALE = "stale"
    """A broker that gave no sign of life lately: its last numbers."""
    LOCAL = "local"
    """Local sensing: no broker is there."""


class Reading(NamedTuple):
    """The numbers at one moment. Sizes are bytes, times are nanoseconds of ``time.monotonic_ns()``."""

    limit: int
    """The memory that the program may use now, bytes."""
    available: int
    """The memory that it could have if it asked, bytes."""
    owed: int
    """The memory that it must give back, bytes; 0 when none."""
    deadline: int
    """When it must have given that back, ns; 0 when nothing is owed."""
    uses: int
    """The memory that is charged to it, bytes."""
    share: int
    """Its guaranteed weighted share, bytes; 0 where no broker runs."""
    level: Level
    """How short memory is."""
    sensed: int
    """When `uses` was read, ns; 0 from a broker that does not say."""
    generation: int
    """Counts changes of the numbers. Starts again when the source changes."""
    heartbeat: int
    """The source's last sign of life, ns."""
    source: Source
    """Where the numbers come from."""


NOTHING = Reading(0, 0, 0, 0, 0, 0, Level.NORMAL, 0, 0, 0, Source.LOCAL)
"""The reading before anything was sensed."""


class EventKind(enum.Enum):
    """The kinds of events."""

    TIMEOUT = "timeout"
    """Nothing happened in that time, or the wait was interrupted, or the principal was closed."""
    OWED = "owed"
    """`owed` bytes must be given back before `deadline`: the debt is new, larger, or has another deadline."""
    RELIEF = "relief"
    """Nothing is owed any more, or the level fell."""
    CHANGED = "changed"
    """Other numbers changed, mostly the limit."""
    BROKER_LOST = "broker lost"
    """The broker is gone. The numbers are local now."""
    JOINED = "joined"
    """A broker runs (again) and knows the principal."""


class Event(NamedTuple):
    """An event and the numbers at that moment."""

    kind: EventKind
    """Its kind."""
    reading: Reading
    """The numbers."""


class Told(NamedTuple):
    """A state that was told to waiting threads, or is to be told."""

    reading: Reading
    joins: int
    """Counts joins, so that a broker that died and came back unseen is still told."""
    joined: bool
    """Whether there is a broker."""


def news(before: Told, after: Told) -> Event | None:
    """The event that follows if `before` was told last; None if nothing that matters has changed."""
    then, now = before.reading, after.reading
    kind = None
    if after.joined and (not before.joined or after.joins != before.joins):
        kind = EventKind.JOINED
    elif before.joined and not after.joined:
        kind = EventKind.BROKER_LOST
    elif now.owed > then.owed or (now.owed > 0 and now.deadline != then.deadline):
        kind = EventKind.OWED
    elif (then.owed > 0 and now.owed == 0) or now.level < then.level:
        kind = EventKind.RELIEF
    elif (now.limit, now.available, now.owed, now.level) != (
        then.limit,
        then.available,
        then.owed,
        then.level,
    ):
        kind = EventKind.CHANGED
    return Event(kind, now) if kind else None
