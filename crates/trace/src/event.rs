//! Events of a thread, and the numbers of threads, objects and monitors.
//!
//! | word | meaning |
//! |---|---|
//! | *stream* | the events of one thread, in the order in which the thread made them |
//! | *event number* | how many events stand before an event in its stream |
//! | *allocation clock* | bytes that a thread has allocated so far: a position that no scheduler changes |
//! | *processor time* | the time that a thread has computed so far, [`TimeUnit`]s; waiting does not count |
//! | *raw* | a trace that has reference stores and no exact deaths yet |
//!
//! Numbers are the same in all streams of a trace, and so one stream names what another one made.

use std::fmt;
use std::num::NonZeroU32;

/// The most bytes of an object: an array of 2^31 - 1 `long`s with its header, in whole pages of 4 KiB.
pub const MAX_OBJECT: u64 = (8 << 31) + 4096;
/// The most threads of a trace.
pub const MAX_THREADS: usize = 1 << 20;

/// The number of a thread. The main thread has the lowest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// The number of an object. None is used twice in a trace; 0 is Java's `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// The number of a monitor. That of a traced object has the object's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonitorId(pub u64);

/// The number of a class, whose name the trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub NonZeroU32);

/// The number of a place in the program that allocates, whose name the trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub NonZeroU32);

/// The unit of [`Event::Compute`]. A trace has one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds of processor time.
    #[default]
    Nanoseconds,
    /// Instructions that the thread has retired.
    Instructions,
}

/// Something that a thread does, or that becomes true when it has got so far.
///
/// Times and sizes are those of the program that was recorded. A simulator adds what it models: waiting,
/// switches, collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The thread runs on its processor for this long, in the trace's [`TimeUnit`]. All other events take no
    /// time.
    Compute {
        /// How long.
        time: u64,
    },
    /// The thread leaves its processor for this long, in nanoseconds of wall-clock time, and waits for
    /// nothing that another thread does: `Thread.sleep`, reading, writing.
    Sleep {
        /// How long, nanoseconds.
        time: u64,
    },
    /// The thread allocates an object.
    Alloc {
        /// The object's number, which no earlier event of a recorded order has.
        object: ObjectId,
        /// Its size with header and padding, bytes: 1 to [`MAX_OBJECT`].
        size: u64,
        /// Its class, when that was recorded.
        class: Option<ClassId>,
        /// Where in the program it is allocated, when that was recorded.
        site: Option<SiteId>,
    },
    /// The object is unreachable from here on, because of what this thread did just before. Another thread
    /// may have allocated it. Under another interleaving this event may come before the object's
    /// allocation; the object is dead then as soon as it is there.
    Death {
        /// Which object.
        object: ObjectId,
    },
    /// The thread makes another one ready to run. The position of this event on the allocation clock of its
    /// thread is when the other one starts. A thread that no stream starts is ready from the beginning.
    Start {
        /// The thread that starts.
        thread: ThreadId,
        /// Its priority in Java: 1 (least) to 10, 5 when the program sets none.
        priority: u8,
    },
    /// The thread ends. It is the last event of its stream.
    End,
    /// The thread waits until another one has ended.
    Join {
        /// The thread that is waited for.
        thread: ThreadId,
    },
    /// The thread acquires a monitor, which it waits for while another thread holds it. It may hold it
    /// already and then has to exit it as often as it enters it.
    Enter {
        /// Which monitor.
        monitor: MonitorId,
    },
    /// The thread gives up what one [`Event::Enter`] acquired.
    Exit {
        /// Which monitor.
        monitor: MonitorId,
    },
    /// The thread gives up a monitor that it holds wholly, waits until it is notified, and acquires the
    /// monitor again as often as it had. A stamp just before it shows when it began or when it ended, as the
    /// recorder had it; in any case after the thread's event before. If another thread ended it, a stamp just
    /// before or just after it (one [`Event::Compute`] may stand between) shows when.
    Wait {
        /// Which monitor.
        monitor: MonitorId,
        /// The longest wait, nanoseconds of wall-clock time; 0 is without end.
        timeout: u64,
    },
    /// The thread, which holds a monitor, notifies threads that wait in it.
    Notify {
        /// Which monitor.
        monitor: MonitorId,
        /// All of them, or only the one that has waited longest.
        all: bool,
    },
    /// The thread waits until another one unparks it, unless that was done since it parked last.
    Park {
        /// The longest wait, nanoseconds of wall-clock time; 0 is without end.
        timeout: u64,
    },
    /// The thread unparks another one.
    Unpark {
        /// The thread that goes on.
        thread: ThreadId,
    },
    /// The events that follow in this stream were recorded after all those, in any stream, that follow a
    /// stamp with a smaller number. Numbers rise within a stream, and no number is in two streams. Stamps
    /// show in which order the recorded program ran, and bind no simulator. (Ours learns from them which
    /// notifications may have ended a wait.)
    Stamp {
        /// The number.
        order: u64,
    },
    /// Raw traces only: a reference is stored in a field or an element of an object.
    Store {
        /// The object that is written.
        holder: ObjectId,
        /// Which field or element, counted by the recorder.
        slot: u32,
        /// The object that it refers to from here on, or `null`.
        target: ObjectId,
    },
    /// Raw traces only: a reference is stored in a static field.
    StoreStatic {
        /// The class that has the field.
        class: ClassId,
        /// Which field, counted by the recorder.
        slot: u32,
        /// The object that it refers to from here on, or `null`.
        target: ObjectId,
    },
    /// Raw traces only: the thread has a reference to an object on its stack here.
    Use {
        /// Which object.
        object: ObjectId,
    },
}

// Simulators keep many events in queues.
const _: () = assert!(size_of::<Event>() <= 32);

impl Event {
    /// The event's name in text, in CSV and in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Compute { .. } => "compute",
            Event::Sleep { .. } => "sleep",
            Event::Alloc { .. } => "alloc",
            Event::Death { .. } => "death",
            Event::Start { .. } => "start",
            Event::End => "end",
            Event::Join { .. } => "join",
            Event::Enter { .. } => "enter",
            Event::Exit { .. } => "exit",
            Event::Wait { .. } => "wait",
            Event::Notify { .. } => "notify",
            Event::Park { .. } => "park",
            Event::Unpark { .. } => "unpark",
            Event::Stamp { .. } => "stamp",
            Event::Store { .. } => "store",
            Event::StoreStatic { .. } => "store-static",
            Event::Use { .. } => "use",
        }
    }

    /// Whether only raw traces have it.
    pub fn is_raw(&self) -> bool {
        matches!(
            self,
            Event::Store { .. } | Event::StoreStatic { .. } | Event::Use { .. }
        )
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for MonitorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
