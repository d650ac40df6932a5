//! The page of collections: what an agent inside a virtual machine reports of its collections, and the
//! one wish that the adapter beside it has.
//!
//! The page is a memory file (`memfd_create(2)`) of the virtual machine's process, named
//! [`NAME`] and sealed, so that its size never changes: both sides map it, and neither can hurt the other
//! with SIGBUS. The agent keeps the descriptor open and never uses it again; the adapter opens it as
//! `/proc/PID/fd/N` and checks the seals before it maps. The page is gone when its process is gone.
//!
//! Layout, little-endian on the machines that we support, every field 8-byte aligned. Times are
//! nanoseconds of `CLOCK_MONOTONIC`, sizes bytes; all counts are since the agent was loaded.
//!
//! | offset | field | written |
//! |---|---|---|
//! | 0 | magic: the bytes `PLIMSGCS` | once, last of all |
//! | 8 | version, size: two u32 | once |
//! | 16 | pid, as the agent sees it | once |
//! | 24 | collector ([`Collector`]) | once |
//! | 32 | stall signal ([`Signal`]) | once; again if it stops working |
//! | 40 | when the agent was loaded | once |
//! | 64 | sequence of the process's readings | per pause that was read, or per period |
//! | 72 | when, stalls, stall time, major faults ([`Process`]) | with that sequence |
//! | 128 | sequence of the collections | per pause, by the thread that collects |
//! | 136 | [`Totals`] | with that sequence |
//! | 256 | how the stall signal is read: length, text | with the stall signal |
//! | 512 | why nothing is given back: length, text; empty where it is | with the collections |
//! | 1024 | resident: bytes of the heap that may stay resident ([`Wish`]) | by the adapter |
//! | 1032 | when the adapter last wrote | by the adapter, last |
//! | 1040 | bound of the heap ([`Bound`]), two words; the largest number for none | by the adapter |
//! | 2048 | the last 32 pauses ([`Pause`]); number `n` (from 1) in slot `n % 32` | with the collections |
//!
//! Each sequence is a lock for one writer: odd during a write, 0 before the first. Readers take no
//! lock and make no system call.

mod view;
mod words;
mod writer;

pub use view::{View, ViewError};
pub use words::Words;
pub use writer::{ProcessWriter, Writer, wish, wished};

use plimsoll_unit::{Bytes, Nanos};

/// Size of the page, bytes.
pub const SIZE: usize = 4096;
/// First eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PLIMSGCS");
/// Layout version.
pub const VERSION: u32 = 3;
/// Name of the memory file; `/proc/PID/fd` shows `/memfd:plimsoll-collections (deleted)`.
pub const NAME: &str = "plimsoll-collections";
/// Pauses that the page remembers.
pub const PAUSES: u64 = 32;
/// Longest text on the page, bytes.
pub const MAX_TEXT: usize = 248;
/// A wish that is older than this is no wish: its adapter is gone, and the machine is left alone.
pub const WISH_LASTS: Nanos = Nanos::seconds(10);

/// Byte offsets of the fields.
pub mod offset {
    #![allow(missing_docs)]
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const PID: usize = 16;
    pub const COLLECTOR: usize = 24;
    pub const SIGNAL: usize = 32;
    pub const LOADED: usize = 40;
    pub const PROCESS_SEQUENCE: usize = 64;
    pub const PROCESS: usize = 72;
    pub const SEQUENCE: usize = 128;
    pub const TOTALS: usize = 136;
    pub const SIGNAL_TEXT: usize = 256;
    pub const REFUSAL_TEXT: usize = 512;
    pub const RESIDENT: usize = 1024;
    pub const WISHED: usize = 1032;
    pub const BOUND: usize = 1040;
    pub const PAUSES: usize = 2048;
}

/// The collector of a virtual machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Collector {
    /// Not recognised.
    #[default]
    Unknown = 0,
    /// `-XX:+UseSerialGC`.
    Serial = 1,
    /// `-XX:+UseParallelGC`.
    Parallel = 2,
    /// `-XX:+UseG1GC`.
    G1 = 3,
    /// `-XX:+UseShenandoahGC`.
    Shenandoah = 4,
    /// `-XX:+UseZGC`.
    Z = 5,
    /// `-XX:+UseEpsilonGC`: it never collects.
    Epsilon = 6,
}

impl Collector {
    /// Decodes the number on a page. A number that a newer agent may add is unknown.
    pub fn from_number(number: u64) -> Collector {
        match number {
            1 => Collector::Serial,
            2 => Collector::Parallel,
            3 => Collector::G1,
            4 => Collector::Shenandoah,
            5 => Collector::Z,
            6 => Collector::Epsilon,
            _ => Collector::Unknown,
        }
    }

    /// Whether most of its work is done beside the program: its stalls are not within pauses.
    pub fn is_concurrent(self) -> bool {
        matches!(self, Collector::Shenandoah | Collector::Z)
    }
}

/// Where the agent's counts of stalls come from, best first. The numbers are those of
/// `kernel::stalls::Tier`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Signal {
    /// Nothing can be read: all counts are 0.
    #[default]
    None = 0,
    /// The kernel's delay accounting of this process: count and time.
    Delays = 1,
    /// The tracepoints of reclaim: count and time.
    Reclaim = 2,
    /// The same, count only.
    ReclaimCount = 3,
    /// The pressure total of the own cgroup: time only, of all its processes.
    Pressure = 4,
    /// Major faults of this process: count only.
    MajorFaults = 5,
}

impl Signal {
    /// Decodes the number on a page. A number that a newer agent may add counts as none.
    pub fn from_number(number: u64) -> Signal {
        match number {
            1 => Signal::Delays,
            2 => Signal::Reclaim,
            3 => Signal::ReclaimCount,
            4 => Signal::Pressure,
            5 => Signal::MajorFaults,
            _ => Signal::None,
        }
    }
}

/// The purpose of a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// The machine does not say.
    #[default]
    Unknown = 0,
    /// A collection of the young generation (G1: mixed ones too).
    Young = 1,
    /// A collection of the whole heap, perhaps after one of the young generation.
    Full = 2,
    /// A pause of a collection that works beside the program.
    Concurrent = 3,
}

impl Kind {
    /// Decodes the number on a page.
    pub fn from_number(number: u64) -> Kind {
        match number {
            1 => Kind::Young,
            2 => Kind::Full,
            3 => Kind::Concurrent,
            _ => Kind::Unknown,
        }
    }
}

/// Facts that were fixed when the agent was loaded; only the signal may stop working and become worse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The process, as it sees itself: in a container not the number that others see.
    pub pid: u64,
    /// Its collector.
    pub collector: Collector,
    /// The source of its counts of stalls.
    pub signal: Signal,
    /// When the agent was loaded, ns.
    pub loaded_ns: u64,
    /// How the signal is read, and why not better, for a person.
    pub signal_text: String,
}

/// The process as a whole, inside and outside of pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// When this was read, ns.
    pub at_ns: u64,
    /// Allocation stalls.
    pub stalls: u64,
    /// Their time, ns.
    pub stall_ns: u64,
    /// Major faults.
    pub major_faults: u64,
}

/// Sums over all pauses since the agent was loaded, and the state after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Pauses that ended; the number of the last.
    pub pauses: u64,
    /// Those that were [`Kind::Young`].
    pub young: u64,
    /// Those that were [`Kind::Full`].
    pub full: u64,
    /// Time within pauses, ns.
    pub pause_ns: u64,
    /// Allocation stalls within pauses.
    pub stalls: u64,
    /// Their time, ns.
    pub stall_ns: u64,
    /// Major faults within pauses.
    pub major_faults: u64,
    /// Bytes that were given back to the kernel (address range; some may not have been resident).
    pub given_back: u64,
    /// Bytes of the heap that hold objects after the last pause. This and the next two are 0 where nothing is
    /// given back; of G1 whole regions are counted, and only while there is a wish.
    pub used: u64,
    /// Bytes of the heap that are free, with regions that G1 gave up by itself.
    pub free: u64,
    /// The part of `free` that was left resident, bytes.
    pub kept: u64,
    /// Time that the agent itself took within pauses, ns.
    pub agent_ns: u64,
    /// Pauses that were not measured, because two threads reported pauses at once.
    pub missed: u64,
    /// Pauses whose stalls and faults are not known and count as none, because reading them was dear and had
    /// been done just before. Those of the process are: they are in its next reading.
    pub unread: u64,
    /// Collections that the agent asked for because the heap came to its [`Bound`].
    pub asked: u64,
}

/// One pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Its number, from 1.
    pub number: u64,
    /// Its purpose.
    pub kind: Kind,
    /// When it began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// Allocation stalls within it. This and the next two are 0 where they were not read.
    pub stalls: u64,
    /// Their time, ns.
    pub stall_ns: u64,
    /// Major faults within it.
    pub major_faults: u64,
    /// Bytes given back at its end.
    pub given_back: u64,
}

/// The adapter's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// At the end of a pause at most this much of the heap stays resident, objects included. Free memory
    /// that the program takes again at once stays all the same, unless the whole heap was collected.
    pub resident: Bytes,
    /// When the agent is to collect by itself, between two looks of the adapter; `None` for never.
    pub bound: Option<Bound>,
}

/// The size of the heap at which the agent asks for a collection of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Memory of the heap: objects after the last pause, and what was allocated since.
    pub above: Bytes,
    /// How many collections it may have asked for, those before included ([`Totals::asked`]).
    pub times: u64,
}

impl Wish {
    /// That at most `resident` stays, and no more than that.
    pub const fn stay(resident: Bytes) -> Wish {
        Wish {
            resident,
            bound: None,
        }
    }
}

/// Words of a [`Totals`] and a [`Pause`] on the page.
const TOTALS: usize = 15;
const PAUSE: usize = 8;
const PROCESS: usize = 4;

const _: () = assert!(offset::TOTALS + TOTALS * 8 <= offset::SIGNAL_TEXT);
const _: () = assert!(offset::PROCESS + PROCESS * 8 <= offset::SEQUENCE);
const _: () = assert!(offset::SIGNAL_TEXT + 8 + MAX_TEXT <= offset::REFUSAL_TEXT);
const _: () = assert!(offset::REFUSAL_TEXT + 8 + MAX_TEXT <= offset::RESIDENT);
const _: () = assert!(offset::PAUSES + PAUSES as usize * PAUSE * 8 == SIZE);

impl Totals {
    fn words(&self) -> [u64; TOTALS] {
        [
            self.pauses,
            self.young,
            self.full,
            self.pause_ns,
            self.stalls,
            self.stall_ns,
            self.major_faults,
            self.given_back,
            self.used,
            self.free,
            self.kept,
            self.agent_ns,
            self.missed,
            self.unread,
            self.asked,
        ]
    }

    fn of(words: [u64; TOTALS]) -> Totals {
        let [
            pauses,
            young,
            full,
            pause_ns,
            stalls,
            stall_ns,
            major_faults,
            given_back,
            used,
            free,
            kept,
            agent_ns,
            missed,
            unread,
            asked,
        ] = words;
        Totals {
            pauses,
            young,
            full,
            pause_ns,
            stalls,
            stall_ns,
            major_faults,
            given_back,
            used,
            free,
            kept,
            agent_ns,
            missed,
            unread,
            asked,
        }
    }
}

impl Pause {
    fn words(&self) -> [u64; PAUSE] {
        [
            self.number,
            self.kind as u64,
            self.start_ns,
            self.end_ns,
            self.stalls,
            self.stall_ns,
            self.major_faults,
            self.given_back,
        ]
    }

    fn of(words: [u64; PAUSE]) -> Pause {
        let [
            number,
            kind,
            start_ns,
            end_ns,
            stalls,
            stall_ns,
            major_faults,
            given_back,
        ] = words;
        Pause {
            number,
            kind: Kind::from_number(kind),
            start_ns,
            end_ns,
            stalls,
            stall_ns,
            major_faults,
            given_back,
        }
    }
}
