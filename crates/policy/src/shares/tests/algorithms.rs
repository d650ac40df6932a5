//! The engine against the paper's algorithms.

use super::super::prospect::Prospect;
use super::super::tree::Tree;
use super::super::{Principal, Shares, available, useful_demand, victim};
use super::literal::{self, Child};
use super::{Collector, decide, forest, simple};
use crate::shares::fill::Filler;
use plimsoll_unit::Bytes;
use proptest::prelude::*;

fn children(tree: &Tree, family: usize) -> Vec<Child> {
    let child = |&m: &u32| {
        let n = &tree.nodes[m as usize];
        let rec_alloc = n.prospect.expects as i64 - n.uses as i64;
        Child {
            weight: n.weight.into(),
            priority: n.priority,
            alloc: n.uses,
            ws: n.working_set,
            rec_alloc,
        }
    };
    tree.members(family).iter().map(child).collect()
}

/// Principals with few frames, so that the literal algorithms finish.
fn small() -> impl Strategy<Value = Vec<Principal>> {
    let one = (1..9u32, -1..2i32, 0..60u64, 0..70u64, -40..60i64);
    let one = one.prop_map(|(weight, priority, uses, working_set, trend)| Principal {
        priority,
        working_set,
        trend,
        ..simple(weight, uses, u64::MAX)
    });
    prop::collection::vec(one, 1..8)
}

/// A figure of each member of a family.
fn figures(tree: &Tree, family: usize, figure: fn(&Prospect) -> u64) -> Vec<u64> {
    let members = tree.members(family).iter();
    members
        .map(|&m| figure(&tree.nodes[m as usize].prospect))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_victim_is_one_that_algorithm_1_could_pick(principals in forest(12)) {
        let mut tree = Tree::default();
        tree.build(&principals);
        let mut family = 0;
        let chosen = victim::select(&tree);
        prop_assert_eq!(chosen.is_none(), principals.iter().all(|p| p.uses == 0));
        let Some(chosen) = chosen else { return Ok(()) };
        // From the victim upwards, each ancestor must be among the literal picks.
        let mut line = vec![chosen.principal];
        while let Some(parent) = principals[*line.last().unwrap()].parent {
            line.push(parent as usize);
        }
        for &step in line.iter().rev().chain([&(principals.len() + chosen.principal)]) {
            let at = tree.members(family).iter().position(|&m| m as usize == step).unwrap();
            prop_assert!(literal::select_victim(&children(&tree, family)).contains(&at));
            family = step + 1;
        }
        prop_assert!(chosen.excess > 0 && chosen.excess <= principals[chosen.principal].uses);
    }

    #[test]
    fn batches_come_to_rest_where_single_frames_do(principals in small(), budget in 0..200u64) {
        let mut tree = Tree::default();
        tree.build(&principals);
        let family = children(&tree, 0);
        available::decide(&mut tree, budget, &mut Filler::default(), &mut available::Ranks::default());
        let literal = literal::effective_allocation(&family, budget);
        let members = tree.members(0);
        let effective = figures(&tree, 0, |prospect| prospect.effective);
        for (ours, theirs) in effective.iter().zip(&literal) {
            prop_assert!(ours.abs_diff(*theirs) <= members.len() as u64, "{effective:?} {literal:?} \
                 {family:?}");
        }
        let available = figures(&tree, 0, |prospect| prospect.available);
        prop_assert_eq!(available, literal::available(&family, &effective, budget));
    }

    #[test]
    fn availability_is_algorithm_2_in_every_family(principals in forest(14), budget in super::budget()) {
        let unbounded: Vec<Principal> =
            principals.iter().map(|p| Principal { max: u64::MAX, ..*p }).collect();
        let mut tree = Tree::default();
        tree.build(&unbounded);
        available::decide(&mut tree, budget, &mut Filler::default(), &mut available::Ranks::default());
        for family in 0..=unbounded.len() {
            let could = if family == 0 { budget } else { tree.nodes[family - 1].prospect.available };
            let effective = figures(&tree, family, |prospect| prospect.effective);
            let ours = figures(&tree, family, |prospect| prospect.available);
            prop_assert_eq!(ours, literal::available(&children(&tree, family), &effective, could));
        }
    }

    #[test]
    fn everybody_could_have_its_limit(principals in forest(20), budget in super::budget()) {
        for (share, p) in decide(&principals, budget).iter().zip(&principals) {
            prop_assert!(share.available >= share.limit && share.available <= p.max.min(budget));
        }
    }
}

#[test]
fn a_lower_class_is_all_there_for_the_taking() {
    let low = Principal {
        priority: -1,
        ..simple(1, 80, 80)
    };
    let shares = decide(&[simple(1, 10, 10), low], 100);
    assert_eq!(shares[0].available, 100);
    assert_eq!(shares[1].available, 90);
}

#[test]
fn a_trend_is_warned_of() {
    let still = [simple(1, 50, 50), simple(1, 20, 20)];
    let growing = [
        still[0],
        Principal {
            trend: 25,
            ..still[1]
        },
    ];
    assert_eq!(decide(&still, 100)[0].available, 80);
    assert_eq!(decide(&growing, 100)[0].available, 55);
}

#[test]
fn nobody_is_the_victim_where_nobody_uses_anything() {
    assert_eq!(
        Shares::default().victim(&[simple(1, 0, 9), simple(1, 0, 9)]),
        None
    );
    let only = [
        simple(1, 0, 9),
        Principal {
            working_set: u64::MAX,
            ..simple(1, 1, 9)
        },
    ];
    assert_eq!(Shares::default().victim(&only).unwrap().principal, 1);
}

#[test]
fn a_collector_wants_as_much_as_makes_collecting_cheap() {
    let collector = Collector {
        live: 100,
        allocation_rate: 50,
        collection_speed: 1000,
    };
    assert_eq!(useful_demand(&collector, 5), Bytes(100 + 1000));
    assert_eq!(useful_demand(&collector, 0), Bytes::MAX);
    assert_eq!(useful_demand(&Collector::default(), 5), Bytes::MAX);
    assert_eq!(
        useful_demand(
            &Collector {
                allocation_rate: 0,
                ..collector
            },
            5
        ),
        Bytes(100)
    );
    let absurd = Collector {
        live: u64::MAX,
        allocation_rate: u64::MAX,
        collection_speed: 1,
    };
    assert_eq!(useful_demand(&absurd, 5), Bytes::MAX);
}

proptest! {
    #[test]
    fn passes_and_sorting_find_the_same_level(
        items in prop::collection::vec((0..1u64 << 48, any::<u64>(), any::<u64>(), 0..64u32), 1..40),
        amount in 0..1u64 << 57,
        shift in 0..57u32,
    ) {
        let filled = |passes| {
            let mut filler = Filler::default();
            for (node, &(weight, floor, cap, small)) in items.iter().enumerate() {
                filler.push(node as u32, weight, floor >> small, cap >> (small / 2));
            }
            let given = filler.fill_within(amount >> shift, passes);
            filler.items.sort_by_key(|i| i.node);
            (given, filler.items.iter().map(|i| i.got).collect::<Vec<_>>())
        };
        let sorted = filled(0);
        prop_assert!(sorted.0 <= amount >> shift);
        for passes in [1, 2, 16] {
            prop_assert_eq!(&filled(passes), &sorted);
        }
    }
}
