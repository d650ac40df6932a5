//! The list of all spans (`mheap_.allspans`). It is found among the program's variables by what it
//! is, not by its name: a slice of pointers to structures that agree with each other, with the
//! heap, and with the rules for spans. So it is found in stripped programs too.

use super::pieces;
use crate::runtimes::process_words::{Ranges, Words};
use plimsoll_kernel::smaps::Addresses;

/// Bytes of a page of the heap.
const GO_PAGE: u64 = 8192;
/// The most entries of the list that are read: a heap of at least 8 GiB.
const MAX_SPANS: u64 = 1 << 20;
/// The most bytes of variables that are searched.
const MAX_SEARCHED: u64 = 64 << 20;
/// How many entries are looked at to tell whether a list is the right one.
const SAMPLES: u64 = 64;
/// Bytes of the structure of a span that are read.
const SPAN: usize = 128;

/// The use of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Objects.
    Objects,
    /// Stacks of goroutines, also free ones that are kept.
    Stacks,
    /// Queues of the collector.
    Other,
}

/// Adjacent spans that are used for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) addresses: Addresses,
    pub(super) usage: Use,
}

/// The list of spans, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By address.
    pub(super) spans: Vec<Span>,
    /// Where the list and the structures are.
    pub(super) tables: Vec<Addresses>,
    /// Entries of the list.
    pub(super) listed: u64,
    /// Entries that could not be read.
    pub(super) unread: u64,
}

/// Where the fields of a span are, bytes from its start. `startAddr` is at 24 and `npages` at 32 in
/// all versions.
#[derive(Clone, Copy, Debug)]
struct Layout {
    spanclass: usize,
    state: usize,
    elemsize: usize,
}

/// Go 1.12 to 1.20 and from 1.22 on; Go 1.21.
const LAYOUTS: [Layout; 2] = [
    Layout {
        spanclass: 98,
        state: 99,
        elemsize: 104,
    },
    Layout {
        spanclass: 106,
        state: 107,
        elemsize: 112,
    },
];

/// An entry of the list, by its structure.
enum Entry {
    /// It is not a span.
    Wrong,
    /// A span that is not in use.
    Dead,
    Live(Span),
}

impl Layout {
    fn entry(self, bytes: &[u8; SPAN], allocated: &Ranges) -> Entry {
        let word = |at: usize| {
            let word = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(word)
        };
        let (start, pages) = (word(24), word(32));
        let state = bytes[self.state];
        if state == 0 {
            return Entry::Dead;
        }
        let Some(length) = pages.checked_mul(GO_PAGE) else {
            return Entry::Wrong;
        };
        let Some(end) = start.checked_add(length) else {
            return Entry::Wrong;
        };
        let addresses = start..end;
        if start % GO_PAGE != 0 || pages == 0 || !allocated.have(&addresses) {
            return Entry::Wrong;
        }
        let (size, limit) = (word(self.elemsize), word(self.elemsize + 8));
        let class = bytes[self.spanclass] >> 1;
        let usage = match state {
            // In use: objects of a class, or (class 0) one object. `elemsize` is an object's size and
            // `limit` is behind the last one.
            1 if size > 0
                && size <= length
                && (start..=end).contains(&limit)
                && (class > 0 || size > length / 2) =>
            {
                Use::Objects
            }
            // Manual: only stacks have a size.
            2 if size == 0 => Use::Other,
            2 if size <= length => Use::Stacks,
            _ => return Entry::Wrong,
        };
        Entry::Live(Span { addresses, usage })
    }
}

/// Finds the list and reads it.
pub(super) fn find(words: &Words, allocated: &Ranges, variables: &[Addresses]) -> Option<Found> {
    let mut best: Option<(u64, u64, Layout)> = None;
    for range in variables {
        words.each(range, MAX_SEARCHED, &mut |_, [list, length, capacity]| {
            let longest = best.map_or(0, |best| best.1);
            let plausible = length > longest && length <= capacity && capacity < 1 << 32;
            if plausible && list % 8 == 0 && allocated.has(list) {
                for layout in LAYOUTS {
                    if is_list(words, allocated, list, length, layout) {
                        best = Some((list, length, layout));
                    }
                }
            }
            true
        });
    }
    let (list, length, layout) = best?;
    Some(read(words, allocated, list, length, layout))
}

/// Whether these are pointers to spans: all that can be read are, and some of them are live.
fn is_list(words: &Words, allocated: &Ranges, list: u64, length: u64, layout: Layout) -> bool {
    let step = (length / SAMPLES).max(1);
    let (mut live, mut dead) = (0, 0);
    for sample in 0..SAMPLES.min(length) {
        let Some(at) = list.checked_add(sample * step * 8) else {
            return false;
        };
        let Some(span) = words.word(at) else {
            continue;
        };
        if span % 8 != 0 || !allocated.has(span) {
            return false;
        }
        let Some(bytes) = words.bytes(span) else {
            continue;
        };
        match layout.entry(&bytes, allocated) {
            Entry::Live(_) => live += 1,
            Entry::Dead => dead += 1,
            // One may be changing.
            Entry::Wrong => return false,
        }
    }
    live > 0 && live >= dead / 16
}

fn read(words: &Words, allocated: &Ranges, list: u64, length: u64, layout: Layout) -> Found {
    let mut found = Found {
        listed: length,
        unread: length.saturating_sub(MAX_SPANS),
        ..Found::default()
    };
    let mut places = Vec::new();
    for at in 0..length.min(MAX_SPANS) {
        match words.word(list.saturating_add(at * 8)) {
            Some(place) => places.push(place),
            None => found.unread += 1,
        }
    }
    // By address, because neighbours are read together.
    places.sort_unstable();
    places.dedup();
    let mut tables = vec![pieces(list, length.saturating_mul(8))];
    for place in places {
        if !allocated.has(place) {
            continue;
        }
        let table = pieces(place, SPAN as u64);
        match tables.last_mut() {
            Some(last) if last.end >= table.start && last.start <= table.start => {
                last.end = last.end.max(table.end);
            }
            _ => tables.push(table),
        }
        match words.bytes(place) {
            None => found.unread += 1,
            Some(bytes) => {
                if let Entry::Live(span) = layout.entry(&bytes, allocated) {
                    found.spans.push(span);
                }
            }
        }
    }
    found.tables = tables;
    found.spans = joined(found.spans);
    found
}

/// Sorts spans, and joins those that adjoin and are used for the same.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.addresses.start);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last)
                if last.usage == span.usage && last.addresses.end == span.addresses.start =>
            {
                last.addresses.end = span.addresses.end;
            }
            _ => joined.push(span),
        }
    }
    joined
}
