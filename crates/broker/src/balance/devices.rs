//! The cost of a page, from the read times of the devices behind swap and files.

use plimsoll_kernel::disk::{Disks, Reads};
use plimsoll_kernel::process::page_size;
use plimsoll_policy::balance::Costs;

/// Rounds after which the devices are looked up again: swap is only changed by hand.
const ROUNDS_PER_LOOK: u32 = 16;
/// Weight of earlier reads after one more round.
const MEMORY: f64 = 0.9;
/// Fewer pages than this tell nothing.
const LEAST_PAGES: f64 = 16.0;

/// Devices of one kind of page.
#[derive(Debug, Default)]
struct Kind {
    disks: Disks,
    before: Option<Reads>,
    /// Decayed sums.
    pages: f64,
    seconds: f64,
}

impl Kind {
    fn open(&mut self, disks: Disks) {
        self.disks = disks;
        self.before = None;
    }

    fn read(&mut self) {
        let now = self.disks.reads();
        if let Some(before) = self.before.replace(now) {
            let new = now.since(before);
            self.pages = self.pages * MEMORY + new.bytes as f64 / page_size() as f64;
            self.seconds = self.seconds * MEMORY + new.ms as f64 / 1e3;
        }
    }

    /// Seconds for a page.
    fn cost(&self) -> Option<f64> {
        let known = self.pages >= LEAST_PAGES && self.seconds > 0.0;
        known.then(|| self.seconds / self.pages)
    }
}

/// The devices of both kinds.
#[derive(Debug, Default)]
pub(super) struct Devices {
    files: Kind,
    swap: Kind,
    rounds: u32,
}

impl Devices {
    /// Reads the counters. Call it once a round.
    pub(super) fn read(&mut self) {
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.files.open(Disks::of_files());
            self.swap.open(Disks::of_swap().unwrap_or_default());
        }
        self.rounds = self.rounds.wrapping_add(1);
        self.files.read();
        self.swap.read();
    }

    /// Whether there is a swap space.
    pub(super) fn has_swap(&self) -> bool {
        !self.swap.disks.is_empty()
    }

    /// The cost of a page of each kind. A cost that is not known yet is taken from the other kind.
    pub(super) fn costs(&self) -> Option<Costs> {
        let (file, anon) = (self.files.cost(), self.swap.cost());
        Some(Costs {
            file: file.or(anon)?,
            anon: anon.or(file)?,
        })
    }
}
