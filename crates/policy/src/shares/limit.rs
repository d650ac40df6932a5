//! The safe limit: what each principal may use *now*. Each one holds what it uses. Memory that is
//! really free is granted, high classes first, by how far each is below its entitlement.
//!
//! Under every `max` and under the budget, the sum of what is *held* (the greater of use and limit)
//! stays within the cap, or within the sum of the uses where that is already more.
//!
//! A principal that holds more than its target must give that back only when it is *called*: when
//! somebody whom it would help lacks memory, or when the members of a family use more than it may
//! have. Otherwise its limit is what it holds.

use super::fill::Filler;
use super::holding::{Call, Holding};
use super::tree::{Node, Tree, next_class};
use super::types::{MOST_BUDGET, Principal, Share};

/// Sums up from the leaves what each holds, keeps and may hold at most.
fn prepare(tree: &mut Tree, principals: &[Principal]) {
    let n = tree.count();
    for (node, p) in tree.nodes[n..].iter_mut().zip(principals) {
        let last = if node.wants() { p.last_limit } else { 0 };
        // A use that changes by a trifle moves no limit.
        let near = last.min(node.uses.saturating_add(p.slight));
        node.holding.tops = node.uses.max(node.target).max(near);
        // An unused grant is kept up to the entitlement; the rest is shared out anew.
        let kept = last.min(node.target).min(node.entitlement);
        node.holding.keeps = node.uses.max(kept).max(near);
        node.holding.likes = node.holding.tops.max(last);
    }
    for family in (1..=n).rev() {
        let (nodes, members) = tree.open(family);
        let (mut sum, mut entitled) = (Holding::default(), 0u64);
        for &m in members {
            let node = &nodes[m as usize];
            sum.add_claims(&node.holding);
            entitled = entitled.saturating_add(node.entitlement);
        }
        let node = &mut nodes[family - 1];
        let cap = node.max.max(node.uses);
        node.holding = sum.bounded(cap, node.uses);
        node.entitlement = entitled;
    }
}

/// Divides what a family holds. A class gets no grant while a higher class lacks memory. The rest,
/// when nobody lacks any, keeps limits from falling.
fn grant(nodes: &mut [Node], members: &[u32], holds: u64, shift: u32, filler: &mut Filler) {
    if let &[only] = members {
        let node = &mut nodes[only as usize];
        node.holding.holds = holds.min(node.holding.likes);
        return;
    }
    let kept: u128 = members
        .iter()
        .map(|&m| u128::from(nodes[m as usize].holding.keeps))
        .sum();
    let fits = kept <= u128::from(holds);
    let floor = |node: &Node| if fits { node.holding.keeps } else { node.uses };
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
            tops = tops.saturating_add(node.holding.tops);
            filler.push(m, node.entitlement >> shift, floor, node.holding.tops);
        }
        filler.fill(floors.saturating_add(free));
        // Where the class still lacks memory, the remainder of rounding stays unused.
        free = free.saturating_sub(tops.saturating_sub(floors));
        for item in &filler.items {
            nodes[item.node as usize].holding.holds = item.got;
        }
    }
    if free > 0 {
        leave(nodes, members, free, shift, filler);
    }
}

/// Leaves `free` bytes that nobody wants to those whose limits would fall otherwise.
fn leave(nodes: &mut [Node], members: &[u32], free: u64, shift: u32, filler: &mut Filler) {
    let would_fall = |&m: &u32| nodes[m as usize].holding.holds < nodes[m as usize].holding.likes;
    if !members.iter().any(would_fall) {
        return;
    }
    filler.clear();
    let mut held = 0u64;
    for &m in members {
        let node = &nodes[m as usize];
        held = held.saturating_add(node.holding.holds);
        filler.push(
            m,
            node.entitlement >> shift,
            node.holding.holds,
            node.holding.likes,
        );
    }
    filler.fill(held.saturating_add(free));
    for item in &filler.items {
        nodes[item.node as usize].holding.holds = item.got;
    }
}

/// Finds who lacks memory, from the leaves up: a principal that is near what it may use and wants
/// more, or that says or shows that it wants more of what it is guaranteed. A branch lacks no more
/// than its own target gives.
fn find_lacks(tree: &mut Tree, principals: &[Principal]) {
    let n = tree.count();
    for (node, p) in tree.nodes[n..].iter_mut().zip(principals) {
        let below = |goal: u64| match goal.saturating_sub(node.holding.holds) {
            lack if node.wants() && lack > p.slight => lack,
            _ => 0,
        };
        let guaranteed = node.target.min(node.entitlement);
        let goal = match (node.holding.holds <= p.reach, node.holding.holds < p.claims) {
            (true, _) => node.target,
            (false, true) => guaranteed,
            (false, false) => 0,
        };
        let waits = if p.waits { goal.min(guaranteed) } else { 0 };
        (node.holding.lacks, node.holding.waits) = (below(goal), below(waits));
    }
    for family in (1..=n).rev() {
        let (nodes, members) = tree.open(family);
        let mut sum = Holding::default();
        for &m in members {
            sum.add_lacks(&nodes[m as usize].holding);
        }
        let node = &mut nodes[family - 1];
        let most = node.target.saturating_sub(node.holding.holds);
        (node.holding.lacks, node.holding.waits) = (sum.lacks.min(most), sum.waits.min(most));
    }
}

/// Calls in what the members of a family hold above their targets, and so in the families below.
fn call(tree: &mut Tree, budget: u64) {
    for family in 0..=tree.count() {
        let (cap, from_above) = match family {
            0 => (budget, Call::None),
            _ => {
                let node = &tree.nodes[family - 1];
                (node.max, node.holding.call)
            }
        };
        let (nodes, members) = tree.open(family);
        let (mut uses, mut sum) = (0u64, Holding::default());
        for &m in members {
            let node = &nodes[m as usize];
            uses = uses.saturating_add(node.uses);
            sum.add_lacks(&node.holding);
        }
        let own = match (uses > cap || sum.waits > 0, sum.lacks > 0) {
            (true, _) => Call::Needed,
            (false, true) => Call::Wanted,
            (false, false) => Call::None,
        };
        for &m in members {
            nodes[m as usize].holding.call = own.max(from_above);
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
            _ => tree.nodes[family - 1].holding.holds,
        };
        let (nodes, members) = tree.open(family);
        grant(nodes, members, holds, shift, filler);
    }
    find_lacks(tree, principals);
    call(tree, budget);
}

/// Writes the result of one principal.
pub(super) fn share(own: &Node, p: &Principal) -> Share {
    let limit = own.holding.limit(own.target, p.least.min(p.uses));
    Share {
        entitlement: own.entitlement,
        target: own.target,
        limit,
        available: own.prospect.available.max(limit),
        owed: p.uses.saturating_sub(limit),
        subtree_limit: limit,
        subtree_available: 0,
        lacks: own.holding.lacks,
    }
}
