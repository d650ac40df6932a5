//! Which deviations the controller corrects after a resizing, and which it leaves alone.

use super::*;

fn g1(live: u64) -> (Control, Model) {
    let levers = levers(SizedBy::HeapRatios, false);
    (
        Control::new(levers.clone(), 0.05),
        Model::new(levers, live * MIB),
    )
}

#[test]
fn a_heap_that_is_not_all_touched_may_be_larger() {
    let (mut control, mut model) = g1(100);
    model.touched = 90;
    model.run(&mut control, 1350 * MIB, 10);
    let uses = model.uses() / MIB;
    assert!((1300..1350).contains(&uses), "{uses}");
    let forced = model.forced;
    model.run(&mut control, 1350 * MIB, 60);
    assert_eq!(model.forced, forced, "it is collected although it fits");
}

#[test]
fn what_is_committed_but_never_touched_is_not_shrunk() {
    let (mut control, mut model) = g1(100);
    model.run(&mut control, 1000 * MIB, 10);
    // More than the limit is committed, but less is in use.
    model.touched = 60;
    model.seen.heap.old.capacity = Bytes::mib(1500);
    model.run(&mut control, 1000 * MIB, 1);
    let (forced, size) = (model.forced, model.seen.heap.old.capacity);
    model.run(&mut control, 1000 * MIB, 30);
    assert!(model.seen.heap.old.capacity >= size && model.forced <= forced + 2);
}

#[test]
fn tables_of_a_heap_that_was_larger_are_measured_before_the_aim_is_raised() {
    let (mut control, mut model) = g1(100);
    model.run(&mut control, 1500 * MIB, 5);
    // The collector's tables were measured while the heap was large, and shrank with it.
    model.seen.native = Bytes::mib(90);
    model.run(&mut control, 300 * MIB, 10);
    assert_eq!(model.seen.native, Bytes(model.native));
    let uses = model.uses() / MIB;
    assert!((270..=300).contains(&uses), "{uses}");
}

#[test]
fn a_program_that_is_stopped_for_what_it_was_asked_does_not_rest() {
    let (mut control, mut model) = g1(100);
    let mut step = |asked: u64, worked: u64| {
        for _ in 0..30 {
            model.seen.now += Nanos::millis(100);
            model.seen.asked += Nanos::millis(asked);
            model.seen.processor += Nanos::millis(worked);
            model.seen.limit = Bytes::mib(500);
            model.seen.heap.work[0].invocations += 1;
            for action in control.tick(&model.seen) {
                model.act(action);
            }
        }
        control.rests()
    };
    assert!(!step(0, 100));
    // The adapter may take a hundredth of the time. Here it uses half of that.
    assert!(!step(99, 1));
    assert!(step(0, 0));
}

#[test]
fn memory_that_is_returned_late_does_not_keep_it_small() {
    let (mut control, mut model) = g1(100);
    model.run(&mut control, 1400 * MIB, 5);
    // The heap is smaller at once, but its memory is returned only two seconds later.
    model.native = 900 * MIB;
    model.run(&mut control, 300 * MIB, 2);
    (model.native, model.seen.native) = (30 * MIB, Bytes::mib(30));
    model.run(&mut control, 300 * MIB, 10);
    let uses = model.uses() / MIB;
    assert!((270..=300).contains(&uses), "{uses}");
}

#[test]
fn a_limit_that_it_cannot_keep_to_teaches_nothing_of_a_larger_one() {
    let levers = levers(SizedBy::OldRatios { new_ratio: 1 }, false);
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 100 * MIB);
    model.run(&mut control, 400 * MIB, 5);
    model.run(&mut control, 180 * MIB, 20);
    let uses = model.uses() / MIB;
    assert!(uses > 200, "{uses}");
    model.run(&mut control, 560 * MIB, 1);
    let uses = model.uses() / MIB;
    assert!((510..=560).contains(&uses), "{uses}");
}

#[test]
fn a_heap_that_the_machine_enlarges_is_made_small_at_once_although_that_did_not_help_before() {
    let (mut control, mut model) = g1(100);
    model.run(&mut control, 1000 * MIB, 5);
    // Native memory that no collection frees: it is asked less and less often.
    (model.native, model.seen.native) = (400 * MIB, Bytes::mib(400));
    model.run(&mut control, 300 * MIB, 120);
    let before = model.forced;
    model.run(&mut control, 300 * MIB, 10);
    assert!(model.forced < before + 6, "{}", model.forced - before);
    (model.native, model.seen.native) = (30 * MIB, Bytes::mib(30));
    model.run(&mut control, 300 * MIB, 1);
    for _ in 0..3 {
        let old = &mut model.seen.heap.old;
        old.capacity = old.capacity * 3;
        model.run(&mut control, 300 * MIB, 1);
        let uses = model.uses() / MIB;
        assert!(uses <= 310, "{uses}");
    }
}

#[test]
fn a_g1_with_an_agent_is_sized_so_that_it_can_creep() {
    let sized = |empties: bool| {
        let (mut control, mut model) = g1(400);
        model.seen.empties = empties;
        model.run(&mut control, 1200 * MIB, 10);
        model.uses() / MIB
    };
    assert!(
        sized(true) + 10 <= sized(false),
        "{} {}",
        sized(true),
        sized(false)
    );
    assert!(sized(true) >= 1150, "{}", sized(true));
}

/// The agent gives back at each collection, so the use stays at the limit while the heap grows.
#[test]
fn a_g1_with_an_agent_that_grows_beyond_its_limit_is_made_small_again() {
    let (mut control, mut model) = g1(400);
    model.seen.empties = true;
    model.run(&mut control, 1200 * MIB, 10);
    let (forced, made) = (model.forced, model.seen.heap.old.capacity);
    model.seen.heap.old.capacity = Bytes::mib(1220);
    model.touched = (1200 - 30) * 100 / 1220;
    model.run(&mut control, 1200 * MIB, 1);
    assert!(model.uses() <= 1200 * MIB);
    assert!(
        model.seen.heap.old.capacity <= made,
        "{}",
        model.seen.heap.old.capacity / MIB
    );
    assert!(
        model.forced <= forced + 2,
        "{} collections",
        model.forced - forced
    );
}
