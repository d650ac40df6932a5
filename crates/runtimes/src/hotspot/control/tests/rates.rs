//! How fast a program allocates, and what its collections cost.

use super::*;

#[test]
fn without_generations_the_rate_is_told_from_cycles_and_a_peak_passes() {
    let levers = levers(SizedBy::SoftMax, true);
    let mut watch = Watch::default();
    let mut seen = Model::new(levers.clone(), 100 * MIB).seen;
    (seen.limit, seen.uses) = (Bytes::mib(500), Bytes::mib(600));
    for look in 1..200 {
        seen.now += Nanos::millis(100);
        // Every half second there is a cycle with three pauses.
        if look % 5 == 0 {
            seen.heap.work[2].invocations += 3;
            seen.heap.allocated_last = Bytes(50 * MIB + look);
        }
        if look > 10 {
            seen.uses = Bytes::mib(400);
        }
        watch.look(&seen, &levers);
    }
    let rate = watch.facts(&seen, &levers).allocation_rate.unwrap();
    assert!(rate.abs_diff(100 * MIB) < 5 * MIB, "{rate}");
    assert_eq!(watch.peak.most(), Bytes::mib(400));
}

#[test]
fn a_g1_that_marks_all_the_time_is_measured_all_the_same() {
    let levers = levers(SizedBy::HeapRatios, false);
    let mut watch = Watch::default();
    let mut seen = Model::new(levers.clone(), 100 * MIB).seen;
    seen.heap.old.capacity = Bytes::mib(200);
    seen.heap.allocated_last = Bytes::mib(50);
    let mut told = Vec::new();
    for look in 1..200 {
        seen.now += Nanos::millis(100);
        seen.processor += Nanos::millis(100);
        seen.heap.work[0].invocations += 1;
        seen.heap.work[0].time += Nanos::millis(5);
        // A pause of a cycle in nine looks of ten; now and then we ask for a collection that stops it.
        seen.heap.work[2].invocations += u64::from(look % 10 > 0);
        if look % 40 == 0 {
            seen.heap.work[1].invocations += 1;
            seen.heap.work[1].time += Nanos::millis(500);
            seen.asked += Nanos::millis(510);
            seen.now += Nanos::millis(510);
        }
        watch.look(&seen, &levers);
        let facts = watch.facts(&seen, &levers);
        told.extend(
            facts
                .allocation_rate
                .map(|rate| (rate / MIB, facts.collection_speed / MIB)),
        );
    }
    // 500 MiB/s; 5 ms for 50 MiB with room for 100, as if 100 MiB took 10 ms.
    let settled = &told[100..];
    assert!(
        settled
            .iter()
            .all(|told| (490..=510).contains(&told.0) && (9_000..=11_000).contains(&told.1)),
        "{settled:?}"
    );
}

#[test]
fn collections_of_the_whole_heap_that_the_machine_makes_itself_cost() {
    let levers = levers(SizedBy::OldRatios { new_ratio: 3 }, false);
    let mut watch = Watch::default();
    let mut seen = Model::new(levers.clone(), 100 * MIB).seen;
    seen.heap.allocated_last = Bytes::mib(50);
    for look in 1..200 {
        seen.now += Nanos::millis(100);
        seen.processor += Nanos::millis(100);
        seen.heap.work[0].invocations += 1;
        seen.heap.work[0].time += Nanos::millis(5);
        if look % 10 == 0 {
            seen.heap.work[1].invocations += 1;
            seen.heap.work[1].time += Nanos::millis(100);
        }
        watch.look(&seen, &levers);
    }
    let young = 100 * MIB * 1000 / 16;
    let told = watch.facts(&seen, &levers).collection_speed;
    assert!(told < young / 2, "{} MiB/s", told / MIB);
}
