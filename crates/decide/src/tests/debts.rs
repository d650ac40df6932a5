//! Debts, the ladder, hogs, clocks, heartbeats.

use super::*;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Level;

#[test]
fn a_deadline_stays_until_the_debt_is_paid() {
    let mut bench = Bench::new(1000 * MIB);
    let id = bench.add(&new("p"), 900 * MIB);
    bench
        .core
        .report(&Report {
            id,
            reaction_ms: Some(400),
            ..Report::default()
        })
        .expect("is registered");
    bench.ticks(2, Nanos::millis(50));
    bench.outsiders = 300 * MIB;
    bench.tick(Nanos::millis(50));
    let first = bench.numbers(id);
    assert_eq!(Nanos(first.deadline), bench.now + Nanos::millis(400));
    // Neither its own growth nor further debt moves the deadline.
    bench.uses(id, 950 * MIB);
    bench.outsiders = 400 * MIB;
    bench.tick(Nanos::millis(50));
    assert_eq!(bench.numbers(id).deadline, first.deadline);
    assert!(bench.numbers(id).owed > first.owed);
    // The first batch is paid, and the second has its own deadline.
    bench.uses(id, first.limit);
    bench.tick(Nanos::millis(50));
    assert_eq!(
        Nanos(bench.numbers(id).deadline),
        bench.now + Nanos::millis(400)
    );
    bench.outsiders = 0;
    let actions = bench.ticks(100, Nanos::millis(50));
    assert_eq!(bench.numbers(id).owed, 0);
    let relief = |action: &Action| match action {
        Action::Publish { numbers, wake, .. } => {
            *wake && numbers.owed == 0 && numbers.level < Level::Critical
        }
        _ => false,
    };
    assert!(actions.iter().any(relief), "relief wakes as well");
}

#[test]
fn without_a_cgroup_paging_out_goes_on() {
    let mut bench = Bench::new(1000 * MIB);
    bench.bare = true;
    bench.add(&new("good"), 300 * MIB);
    let bad = bench.add(&new("bad"), 650 * MIB);
    let mut paged_out = |ticks: usize| {
        let mut times = 0;
        for _ in 0..ticks {
            for action in bench.tick(Nanos::millis(50)) {
                match action {
                    Action::PageOut { id, .. } if id == bad => times += 1,
                    Action::Publish { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            bench.core.acted(bad, true);
        }
        times
    };
    let (first, later, last) = (paged_out(100), paged_out(1000), paged_out(1000));
    assert!(first >= 5, "{first} in the first 5 s");
    assert!(
        (5..20).contains(&later),
        "{later} in the next 50 s, in vain"
    );
    assert!(
        last >= 5,
        "{last} in the last 50 s: it never ends while it owes"
    );
}

/// Each action against a principal is counted once, and none is forgotten when the principal goes.
#[test]
fn what_is_asked_and_taken_is_counted_and_stays_counted() {
    let mut bench = Bench::new(1000 * MIB);
    let good = bench.add(&new("good"), 300 * MIB);
    let bad = bench.add(&new("bad"), 650 * MIB);
    let actions = bench.ticks(100, Nanos::millis(50));
    let count = |wanted: fn(&Action) -> bool| actions.iter().filter(|a| wanted(a)).count() as u64;
    let counts = bench.core.figures(bad).expect("is registered").revocations;
    assert_eq!(
        (counts.paged_out, counts.taken),
        (
            count(|action| matches!(action, Action::PageOut { .. })),
            count(|action| matches!(action, Action::Take { .. }))
        )
    );
    assert!(
        counts.bound > 0 && counts.asked == 1 && counts.missed == 1,
        "{counts:?}"
    );
    let others = bench.core.figures(good).expect("is registered").revocations;
    assert_eq!((others.paged_out, others.taken, others.bound), (0, 0, 0));
    assert_eq!(bench.core.revocations(), counts.plus(others));
    bench.core.remove(bad).expect("is registered");
    assert_eq!(bench.core.revocations(), counts.plus(others));
}

#[test]
fn only_the_debtor_climbs_the_ladder_and_is_let_down_again() {
    let mut bench = Bench::new(1000 * MIB);
    let good = bench.add(&new("good"), 300 * MIB);
    let bad = bench.add(&new("bad"), 650 * MIB);
    let actions = bench.ticks(100, Nanos::millis(50));
    let rungs: Vec<_> = actions
        .iter()
        .filter(|action| !matches!(action, Action::Publish { .. }))
        .collect();
    let place = |wanted: fn(&Action) -> bool| rungs.iter().position(|action| wanted(action));
    let (page_out, take, bound) = (
        place(|action| matches!(action, Action::PageOut { .. })),
        place(|action| matches!(action, Action::Take { .. })),
        place(|action| matches!(action, Action::Bound { .. })),
    );
    assert!(
        page_out.is_some() && page_out < take && take < bound,
        "{rungs:?}"
    );
    let against = |action: &Action, id: Id| match *action {
        Action::PageOut { id: victim, .. }
        | Action::Take { id: victim, .. }
        | Action::Bound { id: victim, .. } => victim == id,
        Action::Publish { .. } => false,
    };
    assert!(
        !actions.iter().any(|action| against(action, good)),
        "the neighbour pays nothing"
    );
    bench.core.acted(bad, true);
    bench.uses(bad, bench.numbers(bad).limit);
    let actions = bench.ticks(800, Nanos::millis(50));
    let lifted = Action::Bound {
        id: bad,
        bytes: Bytes::MAX,
    };
    assert!(actions.contains(&lifted), "{:?}", bench.core.figures(bad));
}

#[test]
fn stalls_while_bytes_are_taken_do_not_doubt_the_limit() {
    let mut bench = Bench::new(1000 * MIB);
    bench.add(&new("good"), 300 * MIB);
    let bad = bench.add(&new("bad"), 650 * MIB);
    let stalls = |bench: &mut Bench, number| {
        let report = Report {
            id: bad,
            stalls: Some(number),
            ..Report::default()
        };
        bench.core.report(&report).expect("is registered");
        bench.tick(Nanos::millis(50));
    };
    stalls(&mut bench, 0);
    let takes = |action: &Action| matches!(action, Action::Take { .. });
    let taken = (0..1000).any(|_| bench.tick(Nanos::millis(50)).iter().any(takes));
    assert!(taken, "{:?}", bench.core.figures(bad));
    stalls(&mut bench, 100);
    let figures = bench.core.figures(bad).expect("is there");
    assert_eq!(figures.rung, Rung::Take);
    assert!(!figures.stalls.doubted, "{figures:?}");
    assert!(figures.stalls.rate > Some(0), "it is shown: {figures:?}");
}

/// When the first bytes are taken from an adaptive principal that owes and pays nothing, beside
/// this many bytes of outsiders. It reports before each tick for the time `speaks`, and never if
/// that is `None`. Returns the deadline of its debt, the time of its last report, and that of the
/// first action; times since the start.
fn first_taken(outsiders: u64, reaction_ms: u64, speaks: Option<Nanos>) -> (Nanos, Nanos, Nanos) {
    let mut bench = Bench::new(1000 * MIB);
    bench.outsiders = outsiders;
    let id = bench.add(&new("p"), 400 * MIB);
    let report = Report {
        id,
        reaction_ms: Some(reaction_ms),
        ..Report::default()
    };
    let began = bench.now;
    let mut reported = Nanos::ZERO;
    for _ in 0..400 {
        if speaks.is_some_and(|speaks| bench.now - began <= speaks) {
            bench.core.report(&report).expect("is registered");
            reported = bench.now - began;
        }
        let actions = bench.tick(Nanos::millis(50));
        let published = |action: &Action| matches!(action, Action::Publish { .. });
        if !actions.iter().all(published) {
            let deadline = Nanos(bench.numbers(id).deadline) - began;
            return (deadline, reported, bench.now - began);
        }
    }
    panic!("nothing is taken: {:?}", bench.core.figures(id));
}

#[test]
fn who_reports_has_time_to_collect_before_anything_is_taken() {
    let always = Some(Nanos(u64::MAX));
    // The reserve is 40 MiB. In the first case more than a quarter of it is left.
    for (outsiders, grace) in [
        (585 * MIB, Nanos::seconds(3)),
        (595 * MIB, Nanos::seconds(1)),
    ] {
        let (deadline, _, taken) = first_taken(outsiders, 400, always);
        assert_eq!(taken, deadline + grace, "beside {outsiders} bytes");
        let (deadline, _, taken) = first_taken(outsiders, 500, None);
        assert_eq!(taken, deadline, "it never reported");
    }
    let (deadline, reported, taken) = first_taken(585 * MIB, 3_000, Some(Nanos::seconds(1)));
    assert!(taken > deadline, "{taken:?}, {deadline:?}");
    assert_eq!(taken, reported + Nanos::seconds(4), "it fell silent");
}

#[test]
fn of_two_debtors_the_one_with_more_excess_per_weight_pays_first() {
    let mut bench = Bench::new(1000 * MIB);
    let bounded = |name| NewPrincipal {
        max: max(400 * MIB),
        ..new(name)
    };
    let little = bench.add(&bounded("little"), 440 * MIB);
    let much = bench.add(&bounded("much"), 550 * MIB);
    // The reserve lacks less than either principal owes.
    let first = (0..100)
        .flat_map(|_| bench.tick(Nanos::millis(50)))
        .find(|action| !matches!(action, Action::Publish { .. }));
    assert!(
        matches!(first, Some(Action::PageOut { id, .. }) if id == much),
        "{first:?}, {little} owes less than {much}"
    );
}

#[test]
fn nothing_is_taken_while_nobody_needs_it() {
    let mut bench = Bench::new(4000 * MIB);
    let top = bench.add(
        &NewPrincipal {
            max: max(100 * MIB),
            ..new("bounded")
        },
        300 * MIB,
    );
    let actions = bench.ticks(200, Nanos::millis(50));
    assert!(bench.numbers(top).owed > 190 * MIB);
    assert!(
        actions
            .iter()
            .all(|action| matches!(action, Action::Publish { .. })),
        "{actions:?}"
    );
}

#[test]
fn a_hog_is_seen_coming() {
    let mut bench = Bench::new(1500 * MIB);
    let id = bench.add(&new("p"), 0);
    bench.tick(Nanos::millis(50));
    bench.uses(id, 1390 * MIB);
    bench.ticks(40, Nanos::millis(50));
    let calm = bench.core.domain(None).expect("the root");
    assert!((58..66).contains(&(calm.reserve / MIB)), "{calm:?}");
    for _ in 0..10 {
        bench.outsiders += 5 * MIB;
        bench.tick(Nanos::millis(50));
    }
    let hog = bench.core.domain(None).expect("the root");
    assert!(hog.growth > 70 * MIB as i64, "{hog:?}");
    assert!(hog.reserve + hog.expected > 70 * MIB, "{hog:?}");
    assert!(bench.numbers(id).owed > 0);
    assert!(bench.core.next_tick() <= Nanos::millis(25));
}

#[test]
fn a_jump_of_the_clock_changes_nothing() {
    let mut bench = Bench::new(1000 * MIB);
    let debtor = bench.add(&new("p"), 800 * MIB);
    bench.ticks(2, Nanos::millis(50));
    bench.outsiders = 500 * MIB;
    bench.tick(Nanos::millis(50));
    let before = bench.numbers(debtor);
    assert!(before.owed > 0);
    for jump in [Nanos::seconds(3600), Nanos::seconds(20)] {
        bench.now += jump;
        bench.tick(Nanos::millis(50));
        let after = bench.numbers(debtor);
        assert!(
            after.deadline <= (bench.now + Nanos::millis(500)).0,
            "{after:?}"
        );
        assert_eq!(after.limit / (64 * MIB), before.limit / (64 * MIB));
    }
    bench.now = Nanos::millis(5);
    bench.tick(Nanos::ZERO);
    assert!(
        bench.numbers(debtor).deadline <= (bench.now + Nanos::millis(500)).0,
        "not hours away"
    );
}

#[test]
fn pages_beat_once_a_second_in_the_deepest_calm() {
    let mut bench = Bench::new(1000 * MIB);
    let id = bench.add(&new("p"), 0);
    bench.ticks(100, Nanos::millis(50));
    let mut written = bench.now;
    for _ in 0..20 {
        let next = bench.core.next_tick();
        assert!(next <= Nanos::seconds(1));
        let actions = bench.tick(next);
        if actions
            .iter()
            .any(|action| matches!(action, Action::Publish { id: whose, .. } if *whose == id))
        {
            assert!(bench.now - written <= Nanos::seconds(1));
            written = bench.now;
        }
    }
    assert!(bench.now - written <= Nanos::seconds(1));
}

/// Three passive programs: two have more than their shares, and one waits for its own. Both debtors
/// are taken down by what the core asks for. Returns the use of the first when its neighbour has paid or has
/// no inactive memory, and at the end.
fn taken_from_the_active(active: u64, neighbour_touches: u64) -> (u64, u64) {
    let mut bench = Bench::new(1000 * MIB);
    let passive = NewPrincipal {
        adaptive: false,
        ..new("p")
    };
    let mut uses = [450, 450, 60].map(|mib| mib * MIB);
    let ids = uses.map(|uses| bench.add(&passive, uses));
    bench.working_sets = vec![
        (ids[0], active),
        (ids[1], neighbour_touches),
        (ids[2], uses[2]),
    ];
    let mut before = None;
    for _ in 0..1200 {
        // It takes all that it may use, and wants more.
        uses[2] = bench.numbers(ids[2]).limit.max(uses[2]);
        bench.uses(ids[2], uses[2]);
        bench.working_sets[2].1 = uses[2];
        for action in bench.tick(Nanos::millis(50)) {
            let (id, bytes) = match action {
                Action::PageOut { id, bytes } | Action::Take { id, bytes } => (id, bytes.0),
                Action::Bound { id, bytes } => {
                    let at = ids.iter().position(|one| *one == id).expect("it is one");
                    (id, uses[at].saturating_sub(bytes.0))
                }
                Action::Publish { .. } => continue,
            };
            let at = ids.iter().position(|one| *one == id).expect("it is one");
            uses[at] -= bytes;
            bench.uses(id, uses[at]);
            bench.core.acted(id, true);
        }
        let owes = bench.numbers(ids[1]).owed > 0 && uses[1] > neighbour_touches;
        if before.is_none() && uses[1] < 450 * MIB && !owes {
            before = Some(uses[0]);
        }
    }
    (before.unwrap_or(uses[0]), uses[0])
}

#[test]
fn active_memory_is_not_taken_while_a_sibling_that_owes_has_inactive_memory() {
    // Its share is about 320 MiB.
    let active = 400 * MIB;
    let (while_there_is, _) = taken_from_the_active(active, 150 * MIB);
    assert!(while_there_is >= active, "{} MiB", while_there_is / MIB);
}

#[test]
fn without_inactive_memory_the_debtor_gives_active_memory() {
    let (_, end) = taken_from_the_active(440 * MIB, 450 * MIB);
    assert!(end < 400 * MIB, "{} MiB", end / MIB);
}
