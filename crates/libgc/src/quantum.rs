//! The memory quantum: a thread that has allocated a quantum of bytes gives its processor up. This is
//! memory-quantum round robin (MQRR; "Allocation-Phase Aware Thread Scheduling Policies to Improve Garbage
//! Collection Performance", Xian, Srisa-an and Jiang, ISMM 2007, section 3.2), where the allocator ends a
//! turn.
//!
//! `PLIMSOLL_GC_QUANTUM` turns it on. Then no thread has a quick word ([`crate::thread::current::quick`]), so
//! each allocation takes the slow way, which counts it here. While it is off, the slow way has one branch
//! more, and the quick one is as it was.
//!
//! Which thread runs next, and for how long at most, stays up to the kernel: a thread that gives way is ready
//! all the time. So nobody starves, and a thread that allocates nothing loses its processor at the end of its
//! slice.

use crate::lock;
use plimsoll_heap::{Class, GRANULE};
use plimsoll_policy::phases::{Quantum, TIME_BOUND, Used};
use plimsoll_unit::{Bytes, Nanos};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The quantum, bytes; 0 while there is none. Written once, when the collector is made.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Processors that this program may use: with no more registered threads than that, nobody gives way. Written
/// with [`BYTES`].
static PROCESSORS: AtomicUsize = AtomicUsize::new(0);

/// How often threads gave way.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// The turn of one thread, used by that thread alone.
pub(crate) struct Turn {
    /// Bytes that the thread allocated since it last gave way, as `GC_size` tells them.
    spent: AtomicU64,
}

impl Turn {
    /// Whether the thread has allocated its quantum.
    pub(crate) fn is_over(&self) -> bool {
        let quantum = Quantum {
            time: TIME_BOUND,
            bytes: Bytes(BYTES.load(Relaxed)),
        };
        // The kernel bounds the time.
        quantum.is_used_up(Used {
            time: Nanos::ZERO,
            bytes: Bytes(self.spent.load(Relaxed)),
        })
    }

    /// Gives the processor up, if more threads are `running` than there are processors. The caller holds no
    /// lock of the collector's and is outside of its thread's bins, so the world may be stopped meanwhile. In
    /// a callback that the program runs under the collector's lock this does nothing: the turn ends later.
    #[inline(never)]
    pub(crate) fn end(&self, running: usize) {
        if lock::is_mine() {
            return;
        }
        self.spent.store(0, Relaxed);
        if running > PROCESSORS.load(Relaxed) {
            GIVEN.fetch_add(1, Relaxed);
            std::thread::yield_now();
        }
    }

    /// Counts an object of `bytes` bytes that the thread is about to allocate.
    pub(crate) fn count(&self, bytes: usize) {
        let size = match Class::of(bytes) {
            Some(class) => class.bytes(),
            None => bytes.checked_next_multiple_of(GRANULE).unwrap_or(0),
        };
        let spent = self.spent.load(Relaxed).saturating_add(size as u64);
        self.spent.store(spent, Relaxed);
    }
}

/// Sets the quantum, bytes; 0 for none.
pub(crate) fn begin(bytes: usize) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    PROCESSORS.store(processors, Relaxed);
    BYTES.store(bytes as u64, Relaxed);
}

/// How often threads gave way; `None` if there is no quantum.
pub(crate) fn given() -> Option<u64> {
    is_on().then(|| GIVEN.load(Relaxed))
}

/// Whether allocations are counted.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    BYTES.load(Relaxed) != 0
}
