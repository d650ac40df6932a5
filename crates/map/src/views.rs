//! Files that a process maps at several addresses: the kernel counts their pages once for each.
//! ZGC of JDK 17 maps its heap three times.

use crate::count::{Counted, Pages, of_file};
use crate::parts::Part;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::scan::{FILE, PRESENT};
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use std::collections::BTreeSet;
use std::ops::Range;

/// Most pairs of a view and a part of a file that are looked at.
const MAX_VIEWS: usize = 1 << 20;
/// Bytes of a file whose pages are remembered at a time.
const WINDOW: u64 = 128 << 20;

/// A part of a file that a process maps at several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// Which part of the file, bytes.
    pub(crate) offsets: Range<u64>,
    /// The indexes of the mappings, lowest address first.
    pub(crate) views: Vec<usize>,
}

/// The parts of files that are mapped several times, and whether these are all.
pub(crate) fn overlaps(mappings: &[Area]) -> (Vec<Overlap>, bool) {
    let mut ends: Vec<(FileKey, u64, bool, usize)> = Vec::new();
    for (index, area) in mappings.iter().enumerate() {
        if area.file.inode != 0 {
            let end = area.offset.saturating_add(area.size());
            ends.push((area.file, area.offset, true, index));
            ends.push((area.file, end, false, index));
        }
    }
    ends.sort_unstable();
    let mut found = Vec::new();
    let mut open = BTreeSet::new();
    let (mut since, mut held) = (0, 0);
    for (_, at, begins, index) in ends {
        if open.len() > 1 && since < at {
            held += open.len();
            if held > MAX_VIEWS {
                return (found, false);
            }
            found.push(Overlap {
                offsets: since..at,
                views: open.iter().copied().collect(),
            });
        }
        since = at;
        match begins {
            true => open.insert(index),
            false => open.remove(&index),
        };
    }
    (found, true)
}

/// Counts what is counted more than once. `sized`: the mappings say how much memory they have.
pub(crate) fn count_repeated(
    mappings: &[Area],
    parts: &[Part],
    pages: &dyn Pages,
    late: &dyn Fn() -> bool,
    sized: bool,
    counted: &mut Counted,
) {
    let (overlaps, all) = overlaps(mappings);
    counted.missed |= !all;
    for overlap in overlaps {
        for &view in overlap.views.iter().skip(1) {
            let bytes = overlap.offsets.end - overlap.offsets.start;
            *counted.mapped_before.entry(view).or_default() += bytes;
        }
        let views = overlap.views.iter().map(|&view| &mappings[view]);
        let views: Vec<&Area> = views.filter(|view| !sized || view.rss > 0).collect();
        if views.len() < 2 {
            continue;
        }
        let mut at = overlap.offsets.start;
        while at < overlap.offsets.end {
            let window = at..overlap.offsets.end.min(at.saturating_add(WINDOW));
            at = window.end;
            let complete = !late()
                && in_window(&views, &window, pages, &mut |again| {
                    add_repeated(parts, &again, &mut counted.repeated);
                });
            if !complete {
                counted.missed = true;
                return;
            }
        }
    }
}

/// Calls `tell` with the addresses of pages that an earlier view has too.
fn in_window(
    views: &[&Area],
    window: &Range<u64>,
    pages: &dyn Pages,
    tell: &mut dyn FnMut(Addresses),
) -> bool {
    let page = page_size();
    let count = (window.end - window.start).div_ceil(page) as usize;
    let mut seen = vec![0u64; count.div_ceil(64)];
    for view in views {
        let start = view.addresses.start + (window.start - view.offset);
        let range = start..start + (window.end - window.start);
        // Whole runs are told, because they are many fewer than pages.
        let mut again = 0..0;
        let all_of_file = of_file(view) == Some(true);
        let mut look = |run: Addresses, categories: u64| {
            let of_file = all_of_file || categories & FILE != 0;
            if categories & PRESENT == 0 || !of_file {
                return true;
            }
            for at in (run.start..run.end).step_by(page as usize) {
                let index = (at.saturating_sub(start) / page) as usize;
                let (word, bit) = (index / 64, 1 << (index % 64));
                let Some(word) = seen.get_mut(word) else {
                    break;
                };
                if *word & bit != 0 {
                    if again.end != at {
                        tell(std::mem::replace(&mut again, at..at));
                    }
                    again.end = at + page;
                }
                *word |= bit;
            }
            true
        };
        let complete = match all_of_file {
            true => pages.each_place(&range, &mut look),
            false => pages.each(&range, &mut look),
        };
        tell(again);
        if !complete {
            return false;
        }
    }
    true
}

/// Adds bytes to the parts that they lie in.
fn add_repeated(parts: &[Part], again: &Addresses, repeated: &mut [u64]) {
    if again.is_empty() {
        return;
    }
    let first = parts.partition_point(|part| part.addresses.end <= again.start);
    for (part, sum) in parts.iter().zip(repeated).skip(first) {
        let start = part.addresses.start.max(again.start);
        if start >= again.end {
            break;
        }
        *sum += part.addresses.end.min(again.end) - start;
    }
}
