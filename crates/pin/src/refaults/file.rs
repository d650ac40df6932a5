//! The evidence of one file.

use super::{Cached, PageStates, Round, masks};
use crate::mapped_pages::View;
use crate::pages::{PageSet, Run, runs_of};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most mappings of one file that are followed.
pub(super) const MAX_MAPPERS: usize = 65_536;
/// The most that one round of all files may spend on halves of runs, in pages that the kernel looks through:
/// about 4 ms. Two more questions take as long as that number of pages.
pub(super) const MAX_HALVING: u64 = 1 << 19;
const TWO_QUESTIONS: u64 = 256;
/// Below this count, evidence has faded away.
const FADED: f32 = 0.02;

/// Which refaults of a page count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// All: where frames are hidden, most refaults are missed, so that one stands for several.
    All,
    /// From the second on within this window and the one before. The first may come of memory that was
    /// short once; only a page that is lost again and again is worth the memory that it takes from others.
    Repeated,
}

/// Evidence of 16 pages. Bit `n` of a mask is the block's page `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Block {
    /// Present in this round, so far.
    now: u16,
    /// Present in the round before.
    before: u16,
    /// Lost, and not back yet.
    lost: u16,
    /// Absent since a round in which they were present, with the mapping still there. Not all are lost:
    /// some only left the page tables.
    away: u16,
    /// Present, but in another frame than last: lost and back in between.
    moved: u16,
    /// Present in this round in the very frame that it was last in: it was never read again.
    stayed: u16,
    /// Refaulted in this window.
    again: u16,
    /// Refaulted in the window before.
    again_before: u16,
    /// Present at some time of this window.
    used: u16,
    /// Present at some time of the window before.
    used_before: u16,
    /// Refaults that count, pages; fades over a window.
    pub refaults: f32,
    /// Those were of another file at this path, and none of its own counts yet.
    inherited: bool,
    /// In which frame each page was last, shortened; 0 where that is unknown.
    frames: [u16; 16],
}

impl Block {
    /// The pages that are worth holding together with it: present within this window or the one
    /// before.
    pub fn wanted(&self) -> u16 {
        self.used | self.used_before
    }

    /// The pages that refaulted within this window or the one before.
    pub fn refaulted(&self) -> u16 {
        self.again | self.again_before
    }

    /// Whether all that counts of it was taken over from another file. Which of its pages come back is not
    /// known then.
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// Takes over refaults of another file.
    fn inherit(&mut self, refaults: f32) {
        if refaults > self.refaults {
            (self.refaults, self.inherited) = (refaults, true);
        }
    }

    /// Takes in the frames of the present pages of `mask`, in order.
    fn note_frames(&mut self, mask: u16, frames: &mut dyn Iterator<Item = u16>) {
        for page in (0..16).filter(|page| mask >> page & 1 == 1) {
            let Some(frame) = frames.next().filter(|frame| *frame != 0) else {
                continue;
            };
            let last = std::mem::replace(&mut self.frames[page], frame);
            match last {
                0 => {}
                last if last == frame => self.stayed |= 1 << page,
                _ => self.moved |= 1 << page,
            }
        }
    }
}

/// A mapping of a file, so that we can tell an evicted page from an unmapped one.
#[derive(Clone, Debug)]
struct Mapper {
    pid: i32,
    at: u64,
    first: u64,
    end: u64,
    /// The first page at which nobody looked in this round. It differs from round to round.
    seen: u64,
}

impl Mapper {
    /// The identity of a mapping across rounds.
    fn place(&self) -> (i32, u64, u64, u64) {
        (self.pid, self.at, self.first, self.end)
    }
}

/// Refaults that a file inherits from another one at its path: by block, in order. Several may inherit the
/// same.
#[derive(Clone, Debug)]
pub(super) struct Estate {
    blocks: Arc<[(u64, f32)]>,
    /// The part of it that is left, 0 to 1: it fades over a window.
    left: f32,
}

impl Estate {
    /// The part of one block's refaults that is left.
    fn of_block(&self, number: u64) -> f32 {
        let found = self.blocks.binary_search_by_key(&number, |of| of.0);
        found.map_or(0.0, |at| self.blocks[at].1 * self.left)
    }
}

/// A file that programs have mapped.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    /// Its path as a program sees it, without the kernel's mark of a deleted file.
    pub path: String,
    /// Whether it has no name any more.
    pub deleted: bool,
    /// Its blocks that were in use, by number.
    pub blocks: BTreeMap<u64, Block>,
    /// A process that had it mapped in the last round, and where.
    pub seen_at: Option<(i32, plimsoll_kernel::smaps::Addresses)>,
    /// It was not there in the rounds before.
    pub(super) is_new: bool,
    /// For blocks that are used later: a program that starts uses few at once.
    estate: Option<Estate>,
    mappers: Vec<Mapper>,
    mappers_before: Vec<Mapper>,
    covered: PageSet,
    ended_once: bool,
    unmapped_windows: u32,
}

/// The kernel's mark behind the path of a file that has no name any more.
const DELETED: &str = " (deleted)";

impl Tracked {
    pub(super) fn begin_round(&mut self) {
        self.mappers_before = std::mem::take(&mut self.mappers);
        self.seen_at = None;
    }

    /// Takes in a mapping; false when there was no room for all of it.
    pub(super) fn saw(&mut self, view: &View, mut room: usize) -> bool {
        let path = view.path.strip_suffix(DELETED);
        self.deleted = path.is_some();
        let path = path.unwrap_or(&view.path);
        if self.path != path {
            path.clone_into(&mut self.path);
        }
        self.seen_at = Some((view.pid, view.addresses.clone()));
        if self.mappers.len() >= MAX_MAPPERS {
            return false;
        }
        self.mappers.push(Mapper {
            pid: view.pid,
            at: view.addresses.start,
            first: view.run.start,
            end: view.run.end,
            seen: view.seen,
        });
        let mut frames = view.frames.iter().copied();
        let mut whole = true;
        for (number, mask) in masks(&view.present) {
            if !self.blocks.contains_key(&number) {
                if room == 0 {
                    whole = false;
                    // Those that are known follow, and their frames.
                    frames
                        .by_ref()
                        .take(mask.count_ones() as usize)
                        .for_each(drop);
                    continue;
                }
                room -= 1;
            }
            let estate = &self.estate;
            let block = self.blocks.entry(number).or_insert_with(|| {
                let mut new = Block::default();
                new.inherit(
                    estate
                        .as_ref()
                        .map_or(0.0, |estate| estate.of_block(number)),
                );
                new
            });
            block.now |= mask;
            block.note_frames(mask, &mut frames);
        }
        whole
    }

    /// Keeps the mappings of a process as they were in the round before, and what was present there.
    pub(super) fn missed(&mut self, pid: i32) {
        let from = self.mappers.len();
        let of_it = self
            .mappers_before
            .iter()
            .filter(|mapper| mapper.pid == pid);
        self.mappers
            .extend(of_it.take(MAX_MAPPERS.saturating_sub(from)).cloned());
        let Some(first) = self.mappers.get(from) else {
            return;
        };
        if self.seen_at.is_none() {
            let bytes = (first.end - first.first).saturating_mul(page_size());
            self.seen_at = Some((pid, first.at..first.at.saturating_add(bytes)));
        }
        let kept: Vec<Run> = self.mappers[from..]
            .iter()
            .map(|mapper| mapper.first..mapper.seen)
            .collect();
        let kept = PageSet::of(kept);
        for (number, block) in &mut self.blocks {
            block.now |= block.before & kept.of_block(*number);
        }
    }

    pub(super) fn end(
        &mut self,
        key: FileKey,
        (fresh, slow): (f64, f64),
        count: Count,
        states: &mut dyn PageStates,
        halving: &mut u64,
        round: &mut Round,
    ) {
        self.is_new = !self.ended_once;
        self.ended_once = true;
        if let Some(estate) = &mut self.estate {
            estate.left *= fresh as f32;
        }
        self.estate.take_if(|estate| estate.left < FADED);
        let vanished = self.compare_mappers();
        let evicted = self.evicted(key, &vanished, halving, states);
        for (number, block) in &mut self.blocks {
            let held = states.held(key, *number);
            let covered = self.covered.of_block(*number);
            let gone = evicted.of_block(*number) & !held;
            let elsewhere = std::mem::take(&mut block.moved);
            let moved = elsewhere & block.now & (block.before | block.away);
            let same = covered & !vanished.of_block(*number);
            block.away = (block.away | block.before) & !block.now & same;
            // A second process shows a page in the frame that the first one showed.
            let stayed = std::mem::take(&mut block.stayed) & !elsewhere;
            let again = (block.now & block.lost & !stayed | moved) & !held;
            let counted = match count {
                Count::All => again,
                Count::Repeated => again & block.refaulted(),
            };
            block.again |= again;
            block.lost = (block.lost & !block.now | gone) & covered & !held;
            let keep = if held != 0 { slow } else { fresh };
            block.refaults = block.refaults * keep as f32 + counted.count_ones() as f32;
            block.inherited &= counted == 0 && block.refaults > FADED;
            block.used |= block.now;
            block.before = std::mem::take(&mut block.now);
            round.lost += u64::from(gone.count_ones());
            round.refaults += u64::from(again.count_ones());
            round.present += u64::from(block.before.count_ones());
        }
    }

    /// Finds the pages that are mapped, and returns those that are not mapped as they were in the round
    /// before: they may have been unmapped, not evicted.
    fn compare_mappers(&mut self) -> PageSet {
        self.mappers.sort_unstable_by_key(Mapper::place);
        let seen = self.mappers.iter().map(|mapper| mapper.first..mapper.seen);
        self.covered = PageSet::of(seen.collect());
        let is_gone = |mapper: &&Mapper| {
            let found = self
                .mappers
                .binary_search_by_key(&mapper.place(), Mapper::place);
            found.is_err()
        };
        let vanished = self.mappers_before.iter().filter(is_gone);
        PageSet::of(vanished.map(|mapper| mapper.first..mapper.end).collect())
    }

    /// The pages that were present, are not, and did not vanish with a mapping.
    fn evicted(
        &self,
        key: FileKey,
        vanished: &PageSet,
        halving: &mut u64,
        states: &mut dyn PageStates,
    ) -> PageSet {
        let mut runs = Vec::new();
        for (number, block) in &self.blocks {
            let same = self.covered.of_block(*number) & !vanished.of_block(*number);
            let gone = block.before & !block.now & same & !states.held(key, *number);
            runs.extend(runs_of(*number, gone));
        }
        let mut evicted = Vec::new();
        for run in PageSet::of(runs).runs() {
            self.uncached(key, run, halving, states, &mut evicted);
        }
        PageSet::of(evicted)
    }

    /// Adds those pages of a run that are not in the page cache: what is still there was dropped from page
    /// tables only. Asks about all of it and, where a part is there, about its halves. A half that is not
    /// asked about follows what it is a part of. A whole run that could have been asked about and was not may
    /// be there; where that can never be known, it counts as evicted.
    fn uncached(
        &self,
        key: FileKey,
        run: &Run,
        halving: &mut u64,
        states: &mut dyn PageStates,
        out: &mut Vec<Run>,
    ) {
        let mut left = vec![(run.clone(), None)];
        while let Some((run, of_whole)) = left.pop() {
            let pages = run.end - run.start;
            let cached = states.cached(key, self, &run);
            let mostly = match cached {
                Cached::Pages(cached) => cached * 2 < pages,
                Cached::NotAsked => of_whole.unwrap_or(false),
                Cached::Unknown => of_whole.unwrap_or(true),
            };
            let left_over = halving.checked_sub(pages + TWO_QUESTIONS);
            match (cached, left_over) {
                (Cached::Pages(cached), Some(rest)) if cached > 0 && cached < pages => {
                    *halving = rest;
                    let middle = run.start + pages / 2;
                    left.push((middle..run.end, Some(mostly)));
                    left.push((run.start..middle, Some(mostly)));
                }
                _ if mostly => out.push(run),
                _ => {}
            }
        }
    }

    pub(super) fn end_window(&mut self, held: impl Fn(u64) -> u16) {
        self.unmapped_windows = if self.mappers.is_empty() {
            self.unmapped_windows + 1
        } else {
            0
        };
        self.blocks.retain(|number, block| {
            block.used_before = std::mem::take(&mut block.used);
            block.again_before = std::mem::take(&mut block.again);
            block.used_before | block.before | block.lost != 0
                || block.refaults > FADED
                || held(*number) != 0
        });
    }

    /// Whether it has been unmapped for a whole window.
    pub(super) fn is_forgotten(&self) -> bool {
        self.unmapped_windows > 1
    }

    /// The evidence that another file at its path inherits.
    pub(super) fn estate(&self) -> Estate {
        let some = self
            .blocks
            .iter()
            .filter(|(_, block)| block.refaults > FADED);
        Estate {
            blocks: some
                .map(|(number, block)| (*number, block.refaults))
                .collect(),
            left: 1.0,
        }
    }

    pub(super) fn inherit(&mut self, estate: &Estate) {
        for (number, refaults) in estate.blocks.iter() {
            if let Some(block) = self.blocks.get_mut(number) {
                block.inherit(*refaults);
            }
        }
        self.estate = Some(estate.clone());
    }

    /// Whether a program had it mapped in the last round.
    pub fn is_mapped(&self) -> bool {
        !self.mappers.is_empty()
    }

    /// Which of its pages were mapped in the last round.
    pub fn mapped(&self) -> &PageSet {
        &self.covered
    }

    /// The processes that had it mapped in the last round, in order.
    pub fn pids(&self) -> BTreeSet<i32> {
        self.mappers.iter().map(|mapper| mapper.pid).collect()
    }
}
