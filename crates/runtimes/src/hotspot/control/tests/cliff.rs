//! Where nothing can be paged out: what is kept free.

use super::*;

const SPARE: Bytes = Bytes::mib(160);

/// ZGC in a machine or group without swap, with 100 MiB alive.
fn on_a_cliff() -> (Control, Model) {
    let levers = levers(SizedBy::SoftMax, true);
    let mut model = Model::new(levers.clone(), 100 * MIB);
    (model.seen.spare, model.seen.ample) = (SPARE, SPARE);
    model.seen.kept = Bytes::mib(60);
    (Control::new(levers, 0.05), model)
}

#[test]
fn a_heap_grows_up_to_what_is_kept_free() {
    let (mut control, mut model) = on_a_cliff();
    // Not all that is committed is resident. That is corrected, but not for what is kept free.
    model.touched = 80;
    for limit in [600, 1000, 2200] {
        model.run(&mut control, limit * MIB, 60);
        let (uses, intended) = (model.uses() / MIB, limit - 160);
        assert!(
            (intended - limit / 8..=intended + limit / 40).contains(&uses),
            "{uses} MiB of {limit}"
        );
    }
}

#[test]
fn native_memory_is_trimmed_when_an_excess_is_near() {
    let (mut control, mut model) = on_a_cliff();
    let mut trims = |uses: u64, ample: Bytes| {
        model.seen.ample = ample;
        let mut trims = 0;
        for _ in 0..90 {
            model.seen.now += Nanos::millis(100);
            (model.seen.limit, model.seen.uses) = (Bytes::mib(500), Bytes::mib(uses));
            for action in control.tick(&model.seen) {
                trims += u64::from(action == Action::TrimNative);
                model.act(action);
            }
        }
        trims
    };
    // An excess is far; would be paged out; is near and would end the program.
    assert_eq!(
        (
            trims(400, SPARE),
            trims(490, Bytes::ZERO),
            trims(490, SPARE)
        ),
        (0, 0, 1)
    );
}

#[test]
fn memory_of_a_heap_that_is_not_filled_yet_is_not_given_to_it_twice() {
    let levers = levers(SizedBy::HeapRatios, false);
    let mut model = Model::new(levers.clone(), 40 * MIB);
    let mut control = Control::new(levers, 0.05);
    // A quarter of the heap was never touched.
    (model.touched, model.seen.spare) = (75, Bytes::mib(100));
    model.run(&mut control, 462 * MIB, 60);
    let whole = model.seen.heap.committed() + Bytes(model.native);
    assert!(whole <= Bytes((362 + 4) * MIB), "{} MiB", whole / MIB);
}
