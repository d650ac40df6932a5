"""Local sensing: what a program may use while it has no broker.

It is conservative, because other programs may sense the same free bytes. It takes a quarter of what is free
beyond a reserve, and looks again.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from plimsoll_memory import _kernel
from plimsoll_memory._cgroup import Group, groups_of
from plimsoll_memory._kernel import KernelFile
from plimsoll_memory._reading import NOTHING, Level, Reading, Source
from plimsoll_memory._wire import U64

MIB = 1 << 20
PART = 4
"""A program takes one part in this many of the free memory at a time."""
RESERVE_PART = 50
"""The reserve is one part in this many of the capacity, within the bounds below."""
RESERVE_MIN = 32 * MIB
RESERVE_MAX = 1024 * MIB
PATIENCE = 1_000_000_000
"""The time allowed for paying a debt, ns."""
GRACE = 10_000_000_000
"""How long the last limit of a dead broker holds, ns. The sum of all limits was safe."""
HYSTERESIS = MIB
"""Numbers that change by less than this (bytes) stay as they were."""
READS_PER_SCAN = 256
"""After this many reads the groups are looked up again, because a process can be moved."""


class Sensed(NamedTuple):
    """The memory that bounds the program, bytes."""

    capacity: int
    """All of it: the limit of the binding group, or the machine's."""
    room: int
    """The part that is free or can be dropped for free."""
    uses: int
    """The use of the process."""


class Domain:
    """The machine, or the nested groups above a process. The one with the least room binds."""

    def __init__(self, pid: int | None) -> None:
        """For a process; None for the whole machine. Raises OSError."""
        self._pid = pid
        self._meminfo = KernelFile("/proc/meminfo")
        self._scan()

    def _scan(self) -> None:
        self._groups = groups_of(self._pid) if self._pid is not None else []
        self._reads = 0

    def read(self) -> tuple[int, int]:
        """Capacity and room, bytes. Raises OSError or ValueError."""
        self._reads += 1
        if self._reads >= READS_PER_SCAN:
            self._scan()
        try:
            return self._read_all()
        except OSError:
            # A group was removed and perhaps made again.
            self._scan()
            return self._read_all()

    def _read_all(self) -> tuple[int, int]:
        return tightest(_kernel.machine(self._meminfo.read()), self._groups)


def tightest(machine: tuple[int, int], groups: list[Group]) -> tuple[int, int]:
    """Capacity and room of the machine (all, used) or of the group that has the least room."""
    total, used = machine
    capacity, room = total, max(total - used, 0)
    for group in groups:
        limit = group.limit()
        if limit is None or limit >= total:
            continue
        usage = group.usage()
        # A group that is far from its limit even with all its caches cannot bind.
        if max(limit - usage, 0) > room:
            continue
        here = max(limit - max(usage - group.droppable(), 0), 0)
        if here <= room:
            capacity, room = limit, here
    return capacity, room


class Local:
    """Senses for one principal. Belongs to the watcher's thread."""

    def __init__(self, pid: int | None) -> None:
        """For this process, or for none (a group, or a process that is still to start)."""
        self._pid = pid
        self._domain: Domain | None = None
        self._status: KernelFile | None = None
        self._last = NOTHING
        self._bound: tuple[int, int] | None = None

    def set_pid(self, pid: int | None) -> None:
        """Changes the process to sense for."""
        if pid != self._pid:
            self.rest()
            self._pid, self._last = pid, NOTHING

    def inherit(self, limit: int, now: int) -> None:
        """Keeps the limit of a lost broker as an upper bound for a while."""
        self._bound = (limit, now + GRACE) if limit > 0 else None
        self._last = NOTHING

    def rest(self) -> None:
        """Closes the files. The next look opens them again."""
        self._domain = self._status = None

    def sense(self, now: int) -> Reading:
        """Senses the present numbers. Never fails."""
        if self._bound is not None and now >= self._bound[1]:
            self._bound = None
        bound = self._bound[0] if self._bound is not None else U64
        last = self._last
        fresh = decide(self._look(), bound, last, now)
        if is_close(fresh, last):
            self._last = last._replace(uses=fresh.uses, sensed=now, heartbeat=now)
        else:
            self._last = fresh._replace(generation=last.generation + 1)
        return self._last

    def interval(self) -> float:
        """The pause until the next look, s. Short while memory is short."""
        return 0.5 if self._last.level is Level.NORMAL else 0.1

    def _look(self) -> Sensed:
        uses = self._uses()
        try:
            if self._domain is None:
                self._domain = self._find_domain()
            capacity, room = self._domain.read()
        except (OSError, ValueError):
            self._domain = None
            page = os.sysconf("SC_PAGE_SIZE")
            capacity, room = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
        return Sensed(capacity, room, uses)

    def _find_domain(self) -> Domain:
        for pid in (self._pid, os.getpid()):
            try:
                if pid is not None:
                    return Domain(pid)
            except OSError:
                continue
        return Domain(None)

    def _uses(self) -> int:
        if self._pid is None:
            return 0
        try:
            if self._status is None:
                self._status = KernelFile(f"/proc/{self._pid}/status")
            return _kernel.own_use(self._status.read())
        except OSError:
            return 0


def decide(sensed: Sensed, bound: int, last: Reading, now: int) -> Reading:
    """The numbers that follow from what was sensed.

    The limit never exceeds `bound`. A debt in `last` keeps its deadline until it is paid.
    """
    capacity, room, uses = sensed
    floor = min(RESERVE_MIN, capacity // 8)
    reserve = min(max(capacity // RESERVE_PART, floor), max(RESERVE_MAX, floor))
    free = max(room - reserve, 0)
    owed = min(max(reserve - room, 0), uses // 2)
    limit = uses - owed if owed > 0 else uses + free // PART
    deadline = 0 if owed == 0 else last.deadline or now + PATIENCE
    if room < reserve // 4 or (owed > 0 and now > deadline):
        level = Level.CRITICAL
    elif room < reserve:
        level = Level.WARNING
    else:
        level = Level.NORMAL
    return Reading(
        limit=min(limit, bound),
        available=min(uses + free, U64),
        owed=owed,
        deadline=deadline,
        uses=uses,
        share=0,
        level=level,
        sensed=now,
        generation=0,
        heartbeat=now,
        source=Source.LOCAL,
    )


def is_close(one: Reading, other: Reading) -> bool:
    """Whether a change is too small to tell: under 1 MiB or 1 %, with nothing else changed."""

    def close(a: int, b: int) -> bool:
        return abs(a - b) <= max(HYSTERESIS, b // 100)

    return (
        one.level == other.level
        and (one.owed == 0) == (other.owed == 0)
        and close(one.owed, other.owed)
        and one.deadline == other.deadline
        and close(one.limit, other.limit)
        and close(one.available, other.available)
    )
