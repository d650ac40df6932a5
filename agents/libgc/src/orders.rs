//! Orders of the helper to the hooks. The helper writes, and the hooks read, on any thread of the program;
//! plain atomics, without a lock. Sizes in bytes.

use plimsoll_unit::Bytes;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release,
};

/// The orders of this process's helper.
pub static ORDERS: Orders = Orders {
    engaged: AtomicBool::new(false),
    collects: AtomicBool::new(false),
    holds_finalizers: AtomicBool::new(false),
    lent: AtomicU64::new(0),
    allowance: AtomicU64::new(u64::MAX),
    rate: AtomicU64::new(0),
};

/// The orders in force.
#[derive(Debug)]
pub struct Orders {
    engaged: AtomicBool,
    collects: AtomicBool,
    holds_finalizers: AtomicBool,
    lent: AtomicU64,
    allowance: AtomicU64,
    rate: AtomicU64,
}

impl Orders {
    /// Whether the adapter's schedule is in force.
    pub fn engaged(&self) -> bool {
        self.engaged.load(Acquire)
    }

    /// Puts the adapter's schedule in force, or the program's. Returns whether that is a change.
    pub fn engage(&self, ours: bool) -> bool {
        self.engaged.swap(ours, AcqRel) != ours
    }

    /// Whether the collection under way is the helper's.
    pub fn collects(&self) -> bool {
        self.collects.load(Acquire)
    }

    /// The helper begins or ends its work inside the collector.
    pub fn set_collects(&self, collects: bool) {
        self.collects.store(collects, Release);
    }

    /// Whether no finalizer may run, because it would run on the helper's thread.
    pub fn holds_finalizers(&self) -> bool {
        self.holds_finalizers.load(Acquire)
    }

    /// Holds finalizers back from now on, or no longer.
    pub fn hold_finalizers(&self, hold: bool) {
        self.holds_finalizers.store(hold, Release);
    }

    /// While the helper takes ballast, the size that the heap may grow to beyond its ceiling; 0 otherwise.
    pub fn lent(&self) -> Bytes {
        Bytes(self.lent.load(Acquire))
    }

    /// Sets that size. Returns the one before.
    pub fn lend(&self, heap: Bytes) -> Bytes {
        Bytes(self.lent.swap(heap.0, AcqRel))
    }

    /// The memory that the process may use; [`Bytes::MAX`] without a limit.
    pub fn allowance(&self) -> Bytes {
        Bytes(self.allowance.load(Acquire))
    }

    /// Sets what it may use.
    pub fn allow(&self, bytes: Bytes) {
        self.allowance.store(bytes.0, Release);
    }

    /// Bytes that the program allocates per second.
    pub fn rate(&self) -> u64 {
        self.rate.load(Acquire)
    }

    /// The rate was measured.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Release);
    }

    /// In a child of fork, where no helper is left in the midst of its work.
    pub fn forked(&self) {
        self.set_collects(false);
        self.hold_finalizers(false);
        self.lend(Bytes::ZERO);
    }
}
