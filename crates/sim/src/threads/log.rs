//! The log of a simulation: one event at a time.

use super::heap::Collection;
use plimsoll_trace::Event;

/// Something that happened. Threads are named by the index of their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A thread became ready: it started, woke up, or its quantum was used up.
    Ready {
        /// Which thread.
        thread: usize,
    },
    /// A thread was given a processor.
    Dispatched {
        /// Which thread.
        thread: usize,
        /// Which processor.
        processor: usize,
    },
    /// A thread computed up to now.
    Computed {
        /// Which thread.
        thread: usize,
        /// For how long, nanoseconds.
        time: u64,
    },
    /// A thread came to an event of its stream.
    Came {
        /// Which thread.
        thread: usize,
        /// To which event.
        event: Event,
    },
    /// A thread left its processor until something happens.
    Blocked {
        /// Which thread.
        thread: usize,
    },
    /// All threads were stopped for a collection.
    Collected(Collection),
    /// A thread ended.
    Ended {
        /// Which thread.
        thread: usize,
    },
}

/// A listener to the events of a simulation.
pub trait Log {
    /// Whether it wants to know at all.
    const LISTENS: bool = true;

    /// Something happened at this time, nanoseconds since the beginning.
    fn happened(&mut self, time: u64, what: What);
}

/// Nobody wants to know.
impl Log for () {
    const LISTENS: bool = false;

    fn happened(&mut self, _time: u64, _what: What) {}
}

impl Log for Vec<(u64, What)> {
    fn happened(&mut self, time: u64, what: What) {
        self.push((time, what));
    }
}
