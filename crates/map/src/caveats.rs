//! Sentences about what the numbers do not say.

use crate::attribute::Picture;
use crate::cached_files::Untold;
use crate::history::Unseen;
use plimsoll_kernel::smaps::Area;
use plimsoll_kernel::timeout::Missed;
use plimsoll_wire::size::Human;

/// The page cache of a process's files.
pub(crate) const CACHE: &str = "what of its files is in the page cache";

/// Why something is not known at all.
pub(crate) fn not_told(what: &str, why: Missed) -> String {
    match why {
        Missed::Late => format!("{what} was not told in time"),
        why => format!("{what} was not told: {why}"),
    }
}

/// Why the page cache of some files is not known.
pub(crate) fn note_untold(untold: &Untold, notes: &mut Vec<String>) {
    if untold.unsupported {
        notes.push(format!(
            "{CACHE} is not known: this kernel has no cachestat (Linux 6.5)"
        ));
    } else if untold.late {
        notes.push(not_told(CACHE, Missed::Late));
    } else if untold.denied > 0 {
        notes.push(format!(
            "what is in the page cache of {} of mapped files is told only to their owner and root",
            Human(untold.denied)
        ));
    }
    for (on, &bytes) in &untold.not_local {
        notes.push(format!(
            "{} of mapped files are not asked about: they are on {on}, which may be behind a server, and to \
             open a file there may drop its pages or wait. What of them is in the page cache is not known, \
             and names in them are not read",
            Human(bytes)
        ));
    }
    if untold.overlay > 0 {
        notes.push(format!(
            "what is in the page cache of {} of mapped files is not known: they lie on an overlay, whose \
             files have their pages in the layers below",
            Human(untold.overlay)
        ));
    }
    if untold.closed > 0 {
        notes.push(format!(
            "what is in the page cache of {} of mapped files is not known: they were deleted, replaced, or \
             lie where they cannot be opened from here",
            Human(untold.closed)
        ));
    }
}

/// Why there may be more refaulted pages than are shown.
pub(crate) fn note_unseen(unseen: Unseen, notes: &mut Vec<String>) {
    let why = [
        (unseen.late, "not all pages could be read, or not in time"),
        (
            unseen.full,
            "there is more memory than is followed from look to look",
        ),
        (
            unseen.unasked,
            "more pages of files left the page tables than the page cache was asked about",
        ),
    ];
    for (_, why) in why.iter().filter(|(is_so, _)| *is_so) {
        notes.push(format!("more may be refaulted than is shown: {why}"));
    }
}

/// Notes that explain the numbers: what they leave out, and what they count twice.
pub(crate) fn note_kinds(mappings: &[Area], picture: &Picture, notes: &mut Vec<String>) {
    let hugetlb: u64 = mappings.iter().map(|area| area.hugetlb).sum();
    if hugetlb > 0 {
        notes.push(format!(
            "{} more are in pages of hugetlbfs, which the kernel counts neither as resident nor as swappable",
            Human(hugetlb)
        ));
    }
    let twice = picture.total.repeated + picture.total.repeated_swapped;
    if twice > 0 {
        notes.push(format!(
            "{} count more than once, as in the kernel's own sums, because it maps them at several \
             addresses",
            Human(twice)
        ));
    }
}

/// With whom memory of no file is shared, which nothing names.
pub(crate) fn note_forked(bytes: u64, notes: &mut Vec<String>) {
    if bytes > 0 {
        notes.push(format!(
            "{} of memory of no file is shared with processes that were forked from one another; the kernel \
             does not tell which",
            Human(bytes)
        ));
    }
}
