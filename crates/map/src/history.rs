//! Which pages of a process left memory and came back, from look to look: *refaulted* pages. Pure: no
//! clock, no I/O. Two bits for a page.
//!
//! A page has left memory when it was present at an earlier look, its mapping is still there, and now it is
//! in swap, or of a file and not in the page cache. If it is present again at a later look, it counts as
//! refaulted in that one. A page that merely left the page tables, and one that the program gave back, does
//! not count. A page that goes and comes back between two looks is not seen.

use crate::tally::Pages;
use plimsoll_kernel::pagemap_scan::{GUARD, PRESENT, SWAPPED};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use std::collections::{BTreeMap, HashSet};

/// Words of a chunk's bits, and pages of a chunk.
const WORDS: usize = 8;
const PAGES: u64 = 64 * WORDS as u64;
/// Most chunks of all processes together: 8 MiB of bits, for at most 128 GiB of memory.
pub(crate) const MAX_CHUNKS: usize = 1 << 16;
/// Most questions about the page cache in a look. One takes about a microsecond, longer for a large range.
const MAX_QUESTIONS: u32 = 4096;
/// Most files that are remembered as not to be asked about.
const MAX_UNTOLD: usize = 8192;

/// The state of a chunk's pages: bit `n` of word `w` is page `64 w + n`.
///
/// | had | lost | the page |
/// |---|---|---|
/// | 0 | 0 | was never seen, or was given back |
/// | 1 | 0 | was present at some look, and has not left memory since |
/// | 0 | 1 | was present at some look, and has left memory |
/// | 1 | 1 | had left memory, and came back in this look |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chunk {
    had: [u64; WORDS],
    lost: [u64; WORDS],
}

impl Chunk {
    fn is_empty(&self) -> bool {
        self.had.iter().chain(&self.lost).all(|word| *word == 0)
    }
}

/// The identity of the pages of a mapping: the file, the offset that address 0 would have in it, and
/// whether others see writes to it. Where it differs, two pages at one address are not the same page.
type Identity = (FileKey, u64, bool);

/// Neighbouring mappings of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    addresses: Addresses,
    identity: Identity,
}

/// The earlier looks at one process.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// When the process started: clock ticks after boot.
    pub(crate) started: u64,
    /// Most chunks that it may have.
    pub(crate) room: usize,
    chunks: BTreeMap<u64, Chunk>,
    /// The mappings at the last look, by address.
    places: Vec<Place>,
    /// Files that could not be asked about in the last look, and have pages that were present once and are
    /// not.
    untold: HashSet<FileKey>,
    /// The same of the look before: such pages may have come back in the last one.
    untold_before: HashSet<FileKey>,
    looks: u64,
}

/// The reasons why a look may have missed refaulted pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Pages could not be read, or not in time.
    pub late: bool,
    /// There was more memory than can be followed.
    pub full: bool,
    /// More questions about the page cache were necessary than are asked in one look.
    pub unasked: bool,
}

/// The sources of facts about the pages of a process.
pub struct Sources<'a> {
    /// Its page tables.
    pub pages: &'a dyn Pages,
    /// How much of a range of a mapped file has left memory, bytes; `None` if nobody can tell.
    pub gone: &'a mut dyn FnMut(&Area, &Addresses) -> Option<u64>,
    /// Whether the time is up.
    pub late: &'a dyn Fn() -> bool,
}

impl History {
    /// The history of a process that started at `started` (clock ticks after boot), with room for
    /// `room` chunks.
    pub(crate) fn new(started: u64, room: usize) -> History {
        History {
            started,
            room,
            ..History::default()
        }
    }

    /// Takes in a look. If the mappings say how much memory they have (`sized`), those without any are
    /// not looked through.
    pub fn look(&mut self, mappings: &[Area], sized: bool, sources: &mut Sources<'_>) -> Unseen {
        self.looks += 1;
        self.untold_before = std::mem::take(&mut self.untold);
        for chunk in self.chunks.values_mut() {
            for (had, lost) in chunk.had.iter().zip(&mut chunk.lost) {
                *lost &= !had;
            }
        }
        self.chunks.retain(|_, chunk| !chunk.is_empty());
        let before = std::mem::replace(&mut self.places, places(mappings));
        for gap in changed(&before, &self.places) {
            self.forget(&gap);
        }
        let mut unseen = Unseen::default();
        let mut questions = MAX_QUESTIONS;
        for area in mappings.iter().filter(|area| !is_kernels(area)) {
            if (sources.late)() {
                unseen.late = true;
                break;
            }
            let mut walk = Walk {
                history: self,
                area,
                gone: sources.gone,
                late: sources.late,
                at: area.addresses.start,
                questions: &mut questions,
                unseen: &mut unseen,
            };
            let is_empty = sized && area.rss == 0 && area.swap == 0;
            let complete = is_empty || {
                let mut runs = 0u32;
                let mut in_time = true;
                let read = sources.pages.each_place(&area.addresses, &mut |run, kind| {
                    walk.run(run, kind);
                    runs = runs.wrapping_add(1);
                    in_time = !runs.is_multiple_of(1024) || !(sources.late)();
                    in_time
                });
                read && in_time
            };
            if complete {
                walk.absent_until(area.addresses.end);
            } else {
                unseen.late = true;
            }
        }
        unseen
    }

    /// Whether there was a look.
    pub(crate) fn has_looked(&self) -> bool {
        self.looks > 0
    }

    /// Whether there was a look before the last one.
    pub fn has_before(&self) -> bool {
        self.looks > 1
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// How much of a part of a mapping came back in the last look, bytes; each page belongs to the part in
    /// which it begins. `None` without a look before it, or where pages of the file may have left memory
    /// unseen.
    pub fn refaulted(&self, area: &Area, part: &Addresses) -> Option<u64> {
        let untold = [&self.untold, &self.untold_before];
        if !self.has_before() || untold.iter().any(|files| files.contains(&area.file)) {
            return None;
        }
        let page = page_size();
        let pages = part.start.div_ceil(page)..part.end.div_ceil(page);
        if pages.is_empty() {
            return Some(0);
        }
        let mut count = 0;
        let chunks = pages.start / PAGES..(pages.end - 1) / PAGES + 1;
        for (&number, chunk) in self.chunks.range(chunks) {
            for (word, mask) in masks(number, &pages) {
                count += u64::from((chunk.had[word] & chunk.lost[word] & mask).count_ones());
            }
        }
        Some(count * page)
    }

    /// Changes the state of the pages of a range. `make`: also of pages whose state is not known yet.
    /// False if there was no room for all of it.
    fn change(
        &mut self,
        range: &Addresses,
        make: bool,
        mut change: impl FnMut(&mut u64, &mut u64, u64),
    ) -> bool {
        let page = page_size();
        let pages = range.start / page..range.end / page;
        if pages.is_empty() {
            return true;
        }
        let numbers = pages.start / PAGES..(pages.end - 1) / PAGES + 1;
        let mut apply = |number: u64, chunk: &mut Chunk| {
            for (word, mask) in masks(number, &pages) {
                change(&mut chunk.had[word], &mut chunk.lost[word], mask);
            }
        };
        if !make {
            for (&number, chunk) in self.chunks.range_mut(numbers) {
                apply(number, chunk);
            }
            return true;
        }
        for number in numbers {
            if self.chunks.len() >= self.room && !self.chunks.contains_key(&number) {
                return false;
            }
            apply(number, self.chunks.entry(number).or_default());
        }
        true
    }

    fn forget(&mut self, range: &Addresses) {
        self.change(range, false, |had, lost, mask| {
            *had &= !mask;
            *lost &= !mask;
        });
    }

    fn lose(&mut self, range: &Addresses) {
        self.change(range, false, |had, lost, mask| {
            *lost |= *had & mask;
            *had &= !mask;
        });
    }

    /// The runs of pages in a range that were present at an earlier look.
    fn had(&self, range: &Addresses) -> Vec<Addresses> {
        let page = page_size();
        let pages = range.start / page..range.end / page;
        let mut runs: Vec<Addresses> = Vec::new();
        if pages.is_empty() {
            return runs;
        }
        let chunks = pages.start / PAGES..(pages.end - 1) / PAGES + 1;
        for (&number, chunk) in self.chunks.range(chunks) {
            for (word, mask) in masks(number, &pages) {
                let mut bits = chunk.had[word] & mask;
                while bits != 0 {
                    let from = bits.trailing_zeros();
                    let count = (bits >> from).trailing_ones();
                    bits &= bits.checked_add(1 << from).unwrap_or(0);
                    let start = (number * PAGES + word as u64 * 64 + u64::from(from)) * page;
                    let end = start + u64::from(count) * page;
                    match runs.last_mut() {
                        Some(last) if last.end == start => last.end = end,
                        _ => runs.push(start..end),
                    }
                }
            }
        }
        runs
    }
}

/// A walk through the pages of one mapping, by address.
struct Walk<'a, 'b> {
    history: &'a mut History,
    area: &'a Area,
    gone: &'a mut (dyn FnMut(&Area, &Addresses) -> Option<u64> + 'b),
    late: &'a dyn Fn() -> bool,
    /// Up to here pages were taken in.
    at: u64,
    questions: &'a mut u32,
    unseen: &'a mut Unseen,
}

impl Walk<'_, '_> {
    /// Takes in a run of pages that are present or in swap.
    fn run(&mut self, run: Addresses, kind: u64) {
        self.absent_until(run.start);
        if kind & PRESENT != 0 {
            let fits = self.history.change(&run, true, |had, _, mask| *had |= mask);
            self.unseen.full |= !fits;
        } else if kind & SWAPPED != 0 && kind & GUARD == 0 {
            self.history.lose(&run);
        } else {
            self.history.forget(&run);
        }
        self.at = self.at.max(run.end);
    }

    /// Takes in that nothing is in the page tables up to an address.
    fn absent_until(&mut self, end: u64) {
        let range = self.at..end;
        self.at = self.at.max(end);
        if range.is_empty() {
            return;
        }
        // Anonymous memory that is nowhere was given back.
        if self.area.file.inode == 0 {
            self.history.forget(&range);
            return;
        }
        for run in self.history.had(&range) {
            self.ask(run);
        }
    }

    /// Asks which pages of a run have left memory: of all of it, and if some have, of its halves.
    fn ask(&mut self, run: Addresses) {
        let mut runs = vec![run];
        while let Some(run) = runs.pop() {
            // Nobody can tell, as was found in this look.
            if self.history.untold.contains(&self.area.file) {
                return;
            }
            // A question about a large run takes longer.
            if (self.late)() {
                self.unseen.late = true;
                return;
            }
            let Some(left) = self.questions.checked_sub(1) else {
                self.unseen.unasked = true;
                return;
            };
            *self.questions = left;
            let (size, page) = (run.end - run.start, page_size());
            match (self.gone)(self.area, &run) {
                None => {
                    if self.history.untold.len() < MAX_UNTOLD {
                        self.history.untold.insert(self.area.file);
                    } else {
                        self.unseen.full = true;
                    }
                    return;
                }
                Some(0) => {}
                Some(gone) if gone >= size || size <= page => self.history.lose(&run),
                Some(_) => {
                    let middle = run.start + (size / page / 2) * page;
                    runs.push(middle..run.end);
                    runs.push(run.start..middle);
                }
            }
        }
    }
}

/// Whether the kernel's own pages are in a mapping, which never leave memory.
fn is_kernels(area: &Area) -> bool {
    area.name.starts_with("[v")
}

/// The words of a chunk that a range of pages reaches into, with a mask of its pages.
fn masks(chunk: u64, pages: &std::ops::Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let start = chunk * PAGES;
    let from = pages.start.saturating_sub(start).min(PAGES);
    let to = pages.end.saturating_sub(start).min(PAGES);
    (from / 64..to.div_ceil(64)).map(move |word| {
        let low = from.saturating_sub(word * 64).min(64);
        let high = to.saturating_sub(word * 64).min(64);
        let below = |n: u64| 1u64.checked_shl(n as u32).map_or(u64::MAX, |bit| bit - 1);
        (word as usize, below(high) & !below(low))
    })
}

/// The mappings by identity. Mappings with different rights may be one place: a heap grows so.
fn places(mappings: &[Area]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for area in mappings {
        let addresses = area.addresses.clone();
        let base = match area.file.inode {
            0 => 0,
            _ => area.offset.wrapping_sub(addresses.start),
        };
        let identity = (area.file, base, area.shared_mapping);
        match places.last_mut() {
            Some(last) if last.addresses.end == addresses.start && last.identity == identity => {
                last.addresses.end = addresses.end;
            }
            _ => places.push(Place {
                addresses,
                identity,
            }),
        }
    }
    places
}

/// The ranges of earlier places at which there is not the same any more.
fn changed(before: &[Place], now: &[Place]) -> Vec<Addresses> {
    let mut gaps = Vec::new();
    for place in before {
        let mut at = place.addresses.start;
        let first = now.partition_point(|other| other.addresses.end <= at);
        let inside = now[first..]
            .iter()
            .take_while(|other| other.addresses.start < place.addresses.end)
            .filter(|other| other.identity == place.identity);
        for same in inside {
            if at < same.addresses.start {
                gaps.push(at..same.addresses.start);
            }
            at = at.max(same.addresses.end);
        }
        if at < place.addresses.end {
            gaps.push(at..place.addresses.end);
        }
    }
    gaps
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
