//! Which pages were lost and came back: the evidence of refaults. Pure: no clock, no I/O.
//!
//! Per round: [`Evidence::begin_round`], [`Evidence::saw`] for each mapping, [`Evidence::end`]. A page is
//! lost when it is present in no process any more that had it, although its mapping is still there:
//! the kernel evicted it. If it is present again in a later round, a program needed it: a refault.
//! Readahead brings pages into the page cache, not into page tables, so what it guessed is no
//! evidence.
//!
//! A page that goes and comes back between two rounds is in another frame of memory than before, which
//! counts too. Only root is shown frames. Without them rounds are samples that miss what goes and
//! comes back soon, the hottest pages most of all; then the programs' major faults, which the kernel
//! counts, set the scale ([`Evidence::scale`]).

mod file;

pub use file::{Block, Tracked};
use file::{Count, Estate, MAX_HALVING, MAX_MAPPERS};

use crate::limits::{Limit, Reached};
use crate::mapped_pages::View;
use crate::pages::{BLOCK, Run, blocks};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// The most files that are followed.
pub const MAX_FILES: usize = 8192;
/// The most mappings of all files that are followed.
pub const MAX_ALL_MAPPINGS: usize = 1 << 19;
/// The most blocks of all files: 16 GiB of pages in use with pages of 4 KiB.
pub const MAX_BLOCKS: usize = 1 << 18;
/// Held pages show no refaults any more. Their evidence fades over this many windows, instead of one.
const HELD_WINDOWS: f64 = 20.0;
/// The least scale: one read may bring back that many pages.
const LEAST_SCALE: f64 = 1.0 / 64.0;
/// The largest scale where frames are not shown: most refaults may be missed.
const LARGEST_SCALE: f64 = 64.0;

/// States of pages in the holder and in the page cache, at the end of a round.
pub trait PageStates {
    /// Which pages of a block we hold: bit `n` for the block's page `n`.
    fn held(&self, file: FileKey, block: u64) -> u16;

    /// How many pages of a run are in the page cache.
    fn cached(&mut self, key: FileKey, file: &Tracked, run: &Run) -> Cached;
}

/// State of a run in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// So many pages of it are there.
    Pages(u64),
    /// It could tell, but was not asked: there was too much to ask about.
    NotAsked,
    /// It cannot say.
    Unknown,
}

/// A rate that fades with time.
#[derive(Clone, Copy, Debug, Default)]
struct Faded {
    count: f64,
    seconds: f64,
}

impl Faded {
    fn add(&mut self, keep: f64, count: f64, seconds: f64) {
        self.count = self.count * keep + count;
        self.seconds = self.seconds * keep + seconds;
    }

    /// Per second.
    fn rate(self) -> f64 {
        if self.seconds > 0.0 {
            self.count / self.seconds
        } else {
            0.0
        }
    }
}

/// The result of a round, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Were lost.
    pub lost: u64,
    /// Came back.
    pub refaults: u64,
    /// Are in use.
    pub present: u64,
}

/// The evidence of all files.
#[derive(Debug)]
pub struct Evidence {
    files: BTreeMap<FileKey, Tracked>,
    window: Nanos,
    turned: Nanos,
    ended: Nanos,
    blocks: usize,
    /// Mappings that were taken in in this round.
    mappings: usize,
    /// The limits that were reached in this window: not everything could be followed.
    full: BTreeSet<Limit>,
    frames: bool,
    seen: Faded,
    majors: Faded,
}

impl Evidence {
    /// Starts `now`.
    pub fn new(window: Nanos, now: Nanos) -> Evidence {
        Evidence {
            files: BTreeMap::new(),
            window,
            turned: now,
            ended: now,
            blocks: 0,
            mappings: 0,
            full: BTreeSet::new(),
            frames: false,
            seen: Faded::default(),
            majors: Faded::default(),
        }
    }

    /// 1. Begins a round.
    pub fn begin_round(&mut self) {
        self.mappings = 0;
        for file in self.files.values_mut() {
            file.begin_round();
        }
    }

    /// 2. Takes in one mapping of one process.
    pub fn saw(&mut self, view: &View) {
        self.frames |= !view.frames.is_empty();
        let known = self.files.contains_key(&view.key);
        if !known && self.files.len() >= MAX_FILES {
            self.full.insert(Limit::Files);
            return;
        }
        if self.mappings >= MAX_ALL_MAPPINGS {
            self.full.insert(Limit::Mappings);
            return;
        }
        self.mappings += 1;
        let file = self.files.entry(view.key).or_default();
        let before = file.blocks.len();
        let room = MAX_BLOCKS.saturating_sub(self.blocks);
        let whole = file.saw(view, room);
        self.blocks += file.blocks.len() - before;
        if !whole {
            self.full.insert(if self.blocks < MAX_BLOCKS {
                Limit::Mappings
            } else {
                Limit::Pages
            });
        }
    }

    /// Or instead: a process that could not be looked at in this round. Its mappings, and what was
    /// present, are taken to be as they were in the round before.
    pub fn missed(&mut self, pid: i32) {
        for file in self.files.values_mut() {
            file.missed(pid);
        }
    }

    /// 3. Ends the round: compares it with the one before. `majors` are the programs' major faults
    ///    since then, count.
    pub fn end(&mut self, now: Nanos, majors: u64, states: &mut dyn PageStates) -> Round {
        let seconds = (now - self.ended).0 as f64 / 1e9;
        self.ended = now;
        let window = self.window.0.max(1) as f64 / 1e9;
        let keep = |windows: f64| (-seconds / (window * windows)).exp();
        let keep = (keep(1.0), keep(HELD_WINDOWS));
        let count = if self.frames {
            Count::Repeated
        } else {
            Count::All
        };
        let mut round = Round::default();
        let mut halving = MAX_HALVING;
        for (key, file) in &mut self.files {
            file.end(*key, keep, count, states, &mut halving, &mut round);
        }
        self.seen.add(keep.0, round.refaults as f64, seconds);
        self.majors.add(keep.0, majors as f64, seconds);
        self.inherit();
        if now - self.turned >= self.window {
            self.turned = now;
            self.end_window(states);
        }
        round
    }

    /// A file that is new at the path of another takes over what is known of that one, if that one was
    /// deleted or is not mapped any more: an upgraded library is used like the old one. If it is
    /// neither, it is of another container.
    fn inherit(&mut self) {
        let new = |(_, file): &(&FileKey, &Tracked)| file.is_new;
        let heirs: Vec<FileKey> = self.files.iter().filter(new).map(|(key, _)| *key).collect();
        if heirs.is_empty() {
            return;
        }
        let left = |file: &&Tracked| {
            !file.is_new && !file.path.is_empty() && (file.deleted || !file.is_mapped())
        };
        let old = self.files.values().filter(left);
        let estates: BTreeMap<String, Estate> =
            old.map(|file| (file.path.clone(), file.estate())).collect();
        for heir in heirs {
            let Some(file) = self.files.get_mut(&heir) else {
                continue;
            };
            file.is_new = false;
            if let Some(estate) = estates.get(&file.path) {
                file.inherit(estate);
            }
        }
    }

    /// A window is over: forgets what was in no use for a whole one.
    fn end_window(&mut self, states: &dyn PageStates) {
        for (key, file) in &mut self.files {
            file.end_window(|block| states.held(*key, block));
        }
        self.files.retain(|_, file| !file.is_forgotten());
        self.blocks = self.files.values().map(|file| file.blocks.len()).sum();
        self.full.clear();
    }

    /// The files, by device and inode.
    pub fn files(&self) -> &BTreeMap<FileKey, Tracked> {
        &self.files
    }

    /// One file.
    pub fn file(&self, key: &FileKey) -> Option<&Tracked> {
        self.files.get(key)
    }

    /// Whether there was more than can be followed.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// The limits that were reached in this window.
    pub fn limits(&self) -> impl Iterator<Item = Reached> + '_ {
        self.full.iter().map(|limit| Reached {
            limit: *limit,
            reason: match limit {
                Limit::Files => format!("more than {MAX_FILES} files are mapped: others are not followed"),
                Limit::Pages => format!(
                    "more than {MAX_BLOCKS} blocks of {} KiB are in use in files: others are not followed",
                    (BLOCK * page_size()) >> 10
                ),
                _ => format!(
                    "there are more than {MAX_ALL_MAPPINGS} mappings of files, or {MAX_MAPPERS} of one: \
                     others are not followed"
                ),
            },
        })
    }

    /// Refaults that were seen, pages a second.
    pub fn refaults_per_second(&self) -> f64 {
        self.seen.rate()
    }

    /// Major faults of the programs, a second. Those that read from swap count too.
    pub fn majors_per_second(&self) -> f64 {
        self.majors.rate()
    }

    /// Whether a program had to wait for a page within about a window. If none had, pages only moved in
    /// memory, or came back before they were needed.
    pub fn waited(&self) -> bool {
        self.majors.count >= 0.5
    }

    /// Reads for each refault that was seen: major faults over refaults. With frames at most 1: what
    /// is more are faults on swapped memory. Without them it is too large where programs swap as
    /// well.
    pub fn scale(&self) -> f64 {
        if self.seen.count < 1.0 {
            return 1.0;
        }
        let most = if self.frames { 1.0 } else { LARGEST_SCALE };
        (self.majors.count / self.seen.count).clamp(LEAST_SCALE, most)
    }

    /// The part of the major faults that are of no page that was lost and came back, at least: one fault may
    /// bring back more of these. `None` where not all of them are seen, or less than one a window.
    pub fn part_of_others(&self) -> Option<f64> {
        let told = self.frames && self.majors.count >= 1.0;
        told.then(|| 1.0 - (self.seen.count / self.majors.count).min(1.0))
    }

    /// Whether frames are shown, so that all pages that came back are known.
    pub fn sees_frames(&self) -> bool {
        self.frames
    }

    /// The pages of a block that are worth holding: those that came back; where it is not known which did,
    /// those in use.
    pub fn worth(&self, block: &Block) -> u16 {
        if self.frames && !block.is_inherited() {
            block.refaulted()
        } else {
            block.wanted()
        }
    }

    /// Refaults a second of one block of one file that count.
    pub fn rate_of(&self, block: &Block) -> f64 {
        Faded {
            count: f64::from(block.refaults),
            seconds: self.seen.seconds,
        }
        .rate()
    }
}

/// All blocks that a view reaches into, with the mask of pages; helper of tests and of `file`.
pub(crate) fn masks(runs: &[Run]) -> impl Iterator<Item = (u64, u16)> + '_ {
    runs.iter()
        .flat_map(|run| blocks(run).map(move |block| (block, crate::pages::bits(block, run))))
}

#[cfg(test)]
mod tests;
