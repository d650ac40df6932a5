//! When what is held above a target is called in.

use super::{Principal, budget, decide, forest, simple, size, subtrees};
use proptest::prelude::*;

/// A forest whose principals come near their limits, or not.
fn reaching() -> impl Strategy<Value = Vec<Principal>> {
    let more = prop::collection::vec((size(), size(), any::<bool>(), any::<bool>()), 20);
    (forest(20), more).prop_map(|(mut principals, more)| {
        for (p, (margin, claims, waits, least)) in principals.iter_mut().zip(more) {
            (p.reach, p.claims) = (p.uses.saturating_add(margin), claims);
            p.waits = waits;
            p.least = if least { u64::MAX } else { 0 };
        }
        principals
    })
}

/// Whether nobody uses more than it may have in all.
fn fits(principals: &[Principal], budget: u64) -> bool {
    let uses = subtrees(principals, |i| principals[i].uses);
    let all: u64 = principals.iter().map(|p| p.uses).sum();
    all <= budget && principals.iter().zip(uses).all(|(p, uses)| uses <= p.max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nobody_owes_while_nobody_lacks(principals in reaching(), budget in budget()) {
        let shares = decide(&principals, budget);
        if fits(&principals, budget) && shares.iter().all(|s| s.lacks == 0) {
            for (p, s) in principals.iter().zip(&shares) {
                prop_assert!(s.owed == 0, "{p:?} {s:?}");
            }
        }
    }

    #[test]
    fn who_lacks_is_near_its_limit_and_below_its_target_or_claims_what_it_is_guaranteed(
        principals in reaching(), budget in budget()
    ) {
        for (p, s) in principals.iter().zip(decide(&principals, budget)) {
            let guaranteed = s.target.min(s.entitlement);
            let goal = if s.limit <= p.reach { s.target } else { guaranteed };
            let wants = s.limit <= p.reach || s.limit < p.claims;
            prop_assert!(s.lacks == 0 || wants && s.limit + s.lacks == goal);
        }
    }

    #[test]
    fn while_one_claims_what_it_is_guaranteed_nobody_beside_it_keeps_more_than_its_target(
        mut principals in reaching(), budget in budget()
    ) {
        for p in &mut principals {
            (p.parent, p.max, p.least) = (None, u64::MAX, 0);
        }
        let shares = decide(&principals, budget);
        let claims = |(p, s): (&Principal, &super::Share)| {
            p.demand > 0 && s.limit < p.claims.min(s.target).min(s.entitlement)
        };
        if principals.iter().zip(&shares).any(claims) {
            for s in &shares {
                prop_assert!(s.limit <= s.target, "{s:?}");
            }
        }
    }

    #[test]
    fn a_limit_falls_only_where_memory_is_granted_to_others(
        mut principals in reaching(), budget in budget()
    ) {
        for p in &mut principals {
            (p.parent, p.max) = (None, u64::MAX);
        }
        let shares = decide(&principals, budget);
        let falls = |(p, s): (&Principal, &super::Share)| p.demand > 0 && s.limit < p.last_limit;
        if fits(&principals, budget) && shares.iter().all(|s| s.lacks == 0)
            && principals.iter().zip(&shares).any(falls)
        {
            let limits: u64 = shares.iter().map(|s| s.limit).sum();
            prop_assert!(limits + principals.len() as u64 >= budget, "{limits} of {budget}");
        }
    }

    #[test]
    fn who_cannot_go_lower_owes_only_to_those_who_wait(
        mut principals in reaching(), budget in budget()
    ) {
        principals.iter_mut().for_each(|p| p.waits = false);
        if fits(&principals, budget) {
            for (p, s) in principals.iter().zip(decide(&principals, budget)) {
                prop_assert!(p.least == 0 || s.owed == 0, "{p:?} {s:?}");
            }
        }
    }
}

/// An idle service at 57 of 30, beside a busy program that wants any amount.
fn service_and_busy(uses: u64, reach: u64) -> [Principal; 2] {
    let service = Principal {
        reach: 57,
        waits: false,
        ..simple(10, 57, 30)
    };
    let busy = Principal {
        reach,
        waits: false,
        ..simple(40, uses, u64::MAX)
    };
    [service, busy]
}

#[test]
fn an_idle_service_owes_only_once_a_busy_one_comes_near_its_limit() {
    let limits =
        |three: &[Principal]| -> Vec<u64> { decide(three, 1000).iter().map(|s| s.limit).collect() };
    assert_eq!(limits(&service_and_busy(230, 400)), [57, 943]);
    let shares = decide(&service_and_busy(900, 1000), 1000);
    assert_eq!((shares[0].limit, shares[0].owed), (30, 27));
    assert_eq!((shares[1].limit, shares[1].lacks), (943, 27));
    // It was asked, and nothing came.
    let mut stuck = service_and_busy(900, 1000);
    stuck[0].least = 57;
    assert_eq!(limits(&stuck), [57, 943]);
    // That does not help it against one that waits for what it is guaranteed.
    (stuck[1].uses, stuck[1].waits) = (250, true);
    (stuck[0].uses, stuck[0].least) = (700, 700);
    let shares = decide(&stuck, 1000);
    assert_eq!((shares[0].owed, shares[1].limit), (670, 300));
}

#[test]
fn a_lack_in_a_group_at_its_maximum_calls_nobody_outside() {
    let group = Principal {
        max: 100,
        ..simple(1, 0, 0)
    };
    let full = Principal {
        parent: Some(0),
        ..simple(1, 100, u64::MAX)
    };
    let idle = simple(1, 500, 10);
    let shares = decide(&[group, full, idle], 1000);
    assert_eq!((shares[1].limit, shares[2].owed), (100, 0));
    // Where the group may have more, it does.
    let group = Principal { max: 900, ..group };
    let shares = decide(&[group, Principal { uses: 500, ..full }, idle], 1000);
    assert_eq!((shares[1].limit, shares[2].owed), (500, 490));
}
