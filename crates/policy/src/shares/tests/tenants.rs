//! Principals that stand apart, like users' groups: requests of some cost the others nothing.

use super::{Collector, Principal, budget, decide, flat, forest, simple};
use proptest::prelude::*;

/// `users` users of equal weight: the first has only `honest`, the others have `drawn`. The
/// principals of the first follow right after the users.
fn tenants(honest: &[Principal], drawn: &[Principal], users: u32) -> Vec<Principal> {
    let tenant = Principal {
        apart: true,
        ..simple(100, 0, 0)
    };
    let mut all = vec![tenant; users as usize];
    all.extend(honest.iter().map(|p| Principal {
        parent: Some(0),
        ..*p
    }));
    let first = all.len() as u32;
    all.extend(drawn.iter().zip(0u32..).map(|(p, i)| {
        let above = p.parent.map(|parent| first + parent);
        Principal {
            parent: above.or(Some(1 + i % (users - 1))),
            ..*p
        }
    }));
    all
}

proptest! {
    #[test]
    fn whoever_wants_anything_is_entitled_to_an_equal_part(
        honest in flat(6), drawn in forest(30), users in 2..6u32, budget in budget()
    ) {
        let honest: Vec<Principal> = honest
            .iter()
            .map(|p| Principal { max: u64::MAX, demand: p.demand.max(1), ..*p })
            .collect();
        let all = tenants(&honest, &drawn, users);
        let own = users as usize..users as usize + honest.len();
        let entitled: u64 = decide(&all, budget)[own].iter().map(|s| s.entitlement).sum();
        let slip = all.len() as u64;
        prop_assert!(entitled + slip >= budget / u64::from(users), "{entitled} of {budget}");
    }

    #[test]
    fn whoever_wants_no_more_than_its_part_has_and_keeps_it(
        honest in flat(6), drawn in forest(30), users in 2..6u32, budget in budget()
    ) {
        let each = budget / u64::from(users) / honest.len() as u64;
        let honest: Vec<Principal> = honest
            .iter()
            .map(|p| {
                let demand = p.demand.min(each);
                Principal { max: u64::MAX, demand, uses: p.uses.min(demand), ..*p }
            })
            .collect();
        let all = tenants(&honest, &drawn, users);
        let own = users as usize..users as usize + honest.len();
        for (p, share) in honest.iter().zip(&decide(&all, budget)[own]) {
            prop_assert!(share.target + all.len() as u64 >= p.demand, "{share:?} of {p:?}");
            prop_assert!(share.limit + all.len() as u64 >= p.uses, "{share:?} of {p:?}");
        }
    }
}

#[test]
fn nothing_is_lent_between_those_who_stand_apart() {
    let with = |rate, modest| Principal {
        collector: Collector {
            live: 100,
            allocation_rate: rate,
            collection_speed: 1000,
        },
        modest,
        parent: None,
        ..simple(1, 0, u64::MAX)
    };
    let quiet = with(1, 100);
    let busy = with(1 << 40, u64::MAX);
    let targets = |apart: bool| {
        let user = Principal {
            apart,
            ..simple(1, 0, 0)
        };
        let below = |parent, p| Principal {
            parent: Some(parent),
            ..p
        };
        let all = [user, user, below(0, quiet), below(1, busy)];
        let shares = decide(&all, 100_000);
        [shares[2].target, shares[3].target]
    };
    assert_eq!(targets(true), [50_000, 50_000]);
    let [lends, borrows] = targets(false);
    assert!(lends < 1_000 && borrows > 90_000, "{lends} {borrows}");
}
