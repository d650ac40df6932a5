"""The worth of more memory to a cache, by a ghost list of keys that it evicted lately. Pure: no clock.

A miss of one of these keys would be a hit in a cache that is larger by as much as the list stands for.
"""

from __future__ import annotations

import math
from collections import OrderedDict

MIB = 1 << 20
SECOND = 1_000_000_000
MOST = (1 << 64) - 1
PART = 8
"""The list stands for one part in this many of the cache's size more, and for a MiB at least."""
MEASURE_OVER = SECOND
"""The shortest time over which is measured, ns."""
SMOOTH_OVER = 8 * SECOND
"""The worth of before is forgotten over this time, ns."""


class Ghost:
    """The keys that a cache evicted last, by their hashes: so no key itself is kept alive.

    It takes some 200 bytes for each of an eighth of the cache's entries. A cache with very many small ones
    can tell it of every n-th hash alone, and multiply sizes and costs by n. One thread may use it at a time.
    """

    def __init__(self, now: int) -> None:
        """Starts an empty list. `now` (ns) is the time at which the cache begins."""
        self._sizes: OrderedDict[int, int] = OrderedDict()
        """The bytes of each key's entry; the key that was evicted first comes first."""
        self._held = 0
        self._capacity = MIB
        self._saved = 0
        """The time that hits in the list would have saved since `_begun`, ns."""
        self._begun = now
        self._worth: float | None = None

    def __contains__(self, key: int) -> bool:
        """Whether a miss of this key would count."""
        return key in self._sizes

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._sizes)

    def evicted(self, key: int, size: int, left: int) -> None:
        """The cache has dropped an entry of `size` bytes to make room, and is of `left` bytes now."""
        self._forget(key)
        self._sizes[key] = size
        self._held += size
        self._capacity = max(left // PART, MIB)
        while self._held > self._capacity:
            _, oldest = self._sizes.popitem(last=False)
            self._held -= oldest

    def missed(self, key: int, cost: int) -> None:
        """The cache did not have an entry, and making it took `cost` ns."""
        if self._forget(key):
            self._saved += cost

    def worth(self, now: int) -> int | None:
        """The ns per second that one more MiB would have saved lately; None in the first second.

        To be reported as `worth` (`Principal.report`). `now` in ns.
        """
        took = now - self._begun
        if took >= MEASURE_OVER:
            rate = self._saved / (took / SECOND) / (self._capacity / MIB)
            part = took / (took + SMOOTH_OVER)
            self._worth = rate if self._worth is None else self._worth + part * (rate - self._worth)
            self._saved, self._begun = 0, now
        return None if self._worth is None else min(math.floor(self._worth + 0.5), MOST)

    def _forget(self, key: int) -> bool:
        size = self._sizes.pop(key, None)
        if size is None:
            return False
        self._held -= size
        return True
