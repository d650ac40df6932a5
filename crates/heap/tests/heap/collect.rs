//! Collections against the model: objects that it reaches live, and keep their contents and their
//! place; all others are freed.

use crate::world::World;
use plimsoll_heap::collection::{Pause, Tail};
use plimsoll_heap::mark::{MarkWorkers, Marker, NoTracer};
use plimsoll_heap::{Exhausted, LARGEST_SMALL, Look, SUPERPAGE, SweepStatistics};
use plimsoll_unit::index::MIB;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Allocate { kind: u8, bytes: usize, root: bool },
    Link { from: usize, at: usize, to: usize },
    Drop(usize),
    Free(usize),
    Collect { give_back: bool },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        8 => 0usize..200,
        3 => 200usize..LARGEST_SMALL + 1,
        1 => LARGEST_SMALL + 1..200_000,
    ];
    prop_oneof![
        30 => (0u8..10, bytes, any::<bool>())
            .prop_map(|(kind, bytes, root)| Step::Allocate { kind, bytes, root }),
        20 => (any::<usize>(), 0usize..30, any::<usize>())
            .prop_map(|(from, at, to)| Step::Link { from, at, to }),
        8 => any::<usize>().prop_map(Step::Drop),
        3 => any::<usize>().prop_map(Step::Free),
        2 => any::<bool>().prop_map(|give_back| Step::Collect { give_back }),
    ]
}

/// Applies one step to the world.
pub(crate) fn take(world: &mut World, marker: &mut Marker<'_>, step: Step) {
    let pick = |n: usize| {
        world
            .objects
            .keys()
            .nth(n % world.objects.len().max(1))
            .copied()
    };
    match step {
        Step::Allocate { kind, bytes, root } => {
            let kind = match kind {
                0 => world.kept,
                1..3 => world.opaque,
                _ => world.words,
            };
            let start = world.allocate(kind, bytes).unwrap();
            if root {
                world.roots.push(start);
            }
        }
        Step::Link { from, at, to } => {
            if let (Some(from), Some(to)) = (pick(from), pick(to))
                && world.objects[&from].kind != world.opaque
            {
                world.write(from, at, to);
            }
        }
        Step::Drop(n) => {
            if !world.roots.is_empty() {
                world.roots.swap_remove(n % world.roots.len());
            }
        }
        Step::Free(n) => {
            if let Some(start) = pick(n) {
                world.free(start);
            }
        }
        Step::Collect { give_back } => {
            world.collect(marker);
            if give_back {
                world.central.give_back(world.heap, 3);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_the_model_reaches_lives_and_nothing_else(
        steps in proptest::collection::vec(step(), 1..400),
        room in 1usize..40,
    ) {
        let mut world = World::new(64 * MIB);
        let mut marker = Marker::with_room(world.heap, &NoTracer, room).unwrap();
        for step in steps {
            take(&mut world, &mut marker, step);
        }
        world.collect(&mut marker);
    }
}

#[test]
fn what_is_dead_is_used_again_before_the_heap_grows() {
    let mut world = World::new(64 * MIB);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.list(1000, 64);
    let mut most = 0;
    for round in 0..20 {
        for _ in 0..20_000 {
            world.allocate(world.words, 64).unwrap();
        }
        world.collect(&mut marker);
        let used = world.central.committed();
        assert!(round == 0 || used <= most, "{used} after {most}");
        most = most.max(used);
    }
}

#[test]
fn interior_pointers_keep_an_object_and_what_is_left_over_keeps_none() {
    let mut world = World::new(64 * MIB);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    for bytes in [16, 100, 3000, LARGEST_SMALL, 40_000, 3 * SUPERPAGE] {
        let start = world.allocate(world.words, bytes).unwrap();
        let size = world.heap.size(world.heap.slot(start).unwrap());
        assert!(size >= bytes);
        for inside in [0, 1, bytes / 2, bytes - 1, size - 1] {
            let slot = world.heap.slot(start + inside).unwrap();
            assert_eq!(world.heap.start(slot), start);
        }
        world.roots = vec![start + bytes - 1];
        let ended = world.mark(&mut marker);
        assert_eq!(ended.count(&mut world.central, false).swept.objects, 1);
        world.objects.clear();
        world.roots.clear();
        world.collect(&mut marker);
    }
    assert_eq!(world.heap.slot(0), None);
    assert_eq!(world.heap.slot(usize::MAX), None);
    assert_eq!(
        world.heap.slot(world.heap.range().start),
        None,
        "all is free"
    );
}

#[test]
fn only_the_first_superpage_counts_where_that_is_asked_for() {
    let mut world = World::new(64 * MIB);
    let start = world
        .heap
        .allocate_large(&mut world.central, world.words, 5 * SUPERPAGE, true)
        .unwrap();
    assert!(world.heap.slot(start + SUPERPAGE - 1).is_some());
    assert_eq!(world.heap.slot(start + SUPERPAGE), None);
}

#[test]
fn a_limit_is_kept_and_room_that_is_not_there_is_an_error() {
    let mut world = World::new(16 * MIB);
    world.central.set_limit(10);
    let mut count = 0;
    while world.allocate(world.opaque, LARGEST_SMALL).is_ok() {
        count += 1;
    }
    assert_eq!(count, 20);
    assert_eq!(
        world.allocate(world.opaque, SUPERPAGE),
        Err(Exhausted::Limit)
    );
    world.central.set_limit(usize::MAX);
    for bytes in [16 * MIB, usize::MAX] {
        let large = world
            .heap
            .allocate_large(&mut world.central, world.opaque, bytes, false);
        assert_eq!(large, Err(Exhausted::Memory));
    }
    assert!(world.allocate(world.opaque, 15 * MIB).is_ok());
}

#[test]
fn memory_that_is_given_back_is_gone_and_comes_back_zeroed() {
    let mut world = World::new(64 * MIB);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    for _ in 0..500 {
        let start = world.allocate(world.words, 4096).unwrap();
        world.write(start, 3, 5);
    }
    let swept = world.collect(&mut marker);
    assert_eq!(swept.objects, 0);
    assert_eq!(swept.freed, 125);
    assert_eq!(world.central.give_back(world.heap, 25), (100, 25));
    assert_eq!(world.central.give_back(world.heap, 25), (0, 25));
    for _ in 0..500 {
        world.allocate(world.words, 4096).unwrap();
    }
}

/// Marks a graph with one marker and with three, with large and small stacks.
#[test]
fn mark_workers_mark_what_one_marks() {
    for (room, wide) in [(1 << 16, true), (1 << 16, false), (4, true)] {
        let mut world = World::new(256 * MIB);
        let wide = if wide { 300 } else { 1 };
        for _ in 0..wide {
            world.list(60_000 / wide, 48);
        }
        let mut alone = Marker::new(world.heap, &NoTracer).unwrap();
        let expected = world.collect(&mut alone);
        let World {
            heap,
            mut central,
            roots,
            ..
        } = world;
        let workers = MarkWorkers::new(heap).unwrap();
        let (swept, marking) = std::thread::scope(|scope| {
            let helper = || {
                let mut marker = Marker::with_room(heap, &NoTracer, room).unwrap();
                while workers.help(&mut marker) {}
            };
            let helpers = [scope.spawn(helper), scope.spawn(helper)];
            let mut marker = Marker::with_room(heap, &NoTracer, room).unwrap();
            let mut swept = SweepStatistics::default();
            for _ in 0..20 {
                let emptied = Pause::begin(heap).empty(|_| {});
                let looked = emptied.look(&mut central, Look::default());
                let cleared = looked.at_once(&mut central);
                let marked = cleared.mark(&central, &mut marker, Some(&workers), |marker| {
                    roots.iter().for_each(|&root| marker.word(root));
                });
                (swept, _) = marked.finish(&mut central, &mut marker, Tail::default());
            }
            workers.end();
            let all = marker.take_marking();
            helpers
                .into_iter()
                .for_each(|helper| helper.join().unwrap());
            (swept, all)
        });
        assert_eq!(swept.objects, expected.objects);
        assert_eq!(
            marking.objects,
            20 * expected.objects,
            "each is marked once"
        );
        if room == 4 {
            assert!(marking.overflows > 0, "{marking:?}");
        }
    }
}
