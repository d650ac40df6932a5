//! Pages of files that principals use.

use super::*;
use proptest::prelude::*;

/// Two programs with 100 MiB of their own and 40 MiB of files each, beside 100 MiB of outsiders.
fn two(counted_files: u64) -> (Bench, [Id; 2]) {
    let mut bench = Bench::new(1000 * MIB);
    bench.outsiders = 100 * MIB;
    bench.counted_files = counted_files;
    let ids = ["one", "two"].map(|name| bench.add(&new(name), 140 * MIB));
    bench.files = ids.map(|id| (id, 40 * MIB)).into();
    (bench, ids)
}

#[test]
fn they_are_in_the_accounts_once() {
    for (counted, used) in [(0, 300), (30, 330), (80, 380)] {
        let (mut bench, _) = two(counted * MIB);
        let before = (bench.outsiders, used * MIB);
        bench.ticks(100, Nanos::millis(50));
        let domain = bench.core.domain(None).expect("it was sensed");
        assert_eq!((domain.outsiders, domain.used), (before.0, 380 * MIB));
        assert_eq!(
            bench.core.root.sensed.used.0, before.1,
            "what the kernel counts"
        );
        assert_eq!(bench.core.root.free(), Bytes::mib(620));
    }
}

#[test]
fn pages_that_the_kernel_counts_were_outsiders() {
    let (mut bench, _) = two(500 * MIB);
    bench.outsiders = 500 * MIB;
    bench.ticks(100, Nanos::millis(50));
    let domain = bench.core.domain(None).expect("it was sensed");
    assert_eq!((domain.outsiders, domain.used), (500 * MIB, 780 * MIB));
}

#[test]
fn a_program_is_told_what_is_left_for_its_own_memory() {
    let (mut bench, ids) = two(80 * MIB);
    bench.ticks(100, Nanos::millis(50));
    let budget = bench.core.domain(None).expect("it was sensed").budget;
    let mut sum = 0;
    for id in ids {
        let figures = bench.core.figures(id).expect("is registered");
        let told = bench.numbers(id);
        assert_eq!((figures.numbers.uses, told.uses), (140 * MIB, 100 * MIB));
        assert_eq!(told.limit, figures.numbers.limit - 40 * MIB);
        assert_eq!(told.available, figures.numbers.available - 40 * MIB);
        assert_eq!(told.share, figures.numbers.share - 40 * MIB);
        sum += figures.numbers.limit;
    }
    assert!(sum <= budget, "{sum} of {budget}");
}

#[test]
fn a_change_is_published_and_is_no_growth() {
    let (mut bench, ids) = two(900 * MIB);
    bench.outsiders = 500 * MIB;
    bench.ticks(100, Nanos::millis(50));
    let before = bench.core.domain(None).expect("it was sensed");
    let limit = bench.numbers(ids[0]).limit;
    for files in [90, 10, 40] {
        bench.files[0].1 = files * MIB;
        bench.uses(ids[0], (100 + files) * MIB);
        // The pages were outsiders' before, and are so again.
        bench.outsiders = (540 - files) * MIB;
        let actions = bench.tick(Nanos::millis(50));
        let published =
            |action: &Action| matches!(action, Action::Publish { id, .. } if *id == ids[0]);
        assert!(actions.iter().any(published), "{files}");
        let domain = bench.core.domain(None).expect("it was sensed");
        assert_eq!(domain.growth, before.growth, "{files}");
        assert_eq!(domain.expected, 0);
        bench.ticks(20, Nanos::millis(50));
    }
    let after = bench.numbers(ids[0]).limit;
    assert!(limit.abs_diff(after) < 20 * MIB, "{limit} {after}");
}

#[test]
fn a_floor_and_a_demand_are_of_own_memory() {
    let mut bench = Bench::new(400 * MIB);
    let ids = ["small", "large"].map(|name| bench.add(&new(name), 20 * MIB));
    bench.uses(ids[0], 200 * MIB);
    bench.files = vec![(ids[0], 100 * MIB)];
    let says = |id, bytes| Report {
        id,
        demand: Some(bytes),
        floor: Some(bytes),
        ..Report::default()
    };
    bench.core.report(&says(ids[0], 100 * MIB)).expect("it may");
    bench.core.report(&says(ids[1], 20 * MIB)).expect("it may");
    bench.ticks(100, Nanos::millis(50));
    let figures = bench.core.figures(ids[0]).expect("is registered");
    assert_eq!(figures.wants.demand, 200 * MIB);
    assert_eq!(figures.numbers.owed, 0);
    assert!(bench.numbers(ids[0]).limit >= 100 * MIB);
}

#[test]
fn a_limit_below_the_part_of_files_is_not_taken_for_none() {
    let mut bench = Bench::new(200 * MIB);
    let ids = ["small", "large"].map(|name| bench.add(&new(name), 150 * MIB));
    bench.counted_files = 300 * MIB;
    bench.files = ids.map(|id| (id, 149 * MIB)).into();
    bench.ticks(100, Nanos::millis(50));
    for id in ids {
        let told = bench.numbers(id);
        assert!(told.limit > 0 && told.uses == MIB, "{told:?}");
        assert!(told.owed <= told.uses, "{told:?}");
    }
}

#[test]
fn users_with_one_limit_share_what_the_kernel_counts() {
    let whole = |used, files| SensedDomain {
        capacity: Bytes::mib(900),
        used: Bytes::mib(used),
        files: Bytes::mib(files),
        cliff: false,
    };
    let others = |uses, files| {
        std::iter::once(Subtree {
            uses: uses * MIB,
            files: files * MIB,
            ..Subtree::default()
        })
    };
    let part = whole(300, 50).part_beside(others(100, 30));
    assert_eq!((part.used, part.files), (Bytes::mib(200), Bytes::mib(20)));
    let beyond = whole(300, 50).part_beside(others(100, 70));
    assert_eq!((beyond.used, beyond.files), (Bytes::mib(220), Bytes::ZERO));
}

proptest! {
    #[test]
    fn nothing_counts_twice_and_nothing_is_promised_twice(
        programs in prop::collection::vec((0..300u64, 0..200u64), 1..6),
        counted in 0..1000u64,
        outsiders in 0..400u64,
    ) {
        let mut bench = Bench::new(1000 * MIB);
        bench.outsiders = outsiders * MIB;
        bench.counted_files = counted * MIB;
        let ids: Vec<Id> = (programs.iter())
            .map(|(own, files)| bench.add(&new("p"), (own + files) * MIB))
            .collect();
        bench.files = ids.iter().zip(&programs).map(|(&id, one)| (id, one.1 * MIB)).collect();
        bench.ticks(40, Nanos::millis(50));
        let domain = bench.core.domain(None).expect("it was sensed");
        let uses: u64 = programs.iter().map(|(own, files)| (own + files) * MIB).sum();
        prop_assert_eq!(domain.outsiders, outsiders * MIB);
        prop_assert_eq!(domain.used, uses + domain.outsiders);
        let limits = ids.iter().map(|&id| bench.core.figures(id).map_or(0, |one| one.numbers.limit));
        let over = uses.saturating_sub(domain.budget);
        prop_assert!(limits.sum::<u64>() <= domain.budget + over);
        for (&id, (_, files)) in ids.iter().zip(&programs) {
            let (told, all) = (bench.numbers(id), bench.core.figures(id).unwrap_or_default().numbers);
            prop_assert!(told.limit <= all.limit && told.limit + files * MIB >= all.limit);
            prop_assert!(told.owed <= told.uses && (all.limit == 0 || told.limit > 0));
        }
    }
}
