//! Collections while parts of the heap are in swap: they find the same objects, and touch only what
//! they need.

use crate::collect::{Step, step, take};
use crate::kernel::{Fake, Pages};
use crate::world::World;
use plimsoll_heap::collection::Pause;
use plimsoll_heap::mark::{MarkWorkers, Marker, NoTracer, Tracer};
use plimsoll_heap::{Heap, Kind, KindId, Layout, Look, Means, SUPERPAGE};
use plimsoll_unit::index::MIB;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const MOST: usize = 64 * MIB;

pub(crate) fn world() -> (World, Arc<Pages>) {
    let (fake, pages) = Fake::new(MOST);
    (World::over(Box::new(fake), MOST), pages)
}

/// Evicts parts of the heap, according to a bit pattern.
fn evict(world: &World, pages: &Pages, pattern: u64) {
    let range = world.heap.range();
    for at in 0..range.len() / SUPERPAGE {
        if pattern >> (at % 64) & 1 != 0 {
            let start = range.start + at * SUPERPAGE;
            pages.evict(start..start + SUPERPAGE);
        }
    }
}

/// Allocates objects to which only one older object refers.
fn hang(world: &mut World, one: u64, other: u64) {
    for at in 0..one % 8 {
        let old: Vec<usize> = world.objects.keys().copied().collect();
        let pick = other.rotate_left(at as u32 * 8) as usize;
        let Some(&from) = old.get(pick % old.len().max(1)) else {
            return;
        };
        if world.objects[&from].kind != world.opaque {
            let new = world.allocate(world.words, 48).unwrap();
            world.write(from, at as usize, new);
        }
    }
}

/// Unmaps a heap after everything that uses it was dropped, even if the test fails.
pub(crate) struct Ends(pub(crate) Arc<Pages>);

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: its world and its marker went before.
        unsafe { self.0.unmap() };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_same_lives_wherever_it_is(
        steps in proptest::collection::vec((step(), any::<u64>(), any::<u64>(), 0u8..14), 1..300),
        room in 1usize..40,
        windows in 0usize..4,
    ) {
        let (mut world, pages) = world();
        let _ends = Ends(pages.clone());
        let mut marker = Marker::with_room(world.heap, &NoTracer, room).unwrap();
        // Windows matter only if there are several.
        for _ in 0..128 * windows {
            let root = world.allocate(world.words, 8000).unwrap();
            world.roots.push(root);
        }
        for (step, one, other, what) in steps {
            match what {
                0 => evict(&world, &pages, one & other),
                1 => evict(&world, &pages, one | other),
                2 => pages.untracked.store((one % 2) as usize, SeqCst),
                3 => pages.blind.store(usize::from(one % 8 == 0), SeqCst),
                4 => world.complete = one % 4 == 0,
                6 => world.young = one % 4 != 0,
                5 => world.page_out = (one % 8 * (other % 16)) as usize,
                10 => hang(&mut world, one, other),
                7 | 8 => (0..one % 4).for_each(|_| world.step(&mut marker)),
                9 if one % 4 == 0 => {
                    world.give_up();
                    world.collect(&mut marker);
                }
                _ => {}
            }
            if matches!(step, Step::Collect { .. }) {
                // The kernel evicts right before the collection.
                evict(&world, &pages, one & other);
            }
            take(&mut world, &mut marker, step);
        }
        world.collect(&mut marker);
    }
}

/// A world with lists of 100-byte objects, and the address range that they take in the heap.
pub(crate) fn full(lists: usize) -> (World, Arc<Pages>, Range<usize>) {
    let (mut world, pages) = world();
    for _ in 0..lists {
        world.list(2000, 100);
    }
    // The lowest superpages are taken first, except for the very first.
    let start = world.heap.range().start + SUPERPAGE;
    let range = start..start + world.central.used() * SUPERPAGE;
    (world, pages, range)
}

/// With fewer means the same objects live, at a higher price: faults, or reading everything in each
/// collection.
#[test]
fn what_is_absent_costs_by_what_is_done_about_it() {
    let cost = |means| {
        let (mut world, pages, range) = full(10);
        world.heap.limit_means(means);
        let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
        pages.evict(range.clone());
        world.mark(&mut marker);
        let first = marker.take_marking();
        pages.evict(range.clone());
        let before = pages.faults.swap(0, SeqCst);
        world.mark(&mut marker);
        let next = marker.take_marking();
        let after = pages.faults.load(SeqCst);
        assert_eq!(next.objects, first.objects);
        assert_eq!(world.residency.absent, range.len() / SUPERPAGE);
        world.collect(&mut marker);
        (before > 0, after > 0, next.read > 0)
    };
    assert_eq!(cost(Means::Resizing), (true, true, false));
    assert_eq!(cost(Means::Order), (false, false, true));
    assert_eq!(cost(Means::Bookmarks), (false, false, false));
}

#[test]
fn what_was_read_once_is_not_read_again() {
    let (mut world, pages, range) = full(10);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.collect(&mut marker);
    marker.take_marking();
    pages.evict(range.clone());
    let absent = pages.absent(range.clone());
    world.mark(&mut marker);
    assert_eq!(
        pages.faults.load(SeqCst),
        0,
        "what is absent is asked for first"
    );
    let first = marker.take_marking();
    assert_eq!(world.residency.absent, absent);
    assert!(
        first.read > 100 && first.read == first.summarised,
        "{first:?}"
    );
    assert_eq!(pages.absent(range), absent, "it was given back");
    let asked = pages.asked.load(SeqCst);
    assert_eq!(asked, first.read as usize);
    // Some superpages are read in two rounds, because what refers to them lies at higher addresses.
    let known = world.central.used() as u64;
    assert!(first.read < known * 6 / 5, "{first:?}");
    for _ in 0..3 {
        world.mark(&mut marker);
        let next = marker.take_marking();
        assert_eq!((next.read, next.objects), (0, first.objects), "{next:?}");
        assert_eq!(next.replayed, known);
    }
    assert_eq!(pages.asked.load(SeqCst), asked);
    assert_eq!(pages.faults.load(SeqCst), 0);
    assert!(world.heap.summary_bytes() > 0);
    assert!(world.heap.summary_bytes() <= known as usize * 256);
    world.collect(&mut marker);
}

#[test]
fn what_was_written_to_is_read_again_and_only_that() {
    let (mut world, pages, range) = full(10);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    pages.evict(range.clone());
    world.mark(&mut marker);
    let first = marker.take_marking();
    let changed: Vec<usize> = world.roots.iter().map(|root| root / SUPERPAGE).collect();
    for root in world.roots.clone() {
        world.write(root, 3, 0);
    }
    pages.evict(range);
    let before = pages.faults.load(SeqCst);
    world.mark(&mut marker);
    let second = marker.take_marking();
    let mut distinct = changed;
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(second.read as usize, distinct.len());
    assert_eq!(second.objects, first.objects);
    assert_eq!(second.replayed as usize, world.residency.summarised);
    assert_eq!(
        world.residency.summarised + distinct.len(),
        world.central.used()
    );
    assert_eq!(pages.faults.load(SeqCst), before);
    world.collect(&mut marker);
}

#[test]
fn what_died_in_swap_is_dropped_unread() {
    let (mut world, pages, range) = full(4);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    pages.evict(range.clone());
    world.mark(&mut marker);
    let asked = pages.asked.load(SeqCst);
    world.roots.clear();
    let ended = world.mark(&mut marker);
    let swept = ended.count(&mut world.central, false).swept;
    assert_eq!(swept.objects, 0);
    let (given, _) = world.central.give_back(world.heap, usize::MAX);
    assert!(
        given >= swept.freed,
        "what is absent is not kept for later: {given} of {}",
        swept.freed
    );
    assert_eq!(
        (pages.asked.load(SeqCst), pages.faults.load(SeqCst)),
        (asked, 0)
    );
    assert_eq!(pages.absent(range), 0);
    assert_eq!(world.heap.summary_bytes(), 0);
}

#[test]
fn holes_in_swap_are_used_before_there_is_a_collection_and_after_those_in_memory() {
    let (mut world, pages, range) = full(1);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    // Every second object dies, so every superpage has holes.
    let all: Vec<usize> = world.objects.keys().copied().collect();
    world.roots = all.iter().copied().step_by(2).collect();
    for &object in &all {
        world.write(object, 0, 0);
    }
    pages.evict(range);
    let ended = world.mark(&mut marker);
    ended.count(&mut world.central, false);
    let reached = world.reached();
    world.objects.retain(|start, _| reached.contains(start));
    world.central.give_back(world.heap, 0);
    let used = world.central.used();
    world.central.set_limit(used + 5);
    let faults = pages.faults.load(SeqCst);
    for _ in 0..5 * (SUPERPAGE / 112) {
        world.allocate(world.words, 100).unwrap();
    }
    assert_eq!(
        pages.faults.load(SeqCst),
        faults,
        "free superpages come first"
    );
    world.allocate(world.words, 100).unwrap();
    assert_eq!(pages.faults.load(SeqCst), faults + 1);
}

/// Objects that refer to each other at random; the last ones are roots.
pub(crate) fn random_graph(world: &mut World) {
    let mut all: Vec<usize> = Vec::new();
    let mut random = 1usize;
    for _ in 0..20_000 {
        let start = world.allocate(world.words, 64).unwrap();
        for at in 0..7 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            if !all.is_empty() {
                world.write(start, at, all[(random >> 33) % all.len()]);
            }
        }
        all.push(start);
    }
    world.roots = all[19_000..].to_vec();
}

/// Two helpers run until `body` ends, in whatever way.
pub(crate) fn with_workers(heap: &Heap, body: impl FnOnce(&MarkWorkers)) {
    struct Ending<'a>(&'a MarkWorkers);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let workers = MarkWorkers::new(heap).unwrap();
    std::thread::scope(|scope| {
        let helper = || {
            let mut marker = Marker::with_room(heap, &NoTracer, 100).unwrap();
            while workers.help(&mut marker) {}
        };
        let _end = Ending(&workers);
        scope.spawn(helper);
        scope.spawn(helper);
        body(&workers);
    });
}

/// Mark workers use summaries for absent superpages, with bookmarks, and find what one marker finds.
#[test]
fn mark_workers_pass_over_what_is_absent() {
    let (mut world, pages) = world();
    random_graph(&mut world);
    let mut alone = Marker::new(world.heap, &NoTracer).unwrap();
    pages.evict(world.heap.range());
    world.mark(&mut alone);
    alone.take_marking();
    world.mark(&mut alone);
    let expected = alone.take_marking();
    let (heap, roots) = (world.heap, world.roots.clone());
    with_workers(heap, |workers| {
        for _ in 0..5 {
            let emptied = Pause::begin(heap).empty(|_| {});
            let looked = emptied.look(&mut world.central, Look::default());
            assert!(looked.residency().summarised > 0);
            let cleared = looked.at_once(&mut world.central);
            cleared.mark(&world.central, &mut alone, Some(workers), |marker| {
                roots.iter().for_each(|&root| marker.word(root));
            });
            assert_eq!(alone.take_marking().objects, expected.objects);
        }
    });
}

/// With many references to everywhere, lists of slots do not fit, but groups do.
#[test]
fn a_random_graph_is_summarised_in_groups_and_nothing_is_lost() {
    let (mut world, pages) = world();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    random_graph(&mut world);
    pages.evict(world.heap.range());
    world.mark(&mut marker);
    let first = marker.take_marking();
    assert_eq!(first.unsummarised, 0, "{first:?}");
    world.mark(&mut marker);
    let second = marker.take_marking();
    assert_eq!(second.read, 0);
    assert!(
        second.objects >= first.objects,
        "{second:?} after {first:?}"
    );
    assert_eq!(pages.faults.load(SeqCst), 0);
    // Objects that groups kept too long die when everything is read.
    world.complete = true;
    world.collect(&mut marker);
}

/// A freed slot that was not reused holds no old object, even if marks stay.
#[test]
fn what_was_freed_is_found_by_a_collection_of_young_objects() {
    let (mut world, _) = world();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.list(1000, 48);
    let freed: Vec<usize> = (0..100)
        .map(|_| world.allocate(world.words, 48).unwrap())
        .collect();
    world.roots.extend(&freed);
    world.young = true;
    let before = world.collect_unchecked(&mut marker).0;
    for start in freed {
        world.free(start);
    }
    let after = world.collect_unchecked(&mut marker).0;
    assert_eq!((before.objects, after.objects), (1100, 1000));
}

/// The references that a front end finds may depend on memory elsewhere, which changes without a write to the
/// heap.
#[test]
fn what_the_front_end_traces_is_looked_into_by_each_collection() {
    struct Outside {
        object: AtomicUsize,
        word: AtomicUsize,
    }
    // SAFETY: reports all that is to live.
    unsafe impl Tracer for Outside {
        unsafe fn trace(&self, start: usize, _: usize, _: KindId, marker: &mut Marker<'_>) {
            if start == self.object.load(SeqCst) {
                marker.word(self.word.load(SeqCst));
            }
        }
    }
    let (mut world, pages) = world();
    let layout = Layout::Traced;
    let traced = world
        .heap
        .add_kind(Kind {
            layout,
            ..Kind::WORDS
        })
        .unwrap();
    let outside = Outside {
        object: AtomicUsize::new(0),
        word: AtomicUsize::new(0),
    };
    let mut marker = Marker::new(world.heap, &outside).unwrap();
    let mut allocate = |bytes| world.allocate(traced, bytes).unwrap();
    let mut roots: Vec<usize> = (0..1000).map(|_| allocate(64)).collect();
    roots.push(allocate(5 * SUPERPAGE));
    let traced = [roots[0], roots[1000]];
    world.roots = roots;
    world.young = true;
    for _ in 0..2 {
        world.collect_unchecked(&mut marker);
    }
    for object in traced.into_iter().cycle().take(4) {
        let new = world.allocate(world.words, 48).unwrap();
        outside.object.store(object, SeqCst);
        outside.word.store(new, SeqCst);
        world.collect_unchecked(&mut marker);
        let slot = world.heap.slot(new).unwrap();
        assert!(world.heap.is_marked(slot), "{object:x} refers to it");
        pages.evict(world.heap.range());
    }
}

/// A collection of young objects scans new objects and written ones, and not old ones.
#[test]
fn old_objects_are_not_looked_into_unless_they_were_written_to() {
    let (mut world, pages, range) = full(10);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.collect_unchecked(&mut marker);
    world.young = true;
    let (old, _) = world.collect_unchecked(&mut marker);
    marker.take_marking();
    // An old object comes to refer to a new one, and another new one dies.
    let new = world.allocate(world.words, 48).unwrap();
    world.allocate(world.words, 48).unwrap();
    world.write(world.roots[4], 5, new);
    let (young, _) = world.collect_unchecked(&mut marker);
    world.forget_dead();
    assert_eq!(marker.take_marking().objects, 1);
    assert_eq!(young.objects, old.objects + 1);
    // Old objects in swap stay there; what was written to before it was evicted is read.
    let newer = world.allocate(world.words, 48).unwrap();
    world.write(world.roots[7], 5, newer);
    pages.evict(range.clone());
    let absent = pages.absent(range.clone());
    let (young, _) = world.collect_unchecked(&mut marker);
    let marking = marker.take_marking();
    assert_eq!((marking.objects, young.objects), (1, old.objects + 2));
    assert!((1..=2).contains(&marking.read), "{marking:?} of {absent}");
    assert_eq!(pages.faults.load(SeqCst), 0);
    // An object that died when it was old is found by a whole collection.
    world.roots.clear();
    assert_eq!(
        world.collect_unchecked(&mut marker).0.objects,
        old.objects + 2
    );
    world.young = false;
    assert_eq!(world.collect_unchecked(&mut marker).0.objects, 0);
}

/// A step summarises what it reads. The summary does not cover objects that are marked there later:
/// it must not be trusted in that collection, nor in the next if the superpage came back in
/// between.
#[test]
fn a_summary_that_a_step_made_is_not_trusted_before_all_is_marked() {
    for comes_back in [false, true] {
        let (mut world, pages) = world();
        let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
        let mut pairs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for _ in 0..600 {
            let start = world.allocate(world.words, 8000).unwrap();
            pairs.entry(start / SUPERPAGE).or_default().push(start);
        }
        let pairs: Vec<Vec<usize>> = pairs.into_values().filter(|pair| pair.len() == 2).collect();
        // An object that is scanned late refers to the second object of one that was read early,
        // and that refers to one in a third superpage.
        for (early, late) in pairs[..40].iter().zip(&pairs[200..]) {
            let end = world.allocate(world.words, 48).unwrap();
            world.write(early[1], 0, end);
            world.write(late[0], 0, early[1]);
        }
        world.roots = pairs.iter().map(|pair| pair[0]).collect();
        world.collect(&mut marker);
        pages.evict(world.heap.range());
        for _ in 0..2 {
            world.step(&mut marker);
        }
        let read = marker.take_marking().read as usize;
        assert!((40..200).contains(&read), "{read}");
        if comes_back {
            for pair in &pairs[..40] {
                std::hint::black_box(world.read(pair[0], 1));
            }
        }
        world.collect_unchecked(&mut marker);
        pages.evict(world.heap.range());
        world.collect(&mut marker);
        assert_eq!(world.objects.len(), pairs.len() + 2 * 40);
    }
}

/// A superpage that came back from swap keeps its summary until it is written to. The write may
/// happen between two steps of a collection of young objects, where a later step arms what it
/// scanned.
#[test]
fn a_write_between_two_steps_ends_a_summary() {
    let (mut world, pages) = world();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.roots = (0..600)
        .map(|_| world.allocate(world.words, 8000).unwrap())
        .collect();
    world.collect(&mut marker);
    pages.evict(world.heap.range());
    // This reads everything, makes summaries, and compares with the model.
    world.collect(&mut marker);
    world.young = true;
    world.step(&mut marker);
    for at in 300..340 {
        let new = world.allocate(world.words, 48).unwrap();
        world.write(world.roots[at], 0, new);
    }
    for _ in 0..10 {
        world.step(&mut marker);
    }
    world.collect_unchecked(&mut marker);
    pages.evict(world.heap.range());
    world.young = false;
    world.collect(&mut marker);
    assert_eq!(world.objects.len(), 640);
    assert!(world.residency.summarised > 0);
}
