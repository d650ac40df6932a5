use super::*;
use plimsoll_kernel::pagemap_scan::WRITTEN;
use proptest::collection::vec;
use proptest::prelude::*;

/// Where a page of a made-up process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Nowhere; of a file: not in the page cache.
    Away,
    /// In the page cache, and not mapped; of a file only.
    Cached,
    Present,
    Swapped,
    Guard,
}
use Page::{Away, Cached, Guard, Present, Swapped};

/// A made-up process: mappings with their pages.
struct Process(Vec<(Area, Vec<Page>)>);

impl Pages for Process {
    fn each(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        let size = page_size();
        for (area, pages) in &self.0 {
            for (index, page) in pages.iter().enumerate() {
                let at = area.addresses.start + index as u64 * size;
                let categories = match page {
                    Away | Cached => continue,
                    Present => PRESENT | WRITTEN,
                    Swapped => SWAPPED | WRITTEN,
                    Guard => SWAPPED | WRITTEN | GUARD,
                };
                if range.contains(&at) && !tell(at..at + size, categories) {
                    return true;
                }
            }
        }
        true
    }

    fn each_word(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        self.each(range, tell)
    }

    fn hides_zeros(&self) -> bool {
        false
    }
}

/// A mapping at a page, of the file with that inode (0: of none), whose first page it shows.
fn area(first: u64, pages: u64, inode: u64) -> Area {
    let size = page_size();
    Area {
        addresses: first * size..(first + pages) * size,
        file: FileKey {
            inode,
            ..FileKey::default()
        },
        name: if inode == 0 { "" } else { "/file" }.into(),
        ..Area::default()
    }
}

fn history() -> History {
    History::new(1, MAX_CHUNKS)
}

/// Takes in a look; `told`: whether the page cache can be asked about.
fn see(history: &mut History, process: &Process, told: bool) -> Unseen {
    let mappings: Vec<Area> = process.0.iter().map(|(area, _)| area.clone()).collect();
    let mut gone = |area: &Area, run: &Addresses| {
        let of = |(known, _): &&(Area, Vec<Page>)| known.addresses == area.addresses;
        let (_, pages) = process.0.iter().find(of)?;
        let first = ((run.start - area.addresses.start) / page_size()) as usize;
        let count = ((run.end - run.start) / page_size()) as usize;
        let away = pages[first..first + count].iter().filter(|p| **p == Away);
        told.then(|| away.count() as u64 * page_size())
    };
    let mut sources = Sources {
        pages: process,
        gone: &mut gone,
        late: &|| false,
    };
    history.look(&mappings, false, &mut sources)
}

/// Pages of a mapping that came back in the last look.
fn back(history: &History, area: &Area) -> Option<u64> {
    Some(history.refaulted(area, &area.addresses)? / page_size())
}

/// The refaulted pages of each look at one mapping.
fn told(area: &Area, looks: &[&[Page]]) -> Vec<Option<u64>> {
    let mut history = history();
    let mut told = Vec::new();
    for pages in looks {
        see(
            &mut history,
            &Process(vec![(area.clone(), pages.to_vec())]),
            true,
        );
        told.push(back(&history, area));
    }
    told
}

#[test]
fn what_was_in_swap_and_is_back_counts_once() {
    let heap = area(1000, 3, 0);
    let looks: [&[Page]; 6] = [
        &[Present, Present, Away],
        &[Swapped, Present, Swapped],
        &[Swapped, Present, Swapped],
        // The last page was never seen in memory before.
        &[Present, Present, Present],
        &[Present, Present, Present],
        &[Swapped, Swapped, Swapped],
    ];
    let expected = [None, Some(0), Some(0), Some(1), Some(0), Some(0)];
    assert_eq!(told(&heap, &looks), expected);
}

#[test]
fn what_was_given_back_does_not_count() {
    let heap = area(1000, 2, 0);
    let looks: [&[Page]; 4] = [
        &[Present, Present],
        &[Swapped, Swapped],
        &[Away, Guard],
        &[Present, Present],
    ];
    assert_eq!(told(&heap, &looks), [None, Some(0), Some(0), Some(0)]);
}

#[test]
fn a_page_of_a_file_has_left_when_it_is_not_in_the_page_cache_either() {
    let file = area(1000, 4, 7);
    let looks: [&[Page]; 4] = [
        &[Present, Present, Present, Present],
        &[Cached, Away, Cached, Away],
        // It left memory only now.
        &[Away, Cached, Cached, Present],
        &[Present, Present, Present, Present],
    ];
    assert_eq!(told(&file, &looks), [None, Some(0), Some(1), Some(2)]);
}

#[test]
fn where_the_page_cache_cannot_be_asked_nothing_is_told() {
    let file = area(1000, 2, 7);
    let mut history = history();
    let mut look = |pages: [Page; 2]| {
        see(
            &mut history,
            &Process(vec![(file.clone(), pages.to_vec())]),
            false,
        );
        back(&history, &file)
    };
    assert_eq!(look([Present, Present]), None);
    assert_eq!(look([Present, Present]), Some(0));
    assert_eq!(look([Present, Away]), None);
    assert_eq!(look([Present, Present]), None);
}

#[test]
fn a_page_of_another_mapping_at_its_address_does_not_count() {
    let (old, other) = (area(1000, 2, 7), area(1000, 2, 8));
    let mut history = history();
    let mut look = |area: &Area, page| {
        see(
            &mut history,
            &Process(vec![(area.clone(), vec![page; 2])]),
            true,
        );
        back(&history, area)
    };
    look(&old, Present);
    look(&old, Away);
    assert_eq!(look(&other, Present), Some(0));
    look(&other, Away);
    // The same file at the same address, but another part of it.
    let moved = Area {
        offset: page_size(),
        ..other.clone()
    };
    assert_eq!(look(&moved, Present), Some(0));
    look(&moved, Away);
    assert_eq!(look(&moved, Present), Some(2));
}

#[test]
fn a_heap_that_grows_or_is_cut_by_rights_is_the_same() {
    let mut history = history();
    let heap = area(1000, 2, 0);
    see(&mut history, &Process(vec![(heap, vec![Present; 2])]), true);
    let (low, high) = (area(1000, 1, 0), area(1001, 3, 0));
    let looks = [Swapped, Present].map(|page| {
        let process = Process(vec![
            (low.clone(), vec![page; 1]),
            (high.clone(), vec![page; 3]),
        ]);
        see(&mut history, &process, true);
        (back(&history, &low), back(&history, &high))
    });
    assert_eq!(looks, [(Some(0), Some(0)), (Some(1), Some(1))]);
}

#[test]
fn memory_and_questions_are_bounded() {
    let size = page_size();
    let mut small = History::new(1, 2);
    // A page in each chunk.
    let pages = 4 * PAGES;
    let far = |page: Page| {
        let of = |n: u64| if n.is_multiple_of(PAGES) { page } else { Away };
        Process(vec![(area(0, pages, 7), (0..pages).map(of).collect())])
    };
    assert!(see(&mut small, &far(Present), true).full);
    assert_eq!(small.chunks(), 2);
    see(&mut small, &far(Away), true);
    see(&mut small, &far(Present), true);
    assert_eq!(back(&small, &area(0, pages, 7)), Some(2));

    let mut history = history();
    let file = area(0, u64::from(MAX_QUESTIONS) * 2, 7);
    let count = (file.addresses.end / size) as usize;
    see(
        &mut history,
        &Process(vec![(file.clone(), vec![Present; count])]),
        true,
    );
    let every_second = (0..count).map(|n| if n % 2 == 0 { Away } else { Cached });
    let unseen = see(
        &mut history,
        &Process(vec![(file.clone(), every_second.collect())]),
        true,
    );
    assert!(unseen.unasked && !unseen.full);
    see(
        &mut history,
        &Process(vec![(file.clone(), vec![Present; count])]),
        true,
    );
    let back = back(&history, &file).unwrap();
    assert!(back > 0 && back < count as u64 / 2, "{back}");
}

/// The state of one page, kept page by page.
#[derive(Clone, Copy, Default)]
struct Known {
    had: bool,
    lost: bool,
}

proptest! {
    /// As if each page were followed by itself, and however a range is cut, the parts add up.
    #[test]
    fn as_page_by_page(
        of_file: bool,
        first in 0u64..2000,
        looks in vec(vec(0usize..5, 900), 1..8),
        cut in 0u64..900,
    ) {
        let area = area(first, 900, u64::from(of_file) * 7);
        let mut history = history();
        let mut known = vec![Known::default(); 900];
        for (number, look) in looks.iter().enumerate() {
            let pages: Vec<Page> =
                look.iter().map(|n| [Away, Cached, Present, Swapped, Guard][*n]).collect();
            let mut back = Vec::new();
            for (known, page) in known.iter_mut().zip(&pages) {
                let leaves = *page == Swapped || (of_file && *page == Away);
                let stays = *page == Present || (of_file && *page == Cached);
                back.push(*page == Present && known.lost);
                *known = match *page {
                    Present => Known { had: true, lost: false },
                    _ if leaves => Known { had: false, lost: known.had || known.lost },
                    _ if stays => *known,
                    _ => Known::default(),
                };
            }
            see(&mut history, &Process(vec![(area.clone(), pages)]), true);
            let middle = area.addresses.start + cut * page_size();
            let parts = [area.addresses.start..middle, middle..area.addresses.end];
            let of = |pages: &[bool]| pages.iter().filter(|b| **b).count() as u64 * page_size();
            let (low, high) = back.split_at(cut as usize);
            for (part, pages) in parts.iter().zip([low, high]) {
                let expected = (number > 0).then(|| of(pages));
                prop_assert_eq!(history.refaulted(&area, part), expected);
            }
        }
    }
}
