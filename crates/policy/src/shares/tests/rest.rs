//! Properties at rest, when every principal has its target: fairness.

use super::{Collector, Principal, budget, decide, flat, forest, simple};
use plimsoll_unit::MB;
use proptest::prelude::*;

/// Principals that obey: they give back half of what they owe, and take what they may.
fn obey(principals: &mut [Principal], budget: u64) -> bool {
    let shares = decide(principals, budget);
    let mut rest = true;
    for (p, s) in principals.iter_mut().zip(shares) {
        // A member with more than its target keeps that while nobody lacks it.
        rest &= s.limit >= s.target && p.uses >= s.target;
        p.uses -= s.owed.div_ceil(2);
        p.uses = p.uses.max(s.limit.min(p.demand)).max(p.uses);
        p.last_limit = s.limit;
    }
    rest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nobody_starves(mut principals in forest(20), budget in budget()) {
        principals.iter_mut().for_each(|p| p.trend = 0);
        // Sizes below 2^33 halve to nothing in 34 steps.
        prop_assert!((0..40).any(|_| obey(&mut principals, budget)), "not at rest: {principals:?}");
    }

    #[test]
    fn at_rest_it_is_weighted_max_min(mut principals in flat(20), budget in budget()) {
        for p in &mut principals {
            (p.priority, p.collector) = (0, Collector::default());
        }
        let shares = decide(&principals, budget);
        let wanted: u128 = principals.iter().map(|p| u128::from(p.demand.min(p.max))).sum();
        let given: u64 = shares.iter().map(|s| s.target).sum();
        prop_assert!(u128::from(given) + principals.len() as u128 >= wanted.min(u128::from(budget)));
        for (p, s) in principals.iter().zip(&shares).filter(|(p, s)| s.target < p.demand.min(p.max)) {
            for (q, t) in principals.iter().zip(&shares) {
                let theirs = u128::from(t.target) * u128::from(p.weight);
                prop_assert!(theirs <= (u128::from(s.target) + 1) * u128::from(q.weight));
            }
        }
    }

    #[test]
    fn whoever_wants_its_entitlement_has_it(principals in forest(30), budget in budget()) {
        let slip = 2 * principals.len() as u64;
        for (p, s) in principals.iter().zip(decide(&principals, budget)) {
            prop_assert!(s.target + slip >= s.entitlement.min(p.demand).min(p.modest), "{p:?} {s:?}");
        }
        // Without classes, all guarantees together fit.
        let one_class = |p: &Principal| Principal { priority: 0, own_priority: 0, ..*p };
        let principals: Vec<Principal> = principals.iter().map(one_class).collect();
        let all: u64 = decide(&principals, budget).iter().map(|s| s.entitlement).sum();
        prop_assert!(all <= budget);
    }

    #[test]
    fn a_higher_class_waits_for_no_lower_one(mut principals in flat(20), budget in budget()) {
        principals.iter_mut().for_each(|p| p.collector = Collector::default());
        let shares = decide(&principals, budget);
        let cap = |p: &Principal| p.demand.min(p.max);
        let weights: u64 = principals.iter().filter(|p| cap(p) > 0).map(|p| u64::from(p.weight)).sum();
        let lacking = principals.iter().zip(&shares).filter(|(p, s)| s.target < cap(p));
        let top = lacking.map(|(p, _)| p.priority).max();
        for (q, t) in principals.iter().zip(&shares).filter(|(q, _)| Some(q.priority) < top && cap(q) > 0) {
            let flat = u128::from(budget) * u128::from(q.weight) / u128::from(weights);
            let protected = u128::from(q.working_set.min(cap(q))).min(flat);
            // At most the bytes that rounding left.
            prop_assert!(u128::from(t.target) <= protected + principals.len() as u128);
            prop_assert!(u128::from(t.target) >= protected);
        }
    }

    #[test]
    fn more_budget_takes_from_nobody(principals in flat(20), budget in budget(), more in budget()) {
        let slip = 2 * principals.len() as u64;
        let few: Vec<Principal> =
            principals.iter().map(|p| Principal { collector: Collector::default(), ..*p }).collect();
        for (less, more) in decide(&few, budget).iter().zip(decide(&few, budget + more)) {
            prop_assert!(less.target <= more.target + slip && less.entitlement <= more.entitlement + slip);
        }
    }

    #[test]
    fn asking_for_more_never_gets_less(
        mut principals in flat(12),
        budget in budget(),
        more in 1..1u64 << 30,
    ) {
        let slip = 2 * principals.len() as u64;
        principals.iter_mut().for_each(|p| p.collector = Collector::default());
        let before = decide(&principals, budget)[0].target;
        principals[0].demand = principals[0].demand.saturating_add(more);
        prop_assert!(decide(&principals, budget)[0].target + slip >= before);
    }

    #[test]
    fn splitting_into_children_gains_nothing(
        mut principals in flat(10),
        budget in budget(),
        parts in 1..20u32,
    ) {
        let slip = 100;
        let others = principals.len();
        principals.iter_mut().for_each(|p| (p.collector, p.working_set) = (Collector::default(), 0));
        let greedy = Principal {
            parent: None,
            max: u64::MAX,
            demand: u64::MAX,
            priority: 0,
            ..principals[0]
        };
        principals.push(greedy);
        let alone = decide(&principals, budget)[others].target;
        let child = Principal { parent: Some(others as u32), ..greedy };
        principals.extend((0..parts).map(|_| child));
        let split: u64 = decide(&principals, budget)[others..].iter().map(|s| s.target).sum();
        prop_assert!(alone.abs_diff(split) <= slip, "{alone} {split}");
    }
}

#[test]
fn the_worked_example() {
    let weights = [10, 40, 20];
    let all = |demands: [u64; 3]| {
        let three = std::array::from_fn::<_, 3, _>(|i| simple(weights[i], 0, demands[i]));
        decide(&three, 1600 * MB)
            .iter()
            .map(|s| (s.entitlement / MB, s.target / MB))
            .collect::<Vec<_>>()
    };
    assert_eq!(all([u64::MAX; 3]), [(228, 228), (914, 914), (457, 457)]);
    // The second wants less: the rest is divided 1 to 2. Its guarantee stays.
    assert_eq!(
        all([u64::MAX, 400 * MB, u64::MAX]),
        [(228, 400), (914, 400), (457, 800)]
    );
    // The second has left or wants nothing: it no longer counts.
    assert_eq!(
        all([u64::MAX, 0, u64::MAX]),
        [(533, 533), (0, 0), (1066, 1066)]
    );
}

#[test]
fn the_worked_example_when_the_second_comes_back() {
    // The others have the sizes that they had without it.
    let thirds = [533_333_333, 0, 1_066_666_666];
    let mut three: [_; 3] = std::array::from_fn(|i| simple([10, 40, 20][i], thirds[i], u64::MAX));
    let shares = decide(&three, 1600 * MB);
    // Whole megabytes throughout: 533 less 228 is 305, and 1066 less 457 is 609.
    let figures = std::array::from_fn::<_, 3, _>(|i| {
        let (p, s) = (three[i], shares[i]);
        assert_eq!(s.owed, p.uses.saturating_sub(s.limit));
        let (target, limit) = (s.target / MB, s.limit / MB);
        (target, limit, p.uses / MB - limit)
    });
    assert_eq!(figures, [(228, 228, 305), (914, 0, 0), (457, 457, 609)]);
    // With each byte that they return, its limit rises by one.
    let before = shares[1].limit;
    (three[0].uses, three[2].uses) = (three[0].uses - 7, three[2].uses - 5);
    assert_eq!(decide(&three, 1600 * MB)[1].limit, before + 12);
}

#[test]
fn slack_goes_where_it_saves_most_collection_time() {
    let collector = |rate| Collector {
        live: 100 * MB,
        allocation_rate: rate,
        collection_speed: 1000 * MB,
    };
    let with = |rate, demand| Principal {
        collector: collector(rate),
        ..simple(1, 0, demand)
    };
    // Guaranteed 1000 each, the third leaves 900 to the others: room for garbage 4 to 2.
    let three = [
        with(400 * MB, u64::MAX),
        with(100 * MB, u64::MAX),
        simple(1, 0, 100 * MB),
    ];
    let shares = decide(&three, 3000 * MB);
    let targets: Vec<u64> = shares.iter().map(|s| s.target / MB).collect();
    assert_eq!(
        targets,
        [1900, 1000, 100].map(|t: u64| t),
        "the slower one keeps what it is guaranteed"
    );
    let three = [
        with(400 * MB, u64::MAX),
        with(225 * MB, u64::MAX),
        simple(1, 0, 100 * MB),
    ];
    let shares = decide(&three, 3000 * MB);
    let room = |i: usize| (shares[i].target - 100 * MB) as f64;
    assert!((room(0) / room(1) - 4.0 / 3.0).abs() < 0.001, "{shares:?}");
    // A principal that reports nothing gets exactly weighted max-min: it neither gains nor loses.
    let four = [three[0], three[1], three[2], simple(1, 0, u64::MAX)];
    let shares = decide(&four, 4000 * MB);
    assert_eq!(shares[3].target / MB, 1300);
}

#[test]
fn who_would_hardly_miss_it_lends_what_it_is_guaranteed() {
    let with = |rate, modest| Principal {
        collector: Collector {
            live: 100 * MB,
            allocation_rate: rate,
            collection_speed: 1000 * MB,
        },
        modest,
        ..simple(1, 0, u64::MAX)
    };
    let targets = |busy_modest: u64, quiet_modest: u64| {
        let three = [
            with(400 * MB, busy_modest),
            with(4 * MB, quiet_modest),
            with(4 * MB, quiet_modest),
        ];
        decide(&three, 900 * MB)
            .iter()
            .map(|s| (s.entitlement / MB, (s.target + MB / 2) / MB))
            .collect::<Vec<_>>()
    };
    // Room for garbage 10 to 1 to 1 of 600.
    assert_eq!(
        targets(u64::MAX, 100 * MB),
        [(300, 600), (300, 150), (300, 150)]
    );
    assert_eq!(
        targets(u64::MAX, 250 * MB),
        [(300, 400), (300, 250), (300, 250)],
        "never below what it can do with"
    );
    assert_eq!(
        targets(u64::MAX, u64::MAX),
        [(300, 300), (300, 300), (300, 300)],
        "nothing is lent by who would miss it"
    );
}

#[test]
fn a_group_is_one_competitor_and_its_own_memory_one_of_its_children() {
    let group = Principal {
        own_weight: 1,
        ..simple(1, 0, u64::MAX)
    };
    let child = Principal {
        parent: Some(0),
        ..simple(3, 0, u64::MAX)
    };
    let targets: Vec<u64> = decide(&[group, child, simple(1, 0, u64::MAX)], 800)
        .iter()
        .map(|s| s.target)
        .collect();
    assert_eq!(targets, [100, 300, 400]);
}

#[test]
fn a_group_at_its_max_leaves_the_rest_to_others() {
    let group = Principal {
        max: 100,
        ..simple(9, 0, 0)
    };
    let child = Principal {
        parent: Some(0),
        ..simple(1, 0, u64::MAX)
    };
    let targets: Vec<u64> = decide(&[group, child, child, simple(1, 0, u64::MAX)], 1000)
        .iter()
        .map(|s| s.target)
        .collect();
    assert_eq!(targets, [0, 50, 50, 900]);
}

#[test]
fn the_lightest_of_thousands_still_gets_its_part() {
    let mut many = vec![simple(10_000, 0, u64::MAX); 4999];
    many.push(simple(1, 0, u64::MAX));
    let shares = decide(&many, 1 << 40);
    let fair = (1u64 << 40) / (4999 * 10_000 + 1);
    assert_eq!(shares[4999].target, fair);
    assert_eq!(shares[4999].limit, fair);
    assert!(
        shares[..4999]
            .iter()
            .all(|s| s.target == shares[0].target && s.limit == s.target)
    );
}

/// Collection time per second of members whose room is what their targets leave beside the live bytes,
/// weighted as in the rule.
fn spent(principals: &[Principal], targets: &[u64]) -> f64 {
    let weights: f64 = principals.iter().map(|p| f64::from(p.weight)).sum();
    let each = principals.iter().zip(targets).map(|(p, &target)| {
        let room = target.saturating_sub(p.collector.live).max(1) as f64;
        let c = p.collector;
        let work = c.live as f64 / c.collection_speed as f64 * c.allocation_rate as f64;
        f64::from(p.weight) / weights * work / room
    });
    each.sum()
}

/// Seconds of one collection of the whole heap of each, weighted.
fn resized(principals: &[Principal]) -> f64 {
    let weights: f64 = principals.iter().map(|p| f64::from(p.weight)).sum();
    let each = principals.iter().map(|p| {
        let seconds = p.collector.live as f64 / p.collector.collection_speed as f64;
        f64::from(p.weight) / weights * seconds
    });
    each.sum()
}

/// Programs that gain from all that they can get, each with how much its rate changes later.
fn gainers() -> impl Strategy<Value = Vec<(Principal, f64)>> {
    let one = (1..50u32, 20..100u64, 100..2000u64, 100..2000u64, 0.2..5.0).prop_map(
        |(weight, live, rate, speed, turn)| {
            let principal = Principal {
                modest: live << 20,
                collector: Collector {
                    live: live << 20,
                    allocation_rate: rate << 20,
                    collection_speed: speed << 20,
                },
                ..simple(weight, 0, u64::MAX)
            };
            (principal, turn)
        },
    );
    prop::collection::vec(one, 2..6)
}

proptest! {
    #[test]
    fn memory_moves_only_where_that_saves_more_than_the_resizings_take(gainers in gainers()) {
        const BUDGET: u64 = 2000 << 20;
        let mut principals: Vec<Principal> = gainers.iter().map(|one| one.0).collect();
        let targets = |principals: &[Principal]| -> Vec<u64> {
            decide(principals, BUDGET).iter().map(|share| share.target).collect()
        };
        // Below its live bytes a program has no room.
        let shares = decide(&principals, BUDGET);
        prop_assume!(shares.iter().zip(&principals).all(|(share, p)| share.entitlement > p.collector.live));
        let before = targets(&principals);
        for (principal, (&last, (_, turn))) in principals.iter_mut().zip(before.iter().zip(&gainers)) {
            principal.last_target = last;
            let rate = principal.collector.allocation_rate as f64 * turn;
            principal.collector.allocation_rate = rate as u64;
        }
        let after = targets(&principals);
        for principal in &mut principals {
            principal.last_target = 0;
        }
        let best = targets(&principals);
        let (kept, optimal) = (spent(&principals, &before), spent(&principals, &best));
        let moved = after.iter().zip(&before).any(|(after, before)| after.abs_diff(*before) > 1 << 10);
        if moved {
            prop_assert_eq!(&after, &best);
            prop_assert!((kept - optimal) * 20.0 > 0.0);
        } else {
            prop_assert!((kept - optimal) * 20.0 <= resized(&principals) * 1.001 + 1e-6);
        }
    }

    #[test]
    fn a_division_stays_when_nothing_changes(gainers in gainers()) {
        let mut principals: Vec<Principal> = gainers.iter().map(|one| one.0).collect();
        let first = decide(&principals, 2000 << 20);
        for (principal, share) in principals.iter_mut().zip(&first) {
            principal.last_target = share.target;
        }
        for (first, again) in first.iter().zip(decide(&principals, 2000 << 20)) {
            prop_assert!(first.target.abs_diff(again.target) < 1 << 10);
        }
    }
}

#[test]
fn a_guarantee_does_not_wait_for_a_move_that_pays() {
    let collector = Collector {
        live: 100 << 20,
        allocation_rate: 1 << 20,
        collection_speed: 1 << 20,
    };
    let member = |weight, last_target| Principal {
        collector,
        last_target,
        ..simple(weight, 0, u64::MAX)
    };
    // A newcomer beside one that had all. Collections are dear and save little.
    let shares = decide(&[member(1, 1000 << 20), member(4, 0)], 1000 << 20);
    assert!(shares[1].target >= shares[1].entitlement, "{shares:?}");
    assert!(shares[1].entitlement >= (799 << 20), "{shares:?}");
}
