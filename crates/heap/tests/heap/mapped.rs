//! Objects with maps of their references: only the words that a map names keep objects alive, and superpages
//! in swap are summarised as for objects without maps.

use crate::kernel::Pages;
use crate::swap::{Ends, world};
use crate::world::World;
use plimsoll_heap::mark::{Marker, NoTracer};
use plimsoll_heap::{Kind, KindId, Layout, PointerMap, SUPERPAGE};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

const WORD: usize = size_of::<usize>();

/// A kind with a map, and what the map says in the words of these tests.
#[derive(Clone, Copy)]
struct Mapped {
    kind: KindId,
    is_reference: fn(usize) -> bool,
}

fn add(world: &World, map: PointerMap, is_reference: fn(usize) -> bool) -> Mapped {
    let layout = Layout::Mapped(map);
    let kind = Kind {
        layout,
        ..Kind::WORDS
    };
    let kind = world.heap.add_kind(kind).unwrap();
    Mapped { kind, is_reference }
}

/// Structures whose first and third words are references, and arrays of pairs whose second word is one.
fn kinds(world: &World) -> [Mapped; 2] {
    let pairs = PointerMap::array(0b10, 2).unwrap();
    [
        add(world, PointerMap::new(0b101), |word| word == 0 || word == 2),
        add(world, pairs, |word| word % 2 == 1),
    ]
}

/// The objects that are reached from the roots by the words that maps name.
fn reached(world: &World, kinds: &[Mapped]) -> BTreeSet<usize> {
    let (mut reached, mut left) = (BTreeSet::new(), world.roots.clone());
    while let Some(start) = left.pop() {
        let Some(object) = world.objects.get(&start).filter(|_| reached.insert(start)) else {
            continue;
        };
        let mapped = kinds.iter().find(|mapped| mapped.kind == object.kind);
        let words = object.words.iter().enumerate();
        let references =
            words.filter(|&(at, _)| mapped.is_none_or(|mapped| (mapped.is_reference)(at)));
        left.extend(references.map(|(_, &word)| word));
    }
    reached
}

fn marked(world: &World) -> BTreeSet<usize> {
    let is_marked = |start: &usize| {
        let slot = world.heap.slot(*start);
        slot.is_some_and(|slot| world.heap.is_marked(slot))
    };
    world.objects.keys().copied().filter(is_marked).collect()
}

/// A list of structures, each with a reference to the next, and one that is no reference to a decoy.
fn list(world: &mut World, of: Mapped, length: usize) {
    let mut last = 0;
    for _ in 0..length {
        let start = world.allocate(of.kind, 100).unwrap();
        let decoy = world.allocate(of.kind, 100).unwrap();
        world.write(start, 2, last);
        world.write(start, 1, decoy);
        last = start;
    }
    world.roots.push(last);
}

fn evict(world: &World, pages: &Pages, pattern: u64) {
    let range = world.heap.range();
    for (at, start) in range.step_by(SUPERPAGE).enumerate() {
        if pattern >> (at % 64) & 1 != 0 {
            pages.evict(start..start + SUPERPAGE);
        }
    }
}

#[test]
fn what_is_in_swap_is_read_once_and_only_references_count() {
    let (mut world, pages) = world();
    let [structure, _] = kinds(&world);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    list(&mut world, structure, 3000);
    pages.evict(world.heap.range());
    world.mark(&mut marker);
    let first = marker.take_marking();
    assert_eq!((first.objects, pages.faults.load(SeqCst)), (3000, 0));
    assert!(
        first.read > 30 && first.read == first.summarised,
        "{first:?}"
    );
    for _ in 0..3 {
        world.mark(&mut marker);
        let next = marker.take_marking();
        assert_eq!((next.objects, next.read), (3000, 0), "{next:?}");
        assert!(next.replayed > 30, "{next:?}");
    }
    assert_eq!(pages.faults.load(SeqCst), 0);
    // A write shows, in a word that is no reference too.
    world.write(world.roots[0], 1, 0);
    pages.evict(world.heap.range());
    world.mark(&mut marker);
    assert_eq!(marker.take_marking().read, 1);
    assert_eq!(marked(&world), reached(&world, &[structure]));
}

#[test]
fn what_is_cold_is_paged_out_before_the_kernel_has_to() {
    let (mut world, pages) = world();
    let [structure, _] = kinds(&world);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    list(&mut world, structure, 3000);
    world.page_out = usize::MAX;
    world.collect_unchecked(&mut marker);
    let (swept, paged_out) = world.collect_unchecked(&mut marker);
    assert!(paged_out > 30, "{paged_out}");
    marker.take_marking();
    let (again, _) = world.collect_unchecked(&mut marker);
    assert_eq!((swept.objects, again.objects), (3000, 3000));
    assert_eq!(
        (marker.take_marking().read, pages.faults.load(SeqCst)),
        (0, 0)
    );
}

/// Only the parts of a large array in memory are scanned, and each other part is summarised by itself.
#[test]
fn a_large_array_is_scanned_by_its_parts() {
    let (mut world, pages) = world();
    let [structure, pairs] = kinds(&world);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    let array = world.allocate(pairs.kind, 20 * SUPERPAGE).unwrap();
    for at in 0..20 * SUPERPAGE / WORD / 100 {
        let start = world.allocate(structure.kind, 40).unwrap();
        world.write(array, at * 100 + at % 2, start);
    }
    world.roots.push(array);
    evict(&world, &pages, 0xaaaa_aaaa_aaaa_aaaa);
    for read in [true, false] {
        world.mark(&mut marker);
        assert_eq!(marker.take_marking().read > 0, read);
        assert_eq!(marked(&world), reached(&world, &[structure, pairs]));
    }
    // In a collection of young objects, the part that was written to is scanned again.
    let live = reached(&world, &[structure, pairs]);
    world.objects.retain(|start, _| live.contains(start));
    world.young = true;
    world.collect_unchecked(&mut marker);
    let new = world.allocate(structure.kind, 40).unwrap();
    world.write(array, 14 * SUPERPAGE / WORD + 51, new);
    world.collect_unchecked(&mut marker);
    let slot = world.heap.slot(new).unwrap();
    assert!(world.heap.is_marked(slot));
    assert_eq!(pages.faults.load(SeqCst), 1, "that of the write");
}

const SIZES: [usize; 5] = [32, 104, 1000, 9000, 60_000];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn the_same_lives_wherever_it_is(
        sizes in proptest::collection::vec((0..SIZES.len(), 0usize..3, any::<bool>()), 1..150),
        edges in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u16>()), 0..300),
        evictions in proptest::collection::vec((any::<u64>(), 0u8..8), 1..12),
        room in 1usize..40,
    ) {
        let (mut world, pages) = world();
        let _ends = Ends(pages.clone());
        let mut marker = Marker::with_room(world.heap, &NoTracer, room).unwrap();
        let kinds = kinds(&world);
        let mut all = Vec::new();
        for (size, kind, root) in sizes {
            let kind = kinds.get(kind).map_or(world.words, |mapped| mapped.kind);
            let start = world.allocate(kind, SIZES[size]).unwrap();
            world.roots.extend(root.then_some(start));
            all.push(start);
        }
        for (from, at, to) in edges {
            let from = all[usize::from(from) % all.len()];
            let words = world.objects[&from].words.len();
            // Often among the first words, which have bits in both maps.
            let at = if at % 4 == 0 { usize::from(at) } else { usize::from(at % 4) };
            world.write(from, at % words, all[usize::from(to) % all.len()]);
        }
        let expected = reached(&world, &kinds);
        for (pattern, how) in evictions {
            evict(&world, &pages, pattern);
            world.young = how == 1;
            world.page_out = if how == 2 { usize::MAX } else { 0 };
            if how == 3 {
                (0..3).for_each(|_| world.step(&mut marker));
            }
            world.collect_unchecked(&mut marker);
            let found = marked(&world);
            prop_assert!(found.is_superset(&expected));
            if world.residency.summarised == 0 {
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}
