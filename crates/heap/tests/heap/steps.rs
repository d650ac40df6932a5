//! Collections whose marking is done in steps, while the program changes references.

use crate::swap::with_workers;
use crate::world::World;
use plimsoll_heap::collection::{Pause, Tail};
use plimsoll_heap::mark::{Marker, NoTracer};
use plimsoll_heap::{Look, SUPERPAGE};
use plimsoll_testbed::skip;
use plimsoll_unit::index::MIB;
use std::time::Instant;

/// `count` lists of `length` objects, each of 48 bytes.
fn lists(count: usize, length: usize) -> World {
    let mut world = World::new(64 * MIB);
    // The kernel tracks writes only to what is mapped.
    world.central.begin(world.heap);
    for _ in 0..count {
        world.list(length, 48);
    }
    world
}

/// `None` if the kernel does not track writes.
fn tracked(world: World) -> Option<World> {
    if world.heap.can_watch() {
        return Some(world);
    }
    skip("no write tracking here");
    None
}

#[test]
fn what_is_moved_behind_the_marker_is_found_by_the_last_step() {
    let Some(mut world) = tracked(lists(1, 10_000)) else {
        return;
    };
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.collect(&mut marker);
    marker.take_marking();
    world.step(&mut marker);
    assert!(world.heap.is_stepping());
    let found = marker.marked();
    assert!((1..9_000).contains(&found), "a part: {found}");
    // The first object is marked and scanned. The rest of the list is attached to it, and removed
    // from where it was.
    let first = world.roots[0];
    let mut at = first;
    for _ in 0..9_500 {
        at = world.objects[&at].words[0];
    }
    let rest = world.objects[&at].words[0];
    world.write(first, 3, rest);
    world.write(at, 0, 0);
    for _ in 0..5 {
        world.step(&mut marker);
    }
    let swept = world.collect(&mut marker);
    assert_eq!(swept.objects, 10_000);
}

#[test]
fn what_is_new_is_found_and_no_holes_are_filled_before_the_last_step() {
    let Some(mut world) = tracked(lists(2, 5_000)) else {
        return;
    };
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.collect(&mut marker);
    // Half of the objects are dead, and leave holes.
    let all: Vec<usize> = world.objects.keys().copied().collect();
    world.roots = all.iter().copied().step_by(2).collect();
    all.iter().for_each(|&start| world.write(start, 0, 0));
    world.collect(&mut marker);
    let used = world.central.used();
    world.step(&mut marker);
    let first = world.allocate(world.words, 48).unwrap();
    assert_eq!(world.central.used(), used + 1, "not in a hole");
    // Reached from an old object only.
    world.write(all[0], 1, first);
    let freed = world.allocate(world.words, 48).unwrap();
    world.free(freed);
    world.free(all[2]);
    world.step(&mut marker);
    world.collect(&mut marker);
    assert!(world.objects.contains_key(&first));
    let before = world.central.used();
    world.allocate(world.words, 48).unwrap();
    assert_eq!(world.central.used(), before, "in a hole");
}

/// In a collection of young objects, each step scans one window of written superpages, and what is
/// armed is not armed again.
#[test]
fn what_was_written_to_is_looked_into_a_window_at_a_time() {
    let Some(mut world) = tracked(lists(0, 0)) else {
        return;
    };
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.list(1_600, 2_000);
    world.young = true;
    world.collect(&mut marker);
    // The third of four neighbouring superpages in the fourth window is not written to, the others are.
    let old: Vec<usize> = world.objects.keys().copied().collect();
    let superpage = |at: usize| old[8 * (196 + at) + 4];
    let before = world.allocate(world.words, 48).unwrap();
    world.write(superpage(0), 3, before);
    world.write(superpage(1), 3, 0);
    world.write(superpage(3), 3, 0);
    let after = world.allocate(world.words, 48).unwrap();
    marker.take_marking();
    world.step(&mut marker);
    assert_eq!(marker.marked(), 0, "another window");
    world.write(superpage(2), 3, after);
    for _ in 0..8 {
        world.step(&mut marker);
    }
    assert_eq!(marker.marked(), 1, "what was written before the first step");
    let swept = world.collect(&mut marker);
    assert_eq!(swept.objects, 1_602);
}

#[test]
fn one_that_is_given_up_leaves_nothing_behind() {
    let Some(mut world) = tracked(lists(4, 3_000)) else {
        return;
    };
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    for _ in 0..3 {
        world.step(&mut marker);
        world.step(&mut marker);
        world.roots.pop();
        world.list(1000, 64);
        world.give_up();
        // This compares with the model: nothing marked earlier is kept.
        world.collect(&mut marker);
    }
}

#[test]
fn large_objects_are_looked_into_again_by_the_parts_that_were_written_to() {
    let Some(mut world) = tracked(lists(1, 100)) else {
        return;
    };
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    let large = world.allocate(world.words, 100 * SUPERPAGE).unwrap();
    world.roots.push(large);
    world.collect(&mut marker);
    for _ in 0..10 {
        world.step(&mut marker);
    }
    let new = world.allocate(world.words, 48).unwrap();
    world.write(large, 70 * SUPERPAGE / 8, new);
    let freed = world.allocate(world.words, 20 * SUPERPAGE).unwrap();
    world.free(freed);
    world.collect(&mut marker);
    assert_eq!(world.objects.len(), 102);
}

#[test]
fn mark_workers_take_steps_together_and_give_them_up() {
    let Some(mut world) = tracked(lists(40, 2_000)) else {
        return;
    };
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    let swept = world.collect(&mut marker);
    let roots = world.roots.clone();
    with_workers(world.heap, |workers| {
        for round in 0..20 {
            // Collections of young objects and whole ones; every second one is given up.
            let (young, given_up) = (round % 3 == 2, round % 2 == 1);
            let what = |young| Look {
                young,
                ..Look::default()
            };
            let from = |marker: &mut Marker<'_>| {
                roots.iter().for_each(|&root| marker.word(root));
            };
            let emptied = Pause::begin(world.heap).empty(|_| {});
            let looked = emptied.look(&mut world.central, what(young));
            let Ok(mut step) = looked.in_steps(&mut world.central, &marker) else {
                panic!("{round} is not made in steps");
            };
            let (mut done, mut count) = (false, 0);
            while !(done || given_up && count == 6) {
                let now = Instant::now();
                done = step.mark(&world.central, &mut marker, Some(workers), now, from);
                step = Pause::begin(world.heap).go_on(&world.central, false);
                count += 1;
            }
            drop(step);
            let emptied = Pause::begin(world.heap).empty(|_| {});
            if given_up {
                emptied.give_up(&world.central, &mut marker, Some(workers));
            } else {
                assert!(done);
            }
            let looked = emptied.look(&mut world.central, what(young && !given_up));
            let cleared = looked.at_once(&mut world.central);
            let marked = cleared.mark(&world.central, &mut marker, Some(workers), from);
            let tail = Tail::default();
            let (found, _) = marked.finish(&mut world.central, &mut marker, tail);
            assert_eq!(found, swept, "{round}");
        }
    });
}
