//! Unreachable objects that are kept alive for a while: first what they refer to is marked, then
//! the objects themselves. The result must equal that of a slow walk, wherever the objects are. A
//! superpage in swap is read once for all of its objects.

use crate::kernel::Pages;
use crate::swap::{Ends, full, world};
use crate::world::World;
use plimsoll_heap::SUPERPAGE;
use plimsoll_heap::mark::{Finalizable, Marker, NoTracer};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

/// Finalizable objects by address, and whether each is marked if it refers to itself.
type Objects = Vec<(usize, bool)>;

/// Marks what the objects refer to. Returns the objects found in cycles.
fn mark_contents(world: &World, marker: &mut Marker<'_>, objects: &Objects) -> Vec<usize> {
    let mut found = Vec::new();
    let dying = objects.iter().map(|&(start, itself)| Finalizable {
        slot: world.heap.slot(start).unwrap(),
        itself,
    });
    marker.contents(&world.central, dying, |slot| {
        found.push(world.heap.start(slot));
    });
    found
}

fn revive(world: &World, marker: &mut Marker<'_>, objects: &[usize]) {
    let slots = objects.iter().map(|&start| world.heap.slot(start).unwrap());
    marker.revive(&world.central, slots);
}

fn marked(world: &World) -> BTreeSet<usize> {
    let is_marked = |start: &usize| world.heap.is_marked(world.heap.slot(*start).unwrap());
    world.objects.keys().copied().filter(is_marked).collect()
}

/// Adds everything reachable from the addresses in `left` to `reached`.
fn reach(world: &World, reached: &mut BTreeSet<usize>, mut left: Vec<usize>) {
    while let Some(start) = left.pop() {
        if world.objects.contains_key(&start)
            && reached.insert(start)
            && world.objects[&start].kind != world.opaque
        {
            left.extend(&world.objects[&start].words);
        }
    }
}

/// The references of an unmarked object.
fn contents(world: &World, start: usize, itself: bool) -> Vec<usize> {
    let object = &world.objects[&start];
    let counts = |word: &usize| object.kind != world.opaque && (itself || *word != start);
    object.words.iter().copied().filter(counts).collect()
}

/// Evicts every superpage whose bit in the pattern is set.
fn evict(world: &World, pages: &Pages, pattern: u64) {
    let range = world.heap.range();
    for (at, start) in range.step_by(SUPERPAGE).enumerate() {
        if pattern >> (at % 64) & 1 != 0 {
            pages.evict(start..start + SUPERPAGE);
        }
    }
}

const SIZES: [usize; 6] = [16, 48, 400, 3000, 12_000, 70_000];

/// Allocates objects, some of them opaque, some of them roots.
fn allocate(world: &mut World, sizes: &[(usize, u8)]) -> Vec<usize> {
    let mut all = Vec::new();
    for &(size, what) in sizes {
        let kind = if what == 0 { world.opaque } else { world.words };
        let start = world.allocate(kind, SIZES[size]).unwrap();
        if what == 1 {
            world.roots.push(start);
        }
        all.push(start);
    }
    all
}

/// Makes objects refer to each other.
fn link(world: &mut World, all: &[usize], edges: &[(u16, u16, u16)]) {
    for &(from, at, to) in edges {
        let from = all[usize::from(from) % all.len()];
        let words = world.objects[&from].words.len();
        // Some objects have all of their references at the end.
        let at = if at % 2 == 0 {
            usize::from(at) % words
        } else {
            words - 1
        };
        if world.objects[&from].kind != world.opaque {
            // Some refer to themselves.
            let to = if to % 8 == 0 {
                from
            } else {
                all[usize::from(to) % all.len()]
            };
            world.write(from, at, to);
        }
    }
}

/// Adds what the dying objects refer to, one object after the other, to `expected`. Returns the
/// objects found in cycles.
fn expect_contents(world: &World, objects: &Objects, expected: &mut BTreeSet<usize>) -> Vec<usize> {
    let mut cycles = Vec::new();
    for &(start, itself) in objects {
        if !expected.contains(&start) {
            reach(world, expected, contents(world, start, itself));
            if expected.contains(&start) {
                cycles.push(start);
            }
        }
    }
    cycles
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_the_dying_refer_to_is_marked_and_then_they_are(
        sizes in proptest::collection::vec((0usize..SIZES.len(), 0u8..10), 1..200),
        edges in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u16>()), 0..300),
        due in proptest::collection::vec((any::<u16>(), any::<bool>()), 0..100),
        absent in any::<u64>(),
        again in any::<u64>(),
        everything_is_here: bool,
        untracked: bool,
        room in 1usize..40,
    ) {
        let (mut world, pages) = world();
        let _ends = Ends(pages.clone());
        pages.untracked.store(usize::from(untracked), SeqCst);
        let mut marker = Marker::with_room(world.heap, &NoTracer, room).unwrap();
        let all = allocate(&mut world, &sizes);
        link(&mut world, &all, &edges);
        if !everything_is_here {
            evict(&world, &pages, absent);
        }
        let marked_all = world.reach(&mut marker);
        let mut expected = world.reached();
        let mut objects: Objects =
            due.iter().map(|&(at, itself)| (all[usize::from(at) % all.len()], itself)).collect();
        objects.sort_unstable();
        objects.dedup_by_key(|object| object.0);
        objects.retain(|object| !expected.contains(&object.0));
        let cycles = expect_contents(&world, &objects, &mut expected);
        let found = mark_contents(&world, &mut marker, &objects);
        prop_assert_eq!(marked(&world), expected.clone());
        if everything_is_here {
            prop_assert_eq!(found, cycles);
        } else {
            for start in found {
                let mut from = BTreeSet::new();
                let &(_, itself) = objects.iter().find(|object| object.0 == start).unwrap();
                reach(&world, &mut from, contents(&world, start, itself));
                prop_assert!(from.contains(&start), "it refers to itself");
            }
        }
        let due: Vec<usize> =
            objects.iter().map(|object| object.0).filter(|start| !expected.contains(start)).collect();
        revive(&world, &mut marker, &due);
        reach(&world, &mut expected, due.clone());
        prop_assert_eq!(marked(&world), expected);
        let ended = marked_all.end(&world.central, None);
        ended.count(&mut world.central, false);
        // Summaries that were made meanwhile must cover all of it.
        world.roots.extend(objects.iter().map(|object| object.0));
        world.forget_dead();
        evict(&world, &pages, again);
        world.collect(&mut marker);
    }
}

/// There are many objects in each superpage, and each refers to another one in the same superpage
/// or the next.
#[test]
fn what_died_together_in_swap_is_read_together() {
    let (mut world, pages, range) = full(10);
    let heads = std::mem::take(&mut world.roots);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    pages.evict(range.clone());
    let absent = pages.absent(range.clone()) as u64;
    let _stands = world.reach(&mut marker);
    assert_eq!(
        (marker.take_marking().read, pages.faults.load(SeqCst)),
        (0, 0)
    );
    let objects: Objects = world.objects.keys().map(|&start| (start, true)).collect();
    let found = mark_contents(&world, &mut marker, &objects);
    let marking = marker.take_marking();
    assert!(found.is_empty());
    assert_eq!(marking.objects as usize, objects.len() - heads.len());
    // Once for their own contents, and once for those of the objects that they refer to.
    assert!(
        marking.read >= absent / 2 && marking.read <= 2 * absent,
        "{marking:?} of {absent}"
    );
    revive(&world, &mut marker, &heads);
    let marking = marker.take_marking();
    assert!(
        marking.read <= heads.len() as u64,
        "{marking:?} of {absent}"
    );
    assert_eq!(marked(&world).len(), objects.len());
    assert_eq!(
        pages.faults.load(SeqCst),
        0,
        "what is absent is asked for first"
    );
    assert_eq!(pages.absent(range) as u64, absent, "it was given back");
}

/// As the test above, but the objects themselves are marked at once.
#[test]
fn what_is_kept_in_swap_is_read_once() {
    let (mut world, pages, range) = full(10);
    world.roots.clear();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    pages.evict(range.clone());
    let absent = pages.absent(range) as u64;
    let _stands = world.reach(&mut marker);
    let all: Vec<usize> = world.objects.keys().copied().collect();
    revive(&world, &mut marker, &all);
    let marking = marker.take_marking();
    assert!(
        marking.read > 100 && marking.read <= absent,
        "{marking:?} of {absent}"
    );
    assert_eq!(pages.faults.load(SeqCst), 0);
    assert_eq!(marked(&world).len(), all.len());
}
