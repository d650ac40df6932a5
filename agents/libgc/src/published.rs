//! Findings of the hooks for the helper. The hooks write, on a thread of the program that holds the
//! allocation lock, and the helper reads; plain atomics, without a lock. Sizes in bytes, times in
//! nanoseconds.

use crate::heap::Heap;
use crate::own_memory::Memory;
use crate::schedule;
use plimsoll_unit::MIB;
use std::sync::atomic::{
    AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Collections over which the speed of the fastest is taken.
const RECENT: usize = 3;

/// The findings of this process's hooks.
pub static PUBLISHED: Published = Published {
    heap: AtomicU64::new(0),
    other: AtomicU64::new(0),
    guard: AtomicU64::new(schedule::MIN_GUARD),
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

/// The heap and its collections, as the hooks saw them.
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
    pub collecting: u64,
    /// Duration of the last, and of the longest; 0 before the first.
    pub last: u64,
    /// Duration of the longest.
    pub longest: u64,
    /// Expected duration of the next.
    pub expected: u64,
    /// Used bytes after the last.
    pub live: u64,
}

impl Published {
    /// The heap has another size. Returns by how much it grew.
    pub fn resized(&self, heap: u64) -> u64 {
        heap.saturating_sub(self.heap.swap(heap, AcqRel))
    }

    /// Updates the use that is not heap. `untouched` mapped bytes of the heap are known to be untouched.
    pub fn measured(&self, memory: Memory, heap: &Heap, untouched: u64) {
        let mapped = heap.mapped.saturating_sub(untouched);
        let idle = heap.idle.saturating_sub(untouched);
        let known = self.other.load(Acquire);
        let other = schedule::other(known, memory, mapped, idle);
        self.other.store(other, Release);
    }

    /// The use that is not heap is at least `least`, as the helper saw it. Returns what it is.
    pub fn other_is_at_least(&self, least: u64) -> u64 {
        self.other.fetch_max(least, AcqRel).max(least)
    }

    /// A collection begins; the program has allocated `allocated` bytes since its start.
    pub fn began(&self, now: u64, allocated: u64) {
        self.began.store(now, Relaxed);
        let before = self.allocated.swap(allocated, Relaxed);
        self.cycle.store(allocated.saturating_sub(before), Relaxed);
    }

    /// A collection ended. `rate`: bytes that the program allocates per second; `is_ours`: whether the helper
    /// collected.
    pub fn ended(&self, now: u64, heap: &Heap, rate: u64, is_ours: bool) {
        let expected = self.count_collection(now, heap.used);
        self.live.store(heap.used, Release);
        let guard = schedule::guard(heap.used, rate, expected);
        self.guard.store(guard, Release);
        // The free memory does not fit the request: without more heap, the program would collect at
        // every large allocation.
        let hurried = self.cycle.load(Relaxed) < guard / 2;
        let least = if hurried && !is_ours {
            heap.extent.saturating_add(guard)
        } else {
            0
        };
        self.least.store(least, Release);
    }

    /// Counts a collection that left `live` bytes alive. Returns what the next is expected to take.
    fn count_collection(&self, now: u64, live: u64) -> u64 {
        let mib = u128::from(MIB);
        let took = now.saturating_sub(self.began.load(Relaxed));
        self.collecting.fetch_add(took, AcqRel);
        self.last.store(took, Release);
        self.longest.fetch_max(took, AcqRel);
        let count = self.count.fetch_add(1, AcqRel);
        let live = u128::from(live.max(1));
        let pace = u64::try_from(u128::from(took) * mib / live).unwrap_or(u64::MAX);
        self.recent[count as usize % RECENT].store(pace.max(1), Relaxed);
        let recent = self.recent.iter().map(|pace| pace.load(Relaxed));
        let least = recent.filter(|&pace| pace > 0).min().unwrap_or(pace);
        let expected = u64::try_from(u128::from(least) * live / mib).unwrap_or(u64::MAX);
        self.expected.store(expected.max(1), Release);
        expected.max(1)
    }

    /// The target: the intended size of the heap, when the process may use `allowance` bytes.
    pub fn target(&self, allowance: u64) -> u64 {
        match allowance {
            u64::MAX => u64::MAX,
            allowance => allowance.saturating_sub(self.other.load(Acquire)),
        }
    }

    /// The size that the heap may reach before the next collection, when the process may use `allowance`
    /// bytes.
    pub fn ceiling(&self, allowance: u64) -> u64 {
        let live = self.live.load(Acquire);
        let ceiling = schedule::ceiling(self.target(allowance), live, self.guard());
        ceiling.max(self.least.load(Acquire))
    }

    /// Bytes to allocate at least between two collections.
    pub fn guard(&self) -> u64 {
        self.guard.load(Acquire)
    }

    /// Bytes that the program has allocated since the last collection, of those since its start.
    pub fn since(&self, allocated: u64) -> u64 {
        allocated.saturating_sub(self.allocated.load(Relaxed))
    }

    /// The collections so far.
    pub fn collections(&self) -> Collections {
        Collections {
            count: self.count.load(Acquire),
            collecting: self.collecting.load(Acquire),
            last: self.last.load(Acquire),
            longest: self.longest.load(Acquire),
            expected: self.expected.load(Acquire),
            live: self.live.load(Acquire),
        }
    }
}
