//! The trait of labellers. A labeller knows a runtime, and tells the purposes of the ranges of its
//! programs' address spaces. A new runtime is a module that implements [`Labeller`] for its
//! recogniser, and a line in [`crate::runtimes::ALL`].

use crate::area::Kind;
use crate::memory::Memory;
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_programs::Recognise;

/// Most labels of a process that are used; the rest is as if nobody had labelled it.
pub const MAX_LABELS: usize = 1 << 18;

/// Says what a range of addresses is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub addresses: Addresses,
    /// Its purpose.
    pub kind: Kind,
}

/// Labels of a process, and what could not be labelled.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Where two overlap, the first one counts.
    pub labels: Vec<Label>,
    /// Sentences that say which memory could not be told apart, and why, for the person who reads the map.
    pub notes: Vec<String>,
}

impl Labels {
    /// Adds a label. Empty and reversed ranges are ignored, and more labels than are used: a program may
    /// have the tables of its runtime say anything.
    pub fn add(&mut self, addresses: Addresses, kind: Kind) {
        if addresses.start < addresses.end && self.labels.len() <= MAX_LABELS {
            self.labels.push(Label { addresses, kind });
        }
    }

    /// Adds a sentence about what could not be told apart.
    pub fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }
}

/// A kind of memory management in programs, as it shows itself from outside.
///
/// 1. **recognise**: [`Recognise::runs`], by what was seen of the process. The first in the list that says
///    yes labels it.
/// 2. **label**: [`Labeller::label`], once per look.
///
/// Neither fails, waits, or makes the process do anything. A note names memory that cannot be read;
/// it is then labelled by the mappings alone.
pub trait Labeller: Recognise {
    /// The name as people write it: `HotSpot`, `Go`.
    fn title(&self) -> &'static str;

    /// Phase 2. Labels what this runtime knows of; the rest is labelled as in a C program.
    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded_and_one_that_is_too_many_is_noticed() {
        let mut labels = Labels::default();
        for at in 0..2 * MAX_LABELS as u64 {
            labels.add(at..at, Kind::Heap);
            labels.add(at..at + 1, Kind::Heap);
        }
        assert_eq!(labels.labels.len(), MAX_LABELS + 1);
    }
}
