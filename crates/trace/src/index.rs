//! The index at the end of a whole trace: where its blocks are, and the sums of each stream.

use crate::block::Kind;
use crate::error::BlockFault;
use crate::event::ThreadId;
use crate::varint;

/// Bytes of the mark at the end of a whole trace: where the index begins, the sum of that, the magic.
pub(crate) const END: usize = 20;
const END_MAGIC: [u8; 8] = *b"PLTEND\r\n";

/// Kinds of entries. The numbers are part of the format.
mod entry {
    pub(super) const EVENTS: u64 = 1;
    pub(super) const NAMES: u64 = 2;
    pub(super) const STREAM: u64 = 3;
    pub(super) const LARGEST_LIVE: u64 = 4;
}

/// The sums of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Objects that the thread has allocated.
    pub objects: u64,
    /// Bytes that the thread has allocated.
    pub allocated: u64,
    /// Processor time, in the trace's unit.
    pub time: u64,
    /// Whether its last event is the end of its thread.
    pub ended: bool,
}

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A block of events of a thread, or of names: where it is, bytes.
    Block {
        kind: Kind,
        thread: ThreadId,
        offset: u64,
    },
    Stream(ThreadId, Totals),
    /// The most bytes of objects that lived at one time in the recorded order.
    LargestLive(u64),
}

/// Appends an entry. `last` is the offset of the block of the entry before in this block of the index.
pub(crate) fn put(into: &mut Vec<u8>, last: &mut u64, entry: &Entry) {
    let mut numbers = |all: &[u64]| all.iter().for_each(|it| varint::put(into, *it));
    match *entry {
        Entry::Block {
            kind,
            thread,
            offset,
        } => {
            let far = offset - *last;
            *last = offset;
            match kind {
                Kind::Names => numbers(&[entry::NAMES, far]),
                _ => numbers(&[entry::EVENTS, thread.0.into(), far]),
            }
        }
        Entry::Stream(thread, it) => numbers(&[
            entry::STREAM,
            thread.0.into(),
            it.events,
            it.objects,
            it.allocated,
            it.time,
            it.ended.into(),
        ]),
        Entry::LargestLive(bytes) => numbers(&[entry::LARGEST_LIVE, bytes]),
    }
}

/// Reads the entries of a block's content.
pub(crate) fn take(content: &[u8], mut each: impl FnMut(Entry)) -> Result<(), BlockFault> {
    let mut at = 0;
    let mut last = 0u64;
    while at < content.len() {
        let mut number = || varint::take(content, &mut at).map_err(|_| BlockFault::Number);
        let thread = |number: u64| u32::try_from(number).map(ThreadId);
        let what = number()?;
        let found = match what {
            entry::EVENTS | entry::NAMES => {
                let (kind, on) = match what {
                    entry::NAMES => (Kind::Names, 0),
                    _ => (Kind::Events, number()?),
                };
                last = last.checked_add(number()?).ok_or(BlockFault::Number)?;
                Entry::Block {
                    kind,
                    thread: thread(on).map_err(|_| BlockFault::Number)?,
                    offset: last,
                }
            }
            entry::STREAM => Entry::Stream(
                thread(number()?).map_err(|_| BlockFault::Number)?,
                Totals {
                    events: number()?,
                    objects: number()?,
                    allocated: number()?,
                    time: number()?,
                    ended: number()? != 0,
                },
            ),
            entry::LARGEST_LIVE => Entry::LargestLive(number()?),
            _ => return Err(BlockFault::Number),
        };
        each(found);
    }
    Ok(())
}

/// The mark at the end of a whole trace whose index begins at `offset`.
pub(crate) fn end(offset: u64) -> [u8; END] {
    let mut bytes = [0; END];
    bytes[..8].copy_from_slice(&offset.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..8]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    bytes[12..].copy_from_slice(&END_MAGIC);
    bytes
}

/// Where the index begins, from the last bytes of a trace; `None` if they are no mark of an end.
pub(crate) fn begins(bytes: &[u8; END]) -> Option<u64> {
    let offset: [u8; 8] = *bytes.first_chunk()?;
    let offset = u64::from_le_bytes(offset);
    (end(offset) == *bytes).then_some(offset)
}
