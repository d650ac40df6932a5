//! Files that a process maps at several addresses: the kernel counts their pages once for each.
//! ZGC of JDK 17 maps its heap three times.

use crate::parts::Part;
use crate::tally::{Counted, Pages, Tally, add, of_file};
use plimsoll_kernel::pagemap_scan::{FILE, PRESENT};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// Most pairs of a view and a part of a file that are looked at.
const MAX_VIEWS: usize = 1 << 20;
/// Bytes of a file whose pages are remembered at a time.
const WINDOW: u64 = 128 << 20;
/// The same where nothing is found: a bit a page of it takes 1 MiB.
const LARGEST_WINDOW: u64 = 32 << 30;

/// A part of a file that a process maps at several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// Which part of the file, bytes.
    pub(crate) offsets: Range<u64>,
    /// The indexes of the mappings, lowest address first.
    pub(crate) views: Vec<usize>,
}

/// The identity of a mapping's file. On a file system without a device of its own a file and its copy in a
/// snapshot may be listed alike (Btrfs), so there the path counts, too.
pub(crate) fn identity(area: &Area) -> (FileKey, &str) {
    let path = match area.file.major {
        0 => area.name.as_str(),
        _ => "",
    };
    (area.file, path)
}

/// The parts of files that are mapped several times, and whether these are all.
pub(crate) fn overlaps(mappings: &[Area]) -> (Vec<Overlap>, bool) {
    let mut ends: Vec<((FileKey, &str), u64, bool, usize)> = Vec::new();
    for (index, area) in mappings.iter().enumerate() {
        if area.file.inode != 0 {
            let end = area.offset.saturating_add(area.size());
            let file = identity(area);
            ends.push((file, area.offset, true, index));
            ends.push((file, end, false, index));
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
        if begins {
            open.insert(index)
        } else {
            open.remove(&index)
        };
    }
    (found, true)
}

/// Counts what is counted more than once, and meanwhile the pages of the parts of those mappings that are
/// views from end to end, so that their page tables are walked through once only. Returns these mappings.
/// `sized`: the mappings say how much memory they have.
pub(crate) fn count_repeated(
    mappings: &[Area],
    parts: &[Part],
    pages: &dyn Pages,
    late: &dyn Fn() -> bool,
    sized: bool,
    counted: &mut Counted,
) -> HashSet<usize> {
    let (mut overlaps, all) = overlaps(mappings);
    counted.missed |= !all;
    let mut viewed: HashMap<usize, u64> = HashMap::new();
    for overlap in &mut overlaps {
        let bytes = overlap.offsets.end - overlap.offsets.start;
        for &view in overlap.views.iter().skip(1) {
            *counted.mapped_before.entry(view).or_default() += bytes;
        }
        overlap
            .views
            .retain(|&view| !sized || mappings[view].rss > 0);
        if overlap.views.len() > 1 {
            for &view in &overlap.views {
                *viewed.entry(view).or_default() += bytes;
            }
        }
    }
    let is_whole = |(mapping, bytes): (usize, u64)| {
        let area = &mappings[mapping];
        (bytes == area.size() && of_file(area) == Some(true)).then_some(mapping)
    };
    let whole: HashSet<usize> = viewed.into_iter().filter_map(is_whole).collect();
    let of_whole = |part: &Part| whole.contains(&part.mapping);
    for (part, tally) in parts.iter().zip(&mut counted.tallies) {
        *tally = of_whole(part).then(Tally::default);
    }
    if !count_overlaps(&overlaps, mappings, parts, pages, late, &whole, counted) {
        counted.missed = true;
        for (part, tally) in parts.iter().zip(&mut counted.tallies) {
            *tally = tally.filter(|_| !of_whole(part));
        }
    }
    whole
}

/// Counts window by window; false if not all could be counted, or not in time.
fn count_overlaps(
    overlaps: &[Overlap],
    mappings: &[Area],
    parts: &[Part],
    pages: &dyn Pages,
    late: &dyn Fn() -> bool,
    whole: &HashSet<usize>,
    counted: &mut Counted,
) -> bool {
    let hides_zeros = pages.hides_zeros();
    for overlap in overlaps.iter().filter(|overlap| overlap.views.len() > 1) {
        let (mut at, mut length) = (overlap.offsets.start, WINDOW);
        while at < overlap.offsets.end {
            let window = at..overlap.offsets.end.min(at.saturating_add(length));
            at = window.end;
            let mut is_empty = true;
            let mut seen = Seen::new(&window);
            for &view in &overlap.views {
                let Counted {
                    tallies, repeated, ..
                } = counted;
                let mut tell_run = |run: &Addresses, categories: u64| {
                    is_empty = false;
                    if whole.contains(&view) {
                        each_part(parts, run, |index, bytes| {
                            if let Some(tally) = &mut tallies[index] {
                                add(tally, bytes, categories | FILE, hides_zeros);
                            }
                        });
                    }
                };
                let mut tell_again = |again: Addresses| {
                    each_part(parts, &again, |index, bytes| repeated[index] += bytes);
                };
                let area = &mappings[view];
                if late() || !seen.look(area, &window, pages, &mut tell_run, &mut tell_again) {
                    return false;
                }
            }
            // A file may be large and hardly there.
            length = if is_empty {
                (length * 2).min(LARGEST_WINDOW)
            } else {
                WINDOW
            };
        }
    }
    true
}

/// Which pages of a window of a file earlier views have: a bit each.
struct Seen(Vec<u64>);

impl Seen {
    fn new(window: &Range<u64>) -> Seen {
        let count = (window.end - window.start).div_ceil(page_size()) as usize;
        Seen(vec![0; count.div_ceil(64)])
    }

    /// Looks at one view. Calls `tell_run` with each run of pages and its categories, and `tell_again`
    /// with the addresses of pages that an earlier view has too. False if not all could be read.
    fn look(
        &mut self,
        view: &Area,
        window: &Range<u64>,
        pages: &dyn Pages,
        tell_run: &mut dyn FnMut(&Addresses, u64),
        tell_again: &mut dyn FnMut(Addresses),
    ) -> bool {
        let start = view.addresses.start + (window.start - view.offset);
        let range = start..start + (window.end - window.start);
        // Whole runs are told, because they are many fewer than pages.
        let mut again = 0..0;
        let all_of_file = of_file(view) == Some(true);
        let mut look = |run: Addresses, categories: u64| {
            tell_run(&run, categories);
            let of_file = all_of_file || categories & FILE != 0;
            if categories & PRESENT != 0 && of_file {
                self.note(start, &run, &mut again, tell_again);
            }
            true
        };
        let complete = if all_of_file {
            pages.each_place(&range, &mut look)
        } else {
            pages.each(&range, &mut look)
        };
        tell_again(again);
        complete
    }

    fn note(
        &mut self,
        start: u64,
        run: &Addresses,
        again: &mut Addresses,
        tell_again: &mut dyn FnMut(Addresses),
    ) {
        let page = page_size();
        for at in (run.start..run.end).step_by(page as usize) {
            let index = (at.saturating_sub(start) / page) as usize;
            let (word, bit) = (index / 64, 1 << (index % 64));
            let Some(word) = self.0.get_mut(word) else {
                break;
            };
            if *word & bit != 0 {
                if again.end != at {
                    tell_again(std::mem::replace(again, at..at));
                }
                again.end = at + page;
            }
            *word |= bit;
        }
    }
}

/// Calls `add` with the index of each part that a range reaches into, and how far, bytes.
fn each_part(parts: &[Part], range: &Addresses, mut add: impl FnMut(usize, u64)) {
    if range.is_empty() {
        return;
    }
    let first = parts.partition_point(|part| part.addresses.end <= range.start);
    for (index, part) in parts.iter().enumerate().skip(first) {
        let start = part.addresses.start.max(range.start);
        if start >= range.end {
            break;
        }
        let end = part.addresses.end.min(range.end);
        if start < end {
            add(index, end - start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::Kind;
    use proptest::prelude::*;

    proptest! {
        /// The mappings of a process are read while they change, so they may be in any order.
        #[test]
        fn parts_that_overlap_get_no_more_than_the_range(
            parts in proptest::collection::vec((0u64..100, 1u64..100), 0..8),
            range in (0u64..100, 0u64..100),
        ) {
            let part = |&(start, size): &(u64, u64)| Part {
                mapping: 0,
                addresses: start..start + size,
                kind: Kind::Other,
            };
            let parts: Vec<Part> = parts.iter().map(part).collect();
            let (start, size) = range;
            let mut most = 0;
            each_part(&parts, &(start..start + size), |_, bytes| most = most.max(bytes));
            prop_assert!(most <= size);
        }
    }
}
