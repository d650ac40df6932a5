//! The state of one thread in a simulation.

use super::error::Position;
use plimsoll_policy::phases::{self, Used};
use plimsoll_trace::{Event, MonitorId, ThreadId};

/// The event for which a thread waits that is neither ready nor running. Threads are indices of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// A monitor that another thread holds.
    Monitor(MonitorId),
    /// To be notified in a monitor.
    Notify(MonitorId),
    /// The end of a thread.
    End(usize),
    /// To be unparked.
    Unpark,
    /// A time.
    Time,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody has started it.
    New,
    /// In the ready queue.
    Ready,
    /// On a processor.
    Running,
    /// Waiting for something.
    Blocked(On),
    /// At the end of its stream.
    Ended,
}

/// One thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// Its number in the trace.
    pub id: ThreadId,
    /// Whether another thread has to start it.
    pub is_started: bool,
    /// Its number in the ready queue; valid from its start to its end.
    pub slot: Option<phases::Thread>,
    /// Where it is.
    pub state: State,
    /// Time and bytes that it used since it was dispatched.
    pub used: Used,
    /// Rest of the time that it computes, nanoseconds.
    pub computes: u64,
    /// A monitor that it has to acquire before it goes on, and how often.
    pub acquires: Option<(MonitorId, u64)>,
    /// Whether it was unparked since it parked last.
    pub permit: bool,
    /// When it stops to wait whatever happens, nanoseconds.
    pub timer: Option<u64>,
    /// Monitors that it holds; a number.
    pub holds: u64,
    /// Events of its stream that were read together, and how many of these it came to.
    pub batch: Vec<Event>,
    pub given: usize,
    /// Events of its stream that it came to; a number.
    pub events: u64,
    /// Its last stamp, 0 before the first one; how many events it had come to with that; and the stamp of
    /// the event before, which is another one if no event followed a stamp yet.
    pub stamp: u64,
    pub stamped: u64,
    pub stamp_before: u64,
    /// Bytes that it allocated.
    pub allocated: u64,
    /// When it started, nanoseconds.
    pub started: u64,
    /// The time of all pauses before that, nanoseconds.
    pub paused_before: u64,
    /// Threads that wait for its end.
    pub joiners: Vec<usize>,
    /// Dispatches before it became ready last, and the time of that, nanoseconds.
    pub ready_since: (u64, u64),
}

impl Thread {
    /// The event that it came to last.
    pub(super) fn position(&self) -> Position {
        Position {
            thread: self.id,
            event: self.events.saturating_sub(1),
        }
    }

    /// It came to a stamp.
    pub(super) fn turns(&mut self, order: u64) {
        if self.stamped + 1 != self.events {
            self.stamp_before = self.stamp;
        }
        self.stamp = order;
        self.stamped = self.events;
    }

    /// The stamp of what it did before the event that it came to last.
    pub(super) fn since(&self) -> u64 {
        if self.stamped + 1 == self.events {
            self.stamp_before
        } else {
            self.stamp
        }
    }

    /// The stamp from which on others went on after the end of the wait that it came to last, as far as its
    /// stream tells. `next` is its next event that is no computing.
    ///
    /// If another thread ended the wait, that thread had its turn meanwhile, so this one drew a stamp when it
    /// went on. A recorder writes the wait before or after that stamp.
    pub(super) fn until(&self, next: Option<Event>) -> u64 {
        match next {
            Some(Event::Stamp { order }) => order,
            _ => self.stamp,
        }
    }

    pub(super) fn new(id: ThreadId, is_started: bool) -> Thread {
        Thread {
            id,
            is_started,
            slot: None,
            state: State::New,
            used: Used::default(),
            computes: 0,
            acquires: None,
            permit: false,
            timer: None,
            holds: 0,
            batch: Vec::new(),
            given: 0,
            events: 0,
            stamp: 0,
            stamped: 0,
            stamp_before: 0,
            allocated: 0,
            started: 0,
            paused_before: 0,
            joiners: Vec::new(),
            ready_since: (0, 0),
        }
    }
}
