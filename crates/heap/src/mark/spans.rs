//! The spans that markers work on, those that they share, and counts of the work.

use super::sharing::{Given, Sharing};
use crate::heap::Heap;
use crate::mapped_stack::MappedStack;
use std::ops::AddAssign;
use std::time::Instant;

/// Memory to scan: the words from `start` to `end`, or, with `TRACED`, one object.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    /// The address of the first word. With `TRACED` set in it, that of an object which the front end
    /// traces.
    pub(super) start: usize,
    /// The address behind the last word.
    pub(super) end: usize,
}

/// The counts of a marker since they were last taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marking {
    /// Objects marked.
    pub objects: u64,
    /// Objects for which the stack had no room.
    pub overflows: u64,
    /// Spans taken from other markers.
    pub shared: u64,
    /// Superpages read from swap.
    pub read: u64,
    /// Superpages whose summaries were used in place of reading them.
    pub replayed: u64,
    /// Summaries made.
    pub summarised: u64,
    /// Superpages that could not be summarised.
    pub unsummarised: u64,
}

impl AddAssign for Marking {
    fn add_assign(&mut self, other: Marking) {
        self.objects += other.objects;
        self.overflows += other.overflows;
        self.shared += other.shared;
        self.read += other.read;
        self.replayed += other.replayed;
        self.summarised += other.summarised;
        self.unsummarised += other.unsummarised;
    }
}

/// Spans that a waiting marker takes at once. Also the capacity of the shared stack: a marker gives only
/// when it is empty.
pub(super) const PORTION: usize = 128;

/// The work that markers share.
pub(crate) struct Spans {
    /// Spans that markers gave away.
    pub(super) given: MappedStack<Span>,
    /// When markers stop; `None` when they mark until all is done.
    pub(super) until: Option<Instant>,
    /// Counts of the work of the markers that have none left.
    pub(super) done: Marking,
}

/// Markers that work together.
pub(crate) type Team = Sharing<Spans>;

impl Spans {
    pub(super) fn new(heap: &Heap) -> std::io::Result<Spans> {
        Ok(Spans {
            given: MappedStack::new(heap.side.os(), PORTION)?,
            until: None,
            done: Marking::default(),
        })
    }

    pub(super) fn clear(&mut self) {
        self.given.clear();
    }
}

impl Given for Spans {
    fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
}
