//! Groups of users: requests of one user cost others nothing.

use super::*;

fn user(name: &str) -> NewPrincipal {
    NewPrincipal {
        name: name.into(),
        tenant: true,
        automatic: true,
        ..group(None)
    }
}

/// A principal that asks for as much as possible.
fn loud(parent: Id) -> NewPrincipal {
    NewPrincipal {
        parent: Some(parent),
        weight: Weight::MOST,
        priority: Priority::MOST,
        ..new("loud")
    }
}

fn quiet(parent: Id) -> NewPrincipal {
    NewPrincipal {
        parent: Some(parent),
        adaptive: false,
        ..new("quiet")
    }
}

fn demand(bench: &mut Bench, id: Id, bytes: u64) {
    let report = Report {
        id,
        demand: Some(bytes),
        live: Some(bytes / 2),
        allocation_rate: Some(u64::MAX),
        collection_speed: Some(1),
        ..Report::default()
    };
    bench.core.report(&report).expect("is registered");
}

#[test]
fn weights_and_priorities_count_within_a_users_group_only() {
    let mut bench = Bench::new(1000 * MIB);
    let (honest, hostile) = (
        bench.add(&user("honest"), 0),
        bench.add(&user("hostile"), 0),
    );
    let program = bench.add(&quiet(honest), 400 * MIB);
    let first = bench.add(&loud(hostile), 100 * MIB);
    let second = bench.add(&quiet(hostile), 100 * MIB);
    demand(&mut bench, first, u64::MAX);
    bench.ticks(3, Nanos::millis(50));
    bench.uses(first, bench.numbers(first).limit);
    let actions = bench.ticks(200, Nanos::millis(50));
    let harmed = |action: &Action| {
        !matches!(action, Action::Publish { .. })
            && !matches!(action, Action::PageOut { id, .. } | Action::Take { id, .. } if *id == second)
            && !matches!(action, Action::Bound { id, .. } if *id == second)
    };
    assert!(!actions.iter().any(harmed), "{actions:?}");
    let numbers = bench.numbers(program);
    let budget = bench.core.domain(None).expect("the root").budget;
    assert_eq!((numbers.owed, numbers.share), (0, budget / 2));
    assert!(numbers.limit >= 400 * MIB, "{numbers:?}");
    assert!(bench.numbers(second).owed > 0, "within its group it counts");
}

#[test]
fn without_a_process_nothing_is_demanded_and_nothing_guaranteed() {
    let mut bench = Bench::new(1000 * MIB);
    let (honest, hostile) = (
        bench.add(&user("honest"), 0),
        bench.add(&user("hostile"), 0),
    );
    let program = bench.add(&quiet(honest), 700 * MIB);
    let hollow: Vec<Id> = (0..200).map(|_| bench.add(&loud(hostile), 0)).collect();
    bench.absent.clone_from(&hollow);
    for &id in &hollow {
        demand(&mut bench, id, u64::MAX);
    }
    bench.ticks(100, Nanos::millis(50));
    let budget = bench.core.domain(None).expect("the root").budget;
    let numbers = bench.numbers(program);
    assert_eq!((numbers.owed, numbers.share), (0, budget));
    assert!(hollow.iter().all(|&id| {
        let numbers = bench.numbers(id);
        (numbers.share, numbers.limit) == (0, 0)
    }));
    // A principal that gets a process counts for its user.
    bench.absent.retain(|&id| id != hollow[0]);
    bench.ticks(100, Nanos::millis(50));
    let budget = bench.core.domain(None).expect("the root").budget;
    assert_eq!(bench.numbers(program).share, budget / 2);
    assert_eq!(bench.numbers(hollow[0]).share, budget / 2);
}

#[test]
fn between_users_it_is_the_groups_that_are_weighed() {
    let mut bench = Bench::new(1000 * MIB);
    let heavy = NewPrincipal {
        weight: weight(300),
        ..user("heavy")
    };
    let (heavy, light) = (bench.add(&heavy, 0), bench.add(&user("light"), 0));
    let (one, other) = (bench.add(&loud(light), 0), bench.add(&quiet(heavy), 0));
    bench.ticks(3, Nanos::millis(50));
    let budget = bench.core.domain(None).expect("the root").budget;
    assert_eq!(bench.numbers(one).share, budget / 4);
    assert_eq!(
        bench.numbers(other).share,
        budget / 4 * 3 + budget % 4 * 3 / 4
    );
}

#[test]
fn a_users_group_is_no_level_and_none_of_so_many() {
    let mut core = Core::new(Config {
        max_principals: MAX_DEPTH,
        ..Config::default()
    });
    let top = core.register(&user("u"), Nanos::ZERO).expect("registers");
    let mut parent = Some(top);
    for _ in 0..MAX_DEPTH {
        parent = Some(
            core.register(&group(parent), Nanos::ZERO)
                .expect("registers"),
        );
    }
    core.register(&user("another"), Nanos::ZERO)
        .expect("registers");
    // A group made for a limit does not count either.
    let limit = NewPrincipal {
        automatic: true,
        ..group(Some(top))
    };
    core.register(&limit, Nanos::ZERO).expect("registers");
    assert_eq!((core.counted(), core.len()), (MAX_DEPTH, MAX_DEPTH + 3));
    assert_eq!(
        core.register(&group(Some(top)), Nanos::ZERO),
        Err(Refusal::TooMany(MAX_DEPTH))
    );
    core.configure(Config::default());
    assert_eq!(
        core.register(&group(parent), Nanos::ZERO),
        Err(Refusal::TooDeep(MAX_DEPTH + 1))
    );
    // Parents still come before their children.
    let order: Vec<Id> = core.iter().map(|one| one.id).collect();
    assert_eq!(order.first(), Some(&top));
    let domain = SensedDomain {
        capacity: Bytes::mib(1000),
        ..SensedDomain::default()
    };
    core.tick(Nanos::millis(50), &domain, &[]);
    assert_eq!(core.iter().filter(|one| one.tenant).count(), 2);
}

#[test]
fn of_a_limit_that_users_share_each_has_an_equal_part_at_least() {
    let whole = SensedDomain {
        capacity: Bytes::mib(900),
        used: Bytes::mib(880),
        files: Bytes::ZERO,
        cliff: true,
    };
    let part = |others: &[u64]| {
        let part = whole.part_beside(others.iter().map(|uses| Subtree {
            uses: uses * MIB,
            ..Subtree::default()
        }));
        assert!(part.cliff);
        (part.capacity.0 / MIB, part.used.0 / MIB)
    };
    assert_eq!(part(&[]), (900, 880));
    assert_eq!(part(&[100]), (800, 780), "what the other leaves");
    assert_eq!(part(&[700]), (450, 180), "an equal part");
    assert_eq!(part(&[700, 100]), (500, 80));
    assert_eq!(part(&[u64::MAX >> 20, 1]), (599, 0), "more than there is");
}
