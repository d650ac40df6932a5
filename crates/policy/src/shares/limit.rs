//! The safe limit: what each principal may use *now*. Each one holds what it uses. Memory that is
//! really free is granted, high classes first, by how far each is below its entitlement.
//!
//! Under every `max` and under the budget, the sum of what is *held* (the greater of use and limit)
//! stays within the cap, or within the sum of the uses where that is already more.

use super::fill::Filler;
use super::tree::{MOST_BUDGET, Node, Tree, next_class};
use super::{Principal, Share};

/// Sums up from the leaves what each holds, keeps and may hold at most.
fn prepare(tree: &mut Tree, principals: &[Principal]) {
    let n = tree.count();
    for (node, p) in tree.nodes[n..].iter_mut().zip(principals) {
        node.tops = node.uses.max(node.target);
        // An unused grant is kept up to the entitlement; the rest is shared out anew.
        node.keeps = node
            .uses
            .max(p.last_limit.min(node.target).min(node.entitlement));
    }
    for family in (1..=n).rev() {
        let (nodes, members) = tree.open(family);
        let (mut keeps, mut tops, mut entitled) = (0u64, 0u64, 0u64);
        for &m in members {
            let node = &nodes[m as usize];
            keeps = keeps.saturating_add(node.keeps);
            tops = tops.saturating_add(node.tops);
            entitled = entitled.saturating_add(node.entitlement);
        }
        let node = &mut nodes[family - 1];
        let cap = node.max.max(node.uses);
        node.tops = tops.min(cap);
        // Grants that no longer fit under the cap are all shared out anew.
        node.keeps = if keeps <= cap { keeps } else { node.uses };
        node.entitlement = entitled;
    }
}

/// Divides what a family holds. A class gets no grant while a higher class lacks memory.
fn grant(nodes: &mut [Node], members: &[u32], holds: u64, shift: u32, filler: &mut Filler) {
    if let &[only] = members {
        let node = &mut nodes[only as usize];
        node.holds = holds.min(node.tops);
        return;
    }
    let kept: u128 = members
        .iter()
        .map(|&m| u128::from(nodes[m as usize].keeps))
        .sum();
    let fits = kept <= u128::from(holds);
    let floor = |node: &Node| if fits { node.keeps } else { node.uses };
    let sum = |all: u64, &m: &u32| all.saturating_add(floor(&nodes[m as usize]));
    let mut free = holds.saturating_sub(members.iter().fold(0, sum));
    let mut left = members;
    while let Some(class) = next_class(nodes, &mut left) {
        filler.clear();
        let (mut floors, mut tops) = (0u64, 0u64);
        for &m in class {
            let node = &nodes[m as usize];
            let floor = floor(node);
            floors = floors.saturating_add(floor);
            tops = tops.saturating_add(node.tops);
            filler.push(m, node.entitlement >> shift, floor, node.tops);
        }
        filler.fill(floors.saturating_add(free));
        // Where the class still lacks memory, the remainder of rounding stays unused.
        free = free.saturating_sub(tops.saturating_sub(floors));
        for item in &filler.items {
            nodes[item.node as usize].holds = item.got;
        }
    }
}

/// Decides the limits, after entitlements and targets are known.
pub(super) fn decide(tree: &mut Tree, principals: &[Principal], budget: u64, filler: &mut Filler) {
    prepare(tree, principals);
    // Weights of a filling stay below 2^48.
    let shift = (budget.clamp(1, MOST_BUDGET).ilog2() + 1).saturating_sub(48);
    for family in 0..=tree.count() {
        let holds = match family {
            0 => {
                let (nodes, members) = tree.open(0);
                let used: u64 = members.iter().map(|&m| nodes[m as usize].uses).sum();
                budget.max(used)
            }
            _ => tree.nodes[family - 1].holds,
        };
        let (nodes, members) = tree.open(family);
        grant(nodes, members, holds, shift, filler);
    }
}

/// Writes the result of one principal.
pub(super) fn share(own: &Node, p: &Principal) -> Share {
    let limit = own.holds.min(own.target);
    Share {
        entitlement: own.entitlement,
        target: own.target,
        limit,
        available: own.available.max(limit),
        owed: p.uses.saturating_sub(limit),
        subtree_limit: limit,
    }
}
