//! Findings of the hooks for the helper. The hooks write, on a thread of the program that holds the
//! allocation lock, and the helper reads; plain atomics, without a lock.

use crate::heap::Heap;
use crate::own_memory::Memory;
use crate::schedule;
use plimsoll_unit::{Bytes, MIB, Nanos};
use std::sync::atomic::{
    AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Collections over which the speed of the fastest is taken.
const RECENT: usize = 3;

/// The findings of this process's hooks.
pub static PUBLISHED: Published = Published {
    heap: AtomicU64::new(0),
    other: AtomicU64::new(0),
    guard: AtomicU64::new(schedule::MIN_GUARD.0),
    least: AtomicU64::new(0),
    live: AtomicU64::new(0),
    began: AtomicU64::new(0),
    allocated: AtomicU64::new(0),
    cycle: AtomicU64::new(0),
    count: AtomicU64::new(0),
    collecting: AtomicU64::new(0),
    last: AtomicU64::new(0),
    longest: AtomicU64::new(0),
    expected: AtomicU64::new(0),
    recent: [const { AtomicU64::new(0) }; RECENT],
};

/// The heap and its collections, as the hooks saw them. Sizes in bytes, times in nanoseconds.
#[derive(Debug)]
pub struct Published {
    /// Size of the heap when it was last resized.
    heap: AtomicU64,
    /// The best known value of the use that is not heap.
    other: AtomicU64,
    /// Bytes to allocate at least between two collections.
    guard: AtomicU64,
    /// A lower bound for the ceiling, set if the last collection came too soon after the one before.
    least: AtomicU64,
    /// Used bytes after the last collection.
    live: AtomicU64,
    /// When the last collection began, what was allocated until then, and what of it since the one before.
    began: AtomicU64,
    allocated: AtomicU64,
    cycle: AtomicU64,
    /// Collections since the start, and the time spent in them.
    count: AtomicU64,
    collecting: AtomicU64,
    /// Duration of the last collection, and of the longest.
    last: AtomicU64,
    longest: AtomicU64,
    /// The expected duration of a collection of the current live data, at the speed of the fastest
    /// of the last few. (A slower one tells nothing if its thread had to wait for a processor.)
    expected: AtomicU64,
    /// Nanoseconds per MiB of live data, for the last few collections.
    recent: [AtomicU64; RECENT],
}

/// The collections so far, as the helper reports them.
#[derive(Clone, Copy, Debug)]
pub struct Collections {
    /// How many there were.
    pub count: u64,
    /// The time that they took together.
    pub collecting: Nanos,
    /// Duration of the last, and of the longest; 0 before the first.
    pub last: Nanos,
    /// Duration of the longest.
    pub longest: Nanos,
    /// Expected duration of the next.
    pub expected: Nanos,
    /// The memory in use after the last.
    pub live: Bytes,
}

impl Published {
    /// The heap has another size. Returns by how much it grew.
    pub fn resized(&self, heap: Bytes) -> Bytes {
        heap - Bytes(self.heap.swap(heap.0, AcqRel))
    }

    /// Updates the use that is not heap. `untouched`: the mapped part of the heap that is known to be
    /// untouched.
    pub fn measured(&self, memory: Memory, heap: &Heap, untouched: Bytes) {
        let mapped = heap.mapped - untouched;
        let idle = heap.idle - untouched;
        let known = Bytes(self.other.load(Acquire));
        let other = schedule::other(known, memory, mapped, idle);
        self.other.store(other.0, Release);
    }

    /// The use that is not heap is at least `least`, as the helper saw it. Returns what it is.
    pub fn other_is_at_least(&self, least: Bytes) -> Bytes {
        Bytes(self.other.fetch_max(least.0, AcqRel)).max(least)
    }

    /// A collection begins; the program has `allocated` this much since its start.
    pub fn began(&self, now: Nanos, allocated: Bytes) {
        self.began.store(now.0, Relaxed);
        let before = Bytes(self.allocated.swap(allocated.0, Relaxed));
        self.cycle.store((allocated - before).0, Relaxed);
    }

    /// A collection ended. `rate`: bytes that the program allocates per second; `is_ours`: whether the helper
    /// collected.
    pub fn ended(&self, now: Nanos, heap: &Heap, rate: u64, is_ours: bool) {
        let expected = self.count_collection(now, heap.used);
        self.live.store(heap.used.0, Release);
        let guard = schedule::guard(heap.used, rate, expected);
        self.guard.store(guard.0, Release);
        // The free memory does not fit the request: without more heap, the program would collect at
        // every large allocation.
        let hurried = Bytes(self.cycle.load(Relaxed)) < guard / 2;
        let least = if hurried && !is_ours {
            heap.extent + guard
        } else {
            Bytes::ZERO
        };
        self.least.store(least.0, Release);
    }

    /// Counts a collection that left `live` alive. Returns what the next is expected to take.
    fn count_collection(&self, now: Nanos, live: Bytes) -> Nanos {
        let mib = u128::from(MIB);
        let took = (now - Nanos(self.began.load(Relaxed))).0;
        self.collecting.fetch_add(took, AcqRel);
        self.last.store(took, Release);
        self.longest.fetch_max(took, AcqRel);
        let count = self.count.fetch_add(1, AcqRel);
        let live = u128::from(live.0.max(1));
        let pace = u64::try_from(u128::from(took) * mib / live).unwrap_or(u64::MAX);
        self.recent[count as usize % RECENT].store(pace.max(1), Relaxed);
        let recent = self.recent.iter().map(|pace| pace.load(Relaxed));
        let least = recent.filter(|&pace| pace > 0).min().unwrap_or(pace);
        let expected = u64::try_from(u128::from(least) * live / mib).unwrap_or(u64::MAX);
        let expected = expected.max(1);
        self.expected.store(expected, Release);
        Nanos(expected)
    }

    /// The target: the intended size of the heap, when the process may use `allowance`.
    pub fn target(&self, allowance: Bytes) -> Bytes {
        match allowance {
            Bytes::MAX => Bytes::MAX,
            allowance => allowance - Bytes(self.other.load(Acquire)),
        }
    }

    /// The size that the heap may reach before the next collection, when the process may use
    /// `allowance`.
    pub fn ceiling(&self, allowance: Bytes) -> Bytes {
        let live = Bytes(self.live.load(Acquire));
        let ceiling = schedule::ceiling(self.target(allowance), live, self.guard());
        ceiling.max(Bytes(self.least.load(Acquire)))
    }

    /// The memory to allocate at least between two collections.
    pub fn guard(&self) -> Bytes {
        Bytes(self.guard.load(Acquire))
    }

    /// The memory that the program has allocated since the last collection, of that since its start.
    pub fn since(&self, allocated: Bytes) -> Bytes {
        allocated - Bytes(self.allocated.load(Relaxed))
    }

    /// The collections so far.
    pub fn collections(&self) -> Collections {
        Collections {
            count: self.count.load(Acquire),
            collecting: Nanos(self.collecting.load(Acquire)),
            last: Nanos(self.last.load(Acquire)),
            longest: Nanos(self.longest.load(Acquire)),
            expected: Nanos(self.expected.load(Acquire)),
            live: Bytes(self.live.load(Acquire)),
        }
    }
}
