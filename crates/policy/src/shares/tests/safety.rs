//! Properties at every moment, whatever the principals do.

use super::{Collector, Principal, Share, budget, decide, forest, simple, subtrees};
use plimsoll_unit::Bytes;
use proptest::prelude::*;

fn check(principals: &[Principal], shares: &[Share], budget: u64) -> Result<(), TestCaseError> {
    let limits: u64 = shares.iter().map(|s| s.limit).sum();
    prop_assert!(limits <= budget, "limits {} over budget {}", limits, budget);
    let uses: u64 = principals.iter().map(|p| p.uses).sum();
    let held: u64 = principals
        .iter()
        .zip(shares)
        .map(|(p, s)| p.uses.max(s.limit))
        .sum();
    prop_assert!(
        held <= budget.max(uses),
        "held {} budget {} uses {}",
        held,
        budget,
        uses
    );
    let targets = subtrees(principals, |i| shares[i].target);
    let limits = subtrees(principals, |i| shares[i].limit);
    let uses = subtrees(principals, |i| principals[i].uses);
    let held = subtrees(principals, |i| principals[i].uses.max(shares[i].limit));
    for (i, (p, s)) in principals.iter().zip(shares).enumerate() {
        prop_assert!(targets[i] <= p.max && held[i] <= p.max.max(uses[i]));
        prop_assert_eq!(limits[i], s.subtree_limit);
        prop_assert_eq!(s.owed, p.uses.saturating_sub(s.limit));
        let had = s.target.max(p.uses).max(p.last_limit);
        prop_assert!(s.limit <= had && s.target <= p.demand);
        // Its rightful use is never taken from it.
        prop_assert!(s.limit >= p.uses.min(s.target));
    }
    Ok(())
}

fn again(principals: &[Principal], shares: &[Share]) -> Vec<Principal> {
    let keep = |(p, s): (&Principal, &Share)| Principal {
        last_limit: s.limit,
        ..*p
    };
    principals.iter().zip(shares).map(keep).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_budget_and_every_max_hold(principals in forest(30), budget in budget()) {
        check(&principals, &decide(&principals, budget), budget)?;
    }

    #[test]
    fn deciding_twice_decides_the_same(principals in forest(30), budget in budget()) {
        let shares = decide(&principals, budget);
        prop_assert_eq!(&decide(&again(&principals, &shares), budget), &shares);
    }

    #[test]
    fn the_order_of_siblings_plays_no_part(
        principals in forest(20),
        budget in budget(),
        turn in any::<u64>(),
    ) {
        let n = principals.len();
        // Any order that keeps parents first: by depth, then scrambled.
        let mut depth = vec![0; n];
        for i in 0..n {
            depth[i] = principals[i].parent.map_or(0, |p| depth[p as usize] + 1);
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| (depth[i], (i as u64 + 1).wrapping_mul(turn | 1).rotate_left(17)));
        let mut place = vec![0u32; n];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new as u32);
        let moved = |&old: &usize| Principal {
            parent: principals[old].parent.map(|p| place[p as usize]),
            ..principals[old]
        };
        let permuted: Vec<Principal> = order.iter().map(moved).collect();
        let (shares, permuted) = (decide(&principals, budget), decide(&permuted, budget));
        for i in 0..n {
            prop_assert_eq!(&shares[i], &permuted[place[i] as usize]);
        }
    }

    #[test]
    fn an_engine_keeps_nothing_from_one_decision_to_the_next(
        first in forest(20), second in forest(20), budget in budget()
    ) {
        let mut engine = super::Shares::with_capacity(1);
        engine.decide(&first, Bytes(budget));
        prop_assert_eq!(engine.decide(&second, Bytes(budget)), &decide(&second, budget)[..]);
    }

    #[test]
    fn absurd_figures_break_nothing(
        mut principals in forest(12), absurd in prop::collection::vec(0..10u8, 12), budget in any::<u64>()
    ) {
        for (p, which) in principals.iter_mut().zip(absurd) {
            match which {
                0 => (p.demand, p.max, p.working_set) = (u64::MAX, u64::MAX, u64::MAX),
                1 => (p.weight, p.own_weight) = (u32::MAX, u32::MAX),
                2 => (p.weight, p.own_weight) = (0, 0),
                3 => (p.priority, p.own_priority) = (i32::MIN, i32::MAX),
                4 => p.uses = u64::MAX,
                5 => p.trend = i64::MIN,
                6 => p.trend = i64::MAX,
                7 => p.last_limit = u64::MAX,
                8 => p.collector = Collector {
                    live: u64::MAX,
                    allocation_rate: u64::MAX,
                    collection_speed: 1,
                },
                _ => p.parent = Some(u32::MAX),
            }
        }
        let shares = decide(&principals, budget);
        let sum: u128 = shares.iter().map(|s| u128::from(s.limit)).sum();
        prop_assert!(sum <= u128::from(budget));
        super::Shares::default().victim(&principals);
    }
}

/// Siblings in a few classes.
fn flat() -> impl Strategy<Value = Vec<Principal>> {
    let beside = |principals: Vec<Principal>| {
        let top = |p: Principal| Principal { parent: None, ..p };
        principals.into_iter().map(top).collect()
    };
    forest(12).prop_map(beside)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_lower_class_is_granted_nothing_while_a_higher_one_lacks(
        principals in flat(), budget in budget()
    ) {
        let shares = decide(&principals, budget);
        let lacks = |i: usize| shares[i].limit < shares[i].target;
        let highest = (0..principals.len()).filter(|&i| lacks(i)).map(|i| principals[i].priority).max();
        for (p, s) in principals.iter().zip(&shares) {
            if highest.is_some_and(|class| p.priority < class) {
                let kept = p.last_limit.min(s.target).min(s.entitlement);
                prop_assert!(s.limit <= p.uses.max(kept), "{:?} {:?}", p, s);
            }
        }
    }
}

#[test]
fn what_a_debtor_withholds_is_not_taken_from_a_higher_class() {
    let of = |priority, uses, demand| Principal {
        priority,
        ..simple(1, uses, demand)
    };
    // The first is entitled to everything and wants half; another still holds half.
    let shares = decide(&[of(10, 0, 500), of(0, 500, 500), of(0, 0, 400)], 1000);
    let limits = [0, 1, 2].map(|i| shares[i].limit);
    assert_eq!(limits, [500, 250, 0]);
}

#[test]
fn a_newcomer_waits_for_what_is_really_free() {
    let old = simple(1, 100, 200);
    let shares = decide(&[old, simple(1, 0, 200)], 100);
    assert_eq!((shares[0].limit, shares[0].owed), (50, 50));
    assert_eq!((shares[1].target, shares[1].limit), (50, 0));
    let shares = decide(&[simple(1, 70, 200), simple(1, 0, 200)], 100);
    assert_eq!(shares[1].limit, 30);
}

#[test]
fn a_group_that_is_full_grants_nothing_inside_though_there_is_memory_outside() {
    let group = Principal {
        max: 100,
        ..simple(1, 0, 0)
    };
    let hog = Principal {
        parent: Some(0),
        ..simple(1, 100, 1000)
    };
    let starved = Principal {
        parent: Some(0),
        ..simple(1, 0, 1000)
    };
    let shares = decide(&[group, hog, starved], 1000);
    assert_eq!(
        (shares[1].limit, shares[2].target, shares[2].limit),
        (50, 50, 0)
    );
}

#[test]
fn a_budget_of_nothing_gives_nothing() {
    let shares = decide(&[simple(1, 10, 20), simple(10_000, 0, u64::MAX)], 0);
    assert!(
        shares
            .iter()
            .all(|s| s.limit == 0 && s.target == 0 && s.entitlement == 0)
    );
    assert_eq!(shares[0].owed, 10);
    assert!(decide(&[], 100).is_empty());
}
