//! Where nothing can be paged out: what is kept free, and how a heap grows below it.

use super::*;

const SPARE: u64 = 160 * MIB;

/// In a machine or group of 1000 MiB, with 100 MiB alive.
fn on_a_cliff(sized_by: SizedBy) -> (Control, Model) {
    let levers = levers(sized_by, sized_by == SizedBy::SoftMax);
    let mut model = Model::new(levers.clone(), 100 * MIB);
    (model.seen.spare, model.seen.ample) = (SPARE, SPARE);
    model.seen.capacity = 1000 * MIB;
    model.seen.kept = 60 * MIB;
    (Control::new(levers, 0.05), model)
}

const ALL: [SizedBy; 3] = [
    SizedBy::HeapRatios,
    SizedBy::OldRatios { new_ratio: 1 },
    SizedBy::SoftMax,
];

#[test]
fn a_heap_takes_the_last_memory_slowly_and_never_what_is_kept_free() {
    for sized_by in ALL {
        let (mut control, mut model) = on_a_cliff(sized_by);
        // Not all that is committed is resident. That is corrected, but not for what is kept free.
        model.touched = 80;
        let mut now = 0;
        // At first an eighth more than 250 MiB beside the native part, then twice that, then all.
        for (second, least, most) in [(39, 230, 311), (80, 480, 592), (300, 700, 840)] {
            model.run(&mut control, 1000 * MIB, second - now);
            now = second;
            let (uses, slack) = (model.uses() / MIB, 1000 / 40);
            assert!(
                (least..=most + slack).contains(&uses),
                "{sized_by:?} at {second} s: {uses} MiB"
            );
        }
        assert!(model.forced < 20, "{sized_by:?}: {}", model.forced);
    }
}

/// The limit is small, or large, in a machine that has much more.
#[test]
fn where_memory_is_plenty_a_heap_follows_its_limit_within_seconds() {
    for sized_by in ALL {
        let (mut control, mut model) = on_a_cliff(sized_by);
        model.seen.capacity = 24 * 1024 * MIB;
        for limit in [600, 2200] {
            model.run(&mut control, limit * MIB, 8);
            let (uses, intended) = (model.uses() / MIB, limit - 160);
            assert!(
                (intended - limit / 8..=intended + limit / 40).contains(&uses),
                "{sized_by:?}: {uses} MiB of {limit}"
            );
        }
    }
}

#[test]
fn a_heap_is_not_collected_while_what_is_kept_free_is_free() {
    let (mut control, mut model) = on_a_cliff(SizedBy::HeapRatios);
    model.run(&mut control, 1000 * MIB, 10);
    let forced = model.forced;
    // The machine enlarges its heap by itself.
    model.seen.heap.old.capacity = 400 * MIB;
    model.run(&mut control, 1000 * MIB, 10);
    assert_eq!(model.forced, forced);
    model.run(&mut control, 500 * MIB, 10);
    assert!(model.uses() + SPARE <= 500 * MIB, "{}", model.uses() / MIB);
}

#[test]
fn shenandoah_is_not_nudged_while_what_is_kept_free_is_free() {
    let mut levers = levers(SizedBy::SoftMax, true);
    levers.returns_on_change = true;
    let (_, mut model) = on_a_cliff(SizedBy::SoftMax);
    let mut control = Control::new(levers, 0.05);
    model.run(&mut control, 1000 * MIB, 5);
    model.deaf = true;
    // It has committed 500 MiB, more than it is meant to.
    model.seen.heap.old.capacity = 500 * MIB;
    let mut settings = |uses: u64| {
        let mut settings = 0;
        for _ in 0..20 {
            model.seen.now_ns += 100_000_000;
            model.seen.uses = uses * MIB;
            let actions = control.tick(&model.seen);
            let sets = |action: &&Action| matches!(action, Action::Set("SoftMaxHeapSize", _));
            settings += actions.iter().filter(sets).count();
        }
        settings
    };
    assert_eq!(settings(530), 0);
    assert!(settings(850) >= 5, "less than the reserve is free");
}

#[test]
fn what_is_kept_free_is_asked_for_up_to_a_quarter_while_a_surprise_stays_outside() {
    let demand = |max: u64, spare: u64, late: u64| {
        let levers = levers(SizedBy::HeapRatios, false);
        let (_, mut model) = on_a_cliff(SizedBy::HeapRatios);
        model.seen.heap.old.max = max * MIB;
        model.seen.spare = spare * MIB;
        model.seen.ample = (spare + late) * MIB;
        let mut watch = Watch::default();
        watch.look(&model.seen, &levers);
        watch.facts(&model.seen, &levers).demand / MIB
    };
    // 30 MiB are native.
    assert_eq!(demand(720, 0, 0), 750);
    assert_eq!(demand(720, 160, 0), 840, "of 1000");
    assert_eq!(demand(720, 160, 1), 910, "it is in the larger reserve");
    assert_eq!(
        demand(120, 160, 0),
        200,
        "a small program has small reserves"
    );
}

#[test]
fn native_memory_is_trimmed_when_an_excess_is_near() {
    for sized_by in [SizedBy::OldOnly, SizedBy::SoftMax, SizedBy::HeapRatios] {
        let (mut control, mut model) = on_a_cliff(sized_by);
        let mut trims = |uses: u64, kept: u64| {
            model.seen.kept = kept * MIB;
            let mut trims = 0;
            for _ in 0..90 {
                model.seen.now_ns += 100_000_000;
                (model.seen.limit, model.seen.uses) = (500 * MIB, uses * MIB);
                for action in control.tick(&model.seen) {
                    trims += u64::from(action == Action::TrimNative);
                    model.act(action);
                }
            }
            trims
        };
        // An excess is far; would be paged out; is near and would end the program.
        assert_eq!(
            (trims(400, 60), trims(490, 0), trims(490, 60)),
            (0, 0, 1),
            "{sized_by:?}"
        );
    }
}
