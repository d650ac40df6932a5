"""Memory that the program gave back and that the numbers do not show yet.

The broker reads a program's memory some milliseconds after it was freed, and numbers that were on their way
meanwhile are older still. Without this, a debt that was paid would be told again, and paid twice.
"""

from __future__ import annotations

from plimsoll_memory._reading import Level, Reading, Source

MOST = 16
"""Releases that are remembered one by one; further ones join the last."""

Paid = tuple[tuple[int, int], ...]
"""When memory was given back (monotonic ns) and how many bytes, oldest first. It is replaced as a whole, so
that readers need no lock."""


def as_of(reading: Reading) -> int:
    """The time (ns) up to which a reading shows what was given back.

    A broker that does not say when it read is taken to have read at its last sign of life.
    """
    if reading.sensed == 0 and reading.source is not Source.LOCAL:
        return reading.heartbeat
    return reading.sensed


def add(paid: Paid, size: int, now: int, shown: Reading) -> Paid:
    """Notes that `size` bytes were given back before `now`. Forgets the releases that `shown` includes."""
    limit = as_of(shown)
    paid = tuple(release for release in paid if release[0] > limit)
    if len(paid) == MOST:
        return (*paid[:-1], (now, paid[-1][1] + size))
    return (*paid, (now, size))


def settle(paid: Paid, reading: Reading) -> Reading:
    """The reading as it will be once the broker has seen what was given back."""
    if not paid:
        return reading
    shown = as_of(reading)
    if paid[-1][0] <= shown:
        return reading
    unseen = sum(size for at, size in paid if at > shown)
    uses = max(reading.uses - unseen, 0)
    owed = max(reading.owed - unseen, 0)
    if reading.owed > 0 and owed == 0:
        return reading._replace(uses=uses, owed=0, deadline=0, level=Level.NORMAL)
    return reading._replace(uses=uses, owed=owed)
