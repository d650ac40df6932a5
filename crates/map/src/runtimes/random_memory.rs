//! A process whose memory holds what a test wrote and, elsewhere, words at random that look like
//! what runtimes look for: addresses, sizes, small numbers.

use crate::labels::Labels;
use crate::memory::{Memory, Unread};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::{Addresses, Area};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;

/// The process of a test.
#[derive(Debug)]
pub(super) struct Noise {
    seed: u64,
    /// The mapped ranges.
    mapped: Vec<Addresses>,
    /// Words that are as they were written.
    written: HashMap<u64, u64>,
    /// Number of absent pages in 16. `None`: no page is absent, and words that were not written are zeros.
    absent: Option<u64>,
    /// How often it was read.
    pub(super) reads: Cell<u64>,
}

/// Some mappings of 1 to 512 times 64 KiB.
pub(super) fn noise() -> impl Strategy<Value = Noise> {
    let mapping = (1u64..512, 0u64..3);
    (
        any::<u64>(),
        proptest::collection::vec(mapping, 1..8),
        0u64..16,
    )
        .prop_map(|(seed, sizes, absent)| {
            let mut at = 0xc0_0000_0000;
            let mapped = sizes.iter().map(|&(size, gap)| {
                let start = at + gap * 0x1_0000;
                at = start + size * 0x1_0000;
                start..at
            });
            Noise {
                seed,
                mapped: mapped.collect(),
                written: HashMap::new(),
                absent: Some(absent),
                reads: Cell::new(0),
            }
        })
}

impl Noise {
    /// A process with this mapping, full of zeros.
    pub(super) fn still(mapped: Addresses) -> Noise {
        Noise {
            seed: 0,
            mapped: vec![mapped],
            written: HashMap::new(),
            absent: None,
            reads: Cell::new(0),
        }
    }

    /// Maps more, behind what is mapped.
    pub(super) fn map(&mut self, addresses: Addresses) {
        self.mapped.push(addresses);
    }

    /// Writes words from an address on.
    pub(super) fn write(&mut self, at: u64, words: &[u64]) {
        for (index, &word) in words.iter().enumerate() {
            self.written.insert(at + 8 * index as u64, word);
        }
    }

    /// Changes what was written: each change is a place in it, and a word.
    pub(super) fn change(&mut self, changes: &[(usize, u64)]) {
        let mut places: Vec<u64> = self.written.keys().copied().collect();
        places.sort_unstable();
        for &(place, choice) in changes {
            let place = places[place % places.len()];
            let word = self.any_word(choice);
            self.written.insert(place, word);
        }
    }

    /// A snapshot of it.
    pub(super) fn snapshot(&self) -> Snapshot {
        let area = |addresses: &Addresses| Area {
            addresses: addresses.clone(),
            readable: true,
            writable: true,
            swap: 4096,
            ..Area::default()
        };
        Snapshot {
            mappings: self.mapped.iter().map(area).collect(),
            ..Snapshot::default()
        }
    }

    /// The first mapping, in which tests say that variables are.
    pub(super) fn variables(&self) -> Vec<Addresses> {
        let first = &self.mapped[0];
        let end = first.end.min(first.start + (256 << 10));
        std::iter::once(first.start..end).collect()
    }

    /// Every label is in mappings, and the reads were few.
    pub(super) fn check(&self, labels: &Labels) {
        for label in &labels.labels {
            let mut at = label.addresses.start;
            for range in &self.mapped {
                if range.contains(&at) {
                    at = range.end;
                }
            }
            assert!(at >= label.addresses.end, "{label:x?} is outside");
        }
        assert!(self.reads.get() < 4 << 20, "{} reads", self.reads.get());
    }

    fn any_word(&self, choice: u64) -> u64 {
        let range = &self.mapped[(choice >> 8) as usize % self.mapped.len()];
        let inside = range.start + (choice >> 16) % (range.end - range.start);
        match choice % 16 {
            0 => 0,
            1 => choice >> 60,
            2 => choice >> 40 & 0xff,
            3 => (choice >> 40 & 0xff) << 32 | choice >> 48 & 0x3f,
            4 => (choice >> 50) * 4096,
            5 => u64::MAX - (choice >> 32),
            6 => u64::MAX / 4096 * 4096,
            7 => choice,
            8 => inside / 4096 * 4096,
            9 => inside / 16384 * 16384,
            10 => range.start,
            11 => range.end,
            12 => inside / (256 << 10) * (256 << 10),
            _ => inside / 8 * 8,
        }
    }

    fn word_at(&self, at: u64) -> u64 {
        match (self.written.get(&at), self.absent) {
            (Some(&word), _) => word,
            (None, Some(_)) => self.any_word(mixed(self.seed ^ at)),
            (None, None) => 0,
        }
    }
}

impl Memory for Noise {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        self.reads.set(self.reads.get() + 1);
        let absent = self.absent.unwrap_or(0);
        let (mut at, mut done) = (at, 0);
        while done < into.len() {
            if !self.mapped.iter().any(|range| range.contains(&at)) {
                return Err(Unread::Unmapped);
            }
            if absent > 0 && mixed(self.seed ^ (at / 4096)) % 16 < absent {
                return Err(Unread::NotResident);
            }
            let bytes = self.word_at(at / 8 * 8).to_le_bytes();
            let from = (at % 8) as usize;
            let length = (8 - from).min(into.len() - done);
            into[done..done + length].copy_from_slice(&bytes[from..from + length]);
            done += length;
            at = at.checked_add(length as u64).ok_or(Unread::Unmapped)?;
        }
        Ok(())
    }
}

/// A number that depends on all bits of another (SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
