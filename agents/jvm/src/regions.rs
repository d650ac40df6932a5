//! The regions of a G1 heap, and giving back those that are free. All regions have the same size. Why
//! that may be done stands at the head of `heap`.
//!
//! G1 takes regions for its eden and for survivors from the end of the heap, and others from its start; so
//! the last free regions are those that stay resident. G1 does not tell debuggers which regions it gave up by
//! itself: they look free. They are told apart by a look at their first page before they count as kept, and
//! giving them back again does nothing. Each look is a system call, so its result is remembered, and only
//! `AGAIN` regions are looked at again in each pause.

use crate::heap::{Free, Looked};
use crate::layout::{Layout, MAX_TAG, NAMES, ODD, table};
use crate::machine::{Machine, Refusal, half, word};
use crate::ranges::{Giver, is_in_memory, not_anonymous, reserved};
use plimsoll_kernel::sandbox;
use std::ops::{Range, RangeInclusive};

/// Most regions. G1 aims at 2048 of them; the smallest have 1 MiB.
const MAX_REGIONS: u64 = 1 << 18;
/// Free regions that are looked for in memory again, at most, in each pause: tens of microseconds.
const AGAIN: usize = 64;
/// Smallest and largest region of all versions, bytes.
const SIZES: RangeInclusive<u64> = 1 << 20..=512 << 20;

/// One region. Changed within pauses.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Where the machine describes it; 0 until G1 first commits it.
    at: u64,
    /// It was free at the last look.
    is_free: bool,
    /// Whether its first page was in memory when that was last known; `None` where it never was. Only for
    /// free regions.
    in_memory: Option<bool>,
    /// Some of it may be resident, or in swap.
    is_touched: bool,
    /// It stays resident for now.
    is_kept: bool,
    /// A file is mapped there: it is never given back.
    is_foreign: bool,
}

/// The regions of a heap. Used within pauses, by the VM Thread.
#[derive(Debug)]
pub struct Regions {
    regions: Box<[Region]>,
    layout: Layout,
    /// First address of the table of regions.
    table: u64,
    /// First address of the heap.
    start: u64,
    /// Size of each region, bytes.
    size: u64,
    /// The end of the last pause was looked at.
    is_known: bool,
    /// Regions that were taken before the pause that is under way.
    taken: u64,
    /// The first of those that the next pause looks for in memory again.
    again: usize,
    /// Some are never given back.
    has_foreign: bool,
}

impl Regions {
    /// Finds the regions.
    ///
    /// # Errors
    /// Whenever anything is not as it was when this was tried.
    pub fn of(machine: &Machine) -> Result<Regions, Refusal> {
        let known = NAMES
            .iter()
            .find(|names| machine.has(names.top, "_top") && machine.has(names.bounds, "_bottom"));
        let names = known.unwrap_or(&NAMES[0]);
        let layout = Layout::of(machine, names)?;
        let (start, end) = reserved(machine)?;
        let table = table(machine, names)?;
        let length = machine.at(table, "G1HeapRegionTable", "_length")?;
        let length = word(length).filter(|length| (1..=MAX_REGIONS).contains(length));
        let length = length.ok_or(ODD)?;
        let size = (end - start) / length;
        let table = machine.pointer(table, "G1HeapRegionTable", "_base")?;
        let mut regions = Regions {
            regions: vec![Region::default(); length as usize].into(),
            layout,
            table,
            start,
            size,
            is_known: false,
            taken: 0,
            again: 0,
            has_foreign: false,
        };
        let is_whole = size * length == end - start && start % size == 0;
        if !(is_whole && size.is_power_of_two() && SIZES.contains(&size)) {
            return Err(ODD);
        }
        regions.check()?;
        regions.find_foreign()?;
        Ok(regions)
    }

    /// Reads the table for the first time, with care.
    fn check(&mut self) -> Result<(), Refusal> {
        for index in 0..self.regions.len() {
            let at = word(self.place(index)).ok_or(ODD)?;
            self.meet(index, at)?;
        }
        // A heap has regions from its first moment on.
        let any = self.regions.iter().any(|region| region.at != 0);
        any.then_some(()).ok_or(ODD)
    }

    /// Marks the regions that are not private memory without a file.
    fn find_foreign(&mut self) -> Result<(), Refusal> {
        let (start, size) = (self.start, self.size);
        let end = start + size * self.regions.len() as u64;
        let regions = &mut self.regions;
        not_anonymous((start, end), |first, last| {
            let (from, to) = ((first - start) / size, (last - start).div_ceil(size));
            let range = from as usize..to as usize;
            for region in regions.get_mut(range).unwrap_or_default() {
                region.is_foreign = true;
            }
        })?;
        self.has_foreign = self.regions.iter().any(|region| region.is_foreign);
        if self.regions.iter().all(|region| region.is_foreign) {
            Err(Refusal::NotAnonymous)
        } else {
            Ok(())
        }
    }

    /// Where the table points to a region.
    fn place(&self, index: usize) -> u64 {
        self.table.saturating_add(index as u64 * 8)
    }

    /// The first address of a region.
    fn bottom(&self, index: usize) -> u64 {
        self.start + self.size * index as u64
    }

    /// Gets to know the region that the table points to: none yet, or one that describes this part of the
    /// heap.
    fn meet(&mut self, index: usize, at: u64) -> Result<(), Refusal> {
        if at == 0 {
            return Ok(());
        }
        let field = |offset: u64| at.checked_add(offset).and_then(word);
        let bottom = self.bottom(index);
        let tag = at.checked_add(self.layout.tag).and_then(half);
        let is_sane = at.is_multiple_of(8)
            && field(self.layout.bottom) == Some(bottom)
            && field(self.layout.end) == Some(bottom + self.size)
            && field(self.layout.top).is_some_and(|top| top == 0 || self.is_within(index, top))
            && tag.is_some_and(|tag| i64::from(tag) < MAX_TAG);
        if !is_sane {
            return Err(ODD);
        }
        self.regions[index].at = at;
        Ok(())
    }

    fn is_within(&self, index: usize, top: u64) -> bool {
        let bottom = self.bottom(index);
        (bottom..=bottom + self.size).contains(&top) && top.is_multiple_of(8)
    }

    /// Whether G1 says that a region is free. Within a pause.
    fn is_free(&self, index: usize) -> bool {
        // Both its top and its tag say so, or nothing is done about it. A region that is empty since both
        // said so need not be asked again: most regions of a large heap are, and their tags are seldom in the
        // processor's caches.
        let region = &self.regions[index];
        let is_as_it_was = self.is_known && region.is_free && !region.is_touched;
        self.is_empty(index) && (is_as_it_was || self.tag(index) == self.layout.free)
    }

    /// Whether nothing is in a region that has been met. Within a pause.
    fn is_empty(&self, index: usize) -> bool {
        let at = self.regions[index].at;
        // SAFETY: `meet` read this field and found a region of the heap there; the machine keeps the
        // object for its life, and changes it at safepoints or by atomics only.
        at != 0
            && unsafe { ((at + self.layout.top) as *const u64).read_volatile() }
                == self.bottom(index)
    }

    /// The tag by which G1 tells the kind of a region that has been met. Within a pause.
    fn tag(&self, index: usize) -> u32 {
        let at = self.regions[index].at;
        // SAFETY: as in `is_empty`.
        unsafe { ((at + self.layout.tag) as *const u32).read_volatile() }
    }

    /// The whole reserved heap, bytes.
    pub fn bytes(&self) -> u64 {
        self.size * self.regions.len() as u64
    }

    /// Called when a pause begins: which regions the program has taken.
    pub(crate) fn begin(&mut self) {
        self.taken = 0;
        if !self.is_known {
            return;
        }
        for index in 0..self.regions.len() {
            // One that was taken, and that nothing was put into, is as it was.
            if self.regions[index].is_free && !self.is_empty(index) {
                let region = &mut self.regions[index];
                region.is_free = false;
                region.is_touched = true;
                self.taken += 1;
            }
        }
    }

    /// Called when a pause ends that is not looked at: which regions have been used is not known any more.
    pub(crate) fn forget(&mut self) {
        self.is_known = false;
    }

    /// Called when a pause ends.
    ///
    /// # Errors
    /// If a region is odd.
    pub(crate) fn look_at_end(&mut self) -> Result<Looked, Refusal> {
        let (mut used, mut taken) = (0, self.taken);
        for index in 0..self.regions.len() {
            let is_new = self.regions[index].at == 0;
            if is_new && !self.meet_new(index)? {
                continue;
            }
            let is_free = self.is_free(index);
            let region = &mut self.regions[index];
            let is_unknown = is_new || !self.is_known;
            used += u64::from(!is_free);
            // For survivors, or for objects that have become old.
            taken += u64::from(region.is_free && !is_free);
            if is_unknown {
                region.in_memory = None;
            } else if !region.is_free {
                // One that was in use until now was not given up yet.
                region.in_memory = Some(true);
            }
            region.is_free = is_free;
            region.is_touched |= !is_free || is_unknown;
        }
        let taken = if self.is_known { taken } else { 0 };
        self.is_known = true;
        Ok(Looked {
            used: used * self.size,
            taken: taken * self.size,
        })
    }

    /// Looks whether G1 has committed a region for the first time. Within a pause.
    fn meet_new(&mut self, index: usize) -> Result<bool, Refusal> {
        // SAFETY: `check` read this word of the table, which never moves.
        let at = unsafe { (self.place(index) as *const u64).read_volatile() };
        // Under a filter of system calls, reading takes a descriptor, and the program may have none left: the
        // region is met in a later pause.
        if at != 0 && sandbox::was_filtered() && word(at).is_none() {
            return Ok(false);
        }
        self.meet(index, at)?;
        Ok(at != 0)
    }

    /// After that look: gives back what is free, except for `keep` bytes; nothing without `keep`.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Safety
    /// With `keep`: at the safepoint at which `Regions::look_at_end` looked, and these are regions of the
    /// heap.
    pub unsafe fn give_back(&mut self, keep: Option<u64>, giver: &Giver) -> Result<Free, Refusal> {
        let (mut sum, goes) = self.keep(keep.unwrap_or(u64::MAX), giver);
        if !goes || keep.is_none() {
            return Ok(sum);
        }
        let mut end = self.regions.len();
        // Runs of free regions, so that a huge page in two of them goes, too.
        while end > 0 {
            let goes = |region: &Region| region.is_free && !region.is_kept && !region.is_foreign;
            if !goes(&self.regions[end - 1]) {
                end -= 1;
                continue;
            }
            let run = self.regions[..end].iter().rev().take_while(|&r| goes(r));
            let start = end - run.count();
            // SAFETY: as the caller promises.
            sum.given_back += unsafe { self.give_run(start, end, giver)? };
            end = start;
        }
        let resident = |region: &&Region| region.is_free && region.is_touched;
        sum.kept = self.regions.iter().filter(resident).count() as u64 * self.size;
        Ok(sum)
    }

    /// Decides which free regions stay: the last ones, `keep` bytes at most. Tells also whether something
    /// of the others may be resident.
    fn keep(&mut self, keep: u64, giver: &Giver) -> (Free, bool) {
        let again = self.take_turn();
        // Where all may stay, nobody need know which are in memory.
        let is_choice = keep < self.bytes();
        let mut left = (keep / self.size).saturating_sub(self.stays());
        let (mut sum, mut goes) = (Free::default(), false);
        for index in (0..self.regions.len()).rev() {
            let bottom = self.bottom(index);
            let region = &mut self.regions[index];
            region.is_kept = false;
            match (region.at, region.is_free) {
                (0, _) => {}
                (_, false) => sum.used += self.size,
                (_, true) => {
                    sum.free += self.size;
                    if left > 0 && region.is_touched && !region.is_foreign {
                        let is_due = match region.in_memory {
                            None => giver.has_time(),
                            Some(_) => again.contains(&index),
                        };
                        if is_choice && is_due {
                            region.in_memory = Some(is_in_memory(bottom));
                        }
                        // A page that was not looked at counts as in memory: less than wished may stay.
                        region.is_kept = region.in_memory != Some(false);
                        left -= u64::from(region.is_kept);
                    }
                    goes |= region.is_touched && !region.is_kept && !region.is_foreign;
                    sum.kept += u64::from(region.is_touched) * self.size;
                }
            }
        }
        (sum, goes)
    }

    /// Which regions are looked for in memory again in this pause. All have their turn one after the other.
    fn take_turn(&mut self) -> Range<usize> {
        let first = self.again;
        let end = (first + AGAIN).min(self.regions.len());
        self.again = end % self.regions.len();
        first..end
    }

    /// How many free regions stay because they cannot be given back.
    fn stays(&self) -> u64 {
        if !self.has_foreign {
            return 0;
        }
        let stays = |region: &&Region| region.is_free && region.is_touched && region.is_foreign;
        self.regions.iter().filter(stays).count() as u64
    }

    /// Gives back what may be resident of a run of free regions. Returns its bytes.
    ///
    /// # Safety
    /// As [`Regions::give_back`].
    unsafe fn give_run(&mut self, start: usize, end: usize, giver: &Giver) -> Result<u64, Refusal> {
        let touched = |region: &Region| region.is_touched;
        let run = &self.regions[start..end];
        let Some(first) = run.iter().position(touched) else {
            return Ok(0);
        };
        let last = run.iter().rposition(touched).unwrap_or(first);
        // A huge page may begin or end in a neighbour, which is then free as well.
        let page = giver.page();
        let low = self.bottom(start).next_multiple_of(page);
        let high = self.bottom(end) / page * page;
        let from = low.max(self.bottom(start + first) / page * page);
        let to = high.min(self.bottom(start + last + 1).next_multiple_of(page));
        if from >= to {
            return Ok(0);
        }
        // SAFETY: whole pages of regions that were found free: at this safepoint, or at an earlier one, and
        // at this one still empty.
        let given = unsafe { giver.give(from, to)? };
        let mut bytes = 0;
        for index in start + first..=start + last {
            let bottom = self.bottom(index);
            let region = &mut self.regions[index];
            if region.is_touched && given <= bottom && bottom + self.size <= to {
                region.is_touched = false;
                bytes += self.size;
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "regions_tests.rs"]
mod tests;
