//! Machines that do not become smaller than they were at first.

use super::*;

/// Serial as it is when it is adopted: its first size is far above what it may use.
fn large_at_first(live: u64, first: u64) -> (Control, Model) {
    let levers = levers(SizedBy::OldRatios { new_ratio: 2 }, false);
    let mut model = Model::new(levers.clone(), live * MIB);
    model.first = first * MIB;
    model.seen.heap.old.capacity = Bytes::mib(first);
    model.seen.heap.young.capacity = Bytes(first * MIB / 2);
    (Control::new(levers, 0.05), model)
}

#[test]
fn a_heap_ten_times_above_its_limit_that_cannot_shrink_is_collected_once() {
    let (mut control, mut model) = large_at_first(20, 2000);
    for limit in [100, 90, 80, 100, 70, 60] {
        model.run(&mut control, limit * MIB, 20);
    }
    assert_eq!(model.forced, 1, "a lower limit does not make it smaller");
    assert_eq!(model.seen.heap.old.capacity, Bytes::mib(2000));
}

#[test]
fn what_changes_the_size_or_what_lives_lets_it_try_again() {
    let (mut control, mut model) = large_at_first(60, 2000);
    model.run(&mut control, 100 * MIB, 20);
    assert_eq!(model.forced, 1);
    // A collection of the program's own shows that less lives.
    model.live = 20 * MIB;
    model.seen.heap.old.used = Bytes(model.live);
    model.seen.heap.work[1].invocations += 1;
    model.run(&mut control, 100 * MIB, 20);
    assert_eq!(model.forced, 2);
    // The heap grew beyond its first size, and can shrink to it again.
    model.seen.heap.old.capacity = Bytes::mib(3000);
    model.seen.heap.young.capacity = Bytes::mib(1500);
    model.run(&mut control, 100 * MIB, 20);
    assert!((3..=4).contains(&model.forced), "{}", model.forced);
    assert_eq!(model.seen.heap.old.capacity, Bytes::mib(2000));
}

#[test]
fn a_heap_that_cannot_shrink_still_grows_with_its_limit() {
    let (mut control, mut model) = large_at_first(100, 300);
    model.run(&mut control, 200 * MIB, 20);
    assert_eq!(model.seen.heap.old.capacity, Bytes::mib(300));
    model.run(&mut control, 1000 * MIB, 10);
    let uses = model.uses() / MIB;
    assert!((875..=1000).contains(&uses), "{uses}");
}

#[test]
fn more_live_bytes_than_expected_are_no_refusal() {
    let (mut control, mut model) = large_at_first(100, 0);
    model.seen.heap.old.capacity = Bytes::mib(600);
    model.seen.heap.young.capacity = Bytes::mib(300);
    // The first collection finds that more lives, so that its ratio asks for no less than there is.
    model.live = 300 * MIB;
    model.run(&mut control, 450 * MIB, 10);
    assert!(model.seen.heap.old.capacity < Bytes::mib(400));
}
