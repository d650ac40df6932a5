//! Counts the pages of parts: which are there, which are in swap, which no other mapping has.

use crate::multiply_mapped;
use crate::parts::Part;
use crate::tally::{Counted, Pages, Tally, add, of_file};
use plimsoll_kernel::pagemap::EXCLUSIVE;
use plimsoll_kernel::pagemap_scan::{FILE, PRESENT};
use plimsoll_kernel::smaps::{Addresses, Area};
use std::time::Instant;

/// Counts pages where the kernel has no sum: mappings with several parts, and files that are
/// mapped several times. Ends soon after `deadline`.
pub fn count(
    mappings: &[Area],
    parts: &[Part],
    pages: &dyn Pages,
    deadline: Option<Instant>,
) -> Counted {
    let mut counted = count_places(mappings, parts, pages, deadline, true);
    count_exclusive(mappings, parts, pages, deadline, &mut counted);
    counted
}

/// The first half: where pages are. If the mappings do not say yet how much memory they have
/// (`sized`), those without any are looked through too, which takes as long as there are page tables.
pub(crate) fn count_places(
    mappings: &[Area],
    parts: &[Part],
    pages: &dyn Pages,
    deadline: Option<Instant>,
    sized: bool,
) -> Counted {
    let mut counted = Counted {
        tallies: vec![None; parts.len()],
        repeated: vec![0; parts.len()],
        ..Counted::default()
    };
    let late = || deadline.is_some_and(|end| Instant::now() >= end);
    let done = multiply_mapped::count_repeated(mappings, parts, pages, &late, sized, &mut counted);
    for group in by_mapping(parts) {
        let mapping = parts[group.start].mapping;
        let area = &mappings[mapping];
        let is_empty = sized && area.rss == 0 && area.swap == 0;
        if group.len() < 2 || is_empty || done.contains(&mapping) {
            continue;
        }
        match tally(area, &parts[group.clone()], pages, &late) {
            Some(tallies) => {
                for (slot, tally) in counted.tallies[group].iter_mut().zip(tallies) {
                    *slot = Some(tally);
                }
            }
            None => counted.missed = true,
        }
    }
    counted
}

/// The second half: of mappings that are shared in part, which pages no other mapping has. The
/// mappings must say how much memory they have.
pub(crate) fn count_exclusive(
    mappings: &[Area],
    parts: &[Part],
    pages: &dyn Pages,
    deadline: Option<Instant>,
    counted: &mut Counted,
) {
    let late = || deadline.is_some_and(|end| Instant::now() >= end);
    for group in by_mapping(parts) {
        let area = &mappings[parts[group.start].mapping];
        let partly_shared = area.shared() > 0 && area.private > 0;
        if group.len() < 2 || !partly_shared || counted.tallies[group.start].is_none() {
            continue;
        }
        let own = &parts[group.clone()];
        let tallies = &mut counted.tallies[group];
        match exclusive(own, pages, &late) {
            Some(exclusive) => {
                for (tally, bytes) in tallies.iter_mut().flatten().zip(exclusive) {
                    tally.exclusive = Some(bytes);
                }
            }
            None => {
                tallies.fill(None);
                counted.missed = true;
            }
        }
    }
}

/// The ranges of indexes of parts of one mapping each.
pub fn by_mapping(parts: &[Part]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = 0;
    parts
        .chunk_by(|a, b| a.mapping == b.mapping)
        .map(move |chunk| {
            let range = start..start + chunk.len();
            start = range.end;
            range
        })
}

/// Counts the parts of one mapping; `None` if its pages could not be read, or not in time.
fn tally(
    area: &Area,
    parts: &[Part],
    pages: &dyn Pages,
    late: &dyn Fn() -> bool,
) -> Option<Vec<Tally>> {
    let of_file = of_file(area);
    let mut tallies = vec![Tally::default(); parts.len()];
    let hides_zeros = pages.hides_zeros();
    let each = |tell: Tell<'_>| match of_file {
        None => pages.each(&whole(parts)?, tell).then_some(()),
        Some(_) => pages.each_place(&whole(parts)?, tell).then_some(()),
    };
    walk(parts, late, each, |index, bytes, categories| {
        let categories = match of_file {
            None => categories,
            Some(true) => categories | FILE,
            Some(false) => categories & !FILE,
        };
        add(&mut tallies[index], bytes, categories, hides_zeros);
    })?;
    Some(tallies)
}

/// Bytes of each part that no other mapping has; `None` if they could not be read in time.
fn exclusive(parts: &[Part], pages: &dyn Pages, late: &dyn Fn() -> bool) -> Option<Vec<u64>> {
    let mut exclusive = vec![0; parts.len()];
    let each = |tell: Tell<'_>| pages.each_word(&whole(parts)?, tell).then_some(());
    walk(parts, late, each, |index, bytes, categories| {
        if categories & PRESENT != 0 && categories & EXCLUSIVE != 0 {
            exclusive[index] += bytes;
        }
    })?;
    Some(exclusive)
}

/// Takes a run and its categories; returns whether to go on.
type Tell<'a> = &'a mut dyn FnMut(Addresses, u64) -> bool;

/// From the first part's beginning to the last part's end.
fn whole(parts: &[Part]) -> Option<Addresses> {
    Some(parts.first()?.addresses.start..parts.last()?.addresses.end)
}

/// Divides runs among parts: calls `add` with the index of a part, bytes and categories.
fn walk(
    parts: &[Part],
    late: &dyn Fn() -> bool,
    each: impl FnOnce(Tell<'_>) -> Option<()>,
    mut add: impl FnMut(usize, u64, u64),
) -> Option<()> {
    let (mut index, mut in_time, mut runs) = (0, true, 0u32);
    each(&mut |run, categories| {
        while index + 1 < parts.len() && parts[index].addresses.end <= run.start {
            index += 1;
        }
        for (place, part) in parts.iter().enumerate().skip(index) {
            if part.addresses.start >= run.end {
                break;
            }
            let start = run.start.max(part.addresses.start);
            let bytes = run.end.min(part.addresses.end).saturating_sub(start);
            add(place, bytes, categories);
        }
        runs = runs.wrapping_add(1);
        in_time = !runs.is_multiple_of(1024) || !late();
        in_time
    })?;
    (in_time && !late()).then_some(())
}
