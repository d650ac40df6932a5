//! Reads a process's memory for all runtimes: its words, with bounds, and its writable ranges.

use crate::memory::{Memory, Unread};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::{Addresses, Area};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Bytes that are read at a time: never more than a page of the kernel's.
pub(crate) const PIECE: u64 = 4096;
/// The most pieces that are kept: half a MiB.
const KEPT: usize = 128;
/// The most times that words are looked up for one process. A heap of a million spans takes 2 million; a
/// program that made up very many tables would take for ever.
const MAX_LOOKUPS: u64 = 1 << 23;

type Piece = Option<Box<[u8; PIECE as usize]>>;

/// Words of a process's memory. A piece that was read is kept for a while, because the next word is
/// likely to be in it.
pub(crate) struct Words<'a> {
    memory: &'a dyn Memory,
    /// Private memory of no file. An absent page of it was never written to.
    allocated: Ranges,
    kept: RefCell<HashMap<u64, Piece>>,
    /// How many more times words are looked up.
    left: Cell<u64>,
}

impl<'a> Words<'a> {
    /// Nothing is read yet.
    pub(crate) fn new(snapshot: &Snapshot, memory: &'a dyn Memory) -> Words<'a> {
        Words {
            memory,
            allocated: Ranges::allocated(snapshot),
            kept: RefCell::new(HashMap::new()),
            left: Cell::new(MAX_LOOKUPS),
        }
    }

    /// Forgets all pieces, so that they are read anew.
    pub(crate) fn forget(&mut self) {
        self.kept.get_mut().clear();
    }

    /// Fills `into` from address `at`. False if some of it is not in memory, and for ever once too much was
    /// looked up.
    pub(crate) fn fill(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(left) = self.left.get().checked_sub(1) else {
            return false;
        };
        self.left.set(left);
        let mut kept = self.kept.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let Some(at) = at.checked_add(done as u64) else {
                return false;
            };
            let (start, offset) = (at / PIECE * PIECE, (at % PIECE) as usize);
            if kept.len() >= KEPT && !kept.contains_key(&start) {
                kept.clear();
            }
            let piece = kept.entry(start).or_insert_with(|| {
                let mut bytes = Box::new([0; PIECE as usize]);
                match self.memory.read(start, &mut bytes[..]) {
                    Ok(()) => Some(bytes),
                    Err(Unread::Absent) if self.allocated.has(start) => {
                        Some(Box::new([0; PIECE as usize]))
                    }
                    Err(_) => None,
                }
            });
            let Some(piece) = piece else {
                return false;
            };
            let length = (into.len() - done).min(PIECE as usize - offset);
            into[done..done + length].copy_from_slice(&piece[offset..offset + length]);
            done += length;
        }
        true
    }

    /// Some bytes.
    pub(crate) fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(at, &mut bytes).then_some(bytes)
    }

    /// A 64-bit word.
    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Calls `tell` with the address of each word of a range that is in memory, and with the `N`
    /// words from there on, until it returns false. At most `most` bytes are looked at.
    pub(crate) fn each<const N: usize>(
        &self,
        range: &Addresses,
        most: u64,
        tell: &mut dyn FnMut(u64, [u64; N]) -> bool,
    ) {
        // Programs have no addresses beyond.
        let end = range.end.min(range.start.saturating_add(most)).min(1 << 63);
        if range.start >= end {
            return;
        }
        let mut at = range.start.next_multiple_of(8);
        let mut bytes = vec![0; PIECE as usize + 8 * (N - 1)];
        while at < end && self.left.get() > 0 {
            let next = (at / PIECE + 1) * PIECE;
            // The words behind the last ones of this piece are in the next, which may be absent.
            let length = (next.min(end) - at) as usize;
            let with_tail = length + 8 * (N - 1);
            let got = if self.fill(at, &mut bytes[..with_tail]) {
                with_tail
            } else if self.fill(at, &mut bytes[..length]) {
                length
            } else {
                0
            };
            let mut offset = 0;
            while offset + 8 * N <= got {
                if !tell(at + offset as u64, words_of(&bytes[offset..])) {
                    return;
                }
                offset += 8;
            }
            at = next;
        }
    }
}

/// The first `N` words of some bytes; words that are not there are 0.
pub(crate) fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    words
}

/// Ranges of addresses in their order, which do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<Addresses>);

impl Ranges {
    /// The ranges of the mappings that satisfy `is`; those that adjoin are one.
    pub(crate) fn of(snapshot: &Snapshot, is: impl Fn(&Area) -> bool) -> Ranges {
        let mappings = snapshot.mappings.iter().filter(|area| is(area));
        Ranges::from(mappings.map(|area| area.addresses.clone()).collect())
    }

    /// Where a program can have what it allocated: private memory of no file that can be read and
    /// written.
    pub(crate) fn allocated(snapshot: &Snapshot) -> Ranges {
        Ranges::of(snapshot, is_allocated)
    }

    /// Ranges in any order.
    pub(crate) fn from(mut ranges: Vec<Addresses>) -> Ranges {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Addresses> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Ranges(joined)
    }

    /// Whether all of a range, which must not be empty, is in them.
    pub(crate) fn have(&self, range: &Addresses) -> bool {
        let at = self.0.partition_point(|it| it.end <= range.start);
        range.start < range.end
            && self
                .0
                .get(at)
                .is_some_and(|it| it.start <= range.start && range.end <= it.end)
    }

    /// Whether an address is in them.
    pub(crate) fn has(&self, address: u64) -> bool {
        address < u64::MAX && self.have(&(address..address + 1))
    }

    /// Those parts of a range that are in them.
    pub(crate) fn within(&self, range: &Addresses) -> impl Iterator<Item = Addresses> {
        let (start, end) = (range.start, range.end);
        let at = self.0.partition_point(|it| it.end <= start);
        self.0[at..]
            .iter()
            .take_while(move |it| it.start < end)
            .map(move |it| it.start.max(start)..it.end.min(end))
            .filter(|it| it.start < it.end)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Addresses> {
        self.0.iter()
    }
}

fn is_allocated(area: &Area) -> bool {
    // A program can give such memory a name (`PR_SET_VMA_ANON_NAME`).
    let name = area.name.as_str();
    let is_anonymous = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
    let is_private = area.file.inode == 0 && !area.shared_mapping;
    is_private && is_anonymous && area.readable && area.writable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::random_memory::Noise;

    #[test]
    fn words_are_looked_up_so_often_and_no_more() {
        let process = Noise::still(0x1000..0x3000);
        let words = Words::new(&process.snapshot(), &process);
        let found = (0..2 * MAX_LOOKUPS).filter(|_| words.word(0x1000).is_some());
        assert_eq!(found.count() as u64, MAX_LOOKUPS);
        let mut told = 0;
        words.each(&(0x1000..0x3000), u64::MAX, &mut |_, [_]| {
            told += 1;
            true
        });
        assert_eq!((told, process.reads.get()), (0, 1));
    }
}
