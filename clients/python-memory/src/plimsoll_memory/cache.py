"""A cache that sizes itself by the memory that the program may use. Needs `cachetools`.

    from plimsoll_memory import Principal
    from plimsoll_memory.cache import AdaptiveCache

    principal = Principal("my-cache")
    cache = AdaptiveCache(principal)
    cache["key"] = b"value"

It gives back what is owed, in steps before the deadline; it grows only while the program uses less than its
limit; and it reports how much it could make use of, and what more memory would be worth to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from types import TracebackType
from typing import Any, TypeVar

import cachetools

from plimsoll_memory._pending import as_of
from plimsoll_memory._principal import Principal
from plimsoll_memory._reading import Reading
from plimsoll_memory.adaptive import Adaptive
from plimsoll_memory.ghost import Ghost

K = TypeVar("K")
V = TypeVar("V")

MIB = 1 << 20
SECOND = 1_000_000_000
ENTRY = 256
"""Bytes that the cache itself needs for an entry, beside the value."""
STEPS = 8
"""A debt is paid in about as many steps, so that whoever uses the cache waits for one step at most."""
LEAST_STEP = MIB
"""The smallest step, bytes."""
TRIM_PART = 32
"""Dropped memory goes to the kernel when it is more than one part in this many of what the cache holds."""
HEADROOM = 16 * MIB
"""The cache reports that it could use a quarter more than it holds and lacked, and this, so that it may
grow."""
MOST_LOADS = 4096
"""So many values may be on their way at a time, for the time that they take to count."""
LONGEST_LOAD = 60 * SECOND
"""A value that comes later after its miss was not made because of that."""
_MISSING = object()


def _no_trim(_pad: int) -> int:
    return 0


def _find_trim() -> Callable[[int], int]:
    """`malloc_trim` of glibc, which keeps freed memory otherwise; elsewhere nothing."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return _no_trim
    return trim


class AdaptiveCache(MutableMapping[K, V]):
    """A mapping that may forget its entries at any time. Any thread may use it.

    It works with the decorators of `cachetools`, too: ``@cachetools.cached(cache)``. A value for which there
    is no memory is not kept. After a fork, the child's copy keeps to the limit but gives nothing back by
    itself.
    """

    def __init__(
        self,
        principal: Principal,
        *,
        maxsize: float = math.inf,
        getsizeof: Callable[[V], int] = sys.getsizeof,
        policy: Callable[..., Any] = cachetools.LRUCache,
    ) -> None:
        """Starts with nothing.

        Args:
            principal: Whose memory it uses. The cache takes its events.
            maxsize: The most that it may ever hold, bytes.
            getsizeof: The bytes of a value. `sys.getsizeof` does not count what a value refers to: give a
                function of your own for values that consist of many objects.
            policy: Which entry goes first: a class of `cachetools`, or a function that makes one. It is
                called with the largest size and `getsizeof`, for example
                ``functools.partial(cachetools.TTLCache, ttl=60)``.

        Raises:
            ResourceError: The kernel gives no thread.
        """
        self._principal = principal
        self._getsizeof = getsizeof
        self._cache = policy(maxsize, getsizeof=self._charge)
        self._lock = threading.RLock()
        self._trim = _find_trim()
        self._as_of = 0
        """The time of the reading after which `_grown` counts."""
        self._grown = 0
        """Bytes that were taken since, which that reading does not show."""
        self._paid = 0
        """When memory was given back last, ns."""
        self._untrimmed = 0
        """Bytes that were dropped, and that the allocator may still keep."""
        self._lacked = 0
        """Bytes that were dropped or refused of late because memory was short."""
        self._wanted: float = 0
        """The bytes that it could hold, as it reported last."""
        self._reported = 0
        self._reaction_ms: int | None = None
        self._ghost = Ghost(time.monotonic_ns())
        self._loads: OrderedDict[int, int] = OrderedDict()
        """When keys were asked for in vain that were dropped lately, by their hashes, ns."""
        self._worth: int | None = None
        """The worth of more memory, as it reported last."""
        _track(self._lock)
        self._adaptive = Adaptive(principal, self._give_back, look=self._report_worth)

    @property
    def maxsize(self) -> float:
        """The most that it may ever hold, bytes."""
        return float(self._cache.maxsize)

    @property
    def currsize(self) -> int:
        """The bytes that its entries are charged with."""
        with self._lock:
            return int(self._cache.currsize)

    def close(self) -> None:
        """Ends the adapting and forgets all. The principal stays open."""
        self._adaptive.close()
        self.clear()

    def __enter__(self) -> AdaptiveCache[K, V]:
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

    def __getitem__(self, key: K) -> V:
        """The value. Raises KeyError if it is not (or no more) there.

        If a value is set then, the time until that counts as the cost of the miss.
        """
        with self._lock:
            try:
                value: V = self._cache[key]
            except KeyError:
                self._begin_load(hash(key))
                raise
            return value

    def __setitem__(self, key: K, value: V) -> None:
        """Keeps the value if there is memory for it, and drops others where that makes room."""
        ended = time.monotonic_ns()
        size = self._charge(value)
        now = self._principal.read()
        with self._lock:
            self._end_load(hash(key), ended)
            self._cache.pop(key, None)
            if size <= self._cache.maxsize:
                if self._make_room(size, now):
                    self._cache[key] = value
                    self._grown += size
                else:
                    # More memory would keep it as well as one that had to go.
                    self._ghost.evicted(hash(key), size, int(self._cache.currsize))
            if self._untrimmed > max(self._cache.currsize // TRIM_PART, LEAST_STEP):
                self._give_to_kernel()
        self._report(now)

    def __delitem__(self, key: K) -> None:
        """Forgets an entry. Raises KeyError if it is not there."""
        with self._lock:
            del self._cache[key]

    def __contains__(self, key: object) -> bool:
        """Whether it is there now."""
        with self._lock:
            return key in self._cache

    def __iter__(self) -> Iterator[K]:
        """The keys that were there when the iteration began."""
        with self._lock:
            return iter(list(self._cache))

    def __len__(self) -> int:
        """The number of entries."""
        with self._lock:
            return len(self._cache)

    # Those of the base class take several steps, between which an entry may go.

    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Forgets an entry and returns its value, or `default`. Raises KeyError if there is neither."""
        with self._lock:
            return self._cache.pop(key) if default is _MISSING else self._cache.pop(key, default)

    def popitem(self) -> tuple[K, V]:
        """Forgets the entry that would go first. Raises KeyError if there is none."""
        with self._lock:
            item: tuple[K, V] = self._cache.popitem()
            return item

    def setdefault(self, key: K, default: Any = None) -> Any:
        """The value; if there is none, keeps `default` if there is memory for it, and returns that."""
        with self._lock:
            try:
                return self._cache[key]
            except KeyError:
                self[key] = default
            return default

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._cache.clear()
        self._give_to_kernel()

    def _charge(self, value: V) -> int:
        return self._getsizeof(value) + ENTRY

    def _make_room(self, size: int, now: Reading) -> bool:
        """Whether there is memory for `size` more bytes, after others were dropped for it if need be."""
        shown = as_of(now)
        if shown != self._as_of:
            self._as_of, self._grown = shown, 0
        # A reading that is older than the last payment does not tell what is left.
        left = now.limit - now.uses - self._grown if shown > self._paid else 0
        lack = size - max(left, 0)
        if lack <= 0:
            return True
        freed = self._evict(lack) if lack <= self._cache.currsize else 0
        self._lacked += max(lack, freed)
        return freed >= lack

    def _evict(self, size: int) -> int:
        """Drops entries of at least `size` bytes, if there are as many. Returns the bytes."""
        before = self._cache.currsize
        # An empty cache raises KeyError. Where entries expire it may be empty at any time.
        with contextlib.suppress(KeyError):
            while before - self._cache.currsize < size:
                held = self._cache.currsize
                key, _ = self._cache.popitem()
                left = int(self._cache.currsize)
                self._ghost.evicted(hash(key), int(held - left), left)
        freed = int(before - self._cache.currsize)
        self._untrimmed += freed
        return freed

    def _begin_load(self, key: int) -> None:
        """Notes when a value was asked for in vain, if more memory would have kept it."""
        if key in self._ghost:
            self._loads[key] = time.monotonic_ns()
            if len(self._loads) > MOST_LOADS:
                self._loads.popitem(last=False)

    def _end_load(self, key: int, now: int) -> None:
        began = self._loads.pop(key, None)
        if began is not None and 0 <= now - began <= LONGEST_LOAD:
            self._ghost.missed(key, now - began)

    def _give_to_kernel(self) -> None:
        """Without this, glibc would keep what was dropped, and take other memory for what is new."""
        self._untrimmed = 0
        self._trim(0)

    def _give_back(self, now: Reading) -> None:
        """Pays what is owed, in steps, and reports each."""
        began = time.monotonic_ns()
        step = max(now.owed // STEPS, LEAST_STEP)
        paid = 0
        while now.owed > 0:
            with self._lock:
                freed = self._evict(min(step, now.owed))
                self._lacked += freed
            if freed == 0:
                break
            self._give_to_kernel()
            self._principal.released(freed)
            self._paid = time.monotonic_ns()
            paid += freed
            now = self._principal.read()
        if paid > 0:
            self._reaction_ms = (time.monotonic_ns() - began) // 1_000_000
        self._report(now)

    def _report(self, now: Reading) -> None:
        """Tells what the program could make use of: once a second, and at once when that is much more."""
        with self._lock:
            time_now = time.monotonic_ns()
            is_due = time_now - self._reported >= SECOND
            holds = self._cache.currsize
            useful = holds + self._lacked
            is_more = useful > self._wanted - HEADROOM // 2 and self._wanted < self._cache.maxsize
            if not is_due and not is_more:
                return
            self._wanted = min(useful * 5 // 4 + HEADROOM, self._cache.maxsize)
            if is_due:
                self._reported = time_now
                self._lacked //= 2
            demand = max(now.uses - holds, 0) + self._wanted
        self._principal.report(demand=int(demand), reaction_ms=self._reaction_ms)

    def _report_worth(self) -> None:
        """Tells what more memory would save, each second in which that has changed."""
        with self._lock:
            worth = self._ghost.worth(time.monotonic_ns())
            if worth is None or worth == self._worth:
                return
            self._worth = worth
        self._principal.report(worth=worth)


_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()
_held: list[threading.RLock] = []
_is_tracking = False


def _track(lock: threading.RLock) -> None:
    """Has a cache at rest while the process forks, so that the child's copy is whole."""
    global _is_tracking
    _locks.add(lock)
    if not _is_tracking:
        _is_tracking = True
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_let_go)


def _hold() -> None:
    for lock in list(_locks):
        lock.acquire()
        _held.append(lock)


def _let_go() -> None:
    while _held:
        _held.pop().release()
