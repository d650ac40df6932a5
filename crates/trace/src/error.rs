//! Why a trace cannot be read or written, and where in it.

use crate::event::{MAX_OBJECT, ThreadId};
use std::fmt;
use std::io;
use std::sync::Arc;

/// A place in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The file's path, or what else the trace was called when it was opened.
    pub trace: Arc<str>,
    /// Where in the file the block begins that has the event, bytes. `None` while the trace is written.
    pub block: Option<u64>,
    /// The thread whose stream it is.
    pub thread: ThreadId,
    /// How many events stand before it in the stream.
    pub event: u64,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: thread {}, event {}",
            self.trace, self.thread, self.event
        )?;
        match self.block {
            Some(block) => write!(f, " (block at byte {block})"),
            None => Ok(()),
        }
    }
}

/// A fault in the bytes of a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BlockFault {
    #[error("no block begins here")]
    NoBlock,
    #[error("the file ends within the block")]
    Cut,
    #[error("the checksum of the block's header is wrong")]
    HeaderSum,
    #[error("the checksum of the block's content is wrong")]
    ContentSum,
    #[error("the block is of kind {0}, which this version does not know")]
    Kind(u8),
    #[error("the block is compressed in way {0}, which this version does not know")]
    Codec(u8),
    #[error("the block says it has {0} bytes, more than a block may have")]
    Large(u32),
    #[error("the content cannot be decompressed to the length that the header says")]
    Decompress,
    #[error("the table of columns is wrong")]
    Columns,
    #[error("a number in it is wrong")]
    Number,
    #[error("a name in it is no UTF-8, or too long")]
    Name,
    #[error("it has events of thread {found}, and thread {expected} was expected")]
    Thread { found: ThreadId, expected: ThreadId },
    #[error(
        "it begins with event {found} of thread {thread}, and event {expected} comes next: blocks are \
         missing, doubled or out of order"
    )]
    Order {
        thread: ThreadId,
        found: u64,
        expected: u64,
    },
    #[error("it begins at other clocks than those at which the block before it ended")]
    Clocks,
    #[error("it has values that belong to no event")]
    Rest,
}

/// A fault of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum EventFault {
    #[error(
        "its kind is {0}, which this version does not know: a newer version wrote it, or it is damaged"
    )]
    Kind(u8),
    #[error("a value of it is missing")]
    Missing,
    #[error("a value of it is out of range")]
    Range,
    #[error("an object of 0 bytes is allocated; the smallest object has a header")]
    EmptyObject,
    #[error(
        "an object of {0} bytes is allocated, more than the {MAX_OBJECT} of Java's largest array"
    )]
    HugeObject(u64),
    #[error("it names object 0, which is null")]
    Null,
    #[error("a thread starts with priority {0}; Java has 1 to 10")]
    Priority(u64),
    #[error("stamp {found} follows stamp {before}; stamps rise within a stream")]
    Stamp { found: u64, before: u64 },
    #[error("the thread's clock passes 2^64")]
    Clock,
    #[error("it comes after the end of its thread")]
    AfterEnd,
    #[error("it belongs into raw traces, and this trace says that it is none")]
    Raw,
}

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TraceError {
    #[error("{trace}: {source}")]
    Io { trace: Arc<str>, source: io::Error },
    #[error("{trace}: this is no trace: it does not begin as one ({hint})")]
    Foreign { trace: Arc<str>, hint: &'static str },
    #[error(
        "{trace}: format {version} of traces is newer than format {known}, the newest that this version of \
         plimsoll reads; use the version that wrote it"
    )]
    Newer {
        trace: Arc<str>,
        version: u16,
        known: u16,
    },
    #[error("{trace}: the head of the trace (its first {length} bytes) is damaged or cut: {why}")]
    Head {
        trace: Arc<str>,
        length: u64,
        why: &'static str,
    },
    #[error("{trace}: block at byte {offset}: {why}")]
    Block {
        trace: Arc<str>,
        offset: u64,
        why: BlockFault,
    },
    #[error("{at}: {why}")]
    Event { at: Box<At>, why: EventFault },
    #[error("{trace}: it has more than {most} {what}")]
    TooMany {
        trace: Arc<str>,
        most: u64,
        what: &'static str,
    },
    #[error("{trace}: it has no thread {thread}")]
    NoThread { trace: Arc<str>, thread: ThreadId },
    #[error("{trace}: line {line}: {why}")]
    Text {
        trace: Arc<str>,
        line: u64,
        why: String,
    },
    #[error("{first} and {second} cannot be merged: {why}")]
    Merge {
        first: Arc<str>,
        second: Arc<str>,
        why: String,
    },
}

impl TraceError {
    /// Wraps an error of the file.
    pub(crate) fn io(trace: &Arc<str>) -> impl FnOnce(io::Error) -> TraceError {
        let trace = trace.clone();
        move |source| TraceError::Io { trace, source }
    }
}
