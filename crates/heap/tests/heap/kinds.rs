//! Thousands of kinds, as of a front end that has one for each type of its objects.

use crate::world::World;
use plimsoll_heap::mark::{Marker, NoTracer};
use plimsoll_heap::{Bins, Error, KINDS, Kind, KindId, Layout, SUPERPAGE};
use plimsoll_unit::index::MIB;

/// Kinds that the world has already.
const FIRST: usize = 3;

fn add(world: &World, count: usize) -> Vec<KindId> {
    let add = |_| world.heap.add_kind(Kind::WORDS).unwrap();
    (0..count).map(add).collect()
}

#[test]
fn each_type_may_have_a_kind_of_its_own() {
    let mut world = World::new(256 * MIB);
    let kinds = add(&world, KINDS - FIRST);
    let one_more = world.heap.add_kind(Kind::OPAQUE);
    assert!(matches!(one_more, Err(Error::TooManyKinds)), "{one_more:?}");
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    let mut last = 0;
    for (at, &kind) in kinds.iter().enumerate() {
        let start = world.allocate(kind, 16 + at % 50 * 16).unwrap();
        world.write(start, 0, last);
        last = start;
        // Dead from the start.
        world.allocate(kind, 16 + at % 50 * 16).unwrap();
    }
    world.roots.push(last);
    let (used, objects) = (world.central.used(), kinds.len());
    assert_eq!(world.collect(&mut marker).objects as usize, objects);
    for &start in &world.objects.keys().copied().collect::<Vec<_>>() {
        let slot = world.heap.slot(start).unwrap();
        assert_eq!(world.heap.kind_of(slot), world.objects[&start].kind);
    }
    // The holes that the dead left are used again, each by its kind.
    for (at, &kind) in kinds.iter().enumerate() {
        world.allocate(kind, 16 + at % 50 * 16).unwrap();
    }
    assert_eq!(world.central.used(), used);
    world.roots.clear();
    assert_eq!(world.collect(&mut marker).freed, used);
}

/// A thread may free what another one allocated, of a kind that it has no bin for.
#[test]
fn what_a_thread_frees_of_a_kind_that_it_never_used_is_found_by_the_next_collection() {
    let mut world = World::new(64 * MIB);
    let kind = Kind {
        uncollectable: true,
        ..Kind::WORDS
    };
    add(&world, 100);
    let kind = world.heap.add_kind(kind).unwrap();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    let starts: Vec<usize> = (0..1000)
        .map(|_| world.allocate(kind, 48).unwrap())
        .collect();
    let used = world.central.used();
    // The model knows nothing of uncollectable objects of other kinds.
    world.objects.clear();
    let mut others = Bins::default();
    for &start in &starts[100..] {
        // SAFETY: an object that nobody uses.
        let freed = unsafe { world.heap.free(&mut others, start) };
        assert!(freed.is_some_and(|freed| freed.uncollectable), "{start:x}");
        // SAFETY: as above.
        let again = unsafe { world.heap.free(&mut others, start) };
        assert_eq!(again, None, "freed once");
    }
    others.retire(world.heap);
    let (swept, _) = world.collect_unchecked(&mut marker);
    assert_eq!(swept.objects, 100);
    for _ in 0..900 {
        world.allocate(kind, 48).unwrap();
    }
    assert_eq!(world.central.used(), used);
}

#[test]
fn large_objects_may_be_of_any_kind() {
    let mut world = World::new(64 * MIB);
    let layout = Layout::Opaque;
    let kinds = add(&world, 2000);
    let opaque = Kind {
        layout,
        ..Kind::WORDS
    };
    let opaque = world.heap.add_kind(opaque).unwrap();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    let root = world.allocate(kinds[1999], 3 * SUPERPAGE).unwrap();
    let leaf = world.allocate(opaque, 5 * SUPERPAGE).unwrap();
    world.write(root, 2 * SUPERPAGE / 8, leaf);
    world.roots.push(root);
    world.allocate(kinds[7], SUPERPAGE).unwrap();
    let swept = world.collect(&mut marker);
    assert_eq!((swept.objects, swept.opaque.length()), (2, 5 * SUPERPAGE));
}
