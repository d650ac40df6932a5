//! Incremental mode, as far as it goes here: most collections are of young objects only, by mark bits that stay and the
//! kernel's tracking of writes. Every collection is whole while the world stands still.

use crate::collector::{self, State};
use crate::settings::GC_full_freq;
use crate::{leaks, report};
use libc::c_int;
use plimsoll_heap::Heap;

/// Old objects are collected, too, when this much more lives than after they were collected last.
const GROWTH: u64 = 2;

/// Whether collections may be of young objects, and when the last one was that was not.
#[derive(Default)]
pub(crate) struct Incremental {
    on: bool,
    /// Collections of young objects since then.
    young: i32,
    /// Bytes that lived then.
    live: u64,
}

impl Incremental {
    /// Whether the next collection is of young objects; asked once before each that the program did not ask for.
    pub(crate) fn is_young(&self, heap: &Heap, live: u64) -> bool {
        self.on
            && heap.is_tracked()
            && self.young < GC_full_freq.get()
            && live < self.live.saturating_mul(GROWTH)
            && !leaks::wanted()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// A collection ended.
    pub(crate) fn after(&mut self, young: bool, live: u64) {
        if young {
            self.young += 1;
        } else {
            (self.young, self.live) = (0, live);
        }
    }
}

/// Turns the mode on, where the kernel tracks writes.
pub(crate) fn turn_on(heap: &Heap, state: &mut State) {
    if state.incremental.on || leaks::wanted() {
        return;
    }
    if heap.can_watch() {
        state.incremental.on = true;
    } else {
        report::warn(
            c"Incremental mode needs a kernel that tracks writes (Linux 6.7, userfaultfd): it stays off\n",
            0,
        );
    }
}

#[unsafe(no_mangle)]
extern "C" fn GC_enable_incremental() {
    let mut gc = collector::lock();
    let heap = gc.heap;
    turn_on(heap, &mut gc);
}

#[unsafe(no_mangle)]
extern "C" fn GC_is_incremental_mode() -> c_int {
    c_int::from(collector::either().incremental.on)
}

/// `GC_PROTECTS_NONE`: the kernel notes writes by itself, and no system call meets a page that it may not write to.
#[unsafe(no_mangle)]
extern "C" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// Collections begin and end at an allocation.
#[unsafe(no_mangle)]
extern "C" fn GC_start_incremental_collection() {}

/// There is no work left over to do a little of.
#[unsafe(no_mangle)]
extern "C" fn GC_collect_a_little() -> c_int {
    0
}
