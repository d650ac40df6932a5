//! States of a process's pages, and sums of them by part.

use plimsoll_kernel::pagemap::EXCLUSIVE;
use plimsoll_kernel::pagemap_scan::{FILE, GUARD, HUGE, PRESENT, SWAPPED, WRITTEN, ZERO};
use plimsoll_kernel::pages::{PageMap, Tier};
use plimsoll_kernel::smaps::{Addresses, Area};
use std::collections::HashMap;

/// The states of a process's pages. A script in tests.
pub trait Pages {
    /// Calls `tell` with each run of present or swapped pages and its categories
    /// ([`plimsoll_kernel::pagemap_scan`]), by address, until it returns false. Returns whether all of it
    /// could be read.
    fn each(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool;

    /// As [`Pages::each`], faster, but whether a page is of a file is left open.
    fn each_place(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        self.each(range, tell)
    }

    /// As [`Pages::each`], slower, and also says which pages no other mapping has
    /// ([`plimsoll_kernel::pagemap`]), but not which one is the page of zeros.
    fn each_word(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool;

    /// Whether [`Pages::each`] does not tell the page of zeros either.
    fn hides_zeros(&self) -> bool;
}

impl Pages for PageMap {
    fn each(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        self.each_kind(range, tell).is_ok()
    }

    fn each_place(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        PageMap::each_place(self, range, tell).is_ok()
    }

    fn each_word(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        PageMap::each_word(self, range, tell).is_ok()
    }

    fn hides_zeros(&self) -> bool {
        self.tier() == Tier::Words
    }
}

/// The counted pages of a part, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Present.
    pub present: u64,
    /// The part of `present` that may be the page of zeros, which does not count as resident.
    pub present_doubtful: u64,
    /// The part of `present` that is of a file or of shared memory.
    pub file: u64,
    /// Present, and no other mapping has it; `None` if they were not asked for.
    pub exclusive: Option<u64>,
    /// Marked as swapped.
    pub swapped: u64,
    /// The part of `swapped` that may be markers, which have nothing in swap.
    pub swapped_doubtful: u64,
}

/// The counted pages of all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// By part; `None` where it was not necessary (the mapping has one part), or not possible.
    pub tallies: Vec<Option<Tally>>,
    /// By part, bytes: present, and mapped by this process at a lower address too.
    pub repeated: Vec<u64>,
    /// By mapping, bytes of the file that are mapped at a lower address too.
    pub mapped_before: HashMap<usize, u64>,
    /// By part, bytes that came back since the look before ([`crate::history`]), `None` where that
    /// cannot be told; empty without an earlier look.
    pub refaulted: Vec<Option<u64>>,
    /// Whether pages could not be counted, or not in time.
    pub missed: bool,
}

/// Whether all pages of a mapping are of a file (or of shared memory), or none of them; `None` where
/// the process may have copies of its own. A page of zeros is neither.
pub(crate) fn of_file(area: &Area) -> Option<bool> {
    match area.file.inode {
        0 => Some(false),
        _ => area.shared_mapping.then_some(true),
    }
}

/// Adds a run of pages of these categories to a sum.
pub(crate) fn add(tally: &mut Tally, bytes: u64, categories: u64, hides_zeros: bool) {
    let is = |category: u64| categories & category != 0;
    if is(PRESENT) && !is(ZERO) {
        tally.present += bytes;
        tally.file += if is(FILE) { bytes } else { 0 };
        // Older kernels do not tell the huge page of zeros, and the words tell no page of zeros.
        let zeros = !is(FILE) && (is(HUGE) || (hides_zeros && !is(EXCLUSIVE)));
        tally.present_doubtful += if zeros { bytes } else { 0 };
    } else if is(SWAPPED) && !is(GUARD) {
        tally.swapped += bytes;
        // Markers of write protection look like swapped pages that are protected.
        tally.swapped_doubtful += if is(WRITTEN) { 0 } else { bytes };
    }
}
