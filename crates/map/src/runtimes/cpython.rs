//! CPython 2.7 and 3.6 to 3.13, stripped or not. Its allocator has arenas, which it lists in an
//! array; the pointer to the array is found among the interpreter's variables by what it points to:
//! entries that agree with themselves, with the mappings, and with the headers of the pools in their
//! arenas. Source: `Objects/obmalloc.c`, `Include/internal/pycore_obmalloc.h`.
//!
//! | word | meaning |
//! |---|---|
//! | *arena* | 256 KiB that the allocator maps at once; 1 MiB from 3.10 on |
//! | *pool* | a 64th of an arena: blocks of one size, or free |

use crate::area::Kind;
use crate::labels::{Labeller, Labels};
use crate::memory::Memory;
use crate::runtimes::process_words::{Ranges, Words, words_of};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::Addresses;
pub use plimsoll_programs::cpython::CPython;

/// Pools in an arena that begins at a multiple of a pool's size; one less elsewhere.
const POOLS: u64 = 64;
/// Bytes of an entry of the array.
const ENTRY: u64 = 48;
/// The most entries that are read: arenas of 256 GiB, or of 1 TiB from 3.10 on.
const MAX_ENTRIES: u64 = 1 << 20;
/// How many entries are looked at to tell whether an array is the right one.
const SAMPLES: u64 = 1024;
/// The most entries that are looked at before the right array is found.
const MAX_SAMPLES: u64 = 1 << 20;
/// The most bytes of variables that are searched.
const MAX_SEARCHED: u64 = 64 << 20;

impl Labeller for CPython {
    fn title(&self) -> &'static str {
        "CPython"
    }

    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
        let Some(image) = self.image(&snapshot.candidate()) else {
            return;
        };
        label_heap(snapshot, memory, image.variables().collect(), labels);
    }
}

fn label_heap(
    snapshot: &Snapshot,
    memory: &dyn Memory,
    variables: Vec<Addresses>,
    labels: &mut Labels,
) {
    let search = Search {
        words: Words::new(snapshot, memory),
        allocated: Ranges::allocated(snapshot),
        variables: Ranges::from(variables),
    };
    match search.array() {
            Some((array, geometry)) => search.label(array, geometry, labels),
            None => labels.note(
                "CPython: its allocator's arenas were not found: it may have none (PYTHONMALLOC=malloc, \
                 a free-threaded build), its variables may not be in memory, or we may not read \
                 them. Objects are shown as malloc or other.",
            ),
        }
}

/// Sizes, bytes.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    arena: u64,
    pool: u64,
}

/// From 3.10 on; before.
const GEOMETRIES: [Geometry; 2] = [
    Geometry {
        arena: 1 << 20,
        pool: 16 << 10,
    },
    Geometry {
        arena: 256 << 10,
        pool: 4 << 10,
    },
];

/// One arena, as the array tells.
#[derive(Clone, Debug)]
struct Arena {
    addresses: Addresses,
    /// Where the first pool begins.
    first: u64,
    /// No pool was used yet from here on.
    fresh: u64,
    /// Pools without blocks, in `freepools` and from `fresh` on.
    free: u64,
    /// The first pool of a list of free ones; 0 if there is none.
    freepools: u64,
}

/// An entry of the array.
enum Entry {
    /// It stands for no arena now.
    Dead,
    Live(Arena),
}

struct Search<'a> {
    words: Words<'a>,
    allocated: Ranges,
    variables: Ranges,
}

impl Search<'_> {
    /// The array that has most arenas.
    fn array(&self) -> Option<(u64, Geometry)> {
        let mut best: Option<(u64, u64, Geometry)> = None;
        let mut left = MAX_SAMPLES;
        for range in self.variables.iter() {
            self.words.each(range, MAX_SEARCHED, &mut |_, [array]| {
                let is_place = array % 8 == 0 && self.allocated.has(array);
                if is_place && !self.variables.has(array) {
                    for geometry in GEOMETRIES {
                        let arenas = self.arenas_in(array, geometry, &mut left);
                        if arenas > best.map_or(0, |best| best.0) {
                            best = Some((arenas, array, geometry));
                        }
                    }
                }
                true
            });
        }
        best.map(|(_, array, geometry)| (array, geometry))
    }

    /// How many arenas the first entries of an array have; 0 if it is not the array.
    fn arenas_in(&self, array: u64, geometry: Geometry, left: &mut u64) -> u64 {
        let (mut live, mut checked) = (0, 0);
        for index in 0..SAMPLES.min(*left) {
            *left -= 1;
            match self.entry(array, index, geometry) {
                Some(Entry::Live(arena)) => {
                    live += 1;
                    match self.has_pools_of(&arena, index, geometry) {
                        Some(true) => checked += 1,
                        Some(false) => return 0,
                        None => {}
                    }
                }
                Some(Entry::Dead) => {}
                None => break,
            }
        }
        if checked > 0 { live } else { 0 }
    }

    /// `None` if this is no entry, or cannot be read.
    fn entry(&self, array: u64, index: u64, geometry: Geometry) -> Option<Entry> {
        let at = array.checked_add(index * ENTRY)?;
        let [start, fresh, counts, freepools] = words_of(&self.words.bytes::<32>(at)?);
        if start == 0 {
            return Some(Entry::Dead);
        }
        let addresses = start..start.checked_add(geometry.arena)?;
        let first = start.checked_next_multiple_of(geometry.pool)?;
        let (free, total) = (counts & 0xffff_ffff, counts >> 32);
        let is_arena = start % 4096 == 0
            && self.allocated.have(&addresses)
            && (first..=addresses.end).contains(&fresh)
            && fresh % geometry.pool == 0
            && total == if first == start { POOLS } else { POOLS - 1 }
            && free <= total;
        is_arena.then_some(Entry::Live(Arena {
            addresses,
            first,
            fresh,
            free,
            freepools,
        }))
    }

    /// Whether the first pool of an arena knows that arena. `None` if it was never used, or is not
    /// in memory.
    fn has_pools_of(&self, arena: &Arena, index: u64, geometry: Geometry) -> Option<bool> {
        if arena.fresh == arena.first {
            return None;
        }
        let head: [u64; 6] = words_of(&self.words.bytes::<48>(arena.first)?);
        let (of, class) = (head[4] & 0xffff_ffff, head[4] >> 32);
        let (next, last) = (head[5] & 0xffff_ffff, head[5] >> 32);
        // Blocks are multiples of 16 bytes; before 3.7 of 8.
        let fits = [8, 16]
            .iter()
            .any(|granule| last + (class + 1) * granule == geometry.pool);
        Some(of == index && class < 64 && fits && next <= geometry.pool)
    }

    fn label(&self, array: u64, geometry: Geometry, labels: &mut Labels) {
        let mut unknown = 0;
        let mut index = 0;
        while index < MAX_ENTRIES {
            match self.entry(array, index, geometry) {
                Some(Entry::Live(arena)) => unknown += self.label_arena(&arena, geometry, labels),
                Some(Entry::Dead) => {}
                None => break,
            }
            index += 1;
        }
        let end = array.saturating_add(index.saturating_mul(ENTRY));
        if self.words.word(end).is_none() && self.allocated.has(end) {
            labels.note(
                "CPython: a part of its list of arenas is not in memory; the arenas in it are shown \
                 as malloc or other.",
            );
        }
        if unknown > 0 {
            labels.note(format!(
                "CPython: {} KiB of free pools are shown as heap, because what links them is not in \
                 memory.",
                (unknown * geometry.pool) >> 10,
            ));
        }
        labels.note(
            "CPython: the heap is its own allocator's arenas. Objects of more than 512 bytes, and what \
             libraries allocate, are malloc; arenas of subinterpreters that have their own are \
             shown as other. Free blocks inside of a pool count as heap.",
        );
    }

    /// Labels an arena. Returns how many free pools it has that were not found.
    fn label_arena(&self, arena: &Arena, geometry: Geometry, labels: &mut Labels) -> u64 {
        let mut pool = arena.freepools;
        let mut free = Vec::new();
        let fresh = (arena.addresses.end - arena.fresh) / geometry.pool;
        let listed = arena.free.saturating_sub(fresh);
        while (free.len() as u64) < listed {
            let is_pool =
                pool.is_multiple_of(geometry.pool) && (arena.first..arena.fresh).contains(&pool);
            if !is_pool {
                break;
            }
            free.push(pool..pool + geometry.pool);
            let Some(next) = self.words.word(pool + 16) else {
                break;
            };
            pool = next;
        }
        let found = free.len() as u64;
        for pool in Ranges::from(free).iter() {
            labels.add(pool.clone(), Kind::FreeHeap);
        }
        labels.add(arena.first..arena.fresh, Kind::Heap);
        labels.add(arena.addresses.clone(), Kind::FreeHeap);
        listed - found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::random_memory::{Noise, noise};
    use proptest::prelude::*;

    const START: u64 = 0x40_0000_0000;

    /// Three arenas in an array of four. In each, the first pool is in use and the second is free.
    fn heap(geometry: Geometry) -> Noise {
        let mut process = Noise::still(START..START + (8 << 20));
        let array = START + (512 << 10);
        process.write(START + 64, &[array]);
        for index in [0, 1, 3] {
            let arena = START + (1 << 20) + index * geometry.arena;
            let (second, fresh) = (arena + geometry.pool, arena + 2 * geometry.pool);
            let counts = POOLS << 32 | (POOLS - 1);
            process.write(array + index * ENTRY, &[arena, fresh, counts, second, 0, 0]);
            // Blocks of 32 bytes.
            let sizes = (geometry.pool - 32) << 32 | 48;
            process.write(arena, &[1, 0, 0, 0, 1 << 32 | index, sizes]);
            process.write(second + 16, &[0]);
        }
        process
    }

    fn label(process: &Noise) -> Labels {
        let mut labels = Labels::default();
        label_heap(
            &process.snapshot(),
            process,
            process.variables(),
            &mut labels,
        );
        process.check(&labels);
        labels
    }

    #[test]
    fn arenas_of_both_sizes_are_told_with_their_free_pools() {
        for geometry in GEOMETRIES {
            let labels = label(&heap(geometry)).labels;
            assert_eq!(labels.len(), 9);
            for (index, label) in labels.chunks(3).enumerate() {
                let arena = START + (1 << 20) + [0, 1, 3][index] * geometry.arena;
                let second = arena + geometry.pool;
                assert_eq!(label[0].addresses, second..second + geometry.pool);
                assert_eq!(label[1].addresses, arena..second + geometry.pool);
                assert_eq!(label[2].addresses, arena..arena + geometry.arena);
                let kinds = [label[0].kind, label[1].kind, label[2].kind];
                assert_eq!(kinds, [Kind::FreeHeap, Kind::Heap, Kind::FreeHeap]);
            }
        }
    }

    #[test]
    fn pools_that_name_another_arena_are_none() {
        let mut process = heap(GEOMETRIES[0]);
        process.write(START + (1 << 20) + 32, &[1 << 32 | 7]);
        assert_eq!(label(&process).labels, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_is_there_labels_stay_in_mappings(process in noise()) {
            label(&process);
        }

        #[test]
        fn whatever_changes_labels_stay_in_mappings(
            geometry in 0usize..2,
            changes in proptest::collection::vec(any::<(usize, u64)>(), 1..6),
        ) {
            let mut process = heap(GEOMETRIES[geometry]);
            process.change(&changes);
            label(&process);
        }
    }
}
