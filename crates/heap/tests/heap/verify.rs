//! The verifier: it must find lost objects, and report nothing else.

use crate::swap::{full, world};
use crate::world::World;
use plimsoll_heap::Difference;
use plimsoll_heap::collection::Marked;
use plimsoll_heap::mark::{Marker, NoTracer};

/// The verifier finds what summaries keep too long, and what a wrong summary would lose.
#[test]
fn the_verifier_compares_with_a_marking_without_summaries() {
    let (mut world, pages, range) = full(3);
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    pages.evict(range);
    world.mark(&mut marker);
    // An object in the middle of a list is dropped by an object that is not read.
    let second = world.roots.remove(1);
    let marked = world.reach(&mut marker);
    let roots = world.roots.clone();
    let found = verify(&marked, &mut world, &mut marker, &roots);
    assert_eq!(found.lost, None);
    assert!(found.kept <= 2000, "no more than that list: {found:?}");
    let found = verify(&marked, &mut world, &mut marker, &[roots[0], second]);
    assert_eq!(
        found.lost, None,
        "no object of the first marking refers to the second list"
    );
    assert!(found.kept >= 1900, "{found:?}");
}

/// Marks again from these roots and without summaries, and compares.
fn verify(
    marked: &Marked<'_>,
    world: &mut World,
    marker: &mut Marker<'_>,
    roots: &[usize],
) -> Difference {
    let from = |marker: &mut Marker<'_>| roots.iter().for_each(|&root| marker.word(root));
    let found = marked.verify(&mut world.central, marker, None, from);
    found.unwrap()
}

/// A summary is valid until its superpage is written to, and the superpage may come back from swap
/// for a while. An object that was dead when the summary was made may then be marked by a chance
/// reference: it is scanned while its superpage is in memory, but not when that is gone again. That
/// is no loss, because nobody uses the object. But a reference that a summary should have and does
/// not is a loss.
#[test]
fn the_verifier_knows_what_a_summary_speaks_of() {
    let (mut world, pages) = world();
    let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
    world.heap.stress(1);
    // Two lists. Some objects between those of the one refer to some between those of the other.
    let (mut firsts, mut between) = ([0; 2], Vec::new());
    for _ in 0..2000 {
        let next = firsts;
        firsts = [64, 112].map(|bytes| world.allocate(world.words, bytes).unwrap());
        let [one, other] = [64, 112].map(|bytes| world.allocate(world.words, bytes).unwrap());
        world.write(firsts[0], 0, next[0]);
        world.write(firsts[1], 0, next[1]);
        world.write(one, 0, other);
        between.push(one);
    }
    world.roots = [&firsts[..], &between].concat();
    world.page_out = usize::MAX;
    world.collect_unchecked(&mut marker);
    world.roots = firsts.to_vec();
    for _ in 0..3 {
        world.collect_unchecked(&mut marker);
    }
    assert!(world.heap.summary_bytes() > 0);
    let all: Vec<usize> = world.objects.keys().copied().collect();
    for start in all {
        std::hint::black_box(world.read(start, 1));
    }
    world.roots = [&firsts[..], &between].concat();
    world.page_out = 0;
    world.collect_unchecked(&mut marker);
    pages.evict(world.heap.range());
    let marked = world.reach(&mut marker);
    assert!(world.residency.summarised > 10, "{:?}", world.residency);
    let roots = world.roots.clone();
    let found = verify(&marked, &mut world, &mut marker, &roots);
    assert_eq!(found.lost, None);
    drop(marked);

    let lost = world.allocate(world.words, 200).unwrap();
    world.mark(&mut marker);
    pages.write_unseen(firsts[0] + 16, lost);
    pages.evict(world.heap.range());
    let marked = world.reach(&mut marker);
    let found = verify(&marked, &mut world, &mut marker, &firsts);
    assert_eq!(found.lost, Some(lost));
}
