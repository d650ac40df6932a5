//! Why a simulation has no outcome.

use super::program::ReadError;
use plimsoll_trace::{MonitorId, ObjectId, ThreadId};
use std::fmt;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The thread.
    pub thread: ThreadId,
    /// How many events of its stream come before this one.
    pub event: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}, event {}", self.thread, self.event)
    }
}

/// A thread that waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Where it stands.
    pub at: Position,
    /// The monitor that it waits for, and the thread that holds it.
    pub monitor: Option<(MonitorId, Option<ThreadId>)>,
    /// The thread whose end it waits for.
    pub thread: Option<ThreadId>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        match (self.monitor, self.thread) {
            (Some((monitor, Some(holder))), _) => {
                write!(
                    f,
                    " waits for monitor {monitor}, which thread {holder} holds"
                )
            }
            (Some((monitor, None)), _) => write!(f, " waits for monitor {monitor}"),
            (None, Some(thread)) => write!(f, " waits for the end of thread {thread}"),
            (None, None) => Ok(()),
        }
    }
}

/// The most threads of a deadlock that a message lists.
const LISTED: usize = 8;

struct List<'a>(&'a [Stuck]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stuck in self.0.iter().take(LISTED) {
            write!(f, "\n  {stuck}")?;
        }
        match self.0.len().checked_sub(LISTED) {
            Some(more @ 1..) => write!(f, "\n  and {more} more"),
            _ => Ok(()),
        }
    }
}

/// Why a simulation has no outcome.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SimError {
    #[error(transparent)]
    Read(ReadError),
    #[error("the trace has no thread")]
    Empty,
    #[error("the trace has two streams of thread {0}")]
    Twice(ThreadId),
    #[error("{at}: the trace is raw, its deaths were not computed: compute them first")]
    Raw { at: Position },
    #[error("{at}: object {object} is allocated, which lives already")]
    Reborn { at: Position, object: ObjectId },
    #[error(
        "{at}: object {object} dies, and dies more often than it is allocated ({count} objects do): the \
         trace is not whole, or damaged"
    )]
    NeverBorn {
        at: Position,
        object: ObjectId,
        count: usize,
    },
    #[error(
        "{at}: object {object} dies, and so have {most} others that nobody has allocated yet: the trace is \
         damaged, or the quantum is far too long"
    )]
    ManyUnborn {
        at: Position,
        object: ObjectId,
        most: usize,
    },
    #[error("{at}: object {object} is allocated, and the thread's event {died} says that it died")]
    DiedBefore {
        at: Position,
        object: ObjectId,
        died: u64,
    },
    #[error("{at}: it names thread {thread}, and the trace has none of that number")]
    NoThread { at: Position, thread: ThreadId },
    #[error("{at}: thread {thread} is started, which has been started before")]
    StartedTwice { at: Position, thread: ThreadId },
    #[error("thread {0} is never started, and so it never ends")]
    NeverStarted(ThreadId),
    #[error("{at}: monitor {monitor} is {what}, which the thread does not hold")]
    NotHeld {
        at: Position,
        monitor: MonitorId,
        what: &'static str,
    },
    #[error("{at}: the thread ends and still holds monitor {monitor}: it is never released")]
    NeverReleased { at: Position, monitor: MonitorId },
    #[error(
        "{} threads wait for each other for ever under this scheduler:{}", stuck.len(), List(stuck)
    )]
    Deadlock { stuck: Vec<Stuck> },
    #[error(
        "{at}: the heap is too small: an object of {size} bytes finds no room in a heap of {heap} bytes \
         after a collection of all of it, which left {live} live bytes; give a larger heap{}", hint(*loses)
    )]
    HeapTooSmall {
        at: Position,
        size: u64,
        heap: u64,
        live: u64,
        loses: Option<&'static str>,
    },
    #[error(
        "{at}: the thread computes for {time} ns at once, which is more than eleven days: damaged"
    )]
    LongCompute { at: Position, time: u64 },
    #[error(
        "{at}: the thread has yet to compute for {time} ns in turn with others, which is more than a hundred \
         million quanta of {quantum} ns: the trace is damaged, or give a longer quantum"
    )]
    ManyQuanta {
        at: Position,
        time: u64,
        quantum: u64,
    },
    #[error("{at}: the simulated time passes 2^64 nanoseconds")]
    TooLong { at: Position },
    #[error("{at}: more bytes are allocated than 2^64")]
    TooMuch { at: Position },
}

/// Why a heap that is larger than what is live may still be too small.
fn hint(loses: Option<&str>) -> String {
    loses.map_or(String::new(), |why| format!(" ({why})"))
}
