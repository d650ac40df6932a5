//! Memory that each principal could have if it asked: Algorithm 2 over the effective allocations of
//! Algorithm 3.
//!
//! Corrections to the printed algorithms. Algorithm 2 starts its sums anew for each principal and
//! never goes below zero. Algorithm 3 gives the grower what it takes from a victim, and lets freed
//! memory become free (the paper has the opposite). It removes memory from the lower class when a
//! higher class gets it, and lets growers of one class grow together. So the order of siblings does
//! not matter, and the result is a water-filling: highest class first, each capped by what it would
//! have if its trend continued. No frame needs to be moved singly.

use super::fill::{Filler, part};
use super::tree::{Node, Tree, next_class};
use std::cmp::Reverse;

/// A member of a class while the class is sorted by bytes per weight.
#[derive(Clone, Copy, Debug)]
struct Rank {
    ratio: u128,
    node: u32,
    weight: u32,
    bytes: u64,
}

impl Rank {
    fn new(node: u32, weight: u32, bytes: u64) -> Rank {
        Rank {
            ratio: ratio(bytes, u64::from(weight)),
            node,
            weight,
            bytes,
        }
    }
}

/// `bytes / weight` in units of 2^-64, rounded down. Weights are below 2^32, so different fractions
/// differ by more than one unit, and these values compare exactly like the fractions.
fn ratio(bytes: u64, weight: u64) -> u128 {
    let first = (bytes % weight) << 32;
    let second = (first % weight) << 32;
    u128::from(bytes / weight) << 64
        | u128::from(first / weight) << 32
        | u128::from(second / weight)
}

/// Scratch memory of this pass.
#[derive(Debug, Default)]
pub(super) struct Ranks(Vec<Rank>);

impl Ranks {
    pub(super) fn reserve(&mut self, items: usize) {
        self.0.clear();
        self.0.reserve(items);
    }
}

/// Algorithm 3 for one family that has `memory` bytes in all.
fn effective(nodes: &mut [Node], members: &[u32], memory: u64, filler: &mut Filler) {
    let mut rest = memory;
    let mut left = members;
    while let Some(class) = next_class(nodes, &mut left) {
        filler.clear();
        for &m in class {
            let node = &nodes[m as usize];
            filler.push(m, u64::from(node.weight), 0, node.prospect.expects);
        }
        rest -= filler.fill(rest);
        for item in &filler.items {
            nodes[item.node as usize].prospect.effective = item.got;
        }
    }
}

/// Algorithm 2 for one family that could have `memory` bytes in all.
fn available(nodes: &mut [Node], members: &[u32], memory: u64, ranks: &mut Vec<Rank>) {
    let mut avail = i128::from(memory);
    let mut left = members;
    while let Some(class) = next_class(nodes, &mut left) {
        ranks.clear();
        for &m in class {
            let node = &nodes[m as usize];
            avail -= i128::from(node.prospect.effective);
            ranks.push(Rank::new(m, node.weight, node.prospect.effective));
        }
        ranks.sort_unstable_by_key(|r| Reverse(r.ratio));
        let (mut bytes, mut weight, mut next) = (0u64, 0u64, 0);
        for at in 0..ranks.len() {
            // Members with as many bytes per weight or more can be preempted; equals are adjacent.
            while next < ranks.len() && ranks[next].ratio >= ranks[at].ratio {
                bytes += ranks[next].bytes;
                weight += u64::from(ranks[next].weight);
                next += 1;
            }
            let part = part(bytes, ranks[at].weight.into(), weight);
            let node = &mut nodes[ranks[at].node as usize];
            let most = node.max.min(memory);
            node.prospect.available = u64::try_from((i128::from(part) + avail).max(0))
                .unwrap_or(u64::MAX)
                .min(most);
        }
    }
}

/// Both algorithms for one family that has `has` bytes and could have `could` bytes.
fn share_out(
    nodes: &mut [Node],
    members: &[u32],
    (has, could): (u64, u64),
    filler: &mut Filler,
    ranks: &mut Ranks,
) {
    if let &[only] = members {
        let node = &mut nodes[only as usize];
        node.prospect.effective = node.prospect.expects.min(has);
        node.prospect.available = node.max.min(could);
        return;
    }
    effective(nodes, members, has, filler);
    available(nodes, members, could, &mut ranks.0);
}

/// Both algorithms over the whole tree.
pub(super) fn decide(tree: &mut Tree, budget: u64, filler: &mut Filler, ranks: &mut Ranks) {
    for family in 0..=tree.count() {
        let (has, could) = match family {
            0 => {
                let (nodes, members) = tree.open(0);
                let starts: u64 = members
                    .iter()
                    .map(|&m| nodes[m as usize].prospect.starts)
                    .sum();
                (budget.max(starts), budget)
            }
            _ => (
                tree.nodes[family - 1].prospect.effective,
                tree.nodes[family - 1].prospect.available,
            ),
        };
        let (nodes, members) = tree.open(family);
        share_out(nodes, members, (has, could), filler, ranks);
    }
}
