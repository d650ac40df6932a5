//! V8 without its sandbox (Node), versions 9 to 14. Each page of its heap begins with a header that says how
//! long it is, where its objects are, and which heap it belongs to. A range is taken for a page only if its
//! header agrees with itself and with its own address. Source: `src/heap/basic-memory-chunk.h`,
//! `memory-chunk.h`, `memory-chunk-metadata.h` of V8 9.4, 10.2, 11.3, 12.4, 13.6 and 14.6.

use crate::area::Kind;
use crate::labels::{Labeller, Labels};
use crate::memory::{Memory, Unread};
use crate::runtimes::process_words::{Ranges, words_of};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::{Addresses, Area};
pub use plimsoll_programs::v8::V8;
use plimsoll_programs::v8::VERSION;

/// Pages of the heap begin at multiples of this, bytes; those of large objects are longer.
const V8_PAGE: u64 = 256 << 10;
/// The most addresses at which a page is looked for: 32 GiB of memory.
const MAX_LOOKS: usize = 1 << 17;
/// Longest header before the first object, bytes.
const MAX_HEADER: u64 = 32 << 10;
/// Flags of a page (`FROM_PAGE`, `TO_PAGE`): it is in the half of the young generation that is
/// empty between collections, or in the half in which objects are allocated.
const EMPTY_HALF: u64 = 1 << 3;
const USED_HALF: u64 = 1 << 4;
/// V8 puts its pages at random below this, away from where the kernel puts what it may place.
const RANDOM: u64 = 1 << 46;

impl Labeller for V8 {
    fn title(&self) -> &'static str {
        "V8"
    }

    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
        let Some(image) = self.image(&snapshot.candidate()) else {
            return;
        };
        let version = image
            .exported(VERSION)
            .and_then(|at| memory.half_word(at.start).ok());
        label_heap(snapshot, memory, version, labels);
    }
}

/// Labels the heap; `version` is the first number of V8's, if it is known.
fn label_heap(snapshot: &Snapshot, memory: &dyn Memory, version: Option<u32>, labels: &mut Labels) {
    let generations = matches!(version, Some(9..=14));
    if !generations {
        labels.note(
            "V8: this version is not known, so the whole heap is shown as one: young and old \
                 objects and free memory together.",
        );
    }
    let found = pages(snapshot, memory);
    label_pages(&found, generations, labels);
    for area in snapshot.mappings.iter().filter(|area| is_private(area)) {
        if area.executable {
            labels.add(area.addresses.clone(), Kind::CodeCache);
        }
    }
    notes(&found, labels);
}

/// One page of the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    addresses: Addresses,
    flags: u64,
}

/// The pages that were found, and the memory that was searched.
#[derive(Debug, Default)]
struct Found {
    pages: Vec<Page>,
    /// Memory that is placed as pages are, but whose header is not in memory.
    unread: Vec<Addresses>,
    /// Code and memory of no file; pages are nowhere else.
    private: Ranges,
    executable: Ranges,
    /// More memory than is looked at.
    too_much: bool,
    denied: bool,
}

fn is_private(area: &Area) -> bool {
    let is_anonymous = area.name.is_empty() || area.name.starts_with("[anon:");
    area.file.inode == 0 && !area.shared_mapping && is_anonymous
}

/// Looks for pages at each address where one can be.
fn pages(snapshot: &Snapshot, memory: &dyn Memory) -> Found {
    let mut found = Found {
        private: Ranges::of(snapshot, |area| is_private(area) && area.readable),
        executable: Ranges::of(snapshot, |area| is_private(area) && area.executable),
        ..Found::default()
    };
    // A page of code is protected in parts: objects can lie in several mappings, reserved ones too.
    let reserved = Ranges::of(snapshot, is_private);
    let mut left = MAX_LOOKS;
    let mut last = 0;
    for range in found.private.clone().iter() {
        let mut at = range.start.max(last).next_multiple_of(V8_PAGE);
        while at < range.end {
            if left == 0 {
                found.too_much = true;
                return found;
            }
            left -= 1;
            match page(memory, at, &reserved) {
                Ok(Some(page)) => {
                    at = page.addresses.end.next_multiple_of(V8_PAGE);
                    last = page.addresses.end;
                    found.pages.push(page);
                    continue;
                }
                Err(Unread::Denied) => {
                    found.denied = true;
                    return found;
                }
                Err(_) if at < RANDOM && at == range.start && range.end - at >= V8_PAGE => {
                    found.unread.push(range.clone());
                }
                _ => {}
            }
            at += V8_PAGE;
        }
    }
    found
}

/// The page at an address; `None` if what is there is no header.
fn page(memory: &dyn Memory, at: u64, reserved: &Ranges) -> Result<Option<Page>, Unread> {
    let mut bytes = [0; 96];
    memory.read(at, &mut bytes)?;
    let head: [u64; 12] = words_of(&bytes);
    let [first, second, ..] = head;
    // V8 9 to 11 begin with the size, 12 with the flags and the page's own address, 13 and later
    // with the flags and a pointer to the rest.
    let (flags, [size, start, end]) = if first >= 4096 && first % 4096 == 0 {
        (second, [first, head[3], head[4]])
    } else if second == at {
        (first, [head[2], head[4], head[5]])
    } else if second > 4096 && second % 8 == 0 && first < 1 << 32 {
        memory.read(second, &mut bytes)?;
        let rest: [u64; 12] = words_of(&bytes);
        (first, [rest[6], rest[9], rest[7]])
    } else {
        return Ok(None);
    };
    let Some(addresses) = at.checked_add(size).map(|end| at..end) else {
        return Ok(None);
    };
    let is_page = size % 4096 == 0
        && size > 0
        && (at + 16..=at + MAX_HEADER).contains(&start)
        && start < end
        && end <= addresses.end
        && addresses.end - end < 4096 + V8_PAGE / 16
        && reserved.have(&addresses);
    Ok(is_page.then_some(Page { addresses, flags }))
}

fn label_pages(found: &Found, generations: bool, labels: &mut Labels) {
    for page in &found.pages {
        let is_code = found.executable.within(&page.addresses).next().is_some();
        let kind = match page.flags & (EMPTY_HALF | USED_HALF) {
            _ if is_code => Kind::CodeCache,
            _ if !generations => Kind::Heap,
            USED_HALF => Kind::Eden,
            EMPTY_HALF => Kind::FreeHeap,
            _ => Kind::Old,
        };
        for part in found.private.within(&page.addresses) {
            labels.add(part, kind);
        }
    }
    for range in &found.unread {
        labels.add(range.clone(), Kind::Heap);
    }
}

fn notes(found: &Found, labels: &mut Labels) {
    if found.denied {
        labels.note(
            "V8: reading its memory needs the rights of a debugger, so its heap cannot be told from \
             other memory.",
        );
        return;
    }
    if !found.unread.is_empty() {
        let bytes: u64 = found
            .unread
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        labels.note(format!(
            "V8: the headers of {} KiB are not in memory; these ranges have the place and the size of \
             pages of the heap and are shown as heap, young and old objects together.",
            bytes >> 10,
        ));
    }
    if found.too_much {
        labels.note("V8: there is more memory than is searched for pages of the heap.");
    }
    labels.note(
        "V8: eden is the half of the young generation in which objects are, with objects that \
         survived one collection; free memory inside of pages counts as theirs. Contents of \
         ArrayBuffers, and what compilers use, are malloc.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::random_memory::{Noise, noise};
    use proptest::prelude::*;

    /// A young page and an old one, laid out as a version does.
    fn heap(version: u32) -> Noise {
        let start = 0x40_0000_0000;
        let mut process = Noise::still(start..start + (4 << 20));
        let heap = start + (2 << 20);
        for (page, flags) in [(start, 0x12), (start + V8_PAGE, 4)] {
            let (first, end) = (page + 0x1000, page + V8_PAGE);
            match version {
                9..=11 => process.write(page, &[V8_PAGE, flags, heap, first, end]),
                12 => process.write(page, &[flags, page, V8_PAGE, heap, first, end]),
                _ => {
                    let rest = heap + (page - start);
                    process.write(page, &[flags, rest]);
                    process.write(rest + 48, &[V8_PAGE, end, heap, first]);
                }
            }
        }
        process
    }

    fn kinds(process: &Noise, version: Option<u32>) -> Vec<Kind> {
        let mut labels = Labels::default();
        label_heap(&process.snapshot(), process, version, &mut labels);
        process.check(&labels);
        labels.labels.iter().map(|label| label.kind).collect()
    }

    #[test]
    fn pages_of_each_layout_are_told_by_their_flags() {
        for version in [9, 12, 13] {
            let process = heap(version);
            assert_eq!(kinds(&process, Some(version)), [Kind::Eden, Kind::Old]);
            assert_eq!(kinds(&process, Some(99)), [Kind::Heap, Kind::Heap]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_is_there_labels_stay_in_mappings(process in noise()) {
            kinds(&process, Some(11));
        }

        #[test]
        fn whatever_changes_labels_stay_in_mappings(
            version in 9u32..15,
            changes in proptest::collection::vec(any::<(usize, u64)>(), 1..6),
        ) {
            let mut process = heap(version);
            process.change(&changes);
            kinds(&process, Some(version));
        }
    }
}
