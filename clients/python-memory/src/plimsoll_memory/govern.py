"""The rule of what a limit means inside a program with a heap of its own.

How large the heap of one process may be, when it gives memory back and down to what, how fast the program
allocates, and when it reports. Pure: no clock and no I/O. Sizes are bytes, times are nanoseconds of one clock
that never goes back.

A limit is for a process and its *family* together: its descendants, unless they are principals of their own.
The broker counts all of them; a process knows only its own use. So the family's use is the difference. The
broker's count is older, and differs while this process grows or shrinks, or forks a child that is gone a
moment later. Therefore the least difference of the last looks is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MIB = 1 << 20
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
U64 = (1 << 64) - 1

MOST_UNUSED = 24 * MIB
"""Most memory that is left unused below a limit."""
MOST_RELEASED = 32 * MIB
"""How far a release goes at most below the threshold: what is released beyond that is filled again at
once."""
WINDOW = 8
"""Looks over which the memory beside the heap is taken as the most, and the family's as the least."""
REPORT_EVERY = SECOND
"""Time between two reports."""
SMOOTH_OVER = SECOND
"""The allocation rate is smoothed over this time."""
MEASURE_OVER = 20 * MILLISECOND
"""Shortest time over which the allocation rate is measured."""
RESTS = 4
"""After a release, the next waits for this many times what it took."""
FIRST_PAUSE = 500 * MILLISECOND
"""While memory is owed, a release that did not help is repeated after this pause, and then after ever longer
ones: live data that exceed the limit are collected in vain."""
LONGEST_PAUSE = 30 * SECOND
"""The longest such pause."""
FELL_PART = 32
"""A limit that fell by more than one part in this many since the last release is reason for another at
once."""
TOLERATED_PART = 4
"""While nothing is owed, the use may exceed the threshold by one part in this many of the bytes left above
it."""


class Granted(NamedTuple):
    """The broker's numbers, bytes."""

    limit: int
    """The memory that the program may use now."""
    owed: int
    """The memory that it must give back."""
    uses: int
    """Its use as the broker counts it; 0 if unknown."""


class Own(NamedTuple):
    """The memory of this process, as it measures it, bytes."""

    resident: int
    """Resident anonymous memory."""
    beside: int
    """The part of it that is not the heap."""
    needs: int
    """The smallest heap with which the program can go on."""
    guard: int
    """The bytes that the program has to be able to allocate between two collections, however small its heap
    is."""


class Report(NamedTuple):
    """A report that is due. The sender adds what the collector knows."""

    allocation_rate: int | None
    """Bytes a second; unknown at first."""
    floor: int
    """The least memory that the program can come down to, bytes."""
    reaction_ms: int
    """How long the last release took, ms."""


class Govern(NamedTuple):
    """The result of a look. Sizes are bytes."""

    family: int
    """Use of the rest of the family."""
    process_limit: int
    """This process may use as much before it collects."""
    heap_limit: int
    """The part of that for its heap."""
    release_to: int | None
    """The size to which the heap is to shrink now, if the process and its family use too much."""
    may_release: bool
    """Whether a release would help, as far as the last one tells."""
    report: Report | None
    """A report that is due."""


@dataclass
class _Released:
    """The last release, so that one that did not help is not repeated in vain. All 0 before the first."""

    at: int = 0
    """When it ended."""
    took: int = 0
    limit: int = 0
    excess: int = 0
    """Use above the threshold after it, or what was still owed."""
    reached: bool = False
    """Whether the use fell to what is tolerated and nothing was owed, then or later."""
    pause: int = 0
    """Time until it is repeated if it did not help and memory is owed."""


class Governor:
    """Governs one process. Belongs to the thread that follows the broker."""

    def __init__(self, now: int, allocated: int) -> None:
        """For a process that has allocated `allocated` bytes until `now`."""
        self._beside = _Window()
        self._family = _Window()
        self._rate = _Rate(now, allocated)
        self._last = _Released()
        # At the last look: the use of this process; the larger of what is owed and of the use above the
        # threshold; what is owed; the limit.
        self._resident = self._excess = self._owed = self._limit = 0
        self._again = False
        self._reported = 0

    def measure(self, now: int, allocated: int) -> int:
        """Measures how fast the program allocates, of the bytes that it has ever allocated.

        Called before `step`, and also while there are no numbers. Returns bytes a second.
        """
        self._rate.look(now, allocated)
        return self._rate.smoothed

    def step(self, now: int, granted: Granted, own: Own) -> Govern:
        """One look at the broker's numbers and at this process."""
        self._beside.push(own.beside)
        # A broker that has not counted yet, or is away, knows of no family.
        if granted.uses > 0:
            self._family.push(max(granted.uses - own.resident, 0))
        beside, family = self._beside.most(), self._family.least()
        usable = threshold(granted.limit)
        unused = granted.limit - usable
        above = max(own.resident + family - usable, 0)
        self._resident, self._limit, self._owed = own.resident, granted.limit, granted.owed
        self._excess = max(above, granted.owed)
        owes = granted.owed > 0
        over = _is_over(above, owes, unused)
        # A release may take effect later, where another thread collects.
        self._last.reached |= not over and not owes
        may_release = self._may_release(now, owes, own.guard)
        left = process_limit if self._pays_alone(now) else _part_of_family
        limit = left(usable, own.resident, family)
        goal = max(left(low_water(granted.limit), own.resident, family) - beside, 0)
        return Govern(
            family=family,
            process_limit=limit,
            heap_limit=max(limit - beside, 0),
            release_to=goal if over and may_release else None,
            may_release=may_release,
            report=self._report(now, beside + family + own.needs + unused),
        )

    def released(self, began: int, ended: int, resident: int) -> None:
        """A release ended, which began at `began`. `resident`: what this process uses after it."""
        usable = threshold(self._limit)
        above = max(resident + self._family.least() - usable, 0)
        owed = max(self._owed - max(self._resident - resident, 0), 0)
        pause = min(self._last.pause * 2, LONGEST_PAUSE) if self._again else FIRST_PAUSE
        self._last = _Released(
            at=ended,
            took=max(ended - began, 0),
            limit=self._limit,
            excess=max(above, owed),
            reached=owed == 0 and not _is_over(above, False, self._limit - usable),
            pause=pause,
        )

    def pause(self, has_numbers: bool, is_heard: bool) -> int:
        """Time until the next look, ns.

        Shorter while the program allocates, longer where news end the wait (`is_heard`), and long while there
        are no numbers (`has_numbers`).
        """
        if has_numbers and self._rate.smoothed > 0:
            return 50 * MILLISECOND
        if not is_heard:
            return 100 * MILLISECOND
        return (500 if has_numbers else 1000) * MILLISECOND

    def _may_release(self, now: int, owes: bool, guard: int) -> bool:
        last = self._last
        since = max(now - last.at, 0)
        is_lower = self._limit < last.limit - last.limit // FELL_PART
        has_grown = self._excess > last.excess + guard * 2
        helps = is_lower or (since >= last.took * RESTS and (last.reached or has_grown))
        self._again = not helps and owes and since >= max(last.pause, last.took * RESTS)
        return last.at == 0 or helps or self._again

    def _pays_alone(self, now: int) -> bool:
        """The rest of the family has had its time to give its part, and did not: it cannot."""
        last = self._last
        return last.at > 0 and not last.reached and now - last.at >= FIRST_PAUSE

    def _report(self, now: int, floor: int) -> Report | None:
        if now - self._reported < REPORT_EVERY:
            return None
        self._reported = now
        return Report(self._rate.known(), floor, self._last.took // MILLISECOND)


def threshold(limit: int) -> int:
    """Use up to which a heap may grow: 15/16 of the limit, and closer to a large limit. Bytes."""
    return limit - min(limit // 16, MOST_UNUSED)


def low_water(limit: int) -> int:
    """Use that a release goes down to: 7/8 of the threshold, and closer to a large threshold. Bytes."""
    usable = threshold(limit)
    return usable - min(usable // 8, MOST_RELEASED)


def per_second(size: int, time: int) -> int:
    """Bytes a second, of bytes in a time (ns)."""
    return min(size * SECOND // max(time, 1), U64)


def process_limit(most: int, _resident: int, family: int) -> int:
    """The part of `most` bytes of a program that is left to one process beside its family."""
    return max(most - family, 0)


def _part_of_family(most: int, resident: int, family: int) -> int:
    """The same where the family can give memory back as well.

    While all use more than `most`, each member gives the same part of what it uses. If each gave the whole
    excess, they would give it many times.
    """
    excess = resident + family - most
    if excess <= 0:
        return process_limit(most, resident, family)
    return resident - excess * resident // (resident + family)


def _is_over(above: int, owes: bool, unused: int) -> bool:
    """Whether `above` bytes above the threshold are too many, below a limit that leaves `unused` above it."""
    return above > (0 if owes else unused // TOLERATED_PART)


class _Window:
    """The values of the last looks."""

    def __init__(self) -> None:
        self._values = [0] * WINDOW
        self._looks = 0

    def push(self, value: int) -> None:
        self._values[self._looks % WINDOW] = value
        self._looks += 1

    def most(self) -> int:
        return max(self._values)

    def least(self) -> int:
        """Nothing until there were enough looks."""
        return min(self._values)


class _Rate:
    """How fast the program allocates."""

    def __init__(self, now: int, allocated: int) -> None:
        self._started = self._looked = now
        self._allocated = allocated
        self.smoothed = 0
        """Bytes a second."""

    def look(self, now: int, allocated: int) -> None:
        """Mixes in the rate since the last look. While the program starts, all looks count alike."""
        passed = now - self._looked
        if passed < MEASURE_OVER:
            return
        fresh = per_second(max(allocated - self._allocated, 0), passed)
        whole = min(now - self._started, SMOOTH_OVER)
        part = min(passed, whole)
        self.smoothed = (self.smoothed * (whole - part) + fresh * part) // whole
        self._looked, self._allocated = now, allocated

    def known(self) -> int | None:
        """Unknown in the first second: a program allocates differently while it starts."""
        return self.smoothed if self._looked - self._started >= SMOOTH_OVER else None
