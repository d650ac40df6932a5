use super::*;
use crate::fake_heap::Mapping;
use crate::layout::Names;
use plimsoll_kernel::process::page_size;
use plimsoll_programs::hotspot::tables::{Field, Place, Tables};
use plimsoll_unit::{MIB, Nanos};
use proptest::prelude::*;

const EDEN: u64 = 2;
const OLD: u64 = 16;

/// Words of a region: something else, its bottom, end, top, and tag.
type Words = [u64; 5];

/// A heap of regions of 1 MiB in memory of its own, the objects that describe them, and their table.
struct Heap {
    memory: Mapping,
    objects: Box<[Words]>,
    table: Box<[u64]>,
    /// Words of the collected heap: reserved start and words, the table's base and length, and a pointer
    /// to these two; then a pointer to all.
    heap: Box<[u64; 6]>,
}

impl Heap {
    fn new(count: usize) -> Heap {
        let memory = Mapping::new(count as u64 * MIB);
        let (start, end) = memory.range();
        let bottom = |index| start + index as u64 * MIB;
        let words = |index| [7, bottom(index), bottom(index) + MIB, bottom(index), 0];
        let objects: Box<[Words]> = (0..count).map(words).collect();
        let table = objects.iter().map(|object| object.as_ptr() as u64);
        let table: Box<[u64]> = table.collect();
        let base = table.as_ptr() as u64;
        let mut heap = Box::new([start, (end - start) / 8, base, count as u64, 0, 0]);
        heap[4] = heap.as_ptr() as u64 + 16;
        heap[5] = heap.as_ptr() as u64;
        Heap {
            memory,
            objects,
            table,
            heap,
        }
    }

    /// Fills regions with objects of this kind.
    fn fill(&mut self, regions: std::ops::Range<usize>, tag: u64) {
        for index in regions {
            let size = MIB as usize;
            self.memory.bytes()[index * size..(index + 1) * size].fill(index as u8 + 1);
            let words = &mut self.objects[index];
            (words[3], words[4]) = (words[2], tag);
        }
    }

    fn free(&mut self, regions: std::ops::Range<usize>) {
        for index in regions {
            let words = &mut self.objects[index];
            (words[3], words[4]) = (words[1], 0);
        }
    }

    /// A machine of these names.
    fn machine(&self, names: &Names, is_pointer: bool) -> Machine {
        let mut tables = Tables::default();
        let mut field = |kind: &str, name: &str, place, text: &str| {
            let field = Field {
                place,
                kind: text.to_owned(),
            };
            tables
                .fields
                .insert((kind.to_owned(), name.to_owned()), field);
        };
        let heap = &raw const self.heap[5] as u64;
        field("Universe", "_collectedHeap", Place::Static(heap), "");
        field("CollectedHeap", "_reserved", Place::Offset(0), "");
        field("MemRegion", "_start", Place::Offset(0), "");
        field("MemRegion", "_word_size", Place::Offset(8), "");
        let (at, text) = if is_pointer {
            (32, "HeapRegionManager*")
        } else {
            (16, "HeapRegionManager")
        };
        field("G1CollectedHeap", "_hrm", Place::Offset(at), text);
        field(names.manager, "_regions", Place::Offset(0), "");
        field("G1HeapRegionTable", "_base", Place::Offset(0), "");
        field("G1HeapRegionTable", "_length", Place::Offset(8), "");
        field(names.bounds, "_bottom", Place::Offset(8), "");
        field(names.bounds, "_end", Place::Offset(16), "");
        field(names.top, "_top", Place::Offset(24), "");
        field(names.region, "_type", Place::Offset(32), "");
        field(names.kind, "_tag", Place::Offset(0), "");
        tables.constants.insert(names.free.to_owned(), 0);
        // SAFETY: all of it is in memory of this heap, which outlives what the tests make of the machine.
        unsafe { Machine::with(tables) }
    }

    fn regions(&self) -> Regions {
        Regions::of(&self.machine(&NAMES[0], false)).unwrap()
    }
}

/// The end of a pause.
fn end(regions: &mut Regions, keep: u64) -> Free {
    regions.look_at_end().unwrap();
    give(regions, keep, page_size())
}

/// Gives back in pages of this size.
fn give(regions: &mut Regions, keep: u64, page: u64) -> Free {
    // SAFETY: the regions are in memory of the test, which changes nothing meanwhile.
    unsafe { regions.give_back(Some(keep), &Giver::of_pages(page)) }.unwrap()
}

#[test]
fn regions_are_found_by_the_names_of_each_version() {
    let heap = Heap::new(4);
    for names in &NAMES {
        for is_pointer in [false, true] {
            let regions = Regions::of(&heap.machine(names, is_pointer)).unwrap();
            assert_eq!((regions.regions.len(), regions.size), (4, MIB));
            assert!(regions.regions.iter().all(|region| region.at != 0));
        }
    }
}

#[test]
fn free_regions_go_and_objects_stay() {
    let mut heap = Heap::new(16);
    heap.fill(0..3, OLD);
    heap.fill(3..16, EDEN);
    let mut regions = heap.regions();
    assert_eq!(end(&mut regions, 0).given_back, 0);
    regions.begin();
    heap.free(4..16);
    let free = end(&mut regions, 2 * MIB + 5);
    let (used, kept) = (4 * MIB, 2 * MIB);
    assert_eq!(
        free,
        Free {
            used,
            free: 12 * MIB,
            kept,
            given_back: 10 * MIB
        }
    );
    assert_eq!(heap.memory.resident(), used + kept);
    // The last ones stay, which an eden takes first.
    let size = MIB as usize;
    assert!(
        heap.memory.bytes()[14 * size..]
            .iter()
            .all(|&byte| byte > 0)
    );
    for index in 0..4 {
        let objects = &heap.memory.bytes()[index * size..(index + 1) * size];
        assert!(objects.iter().all(|&byte| byte == index as u8 + 1));
    }
    assert_eq!(end(&mut regions, 2 * MIB).given_back, 0, "empty ones");
    assert_eq!(end(&mut regions, 0).given_back, 2 * MIB);
    assert_eq!(heap.memory.resident(), used);
}

#[test]
fn what_the_program_takes_is_counted_and_given_back_again() {
    let mut heap = Heap::new(16);
    let mut regions = heap.regions();
    assert_eq!(regions.look_at_end().unwrap().taken, 0, "not known yet");
    assert_eq!(give(&mut regions, 0, page_size()).kept, 0);
    heap.fill(10..16, EDEN);
    regions.begin();
    heap.free(10..16);
    heap.fill(9..10, OLD);
    let looked = regions.look_at_end().unwrap();
    assert_eq!((looked.taken, looked.used), (7 * MIB, MIB));
    let free = give(&mut regions, 0, page_size());
    assert_eq!((free.given_back, free.kept), (6 * MIB, 0));
    // After a pause without a wish all may have been used.
    regions.forget();
    regions.begin();
    assert_eq!(regions.look_at_end().unwrap().taken, 0);
    assert!(regions.regions.iter().all(|region| region.is_touched));
}

#[test]
fn regions_that_g1_gave_up_by_itself_are_not_kept_in_place_of_others() {
    let mut heap = Heap::new(8);
    heap.fill(0..8, EDEN);
    let mut regions = heap.regions();
    end(&mut regions, 0);
    regions.begin();
    heap.free(0..8);
    assert_eq!(end(&mut regions, 8 * MIB).kept, 8 * MIB);
    heap.memory.reserve(6 * MIB, 2 * MIB);
    let free = end(&mut regions, 3 * MIB);
    assert_eq!((free.kept, heap.memory.resident()), (3 * MIB, 3 * MIB));
    assert!(!heap.memory.is_accessible(7 * MIB));
}

#[test]
fn of_many_regions_some_are_looked_for_again_in_each_pause() {
    let count = 4 * AGAIN;
    let mut heap = Heap::new(count);
    for index in 0..count {
        heap.memory.bytes()[index * MIB as usize] = 1;
    }
    let mut regions = heap.regions();
    // The first time all of them: one does not fit into the wish.
    let keep = (count as u64 - 1) * MIB;
    assert_eq!(end(&mut regions, keep).given_back, MIB);
    // G1 gives all of them up.
    heap.memory.reserve(0, count as u64 * MIB);
    let given = [(); 4].map(|()| end(&mut regions, keep).given_back / MIB);
    let turn = AGAIN as u64;
    assert_eq!(given, [turn, turn, turn, turn - 1]);
    assert_eq!(end(&mut regions, keep).kept, 0);
}

#[test]
fn nothing_is_looked_for_where_all_may_stay_or_the_time_is_up() {
    let heap = Heap::new(8);
    let mut regions = heap.regions();
    assert_eq!(end(&mut regions, 8 * MIB).kept, 8 * MIB, "not looked for");
    let mut giver = Giver::of_pages(page_size());
    giver.begin(Some(Nanos::ZERO));
    regions.look_at_end().unwrap();
    // SAFETY: the regions are in memory of the test, which changes nothing meanwhile.
    let free = unsafe { regions.give_back(Some(4 * MIB), &giver) }.unwrap();
    assert_eq!((free.given_back, free.kept), (0, 8 * MIB));
    let free = end(&mut regions, 4 * MIB);
    assert_eq!((free.given_back, free.kept), (8 * MIB, 0), "never touched");
}

#[test]
fn a_region_that_is_committed_later_is_met_then() {
    let mut heap = Heap::new(4);
    let object = std::mem::take(&mut heap.table[3]);
    let mut regions = heap.regions();
    assert_eq!(end(&mut regions, 0).free, 3 * MIB);
    heap.table[3] = object;
    let free = end(&mut regions, 0);
    assert_eq!((free.free, free.given_back), (4 * MIB, MIB));
    // One that is none of this heap.
    let mut regions = {
        heap.table[3] = 0;
        heap.regions()
    };
    for wild in [8, object - 40, object + 4, u64::MAX] {
        heap.table[3] = wild;
        assert_eq!(regions.look_at_end().err(), Some(ODD), "{wild}");
    }
}

#[test]
fn a_region_with_a_file_is_left_alone() {
    let mut heap = Heap::new(4);
    let file = tempfile::tempfile().unwrap();
    file.set_len(MIB).unwrap();
    heap.memory.map_file(2 * MIB + 4096, 8192, &file);
    heap.fill(0..4, EDEN);
    let mut regions = heap.regions();
    heap.free(0..4);
    let free = end(&mut regions, 2 * MIB);
    assert_eq!((free.given_back, free.kept), (2 * MIB, 2 * MIB));
    let free = end(&mut regions, 0);
    assert_eq!((free.given_back, free.kept), (MIB, MIB));
    assert_eq!(heap.memory.resident(), MIB);
    let whole = tempfile::tempfile().unwrap();
    whole.set_len(4 * MIB).unwrap();
    heap.memory.map_file(0, 4 * MIB, &whole);
    let machine = heap.machine(&NAMES[0], false);
    assert_eq!(Regions::of(&machine).err(), Some(Refusal::NotAnonymous));
}

/// A region whose first page is not resident counts as none that stays.
#[test]
fn without_a_wish_nothing_goes() {
    let mut heap = Heap::new(4);
    heap.fill(0..4, EDEN);
    let mut regions = heap.regions();
    heap.free(0..4);
    end(&mut regions, 4 * MIB);
    regions.look_at_end().unwrap();
    let start = heap.memory.range().0;
    let giver = Giver::of_pages(page_size());
    // SAFETY: the first page of a region, of memory of the test.
    unsafe { giver.give(start, start + page_size()) }.unwrap();
    let resident = heap.memory.resident();
    // SAFETY: without a wish.
    let free = unsafe { regions.give_back(None, &giver) }.unwrap();
    assert_eq!((free.given_back, heap.memory.resident()), (0, resident));
}

#[test]
fn huge_pages_go_as_a_whole() {
    let mut heap = Heap::new(8);
    heap.fill(0..8, EDEN);
    let mut regions = heap.regions();
    heap.free(1..6);
    regions.look_at_end().unwrap();
    let free = give(&mut regions, 0, 2 * MIB);
    assert_eq!((free.given_back, free.kept), (4 * MIB, MIB), "2 to 5");
    heap.free(0..1);
    regions.look_at_end().unwrap();
    assert_eq!(give(&mut regions, 0, 2 * MIB).given_back, 2 * MIB);
    assert_eq!(heap.memory.resident(), 2 * MIB);
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let damage: [fn(&mut Heap); 8] = [
        |heap| heap.objects[1][1] += 8,
        |heap| heap.objects[2][2] = 0,
        |heap| heap.objects[0][3] = 1,
        |heap| heap.objects[3][4] = u64::MAX,
        |heap| heap.table[0] = 0x1234_5678_9000,
        |heap| heap.heap[3] = 3,
        |heap| heap.heap[3] = u64::MAX,
        |heap| heap.heap[2] = 0x1234_5678_9000,
    ];
    for (index, damage) in damage.into_iter().enumerate() {
        let mut heap = Heap::new(4);
        damage(&mut heap);
        let refused = Regions::of(&heap.machine(&NAMES[0], false)).err();
        assert_eq!(refused, Some(ODD), "{index}");
    }
    let heap = Heap::new(4);
    // SAFETY: nothing is found by no tables.
    let bare = unsafe { Machine::with(Tables::default()) };
    assert!(matches!(Regions::of(&bare), Err(Refusal::NoField(..))));
    let mut other = NAMES[1].free;
    let named = Names {
        free: std::mem::replace(&mut other, "Other::Tag"),
        ..NAMES[0]
    };
    let refused = Regions::of(&heap.machine(&named, false)).err();
    assert_eq!(refused, Some(Refusal::NoConstant(NAMES[0].free)));
    let text = refused.unwrap().to_string();
    assert!(text.contains("FreeTag"), "{text}");
}

#[test]
fn a_region_that_says_two_things_is_left_alone() {
    let mut heap = Heap::new(4);
    heap.fill(0..4, EDEN);
    let mut regions = heap.regions();
    // Free, but filled.
    heap.objects[1][4] = 0;
    // Empty, but not free.
    heap.objects[2][3] = heap.objects[2][1];
    let free = end(&mut regions, 0);
    assert_eq!((free.given_back, free.free), (0, 0));
    assert_eq!(heap.memory.resident(), 4 * MIB);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Memory in use stays, whatever the program does, and no more of the rest than is to be kept.
    #[test]
    fn only_free_regions_go(
        steps in prop::collection::vec(
            (prop::collection::vec((0usize..12, any::<bool>()), 0..12), 0u64..14, any::<bool>()),
            1..6,
        ),
        huge in any::<bool>(),
    ) {
        let mut heap = Heap::new(12);
        let mut regions = heap.regions();
        let page = if huge { 2 * MIB } else { page_size() };
        for (changes, keep, is_seen) in steps {
            for (index, _) in changes.iter().filter(|change| change.1) {
                heap.fill(*index..index + 1, EDEN);
            }
            if is_seen {
                regions.begin();
            } else {
                regions.forget();
            }
            for (index, _) in changes.iter().filter(|change| !change.1) {
                heap.free(*index..index + 1);
            }
            regions.look_at_end().unwrap();
            let free = give(&mut regions, keep * MIB, page);
            let used = heap.objects.iter().filter(|words| words[4] != 0).count() as u64;
            prop_assert_eq!((free.used, free.free), (used * MIB, (12 - used) * MIB));
            let resident = heap.memory.resident();
            prop_assert!(resident <= free.used + free.kept);
            // Where all may stay, what was never touched counts as kept.
            let is_exact = !huge && keep < 12;
            prop_assert!(!is_exact || resident == free.used + free.kept);
            // A free half of a huge page may stay beside a used or a kept one.
            let most = keep * MIB + if huge { (used + keep) * MIB } else { 0 };
            prop_assert!(free.kept <= most, "{} of {}", free.kept, most);
            for (index, words) in heap.objects.iter().enumerate() {
                let at = index * MIB as usize;
                let byte = heap.memory.bytes()[at + 17];
                prop_assert!(words[4] == 0 || byte == index as u8 + 1);
            }
        }
    }
}
