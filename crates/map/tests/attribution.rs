//! Attribution of made-up processes: whatever the mappings, pages and labels, the sums hold and nothing
//! counts twice; and of a process at rest each label gets exactly its pages.

use plimsoll_kernel::pagemap::EXCLUSIVE;
use plimsoll_kernel::pagemap_scan::{FILE, GUARD, PRESENT, SWAPPED, WRITTEN, ZERO};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use plimsoll_map::attribute::attribute;
use plimsoll_map::cached_files::Cache;
use plimsoll_map::count::count;
use plimsoll_map::labels::Label;
use plimsoll_map::parts::{Part, cut};
use plimsoll_map::tally::{Counted, Pages};
use plimsoll_map::{Kind, Picture, States};
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [Kind; 5] = [
    Kind::Eden,
    Kind::Old,
    Kind::Heap,
    Kind::Stacks,
    Kind::Malloc,
];

/// The state of a page of a made-up process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Absent,
    Present {
        file: bool,
        exclusive: bool,
    },
    Zero,
    Swapped,
    /// A marker of write protection.
    Marker,
    Guard,
}

impl Page {
    /// As the page map tells it; without the last category only the words tell it.
    fn categories(self) -> u64 {
        match self {
            Page::Absent => 0,
            Page::Present { file, exclusive } => {
                let file = if file { FILE } else { 0 };
                PRESENT | WRITTEN | file | if exclusive { EXCLUSIVE } else { 0 }
            }
            Page::Zero => PRESENT | WRITTEN | ZERO,
            Page::Swapped => SWAPPED | WRITTEN,
            Page::Marker => SWAPPED,
            Page::Guard => SWAPPED | WRITTEN | GUARD,
        }
    }
}

/// A mapping and its pages.
#[derive(Clone, Debug)]
struct Mapping {
    start: u64,
    pages: Vec<Page>,
}

#[derive(Clone, Debug)]
struct Process {
    mappings: Vec<Mapping>,
    labels: Vec<Label>,
    hides_zeros: bool,
}

impl Process {
    /// Calls `tell` with each page that is there or in swap.
    fn tell(
        &self,
        range: &Addresses,
        mask: u64,
        tell: &mut dyn FnMut(Addresses, u64) -> bool,
    ) -> bool {
        let size = page_size();
        for mapping in &self.mappings {
            for (index, page) in mapping.pages.iter().enumerate() {
                let at = mapping.start + index as u64 * size;
                let inside = at >= range.start && at < range.end;
                if inside
                    && page.categories() != 0
                    && !tell(at..at + size, page.categories() & mask)
                {
                    return true;
                }
            }
        }
        true
    }

    /// As `smaps` has it.
    fn areas(&self) -> Vec<Area> {
        let size = page_size();
        let area = |(inode, mapping): (u64, &Mapping)| {
            let bytes = |is: &dyn Fn(Page) -> bool| {
                mapping.pages.iter().filter(|&&page| is(page)).count() as u64 * size
            };
            let present = |page| matches!(page, Page::Present { .. });
            let rss = bytes(&present);
            Area {
                addresses: mapping.start..mapping.start + mapping.pages.len() as u64 * size,
                rss,
                anonymous: bytes(&|p| matches!(p, Page::Present { file: false, .. })),
                private: bytes(&|p| {
                    matches!(
                        p,
                        Page::Present {
                            exclusive: true,
                            ..
                        }
                    )
                }),
                swap: bytes(&|p| p == Page::Swapped),
                referenced: rss / 2 / size * size,
                writable: true,
                // A private file, because some pages are of it and others are copies.
                file: FileKey {
                    inode,
                    ..FileKey::default()
                },
                ..Area::default()
            }
        };
        (1..).zip(&self.mappings).map(area).collect()
    }

    fn picture(&self, areas: &[Area]) -> (Vec<Part>, Vec<States>, Picture) {
        let parts = cut(areas, &self.labels);
        let counted = count(areas, &parts, self, None);
        let (mut seen, mut states) = (Vec::new(), Vec::new());
        let picture = attribute(areas, &parts, &counted, &[], &mut |part, of| {
            seen.push(part.clone());
            states.push(*of);
        });
        assert_eq!(seen, parts, "each part is told once, in order");
        (parts, states, picture)
    }

    /// The kind of an address: that of the first label with it.
    fn kind_at(&self, address: u64) -> Kind {
        let label = self
            .labels
            .iter()
            .find(|label| label.addresses.contains(&address));
        label.map_or(Kind::Other, |label| label.kind)
    }
}

impl Pages for Process {
    fn each(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        let mask = if self.hides_zeros { !ZERO } else { !EXCLUSIVE };
        self.tell(range, mask, tell)
    }

    fn each_word(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        self.tell(range, !ZERO, tell)
    }

    fn hides_zeros(&self) -> bool {
        self.hides_zeros
    }
}

fn page() -> impl Strategy<Value = Page> {
    prop_oneof![
        2 => Just(Page::Absent),
        6 => (any::<bool>(), any::<bool>())
            .prop_map(|(file, exclusive)| Page::Present { file, exclusive }),
        1 => Just(Page::Zero),
        3 => Just(Page::Swapped),
        1 => Just(Page::Marker),
        1 => Just(Page::Guard),
    ]
}

/// A process; its labels begin and end anywhere, or with pages only.
fn process(unit: u64) -> impl Strategy<Value = Process> {
    let mapping = (0u64..4, vec(page(), 1..40));
    let label = (0u64..200_000, 0u64..60_000, 0..KINDS.len());
    (vec(mapping, 0..6), vec(label, 0..12), any::<bool>()).prop_map(
        move |(mappings, labels, hides_zeros)| {
            let mut at = 16 * page_size();
            let place = |(gap, pages): (u64, Vec<Page>)| {
                let start = at + gap * page_size();
                at = start + pages.len() as u64 * page_size();
                Mapping { start, pages }
            };
            let mappings = mappings.into_iter().map(place).collect();
            let label = |(start, length, kind): (u64, u64, usize)| Label {
                addresses: start / unit * unit..(start + length) / unit * unit,
                kind: KINDS[kind],
            };
            Process {
                mappings,
                labels: labels.into_iter().map(label).collect(),
                hides_zeros,
            }
        },
    )
}

/// The sums of what the kernel counted.
fn kernel(areas: &[Area]) -> States {
    let mut total = States::default();
    for area in areas {
        total.add(&States {
            size: area.size(),
            resident: area.rss,
            swapped: area.swap,
            shared: Some(area.shared()),
            referenced: Some(area.referenced.min(area.rss)),
            anonymous: area.anonymous.min(area.rss),
            ..States::default()
        });
    }
    total
}

fn sum<'a>(all: impl Iterator<Item = &'a States>) -> States {
    let mut total = States::default();
    all.for_each(|states| total.add(states));
    total
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn parts_cover_each_mapping_once(process in process(1)) {
        let areas = process.areas();
        let parts = cut(&areas, &process.labels);
        let mut next = 0;
        for (index, area) in areas.iter().enumerate() {
            let mut at = area.addresses.start;
            while at < area.addresses.end {
                let part = &parts[next];
                prop_assert_eq!((part.mapping, part.addresses.start), (index, at));
                prop_assert!(!part.addresses.is_empty());
                for address in [part.addresses.start, part.addresses.end - 1] {
                    prop_assert_eq!(part.kind, process.kind_at(address));
                }
                at = part.addresses.end;
                next += 1;
            }
            prop_assert_eq!(at, area.addresses.end);
        }
        prop_assert_eq!(next, parts.len());
    }

    #[test]
    fn at_rest_all_is_attributed_and_sums_up(process in process(1)) {
        let areas = process.areas();
        let (_, states, picture) = process.picture(&areas);
        prop_assert_eq!(picture.total, kernel(&areas));
        prop_assert_eq!(sum(picture.areas.iter().map(|area| &area.states)), picture.total);
        prop_assert_eq!(sum(states.iter()), picture.total);
        prop_assert!(picture.areas.iter().all(|area| area.kind != Kind::Unattributed));
        prop_assert!(picture.areas.windows(2).all(|pair| pair[0].kind < pair[1].kind));
    }

    #[test]
    fn at_rest_each_label_gets_its_own_pages(mut process in process(page_size())) {
        process.hides_zeros = false;
        let (_, _, picture) = process.picture(&process.areas());
        for kind in KINDS.into_iter().chain([Kind::Other]) {
            let (mut resident, mut swapped, mut shared, mut anonymous) = (0, 0, 0, 0);
            for mapping in &process.mappings {
                for (index, page) in mapping.pages.iter().enumerate() {
                    let size = page_size();
                    if process.kind_at(mapping.start + index as u64 * size) != kind {
                        continue;
                    }
                    match page {
                        Page::Present { file, exclusive } => {
                            resident += size;
                            anonymous += if *file { 0 } else { size };
                            shared += if *exclusive { 0 } else { size };
                        }
                        Page::Swapped => swapped += size,
                        _ => {}
                    }
                }
            }
            let area = picture.areas.iter().find(|area| area.kind == kind);
            let states = area.map_or_else(States::default, |area| area.states);
            prop_assert_eq!(states.resident, resident, "{:?}", kind);
            prop_assert_eq!(states.swapped, swapped, "{:?}", kind);
            prop_assert_eq!(states.shared.unwrap_or(0), shared, "{:?}", kind);
            prop_assert_eq!(states.anonymous, anonymous, "{:?}", kind);
        }
    }

    #[test]
    fn what_changed_meanwhile_breaks_no_sum(
        process in process(1),
        changed in vec((0u64..60, 0u64..60, 0u64..60, 0u64..60, 0u64..60), 6),
    ) {
        let mut areas = process.areas();
        for (area, new) in areas.iter_mut().zip(changed) {
            let pages = |n: u64| n * page_size();
            area.rss = pages(new.0);
            area.swap = pages(new.1);
            area.private = pages(new.2).min(area.rss);
            area.anonymous = pages(new.3);
            area.referenced = pages(new.4);
        }
        let (_, states, picture) = process.picture(&areas);
        prop_assert_eq!(picture.total, kernel(&areas));
        prop_assert_eq!(sum(picture.areas.iter().map(|area| &area.states)), picture.total);
        for states in states {
            for part in [states.referenced, states.shared, Some(states.anonymous)] {
                prop_assert!(part.unwrap_or(0) <= states.resident);
            }
        }
    }
}

/// Reads nothing.
struct Unreadable;

impl Pages for Unreadable {
    fn each(&self, _: &Addresses, _: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        false
    }
    fn each_word(&self, _: &Addresses, _: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        false
    }
    fn hides_zeros(&self) -> bool {
        false
    }
}

fn two_labels(start: u64, pages: u64) -> Vec<Label> {
    let middle = start + pages / 2 * page_size();
    let label = |addresses, kind| Label { addresses, kind };
    vec![
        label(start..middle, Kind::Eden),
        label(middle..start + pages * page_size(), Kind::Old),
    ]
}

#[test]
fn pages_that_cannot_be_read_are_estimated_and_say_so() {
    let size = page_size();
    let start = 16 * size;
    let areas = [Area {
        addresses: start..start + 8 * size,
        rss: 6 * size,
        private: 6 * size,
        anonymous: 6 * size,
        swap: 2 * size,
        ..Area::default()
    }];
    let parts = cut(&areas, &two_labels(start, 8));
    let counted = count(&areas, &parts, &Unreadable, None);
    assert!(counted.missed);
    let picture = attribute(&areas, &parts, &counted, &[], &mut |_, _| {});
    let eden = picture.areas[0];
    assert_eq!(
        (eden.states.resident, eden.states.swapped),
        (3 * size, size)
    );
    assert!(eden.estimated.resident && eden.estimated.swapped && !eden.estimated.shared);
    assert_eq!(picture.total, kernel(&areas));
}

/// Two files of one area. Only the first one is known.
#[test]
fn an_area_of_which_a_part_is_not_known_says_so() {
    let size = page_size();
    let file = |inode: u64| Area {
        addresses: inode * 16 * size..(inode * 16 + 8) * size,
        name: format!("/file {inode}"),
        file: FileKey {
            inode,
            ..FileKey::default()
        },
        rss: 4 * size,
        ..Area::default()
    };
    let areas = [file(1), file(2)];
    let parts = cut(&areas, &[]);
    let cache = Cache {
        cached: 5 * size,
        ..Cache::default()
    };
    let told = |refaulted: &[Option<u64>], caches: &[Option<Cache>]| {
        let counted = Counted {
            refaulted: refaulted.to_vec(),
            ..count(&areas, &parts, &Unreadable, None)
        };
        let picture = attribute(&areas, &parts, &counted, caches, &mut |_, _| {});
        assert_eq!(picture.areas.len(), 1);
        assert_eq!(picture.areas[0].states, picture.total);
        let all = picture.total;
        let refaulted = (all.refaulted, all.refaulted_unknown);
        (refaulted, (all.cached, all.cached_unknown))
    };
    let known = [Some(cache), Some(cache)];
    let all = told(&[Some(size), Some(0)], &known);
    assert_eq!(all, ((Some(size), false), (Some(10 * size), false)));
    let first = told(&[Some(size), None], &[Some(cache), None]);
    assert_eq!(first, ((Some(size), true), (Some(5 * size), true)));
    assert_eq!(told(&[None, None], &[]), ((None, true), (None, true)));
    // Without an earlier look.
    assert_eq!(told(&[], &known).0, (None, false));
}

/// A heap in shared memory. Three pages of its first half and one of its second half are in swap.
fn swapped_heap() -> (Vec<Area>, Vec<Part>, Counted) {
    let size = page_size();
    let start = 16 * size;
    let areas = vec![Area {
        addresses: start..start + 8 * size,
        shared_mapping: true,
        name: "/memfd:heap (deleted)".into(),
        file: FileKey {
            inode: 7,
            ..FileKey::default()
        },
        rss: 4 * size,
        private: 4 * size,
        swap: 4 * size,
        ..Area::default()
    }];
    let here = Page::Present {
        file: true,
        exclusive: true,
    };
    let pages = [3, 4, 5, 6];
    let process = Process {
        mappings: vec![Mapping {
            start,
            pages: (0..8)
                .map(|n| {
                    if pages.contains(&n) {
                        here
                    } else {
                        Page::Absent
                    }
                })
                .collect(),
        }],
        labels: two_labels(start, 8),
        hides_zeros: false,
    };
    let parts = cut(&areas, &process.labels);
    let counted = count(&areas, &parts, &process, None);
    (areas, parts, counted)
}

#[test]
fn swapped_shared_memory_is_divided_by_what_the_file_says() {
    let size = page_size();
    let (areas, parts, counted) = swapped_heap();
    let of = |swapped: u64| {
        Some(Cache {
            swapped: swapped * size,
            ..Cache::default()
        })
    };
    let known = attribute(&areas, &parts, &counted, &[of(3), of(1)], &mut |_, _| {});
    let swapped = |picture: &Picture| {
        let each = picture.areas.iter();
        each.map(|area| (area.states.swapped / size, area.estimated.swapped))
            .collect::<Vec<_>>()
    };
    assert_eq!(swapped(&known), [(3, false), (1, false)]);
    // Without that, by what is not resident.
    let guessed = attribute(&areas, &parts, &counted, &[], &mut |_, _| {});
    assert_eq!(swapped(&guessed), [(3, true), (1, true)]);
    assert_eq!(guessed.total.swapped, 4 * size);
}

#[test]
fn views_of_one_file_count_each_and_say_what_repeats() {
    let size = page_size();
    let here = Page::Present {
        file: true,
        exclusive: false,
    };
    let view = |start: u64| Mapping {
        start: start * size,
        pages: vec![here, here, Page::Absent, here],
    };
    let process = Process {
        mappings: vec![view(100), view(200), view(300)],
        labels: vec![Label {
            addresses: 200 * size..201 * size,
            kind: Kind::Eden,
        }],
        hides_zeros: false,
    };
    let mut areas = process.areas();
    for (index, area) in areas.iter_mut().enumerate() {
        area.shared_mapping = true;
        area.file.inode = 9;
        area.name = "/memfd:heap (deleted)".into();
        area.swap = size;
        // The last view shows the file one page further on.
        area.offset = if index == 2 { size } else { 0 };
    }
    let (_, _, picture) = process.picture(&areas);
    assert_eq!(picture.total.resident, 9 * size);
    // All of the second view; of the third, page 1 of the file.
    assert_eq!(picture.total.repeated, (3 + 1) * size);
    assert_eq!(picture.areas[0].kind, Kind::Eden);
    assert_eq!(picture.areas[0].states.repeated, size);
    assert_eq!(picture.total.swapped, 3 * size);
    assert_eq!(picture.total.repeated_swapped, size + size * 3 / 4);
}
