//! A collection when the program has filled the heap to a bound, between two looks of the adapter. A program
//! that allocates 1 GB in a second takes 100 MB between two looks, and the adapter can ask only after that.
//!
//! The machine tells of about one object for every [`INTERVAL`] bytes that are allocated (JVMTI
//! `SampledObjectAlloc`), on the thread that allocates it. That thread asks for the collection: it waits for
//! the memory anyway. How many collections there may be is said by the adapter, which bounds their time.

use plimsoll_unit::MIB;
use plimsoll_wire::collections::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The mean number of bytes between two objects that the machine tells of. At 1 GB/s that is a thousand
/// calls in a second; of a heap of 100 MB it is a hundredth.
pub const INTERVAL: u64 = MIB;
/// Bytes in use that are not known: after a pause in which the heap was not looked at.
const UNKNOWN: u64 = u64::MAX;

/// The count of a machine. Changed by all of its threads.
#[derive(Debug)]
pub struct Trigger {
    /// Bytes of the heap with objects after the last pause, or [`UNKNOWN`].
    used: AtomicU64,
    /// Bytes allocated since, about.
    allocated: AtomicU64,
    /// Collections asked for so far.
    asked: AtomicU64,
    /// A thread has asked for one, which has not ended.
    collecting: AtomicBool,
}

impl Trigger {
    /// Before the first pause.
    pub const fn before_the_first() -> Trigger {
        Trigger {
            used: AtomicU64::new(UNKNOWN),
            allocated: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            collecting: AtomicBool::new(false),
        }
    }

    /// A pause ended, after which this many bytes hold objects; 0 where that is not known.
    pub fn pause_ended(&self, used: u64) {
        self.allocated.store(0, Ordering::Relaxed);
        let known = if used == 0 { UNKNOWN } else { used };
        self.used.store(known, Ordering::Relaxed);
    }

    /// The machine told of an object of `size` bytes: another [`INTERVAL`] was allocated, or all of an object
    /// that is larger. Calls `collect` if that filled the heap to its bound, and one more collection may be
    /// asked for; of several threads one does.
    pub fn allocated(&self, size: u64, bound: Option<Bound>, collect: impl FnOnce()) {
        self.allocated
            .fetch_add(size.max(INTERVAL), Ordering::Relaxed);
        let Some(bound) = bound.filter(|&bound| self.is_due(bound)) else {
            return;
        };
        if !self.collecting.swap(true, Ordering::AcqRel) {
            // Another thread may have had it collected since.
            if self.is_due(bound) {
                self.asked.fetch_add(1, Ordering::Relaxed);
                collect();
            }
            self.collecting.store(false, Ordering::Release);
        }
    }

    fn is_due(&self, bound: Bound) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let holds = used.saturating_add(self.allocated.load(Ordering::Relaxed));
        used != UNKNOWN && holds > bound.above.0 && self.asked() < bound.times
    }

    /// Collections asked for so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Bytes;

    /// Allocates until a collection is asked for; how many [`INTERVAL`]s that were, 99 at the most.
    fn until_asked(trigger: &Trigger, bound: Option<Bound>) -> u64 {
        let before = trigger.asked();
        let mut times = 0;
        while trigger.asked() == before && times < 99 {
            trigger.allocated(16, bound, || ());
            times += 1;
        }
        times
    }

    #[test]
    fn a_heap_is_collected_when_it_comes_to_its_bound() {
        let bound = Some(Bound {
            above: Bytes(10 * INTERVAL),
            times: 3,
        });
        let trigger = Trigger::before_the_first();
        assert_eq!(
            until_asked(&trigger, bound),
            99,
            "nothing is known of the heap"
        );
        trigger.pause_ended(0);
        assert_eq!(
            until_asked(&trigger, bound),
            99,
            "the heap was not looked at"
        );
        trigger.pause_ended(4 * INTERVAL);
        assert_eq!(until_asked(&trigger, None), 99, "there is no bound");
        trigger.pause_ended(4 * INTERVAL);
        assert_eq!(until_asked(&trigger, bound), 7);
        trigger.pause_ended(9 * INTERVAL);
        assert_eq!(until_asked(&trigger, bound), 2);
        trigger.pause_ended(12 * INTERVAL);
        assert_eq!(
            until_asked(&trigger, bound),
            1,
            "it holds too much as it is"
        );
        trigger.pause_ended(4 * INTERVAL);
        assert_eq!(until_asked(&trigger, bound), 99, "as often as was allowed");
    }

    #[test]
    fn one_thread_collects_at_a_time() {
        let trigger = Trigger::before_the_first();
        trigger.pause_ended(1);
        let bound = Some(Bound {
            above: Bytes::ZERO,
            times: 9,
        });
        trigger.allocated(16, bound, || {
            trigger.allocated(16, bound, || panic!("two at once"));
            trigger.pause_ended(1);
        });
        assert_eq!(trigger.asked(), 1);
        trigger.allocated(16, bound, || ());
        assert_eq!(trigger.asked(), 2, "the next may be asked for");
        trigger.pause_ended(1);
        let bound = Some(Bound {
            above: Bytes(40 * INTERVAL),
            times: 9,
        });
        trigger.allocated(50 * INTERVAL, bound, || ());
        assert_eq!(trigger.asked(), 3, "all of a large object counts");
    }
}
