//! The spaces of a Serial or Parallel heap, and giving back what is free in them.
//!
//! # Why this is safe
//! A space has objects from its bottom to its top; what is between top and end is free and holds
//! nothing: the machine hands it out by raising `top`, and sets every word of an object after that.
//!
//! 1. **Nobody allocates meanwhile.** `GarbageCollectionFinish` is sent by the VM Thread within the
//!    operation that collected, at the safepoint. Java threads are stopped; threads in native code
//!    may run, but must stop before they enter the heap again. Workers of the collector have finished
//!    their task. Buffers for allocation of threads (TLABs) were retired when the collection began. The
//!    object for which it was made, if any, was allocated before the event and is below `top`.
//! 2. **Nobody relies on what is there.** Free memory is set before it is used; only debug builds fill it
//!    with a pattern and check that (`ZapUnusedHeapArea`: refused). Code that reads a little beyond an
//!    object's end finds zeros, mapped as before. `madvise(MADV_DONTNEED)` leaves the mapping and its
//!    protection as they are; HotSpot itself does the same to free pages of an eden on several nodes.
//! 3. **Only whole pages strictly between top and end** of one space are given back: the page that holds the
//!    last object and the page at which another space begins are not.
//! 4. **Only what was recognised.** Places are found by the names of types and fields. The four spaces,
//!    their bounds and the heap's mapping are checked before anything is done, and the bounds again at each
//!    pause, against the reserved heap: if one is odd, nothing is given back ever after. Nothing of the
//!    machine is written.
//! 5. **Not against the user's wish**: memory that was touched in advance, large pages, heaps on a file or
//!    divided between nodes are left alone.
//!
//! The objects that describe the spaces are made when the heap is made and live as long; survivor
//! spaces change roles by swapping pointers to them, which does not matter here.

use crate::machine::{Machine, Refusal, word};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::reader::read_lines;
use plimsoll_wire::collections::Collector;
use std::ffi::c_void;
use std::path::Path;

/// Versions whose heaps this was tried with.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=25;
/// Spaces of a heap.
pub const COUNT: usize = 4;
/// Size of a huge page, where the kernel does not say.
const HUGE: u64 = 2 << 20;
/// Reads until the bounds of a space agree with each other: the program may allocate meanwhile.
const TRIES: usize = 4;

/// What a space is for, in the order in which free memory is left resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// One of the two that survivors are copied to, within pauses.
    Survivors,
    /// Where the program allocates.
    Eden,
    /// Old objects.
    Old,
}

/// The bounds of a space at one moment: addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    bottom: u64,
    top: u64,
    end: u64,
}

/// One space.
#[derive(Clone, Copy, Debug)]
struct Space {
    is: Use,
    /// Where its bounds are kept: addresses of `bottom`, `top` and `end`.
    places: [u64; 3],
    /// Its bounds at the last look; changed within pauses.
    last: Bounds,
    /// Nothing at or above this address has been touched since it was given back; changed within
    /// pauses.
    high: u64,
}

/// The spaces of a heap, and what may be done about them. Used within pauses, by the VM Thread.
#[derive(Debug)]
pub struct Spaces {
    spaces: [Space; COUNT],
    /// The reserved heap: first address, and one past the last.
    heap: (u64, u64),
    /// Whole pages of so many bytes are given back.
    page: u64,
}

/// What there is after a pause, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Free in the spaces.
    pub free: u64,
    /// Of these, left resident.
    pub kept: u64,
    /// Given back now.
    pub given_back: u64,
}

impl Spaces {
    /// Finds the spaces.
    ///
    /// # Errors
    /// Whenever anything is not as it was when this was tried.
    pub fn of(machine: &Machine) -> Result<Spaces, Refusal> {
        let collector = machine.collector();
        if !matches!(collector, Collector::Serial | Collector::Parallel) {
            return Err(Refusal::Collector(collector));
        }
        let version = machine.version()?;
        if !VERSIONS.contains(&version) {
            return Err(Refusal::Version(version));
        }
        let page = wanted_page(machine)?;
        let heap = reserved(machine)?;
        is_anonymous(heap)?;
        let places = match collector {
            Collector::Serial => serial(machine)?,
            _ => parallel(machine)?,
        };
        let mut spaces = Spaces {
            spaces: places.map(|(is, places)| Space {
                is,
                places,
                last: Bounds::default(),
                high: u64::MAX,
            }),
            heap,
            page,
        };
        spaces.check()?;
        Ok(spaces)
    }

    /// Reads all bounds for the first time, with care.
    fn check(&mut self) -> Result<(), Refusal> {
        for index in 0..COUNT {
            let read = || self.read_with_care(&self.spaces[index]);
            let bounds = (0..TRIES).find_map(|_| read());
            self.spaces[index].last = bounds.ok_or(Refusal::Odd("the spaces of its heap"))?;
        }
        let mut all = self.spaces.map(|space| (space.last.bottom, space.last.end));
        all.sort_unstable();
        match all.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
            true => Ok(()),
            false => Err(Refusal::Odd("the spaces of its heap")),
        }
    }

    fn read_with_care(&self, space: &Space) -> Option<Bounds> {
        let [bottom, top, end] = space.places;
        // The top rises while the program runs, so it is read before the end.
        let bounds = Bounds {
            bottom: word(bottom)?,
            top: word(top)?,
            end: word(end)?,
        };
        self.is_sane(&bounds).then_some(bounds)
    }

    fn is_sane(&self, bounds: &Bounds) -> bool {
        let &Bounds { bottom, top, end } = bounds;
        let (first, last) = self.heap;
        first <= bottom
            && bottom <= top
            && top <= end
            && end <= last
            && (bottom | top | end) % 8 == 0
    }

    /// The bounds of a space within a pause.
    fn read(&self, space: &Space) -> Option<Bounds> {
        // SAFETY: `check` read the three words and found the bounds of a space of the heap there; the
        // machine keeps the object for its life, and changes it at safepoints or by atomics only.
        let [bottom, top, end] = space
            .places
            .map(|at| unsafe { (at as *const u64).read_volatile() });
        let bounds = Bounds { bottom, top, end };
        self.is_sane(&bounds).then_some(bounds)
    }

    /// Called when a pause begins: how far the program has filled the spaces.
    ///
    /// # Errors
    /// If a space is odd.
    pub fn begin(&mut self) -> Result<(), Refusal> {
        for index in 0..COUNT {
            self.look(index, false)?;
        }
        Ok(())
    }

    /// Called when a pause ends. Gives back what is free, except for `keep` bytes; nothing without
    /// `keep`. `is_young`: it was no more than a collection of young objects, so that no space was
    /// filled beyond where it ended.
    ///
    /// # Errors
    /// If a space is odd, or the kernel refuses.
    pub fn end(&mut self, keep: Option<u64>, is_young: bool) -> Result<Free, Refusal> {
        let mut sum = Free::default();
        let mut left = keep.unwrap_or(u64::MAX);
        for wanted in [Use::Survivors, Use::Eden, Use::Old] {
            for index in 0..COUNT {
                if self.spaces[index].is != wanted {
                    continue;
                }
                self.look(index, !is_young)?;
                // The old generation grows slowly: what is free there is not wanted soon.
                let keep = match (keep, wanted) {
                    (Some(_), Use::Old) => 0,
                    _ => left,
                };
                let free = self.give_back(index, keep)?;
                left = left.saturating_sub(free.kept);
                sum.free += free.free;
                sum.kept += free.kept;
                sum.given_back += free.given_back;
            }
        }
        Ok(sum)
    }

    /// Notes how far a space may have been touched.
    fn look(&mut self, index: usize, wholly: bool) -> Result<(), Refusal> {
        let bounds = self.read(&self.spaces[index]);
        let bounds = bounds.ok_or(Refusal::Odd("the spaces of its heap"))?;
        let space = &mut self.spaces[index];
        let moved = (space.last.bottom, space.last.end) != (bounds.bottom, bounds.end);
        space.high = match moved || wholly {
            true => bounds.end,
            false => space.high.max(bounds.top).min(bounds.end),
        };
        space.last = bounds;
        Ok(())
    }

    /// Gives back the free memory of a space that may be resident, except for the first `keep` bytes.
    fn give_back(&mut self, index: usize, keep: u64) -> Result<Free, Refusal> {
        let space = &mut self.spaces[index];
        let Bounds { top, end, .. } = space.last;
        let free = end - top;
        let touched = space.high - top;
        let (from, to) = whole_pages(top, keep, space.high, end, self.page);
        if from >= to {
            return Ok(Free {
                free,
                kept: touched,
                given_back: 0,
            });
        }
        drop_pages(from, to - from)?;
        space.high = from;
        Ok(Free {
            free,
            kept: from - top,
            given_back: to - from,
        })
    }
}

/// The whole pages between `top + keep` and `high` (both addresses), and below `end`. An empty range,
/// possibly turned round, if there are none.
fn whole_pages(top: u64, keep: u64, high: u64, end: u64, page: u64) -> (u64, u64) {
    let from = top.saturating_add(keep).checked_next_multiple_of(page);
    let to = high.checked_next_multiple_of(page).unwrap_or(u64::MAX);
    (from.unwrap_or(u64::MAX), to.min(end / page * page))
}

/// Gives whole pages of free heap back to the kernel.
fn drop_pages(from: u64, length: u64) -> Result<(), Refusal> {
    // SAFETY: whole pages strictly between top and end of a space of the heap, at a safepoint; nothing
    // is there and nobody looks at it. The head of this file says why.
    let code = unsafe { libc::madvise(from as *mut c_void, length as usize, libc::MADV_DONTNEED) };
    match code {
        0 => Ok(()),
        _ => {
            let error = std::io::Error::last_os_error();
            Err(Refusal::System(error.raw_os_error().unwrap_or(0)))
        }
    }
}

/// The size of the pages to give back, bytes.
fn wanted_page(machine: &Machine) -> Result<u64, Refusal> {
    let flag = |name: &'static str| machine.is_set(name).ok_or(Refusal::NoFlag(name));
    if flag("AlwaysPreTouch")? {
        return Err(Refusal::Flag("+AlwaysPreTouch"));
    }
    if flag("UseNUMA")? {
        return Err(Refusal::Flag("+UseNUMA"));
    }
    // Known to debug builds only.
    if machine.is_set("ZapUnusedHeapArea") == Some(true) {
        return Err(Refusal::Flag("+ZapUnusedHeapArea"));
    }
    if machine.has_text("AllocateHeapAt") == Some(true) {
        return Err(Refusal::Flag("AllocateHeapAt"));
    }
    let transparent = flag("UseTransparentHugePages")?;
    if flag("UseLargePages")? && !transparent {
        return Err(Refusal::Flag("+UseLargePages"));
    }
    // A part of a huge page cannot be freed at once, so these are given back as a whole.
    Ok(match transparent || are_huge_pages_usual() {
        true => huge_page(),
        false => page_size(),
    })
}

/// Whether the kernel makes huge pages where nobody asked for them, or does not say.
fn are_huge_pages_usual() -> bool {
    let setting = std::fs::read("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| setting.starts_with(b"[always]"))
}

fn huge_page() -> u64 {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    let size = text.ok().and_then(|text| text.trim().parse::<u64>().ok());
    size.filter(|size| size.is_power_of_two())
        .unwrap_or(HUGE)
        .max(page_size())
}

/// The reserved heap.
fn reserved(machine: &Machine) -> Result<(u64, u64), Refusal> {
    let what = "the range of its heap";
    let heap = machine.static_pointer("Universe", "_collectedHeap")?;
    let region = machine.at(heap, "CollectedHeap", "_reserved")?;
    let start = word(machine.at(region, "MemRegion", "_start")?);
    let words = word(machine.at(region, "MemRegion", "_word_size")?);
    let (start, words) = start.zip(words).ok_or(Refusal::Odd(what))?;
    let end = words
        .checked_mul(8)
        .and_then(|size| start.checked_add(size));
    let end = end.filter(|&end| start > 0 && end > start);
    Ok((start, end.ok_or(Refusal::Odd(what))?))
}

/// Bytes of the memory map that are read, at most: about 100,000 mappings.
const MAX_MAPS: u64 = 16 << 20;

/// Whether the whole range is mapped privately, without a file.
fn is_anonymous((start, end): (u64, u64)) -> Result<(), Refusal> {
    let (mut next, mut all) = (start, true);
    let read = read_lines(Path::new("/proc/self/maps"), MAX_MAPS, &mut |line| {
        let Some((first, last, is_plain)) = mapping(line) else {
            return true;
        };
        if first < end && last > start {
            all &= first <= next && is_plain;
            next = last;
        }
        first < end
    });
    match read.is_ok() && all && next >= end {
        true => Ok(()),
        false => Err(Refusal::NotAnonymous),
    }
}

/// The addresses of a line of `/proc/self/maps`, and whether it is private memory without a file.
fn mapping(line: &[u8]) -> Option<(u64, u64, bool)> {
    let line = std::str::from_utf8(line.get(..line.len().min(MAX_FIELDS))?).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let (first, last) = fields.next()?.split_once('-')?;
    let is_private = fields.next()?.ends_with('p');
    let inode = fields.nth(2)?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(first)?, address(last)?, is_private && inode == "0"))
}

/// Bytes of a line that hold what is read of it.
const MAX_FIELDS: usize = 100;

type Places = [(Use, [u64; 3]); COUNT];

fn serial(machine: &Machine) -> Result<Places, Refusal> {
    let heap = machine.static_pointer("Universe", "_collectedHeap")?;
    let of_heap = |name| match machine.has("SerialHeap", name) {
        true => machine.pointer(heap, "SerialHeap", name),
        false => machine.pointer(heap, "GenCollectedHeap", name),
    };
    let (young, old) = (of_heap("_young_gen")?, of_heap("_old_gen")?);
    let of_young = |name| machine.pointer(young, "DefNewGeneration", name);
    let spaces = [
        (Use::Eden, of_young("_eden_space")?),
        (Use::Survivors, of_young("_from_space")?),
        (Use::Survivors, of_young("_to_space")?),
        (
            Use::Old,
            machine.pointer(old, "TenuredGeneration", "_the_space")?,
        ),
    ];
    places(machine, spaces, ["ContiguousSpace", "Space"])
}

fn parallel(machine: &Machine) -> Result<Places, Refusal> {
    let young = machine.static_pointer("ParallelScavengeHeap", "_young_gen")?;
    let old = machine.static_pointer("ParallelScavengeHeap", "_old_gen")?;
    let of_young = |name| machine.pointer(young, "PSYoungGen", name);
    let spaces = [
        (Use::Eden, of_young("_eden_space")?),
        (Use::Survivors, of_young("_from_space")?),
        (Use::Survivors, of_young("_to_space")?),
        (Use::Old, machine.pointer(old, "PSOldGen", "_object_space")?),
    ];
    places(machine, spaces, ["MutableSpace", "ImmutableSpace"])
}

/// Where the bounds of spaces are. `kinds`: the type of a space, and the one that it builds on, to which
/// some of the fields belong in some versions.
fn places(
    machine: &Machine,
    spaces: [(Use, u64); COUNT],
    kinds: [&'static str; 2],
) -> Result<Places, Refusal> {
    let mut found = spaces.map(|(is, _)| (is, [0; 3]));
    for (found, (_, space)) in found.iter_mut().zip(spaces) {
        for (place, name) in found.1.iter_mut().zip(["_bottom", "_top", "_end"]) {
            let kind = kinds.into_iter().find(|kind| machine.has(kind, name));
            *place = machine.at(space, kind.unwrap_or(kinds[0]), name)?;
            if *place % 8 != 0 {
                return Err(Refusal::Odd("the spaces of its heap"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "spaces_tests.rs"]
mod tests;
