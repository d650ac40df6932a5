//! The state of one thread in a simulation.

use super::error::Position;
use super::reading::Reading;
use plimsoll_policy::phases::{self, Used};
use plimsoll_trace::{MonitorId, ThreadId};

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

/// The life of a thread, from its start to its end. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// When it started.
    started: u64,
    /// The time of all pauses before that.
    paused_before: u64,
    /// Bytes that it allocated.
    allocated: u64,
}

impl Run {
    /// A thread starts, when all pauses together took `paused`.
    pub(super) fn begin(now: u64, paused: u64) -> Run {
        Run {
            started: now,
            paused_before: paused,
            allocated: 0,
        }
    }

    /// It allocated this many bytes.
    #[inline]
    pub(super) fn allocate(&mut self, bytes: u64) {
        self.allocated = self.allocated.saturating_add(bytes);
    }

    /// The time from its start to its end, which is now.
    pub(super) fn turnaround(&self, now: u64) -> u64 {
        now.saturating_sub(self.started)
    }

    /// The pauses in its life per byte that it allocated, if it allocated any; all pauses took `paused`.
    pub(super) fn pauses(&self, paused: u64) -> Option<f64> {
        let paused = paused - self.paused_before;
        (self.allocated > 0).then(|| paused as f64 / self.allocated as f64)
    }
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
    /// Its events.
    pub stream: Reading,
    /// Its life so far, for the outcome.
    pub run: Run,
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
            event: self.stream.last(),
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
            stream: Reading::default(),
            run: Run::default(),
            joiners: Vec::new(),
            ready_since: (0, 0),
        }
    }
}
