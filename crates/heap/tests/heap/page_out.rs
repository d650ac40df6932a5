//! Paging out by the heap itself.

use crate::swap::{full, random_graph, world};
use plimsoll_heap::mark::{Marker, NoTracer};
use std::sync::atomic::Ordering::SeqCst;

/// Each superpage is paged out only once, and its summary stands for it afterwards.
#[test]
fn what_is_paged_out_is_so_once() {
    let (mut world, pages) = world();
    random_graph(&mut world);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.page_out = 1;
    for _ in 0..3 {
        world.collect_unchecked(&mut marker);
    }
    marker.take_marking();
    let counted = world.mark(&mut marker).count(&mut world.central, false);
    let expected = marker.take_marking();
    let before = pages.given.load(SeqCst);
    let mut page_out = |most| counted.page_out(&world.central, &mut marker, most);
    assert_eq!(page_out(0), 0);
    assert_eq!(page_out(20), 20);
    let rest = page_out(usize::MAX);
    assert!(rest > 5, "{rest}");
    assert_eq!(page_out(100), 0);
    counted.end(&world.central);
    assert_eq!(pages.given.load(SeqCst) - before, 20 + rest);
    world.mark(&mut marker);
    let found = marker.take_marking();
    assert!(found.objects >= expected.objects, "{found:?}, {expected:?}");
    assert!(found.replayed > 20, "{found:?}");
    assert_eq!(found.read, 0);
    assert_eq!(pages.faults.load(SeqCst), 0);
    world.complete = true;
    world.collect(&mut marker);
}

/// Superpages that the heap pages out before the kernel evicts them are summarised first, so no collection
/// reads them.
#[test]
fn what_nobody_wrote_to_is_paged_out_and_not_read() {
    let (mut world, pages, range) = full(10);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.page_out = 100;
    let (swept, paged_out) = world.collect_unchecked(&mut marker);
    assert_eq!(paged_out, 0, "nobody knows yet what is written to");
    let written = world.roots[9];
    world.write(written, 3, 0);
    let (_, paged_out) = world.collect_unchecked(&mut marker);
    assert_eq!(paged_out, 100);
    assert_eq!(pages.absent(range.clone()), 100);
    marker.take_marking();
    world.page_out = usize::MAX;
    let (again, paged_out) = world.collect_unchecked(&mut marker);
    let marking = marker.take_marking();
    assert_eq!((marking.read, marking.replayed), (0, 100), "{marking:?}");
    assert_eq!(
        (again.objects, pages.faults.load(SeqCst)),
        (swept.objects, 0)
    );
    assert_eq!(world.residency.evicted, 0, "nothing went by itself");
    // Superpages with holes go, too, because nobody filled the holes.
    let left = world.central.used() - pages.absent(range);
    assert!(
        paged_out > 10 && left == 0,
        "{paged_out} paged out, {left} left"
    );
    world.collect(&mut marker);
}

#[test]
fn what_comes_back_is_held_for_a_while() {
    let (mut world, pages, range) = full(4);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.page_out = usize::MAX;
    world.collect_unchecked(&mut marker);
    let (_, first) = world.collect_unchecked(&mut marker);
    assert!(first > 40, "{first}");
    let read: Vec<usize> = world.objects.keys().copied().collect();
    for &start in &read {
        std::hint::black_box(world.read(start, 1));
    }
    assert_eq!(pages.absent(range), 0);
    let mut paged_out = Vec::new();
    for _ in 0..12 {
        // It is held for a number of whole collections; collections of young objects do not count.
        world.young = true;
        assert_eq!(world.collect_unchecked(&mut marker).1, 0);
        world.young = false;
        paged_out.push(world.collect_unchecked(&mut marker).1);
    }
    assert_eq!(world.residency.returned, 0);
    assert!(
        paged_out[..7].iter().all(|&paged_out| paged_out == 0),
        "{paged_out:?}"
    );
    assert_eq!(paged_out.iter().sum::<usize>(), first, "{paged_out:?}");
}

#[test]
fn collections_of_young_objects_make_nothing_older() {
    let (mut world, _pages, _) = full(4);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.page_out = usize::MAX;
    world.collect_unchecked(&mut marker);
    world.young = true;
    for _ in 0..5 {
        assert_eq!(world.collect_unchecked(&mut marker).1, 0);
    }
    world.young = false;
    let (_, paged_out) = world.collect_unchecked(&mut marker);
    assert!(paged_out > 40, "{paged_out}");
}
