use super::*;
use crate::fake_heap::Mapping;
use plimsoll_kernel::process::page_size;
use plimsoll_programs::hotspot::tables::{Field, Place, Tables};
use proptest::prelude::*;

/// A heap of four spaces in memory of its own, and the words that describe them.
struct Heap {
    memory: Mapping,
    words: Box<[[u64; 3]; COUNT]>,
}

impl Heap {
    /// Spaces of these sizes (pages), each filled up to its top (bytes).
    fn new(sizes: [u64; COUNT], filled: [u64; COUNT]) -> Heap {
        let memory = Mapping::new(sizes.iter().sum::<u64>() * page_size());
        let mut next = memory.range().0;
        let mut words = Box::new([[0; 3]; COUNT]);
        for (index, words) in words.iter_mut().enumerate() {
            let end = next + sizes[index] * page_size();
            let top = next + filled[index].min(end - next) / 8 * 8;
            *words = [next, top, end];
            next = end;
        }
        Heap { memory, words }
    }

    fn spaces(&self) -> Spaces {
        let uses = [Use::Eden, Use::Survivors, Use::Survivors, Use::Old];
        let mut index = 0;
        let spaces = self.words.each_ref().map(|words| {
            let at = words.as_ptr() as u64;
            index += 1;
            Space {
                is: uses[index - 1],
                places: [at, at + 8, at + 16],
                last: Bounds::default(),
                high: u64::MAX,
            }
        });
        Spaces {
            spaces,
            heap: self.memory.range(),
            taken: 0,
        }
    }

    fn resident(&self) -> u64 {
        self.memory.resident()
    }
}

/// The end of a pause.
fn end(spaces: &mut Spaces, keep: Option<u64>, kind: Kind) -> Result<Free, Refusal> {
    let looked = spaces.look_at_end(kind)?;
    // SAFETY: the spaces are in memory of the test, which changes nothing meanwhile.
    unsafe { spaces.give_back(keep, looked.used, &Giver::of_pages(page_size())) }
}

#[test]
fn free_memory_goes_and_objects_stay() {
    let page = page_size();
    let mut heap = Heap::new([64, 8, 8, 64], [10, 3 * page + 8, 0, 20 * page]);
    heap.memory.bytes().fill(7);
    let mut spaces = heap.spaces();
    spaces.check().unwrap();
    spaces.begin().unwrap();
    let quiet = end(&mut spaces, None, Kind::Young).unwrap();
    assert_eq!(
        (quiet.given_back, heap.resident()),
        (0, heap.memory.range().1 - heap.memory.range().0)
    );
    let free = end(&mut spaces, Some(0), Kind::Young).unwrap();
    assert_eq!(free.given_back, (63 + 4 + 8 + 44) * page);
    assert_eq!(heap.resident(), (1 + 4 + 20) * page);
    for words in *heap.words {
        let start = heap.memory.range().0;
        let [bottom, top, _] = words.map(|at| (at - start) as usize);
        assert!(
            heap.memory.bytes()[bottom..top]
                .iter()
                .all(|&byte| byte == 7)
        );
    }
    let again = end(&mut spaces, Some(0), Kind::Young).unwrap();
    assert_eq!(again.given_back, 0, "what is empty is left alone");
    assert_eq!(again.free, free.free);
    // The program fills a part of the eden, which is collected.
    heap.words[0][1] += 5 * page;
    spaces.begin().unwrap();
    heap.words[0][1] -= 5 * page;
    let given_back = |free: Result<Free, Refusal>| free.unwrap().given_back;
    let young = end(&mut spaces, Some(0), Kind::Young);
    assert_eq!(given_back(young), 5 * page);
    // A collection of the whole heap may have filled and emptied anything.
    let whole = end(&mut spaces, Some(0), Kind::Full);
    assert_eq!(given_back(whole), free.given_back);
}

#[test]
fn a_pause_of_an_unknown_kind_is_a_whole_one_if_it_looks_like_one() {
    let page = page_size();
    let mut heap = Heap::new([64, 8, 8, 64], [page, page, 0, 20 * page]);
    let mut spaces = heap.spaces();
    spaces.check().unwrap();
    end(&mut spaces, Some(0), Kind::Full).unwrap();
    // The pages that are given back after the program filled two more of the eden, which go.
    let mut pause = |change: fn(&mut [[u64; 3]; COUNT], u64)| {
        heap.words[0][1] += 2 * page;
        spaces.begin().unwrap();
        heap.words[0][1] -= 2 * page;
        change(&mut heap.words, page);
        let free = end(&mut spaces, Some(0), Kind::Unknown).unwrap();
        free.given_back / page
    };
    assert_eq!(pause(|_, _| ()), 2, "a young one");
    let promotes = pause(|words, page| words[3][1] += page);
    assert_eq!(promotes, 2, "a young one that made an object old");
    let nothing = pause(|words, page| words[0][1] += 2 * page);
    assert_eq!(nothing, 0, "none at all");
    let compacts = pause(|words, page| words[3][1] -= page);
    assert_eq!(compacts, 61 + 7 + 8 + 44, "old objects went");
    let empties = pause(|words, _| {
        words[0][1] = words[0][0];
        words[1][1] = words[1][0];
    });
    assert_eq!(empties, 64 + 8 + 8 + 44, "all objects are old");
}

#[test]
fn what_is_kept_is_for_survivors_and_the_eden() {
    let page = page_size();
    let heap = Heap::new([16, 4, 4, 16], [0, 4 * page, 0, 0]);
    let mut spaces = heap.spaces();
    spaces.check().unwrap();
    let free = end(&mut spaces, Some(6 * page), Kind::Full).unwrap();
    assert_eq!(free.free, 36 * page);
    assert_eq!(free.kept, 6 * page, "4 of the empty space, 2 of the eden");
    assert_eq!(free.given_back, (14 + 16) * page);
}

#[test]
fn odd_spaces_are_left_alone() {
    let page = page_size();
    let damage: [fn(&mut [[u64; 3]; COUNT]); 6] = [
        |words| words[0][1] = words[0][2] + 8,
        |words| words[1][1] = words[1][0] - 8,
        |words| words[3][2] += 8,
        |words| words[0][0] = 0,
        |words| words[2] = [u64::MAX; 3],
        |words| words[0][1] += 3,
    ];
    for damage in damage {
        let mut heap = Heap::new([16, 4, 4, 16], [page, 0, 0, page]);
        heap.memory.bytes().fill(1);
        let mut spaces = heap.spaces();
        spaces.check().unwrap();
        damage(&mut heap.words);
        assert_eq!(spaces.check(), Err(ODD));
        assert_eq!(spaces.begin(), Err(ODD));
        assert!(end(&mut spaces, Some(0), Kind::Full).is_err());
    }
    // Spaces that overlap are none of a heap.
    let mut heap = Heap::new([16, 4, 4, 16], [0; COUNT]);
    let mut spaces = heap.spaces();
    spaces.check().unwrap();
    heap.words[1] = heap.words[0];
    assert!(heap.spaces().check().is_err());
    assert_eq!(end(&mut spaces, Some(0), Kind::Young), Err(ODD));
    let mut nowhere = heap.spaces();
    nowhere.spaces[0].places = [8, 16, 24];
    assert!(nowhere.check().is_err(), "addresses that are not mapped");
}

#[test]
fn what_the_program_takes_is_counted() {
    let page = page_size();
    let mut heap = Heap::new([16, 4, 4, 16], [0, 2 * page, 0, 5 * page]);
    let mut spaces = heap.spaces();
    spaces.check().unwrap();
    heap.words[0][1] += 9 * page;
    spaces.begin().unwrap();
    heap.words[0][1] -= 9 * page;
    let looked = spaces.look_at_end(Kind::Young).unwrap();
    let (used, taken) = (7 * page, (9 + 2) * page);
    assert_eq!(looked, Looked { used, taken });
    spaces.begin().unwrap();
    let looked = spaces.look_at_end(Kind::Young).unwrap();
    assert_eq!(looked.taken, 2 * page);
}

/// The memory to which the tables of a machine with Serial or Parallel lead.
struct Told {
    /// Where the spaces are; unmapped with this.
    _heap: Heap,
    /// The version of the machine.
    version: u64,
    /// Values of flags: off, and on.
    flags: [u64; 2],
    /// Start and words of the reserved heap, the young and the old generation.
    collected: [u64; 4],
    /// Eden, survivors, old space: for both generations, each of which has some of them.
    generation: [u64; COUNT],
    /// Values of static fields: the heap, the young and the old generation.
    statics: [u64; 3],
}

impl Told {
    fn new() -> Box<Told> {
        let heap = Heap::new([16, 4, 4, 16], [page_size(), 0, 0, page_size()]);
        let (start, end) = heap.memory.range();
        let mut told = Box::new(Told {
            version: 25,
            flags: [0, 1],
            collected: [start, (end - start) / 8, 0, 0],
            generation: heap.words.each_ref().map(|words| words.as_ptr() as u64),
            statics: [0; 3],
            _heap: heap,
        });
        let generation = told.generation.as_ptr() as u64;
        (told.collected[2], told.collected[3]) = (generation, generation);
        told.statics = [told.collected.as_ptr() as u64, generation, generation];
        told
    }

    /// Tables with only what is needed for this collector.
    fn tables(&self, collector: Collector) -> Tables {
        let static_at = |word: &u64| Place::Static(std::ptr::from_ref(word) as u64);
        let at = |word: u64| Place::Offset(word * 8);
        let common = [
            (
                "Abstract_VM_Version",
                "_vm_major_version",
                static_at(&self.version),
            ),
            ("Universe", "_collectedHeap", static_at(&self.statics[0])),
            ("CollectedHeap", "_reserved", at(0)),
            ("MemRegion", "_start", at(0)),
            ("MemRegion", "_word_size", at(1)),
        ];
        let own = match collector {
            Collector::Serial => [
                ("SerialHeap", "_young_gen", at(2)),
                ("SerialHeap", "_old_gen", at(3)),
                ("DefNewGeneration", "_eden_space", at(0)),
                ("DefNewGeneration", "_from_space", at(1)),
                ("DefNewGeneration", "_to_space", at(2)),
                ("TenuredGeneration", "_the_space", at(3)),
                ("Space", "_bottom", at(0)),
                ("ContiguousSpace", "_top", at(1)),
                ("Space", "_end", at(2)),
            ],
            _ => [
                (
                    "ParallelScavengeHeap",
                    "_young_gen",
                    static_at(&self.statics[1]),
                ),
                (
                    "ParallelScavengeHeap",
                    "_old_gen",
                    static_at(&self.statics[2]),
                ),
                ("PSYoungGen", "_eden_space", at(0)),
                ("PSYoungGen", "_from_space", at(1)),
                ("PSYoungGen", "_to_space", at(2)),
                ("PSOldGen", "_object_space", at(3)),
                ("ImmutableSpace", "_bottom", at(0)),
                ("MutableSpace", "_top", at(1)),
                ("ImmutableSpace", "_end", at(2)),
            ],
        };
        let mut tables = Tables::default();
        for (kind, name, place) in common.into_iter().chain(own) {
            let kind = (kind.to_owned(), name.to_owned());
            let field = Field {
                place,
                kind: String::new(),
            };
            tables.fields.insert(kind, field);
        }
        for name in FLAGS {
            let at = &raw const self.flags[0] as u64;
            tables.flags.insert(name.to_owned(), at);
        }
        let chosen = format!("Use{collector:?}GC");
        tables.flags.insert(chosen, &raw const self.flags[1] as u64);
        tables
    }
}

/// Flags that must be known, and off.
const FLAGS: [&str; 3] = ["UseNUMA", "UseLargePages", "UseTransparentHugePages"];

/// The heap that is found by tables, which is not used.
fn found(tables: Tables) -> Result<crate::heap::Heap, Refusal> {
    // SAFETY: nothing is read by what is found.
    crate::heap::Heap::of(&unsafe { Machine::with(tables) })
}

#[test]
fn tables_that_lack_a_name_are_refused_by_that_name() {
    let told = Told::new();
    for collector in [Collector::Serial, Collector::Parallel] {
        let whole = told.tables(collector);
        let spaces = |tables: Tables| found(tables).map(|_| ());
        assert_eq!(spaces(whole.clone()), Ok(()), "{collector:?}");
        for field in whole.fields.keys() {
            let mut tables = whole.clone();
            tables.fields.remove(field);
            let refusal = spaces(tables).unwrap_err();
            assert!(
                matches!(refusal, Refusal::NoField(..)),
                "{field:?}: {refusal}"
            );
            assert!(
                refusal.to_string().contains(&field.1),
                "{field:?}: {refusal}"
            );
        }
        for flag in FLAGS {
            let mut tables = whole.clone();
            tables.flags.remove(flag);
            assert_eq!(spaces(tables), Err(Refusal::NoFlag(flag)));
        }
        let mut nameless = whole.clone();
        nameless.flags.clear();
        let unknown = Refusal::Collector(Collector::Unknown);
        assert_eq!(spaces(nameless), Err(unknown));
    }
}

#[test]
fn tables_of_another_vendor_or_version_are_refused() {
    let mut told = Told::new();
    for collector in [Collector::Serial, Collector::Parallel] {
        // The tables are refused if any of their fields is elsewhere.
        let whole = told.tables(collector);
        for field in whole.fields.keys() {
            for place in [
                Place::Offset(u64::MAX),
                Place::Offset(3),
                Place::Static(0),
                Place::Static(1),
                Place::Static(u64::MAX),
            ] {
                let mut tables = whole.clone();
                if let Some(found) = tables.fields.get_mut(field) {
                    found.place = place;
                }
                let spaces = found(tables);
                assert!(spaces.is_err(), "{field:?} at {place:?}: {spaces:?}");
            }
        }
    }
    for version in [0, 8, 10, 26, 99, u64::from(u32::MAX)] {
        told.version = version;
        let tables = told.tables(Collector::Serial);
        let refused = found(tables).unwrap_err();
        assert_eq!(refused, Refusal::Version(version as u32));
    }
}

proptest! {
    /// Only whole pages of free memory go, whatever the numbers are.
    #[test]
    fn ranges_are_whole_pages_of_free_memory(
        top in any::<u64>(),
        free in any::<u64>(),
        touched in any::<u64>(),
        keep in any::<u64>(),
        huge in any::<bool>(),
    ) {
        let page = if huge { 2 << 20 } else { page_size() };
        let end = top.saturating_add(free % (1 << 40));
        let high = top.saturating_add(touched % (1 << 40)).min(end);
        let (from, to) = whole_pages(top, keep, high, end, page);
        if from < to {
            prop_assert!(from % page == 0 && to % page == 0);
            prop_assert!(from >= top.saturating_add(keep) && to <= end);
            prop_assert!(to < high.saturating_add(page));
        }
    }
}
