//! A precise front end with a nursery beside the heap: objects move while the heap is marked, and each slot
//! that refers to one then refers to the copy, wherever the slot is.

mod program;
mod space;

use crate::kernel::{Fake, Pages};
use crate::swap::Ends;
use plimsoll_heap::collection::Pause;
use plimsoll_heap::mark::{MarkWorkers, Marker};
use plimsoll_heap::{Look, SUPERPAGE};
use plimsoll_unit::index::MIB;
use program::{Program, SLOTS};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

const WHOLE: Look = Look {
    complete: false,
    young: false,
};
const YOUNG: Look = Look {
    complete: false,
    young: true,
};

fn program() -> (Program, Arc<Pages>) {
    let (fake, pages) = Fake::new(64 * MIB);
    (Program::over(Box::new(fake), 64 * MIB), pages)
}

/// Evicts parts of the heap, according to a bit pattern.
fn evict(program: &Program, pages: &Pages, pattern: u64) {
    let starts = program.heap.range().step_by(SUPERPAGE);
    for (at, start) in starts.enumerate() {
        if pattern >> (at % 64) & 1 != 0 {
            pages.evict(start..start + SUPERPAGE);
        }
    }
}

#[test]
fn slots_follow_an_object_through_the_nursery_into_the_heap() {
    let (mut program, _) = program();
    let mut marker = program.marker(1 << 12);
    for at in 0..10 {
        program.make(at);
        program.link(at, 0, at.saturating_sub(1));
        program.link(at, 1, 0);
    }
    let mut places = vec![program.word(9)];
    for _ in 0..4 {
        program.collect(&mut marker, WHOLE);
        places.push(program.word(9));
    }
    let in_heap: Vec<bool> = places.iter().map(|&at| program.is_in_heap(at)).collect();
    assert_eq!(in_heap, [false, false, true, true, true]);
    assert_ne!(places[0], places[1], "it moved within the nursery");
    assert_eq!(places[2], places[4], "it stays in the heap");
}

#[test]
fn what_an_ambiguous_word_points_into_stays_and_all_that_it_refers_to_lives() {
    let (mut program, _) = program();
    let mut marker = program.marker(1 << 12);
    program.make(0);
    program.make(1);
    program.link(0, 0, 1);
    program.link(1, 0, 0);
    program.pin(0);
    let before = program.word(0);
    program.clear(1);
    for look in [WHOLE, YOUNG, WHOLE, YOUNG, YOUNG] {
        program.collect(&mut marker, look);
        assert_eq!(program.word(0), before);
    }
    program.unpin();
    program.collect(&mut marker, YOUNG);
    assert_ne!(program.word(0), before);
}

/// The superpage of an array in the heap, which has a summary, then a reference into the nursery, and then
/// none again.
#[test]
fn a_summary_never_stands_for_a_reference_into_the_nursery() {
    let (mut program, pages) = program();
    let mut marker = program.marker(1 << 12);
    let slot = SLOTS;
    program.make(slot);
    for _ in 0..3 {
        program.collect(&mut marker, WHOLE);
    }
    assert!(program.is_in_heap(program.word(slot)));
    // Superpages that were read, those without a summary, and faults.
    let cost = |program: &mut Program, marker: &mut Marker<'static, _>| {
        evict(program, &pages, u64::MAX);
        pages.faults.store(0, SeqCst);
        marker.take_marking();
        program.mark(marker, WHOLE);
        let marking = marker.take_marking();
        let faults = pages.faults.load(SeqCst);
        program.check();
        (marking.read, marking.unsummarised, faults)
    };
    let (read, unsummarised, faults) = cost(&mut program, &mut marker);
    assert!(read > 0 && (unsummarised, faults) == (0, 0), "summarised");
    evict(&program, &pages, u64::MAX);
    program.mark(&mut marker, WHOLE);
    assert_eq!(marker.take_marking().read, 0, "the summaries stand for all");
    program.make(slot);
    program.pin(slot);
    for _ in 0..3 {
        assert_eq!(cost(&mut program, &mut marker), (1, 1, 0), "one is read");
    }
    program.unpin();
    assert_eq!(cost(&mut program, &mut marker), (1, 1, 0), "it moved there");
    assert!(!program.is_in_heap(program.word(slot)));
    let (_, unsummarised, _) = cost(&mut program, &mut marker);
    assert_eq!(unsummarised, 0, "it moved into the heap");
    assert!(program.is_in_heap(program.word(slot)));
}

/// Between two collections of young objects nobody writes to the slot, but its object moves.
#[test]
fn a_collection_of_young_objects_scans_what_refers_to_the_nursery() {
    let (mut program, pages) = program();
    let mut marker = program.marker(1 << 12);
    for at in [SLOTS, SLOTS + 1, SLOTS + 2] {
        program.make(at);
    }
    program.pin(SLOTS + 1);
    program.collect(&mut marker, YOUNG);
    program.make(SLOTS + 2);
    for round in 0..5 {
        if round == 3 {
            program.unpin();
            evict(&program, &pages, u64::MAX);
        }
        program.collect(&mut marker, YOUNG);
    }
    assert!((SLOTS..SLOTS + 3).all(|at| program.is_in_heap(program.word(at))));
}

#[test]
fn markers_agree_on_where_an_object_is() {
    let (mut program, pages) = program();
    let mut marker = program.marker(100);
    for round in 0..6 {
        // Many short lists, each from a slot of its own.
        for _ in 0..20 {
            for at in 0..program.slots() {
                program.push(at);
            }
        }
        evict(&program, &pages, 0x1111_1111_1111_1111 * (round % 3));
        let (heap, nursery) = (program.heap, program.nursery);
        let workers = MarkWorkers::new(heap).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut marker = Program::marker_of(heap, nursery, 100);
                    while workers.help(&mut marker) {}
                });
            }
            let look = if round % 2 == 0 { WHOLE } else { YOUNG };
            program.collect_with(&mut marker, Some(&workers), look);
            workers.end();
        });
    }
}

/// References from superpages in swap, which had summaries, too.
#[test]
fn objects_of_the_heap_move_in_a_collection_that_trusts_no_summary() {
    let (mut program, pages) = program();
    let mut marker = program.marker(1 << 12);
    for _ in 0..50 {
        (0..program.slots()).for_each(|at| program.push(at));
    }
    (0..3).for_each(|_| program.collect(&mut marker, WHOLE));
    program.pin(3);
    for slot in 0..program.slots() {
        for _ in 0..2 {
            evict(&program, &pages, u64::MAX);
            program.mark(&mut marker, WHOLE);
        }
        let (before, pinned) = (program.word(slot), program.word(3));
        evict(&program, &pages, u64::MAX);
        program.compact(&mut marker, slot);
        assert_eq!(program.word(3), pinned);
        assert_eq!(program.word(slot) == before, before == pinned);
    }
}

#[test]
fn the_references_of_a_dead_object_that_is_kept_are_replaced() {
    let (mut program, pages) = program();
    let mut marker = program.marker(1 << 12);
    program.make(0);
    (0..2).for_each(|_| program.collect(&mut marker, WHOLE));
    let object = program.word(0);
    assert!(program.is_in_heap(object));
    program.make(1);
    program.link(0, 1, 1);
    let before = program.word(1);
    program.clear(0);
    program.clear(1);
    evict(&program, &pages, u64::MAX);
    program.keep(&mut marker, object);
    program.put(0, object);
    program.load(0, 1, 1);
    assert_ne!(program.word(1), before, "it moved");
    program.collect(&mut marker, WHOLE);
}

#[test]
fn objects_that_move_are_never_collected_in_steps() {
    let (mut program, _) = program();
    let marker = program.marker(100);
    let emptied = Pause::begin(program.heap).empty(|_| {});
    let looked = emptied.look(&mut program.central, WHOLE);
    assert!(looked.in_steps(&mut program.central, &marker).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Make(usize),
    Link(usize, usize, usize),
    Load(usize, usize, usize),
    Clear(usize),
    Pin(usize),
    Unpin,
    Evict(u64, u64),
    Collect(u8),
    Compact(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let slot = || any::<usize>();
    prop_oneof![
        12 => slot().prop_map(Step::Make),
        12 => (slot(), 0usize..2, slot()).prop_map(|(from, at, to)| Step::Link(from, at, to)),
        4 => (slot(), 0usize..2, slot()).prop_map(|(from, at, to)| Step::Load(from, at, to)),
        3 => slot().prop_map(Step::Clear),
        1 => slot().prop_map(Step::Pin),
        1 => Just(Step::Unpin),
        2 => (any::<u64>(), any::<u64>()).prop_map(|(one, other)| Step::Evict(one, other)),
        3 => (0u8..8).prop_map(Step::Collect),
        1 => slot().prop_map(Step::Compact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_graph_stays_the_same_wherever_its_objects_are(
        steps in proptest::collection::vec(step(), 1..400),
        room in 1usize..40,
    ) {
        let (mut program, pages) = program();
        let _ends = Ends(pages.clone());
        let mut marker = program.marker(room);
        for step in steps {
            let within = |at: usize| at % program.slots();
            match step {
                Step::Make(at) => program.make(within(at)),
                Step::Link(from, at, to) => program.link(within(from), at, within(to)),
                Step::Load(from, at, to) => program.load(within(from), at, within(to)),
                Step::Clear(at) => program.clear(within(at)),
                Step::Pin(at) => program.pin(within(at)),
                Step::Unpin => program.unpin(),
                Step::Evict(one, other) => evict(&program, &pages, one & other),
                Step::Compact(at) if program.is_in_heap(program.word(within(at))) => {
                    program.compact(&mut marker, within(at));
                }
                Step::Compact(_) => {}
                Step::Collect(how) => {
                    let look = Look { complete: how == 7, young: how < 4 };
                    program.collect(&mut marker, look);
                }
            }
        }
        program.collect(&mut marker, WHOLE);
    }
}
