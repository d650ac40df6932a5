//! No debt while nobody lacks, a word for programs at their least, and limits that do not swing.

use super::*;
use plimsoll_wire::page::Level;

/// Idle services of 57 MiB with 20 MiB alive and a busy program of 230 MiB, in 1200 MiB.
struct Shop {
    bench: Bench,
    services: Vec<Id>,
    busy: Id,
}

fn shop() -> Shop {
    let mut bench = Bench::new(1240 * MIB);
    let services: Vec<Id> = (0..4)
        .map(|_| bench.add(&new("service"), 57 * MIB))
        .collect();
    // After two reports and some time they are no newcomers.
    for &id in services.iter().chain(&services) {
        bench.reports_idle(id, 20 * MIB);
    }
    let busy = bench.add(&new("busy"), 230 * MIB);
    works(&mut bench, busy, 80 * MIB);
    Shop {
        bench,
        services,
        busy,
    }
}

/// Reports 150 MiB alive and this allocation rate.
fn works(bench: &mut Bench, id: Id, rate: u64) {
    let report = Report {
        id,
        live: Some(150 * MIB),
        allocation_rate: Some(rate),
        collection_speed: Some(1 << 30),
        ..Report::default()
    };
    bench.core.report(&report).expect("is registered");
}

#[test]
fn idle_services_owe_nothing_while_a_busy_program_has_room() {
    let mut shop = shop();
    let mut lowest = u64::MAX;
    for round in 0..400 {
        // It fills its heap up to 600 MiB and collects it.
        shop.bench
            .uses(shop.busy, (230 + round % 100 * 370 / 100) * MIB);
        shop.bench.tick(Nanos::millis(50));
        for &id in &shop.services {
            let numbers = shop.bench.numbers(id);
            assert_eq!((numbers.owed, numbers.level), (0, Level::Normal), "{round}");
            let limit = numbers.limit;
            assert!(limit >= numbers.uses, "{round}: {limit}");
        }
        if round > 2 {
            lowest = lowest.min(shop.bench.numbers(shop.busy).limit);
        }
    }
    assert!(lowest > 900 * MIB, "{lowest}");
}

#[test]
fn who_is_asked_in_vain_is_at_its_least_and_owes_only_to_those_who_wait() {
    let mut shop = shop();
    let bench = &mut shop.bench;
    bench.ticks(3, Nanos::millis(50));
    bench.uses(shop.busy, bench.numbers(shop.busy).limit);
    bench.ticks(3, Nanos::millis(50));
    let service = shop.services[0];
    assert!(bench.numbers(service).owed > 0, "it is asked");
    // It gives nothing within its time.
    let in_debt = (0..400).filter(|_| {
        bench.tick(Nanos::millis(50));
        bench.numbers(service).owed > 0
    });
    assert!(in_debt.count() < 60);
    let figures = bench.core.figures(service).expect("is there");
    assert!(figures.wants.at_least, "{figures:?}");
    assert_eq!(figures.numbers.level, Level::Normal);
    // A newcomer that waits for what it is guaranteed is served all the same.
    let late = bench.add(&new("late"), 0);
    bench.tick(Nanos::millis(50));
    bench.uses(late, bench.numbers(late).limit);
    bench.ticks(3, Nanos::millis(50));
    assert!(bench.numbers(shop.busy).owed > 300 * MIB);
    assert!(bench.numbers(service).owed > 0);
}

#[test]
fn who_can_shrink_after_all_is_asked_again() {
    let mut shop = shop();
    let bench = &mut shop.bench;
    bench.ticks(3, Nanos::millis(50));
    bench.uses(shop.busy, bench.numbers(shop.busy).limit);
    bench.ticks(200, Nanos::millis(50));
    let service = shop.services[0];
    assert!(
        bench
            .core
            .figures(service)
            .is_some_and(|one| one.wants.at_least)
    );
    bench.uses(service, 100 * MIB);
    bench.ticks(3, Nanos::millis(50));
    assert!(bench.numbers(service).owed > 40 * MIB, "it grew");
}

#[test]
fn a_pause_of_seconds_moves_no_memory_and_a_longer_one_does() {
    let mut bench = Bench::new(1240 * MIB);
    let busy = bench.add(&new("busy"), 600 * MIB);
    let other = bench.add(&new("other"), 100 * MIB);
    for id in [busy, other] {
        works(&mut bench, id, 200 * MIB);
    }
    // Both keep to their limits, and the other one wants more.
    let follow = |bench: &mut Bench, ticks: usize| {
        for _ in 0..ticks {
            bench.tick(Nanos::millis(50));
            bench.uses(other, bench.numbers(other).limit);
            bench.uses(busy, bench.numbers(busy).limit);
        }
    };
    follow(&mut bench, 20);
    let before = bench.numbers(busy).limit;
    for _ in 0..3 {
        works(&mut bench, busy, 0);
        follow(&mut bench, 60);
        assert!(
            bench.numbers(busy).limit + before / 50 >= before,
            "a pause of 3 s"
        );
        works(&mut bench, busy, 200 * MIB);
        follow(&mut bench, 60);
    }
    works(&mut bench, busy, 0);
    follow(&mut bench, 120);
    assert!(bench.numbers(busy).limit < before / 2, "it rests for 6 s");
}

#[test]
fn a_limit_that_nobody_wants_stays() {
    let mut bench = Bench::new(1240 * MIB);
    let id = bench.add(&new("busy"), 600 * MIB);
    works(&mut bench, id, 200 * MIB);
    let report = Report {
        id,
        demand: Some(900 * MIB),
        ..Report::default()
    };
    bench.core.report(&report).expect("is registered");
    bench.ticks(3, Nanos::millis(50));
    let before = bench.numbers(id).limit;
    // It shrinks, and says that it needs little; nobody else is there.
    bench.uses(id, 200 * MIB);
    bench.reports_idle(id, 100 * MIB);
    bench.ticks(400, Nanos::millis(50));
    assert_eq!(bench.numbers(id).limit, before);
}

#[test]
fn a_release_is_answered_even_if_nothing_changed() {
    let mut core = Core::new(Config::default());
    let id = core.register(&new("p"), Nanos::ZERO).expect("registers");
    let whole = SensedDomain {
        capacity: Bytes::mib(1000),
        used: Bytes::mib(100),
        ..SensedDomain::default()
    };
    let mut wakes = |at: u64, answers: bool| {
        let one = SensedPrincipal {
            read_at: Nanos::millis(at),
            answers,
            ..sensed(id, 100 * MIB)
        };
        let wakes = |action: &Action| match action {
            Action::Publish { numbers, wake, .. } => *wake && numbers.sensed == at * MILLISECOND,
            _ => false,
        };
        core.tick(Nanos::millis(at), &whole, &[one])
            .iter()
            .any(wakes)
    };
    assert!(wakes(1000, false), "the first numbers");
    for at in 1001..1010 {
        wakes(at, false);
    }
    assert!(!wakes(1010, false) && wakes(1011, true) && !wakes(1012, false));
}

/// Limit and guarantee of a program some seconds after it wakes and reports. It keeps to its limit, which is
/// 80 MiB above the `uses`, beside a large program that pays its debts.
fn beside_a_large_one(uses: u64, demand: Option<u64>, rate: u64) -> (u64, u64) {
    let mut bench = Bench::new(1240 * MIB);
    let ids = ["small", "large"].map(|name| bench.add(&new(name), 20 * MIB));
    bench.reports_idle(ids[0], 10 * MIB);
    bench.ticks(20, Nanos::millis(50));
    bench.uses(ids[0], uses);
    bench.uses(ids[1], 900 * MIB - uses);
    bench.ticks(400, Nanos::millis(50));
    let budget = bench.core.domain(None).expect("the root").budget;
    let most = budget - uses - 80 * MIB;
    bench.uses(ids[1], most);
    bench.ticks(400, Nanos::millis(50));
    let report = Report {
        id: ids[0],
        live: Some(uses / 2),
        allocation_rate: Some(rate),
        demand,
        ..Report::default()
    };
    bench.core.report(&report).expect("is registered");
    for _ in 0..100 {
        bench.tick(Nanos::millis(50));
        let limit = bench.numbers(ids[1]).limit;
        bench.uses(ids[1], limit.min(most));
    }
    let numbers = bench.numbers(ids[0]);
    (numbers.limit, numbers.share)
}

#[test]
fn who_says_that_it_wants_more_gets_its_guarantee_without_coming_near_its_limit() {
    let (limit, share) = beside_a_large_one(60 * MIB, Some(900 * MIB), 400 * MIB);
    assert!(
        share > 500 * MIB && limit + share / 50 > share,
        "{limit} of {share}"
    );
    // It wants little, so it calls nobody.
    let (limit, _) = beside_a_large_one(60 * MIB, Some(900 * MIB), 0);
    assert!(limit < 150 * MIB, "{limit}");
}

#[test]
fn who_uses_half_of_its_limit_may_have_as_much_again_without_coming_near_it() {
    let (limit, _) = beside_a_large_one(110 * MIB, None, 400 * MIB);
    assert!(limit >= 220 * MIB, "{limit}");
    let (limit, _) = beside_a_large_one(110 * MIB, None, 0);
    assert!(limit < 200 * MIB, "{limit}");
}

#[test]
fn a_floor_is_believed_of_who_has_as_much_and_has_an_adapter() {
    let mut bench = Bench::new(1240 * MIB);
    let id = bench.add(&new("floor"), 900 * MIB);
    let other = bench.add(&new("other"), 100 * MIB);
    bench.ticks(3, Nanos::millis(50));
    let mut is_at_least = |floor: u64, adaptive: bool| {
        let floor = Some(floor);
        let report = Report {
            id,
            floor,
            ..Report::default()
        };
        bench.core.report(&report).expect("is registered");
        bench
            .core
            .set_adaptive(id, adaptive)
            .expect("is registered");
        bench.tick(Nanos::millis(50));
        let node = bench
            .core
            .tree
            .at(bench.core.tree.find(id).expect("is there"));
        node.least() > 0
    };
    assert!(is_at_least(900 * MIB, true) && is_at_least(1000 * MIB, true));
    assert!(!is_at_least(u64::MAX, true), "it has less");
    assert!(!is_at_least(500 * MIB, true), "it has more");
    assert!(!is_at_least(900 * MIB, false));
    assert!(bench.numbers(other).limit > 0);
}
