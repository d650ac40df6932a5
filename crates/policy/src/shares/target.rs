//! Entitlement and target of each principal, one family at a time, from the top down. The
//! documentation of [`super`] states the rule.

use super::fill::{Filler, part};
use super::tree::{Node, next_class};

/// The quantity to compute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Guaranteed: the peers of the same class may want any amount.
    Entitlement,
    /// At rest: peers get no more than they want.
    Target,
}

/// Shares `memory` bytes out among the members of a family (high classes first).
pub(super) fn share_out(
    nodes: &mut [Node],
    members: &[u32],
    memory: u64,
    goal: Goal,
    filler: &mut Filler,
) {
    if let &[only] = members {
        let node = &mut nodes[only as usize];
        let got = if node.wants() {
            memory.min(node.cap(goal))
        } else {
            0
        };
        return node.store(goal, got);
    }
    let weights: u64 = members
        .iter()
        .map(|&m| &nodes[m as usize])
        .filter(|n| n.wants())
        .map(|n| u64::from(n.weight))
        .sum();
    let mut reserved: u64 = members
        .iter()
        .map(|&m| protected(&nodes[m as usize], memory, weights))
        .sum();
    let mut rest = memory;
    let mut left = members;
    while let Some(class) = next_class(nodes, &mut left) {
        filler.clear();
        let mut wanted: u64 = 0;
        for &m in class {
            let node = &nodes[m as usize];
            let floor = protected(node, memory, weights);
            reserved -= floor;
            wanted = wanted.saturating_add(node.demand);
            if node.wants() {
                filler.push(m, u64::from(node.weight), floor, node.cap(goal));
            }
        }
        let pool = rest.saturating_sub(reserved);
        let given = filler.fill(pool);
        store(nodes, class, goal, filler);
        if goal == Goal::Target && given < wanted {
            by_square_root(nodes, class, filler);
        }
        rest -= if goal == Goal::Target {
            given
        } else {
            wanted.min(pool)
        };
    }
}

/// Bytes of a member that higher classes may not take: its working set, up to its plain weighted
/// share among all siblings that want memory, in all classes. So all protected memory always fits.
fn protected(node: &Node, memory: u64, weights: u64) -> u64 {
    if !node.wants() || node.working_set == 0 {
        return 0;
    }
    let flat = part(memory, node.weight.into(), weights);
    node.working_set.min(node.demand).min(flat)
}

impl Node {
    /// Bytes that it keeps, however much others would save with them.
    fn kept(&self) -> u64 {
        self.entitlement.min(self.target).min(self.modest)
    }

    fn cap(&self, goal: Goal) -> u64 {
        match goal {
            Goal::Entitlement => self.max,
            Goal::Target => self.demand,
        }
    }

    fn store(&mut self, goal: Goal, got: u64) {
        match goal {
            Goal::Entitlement => self.entitlement = got,
            Goal::Target => self.target = got,
        }
    }
}

fn store(nodes: &mut [Node], class: &[u32], goal: Goal, filler: &Filler) {
    if filler.items.len() < class.len() {
        for &m in class {
            nodes[m as usize].store(goal, 0);
        }
    }
    for item in &filler.items {
        nodes[item.node as usize].store(goal, item.got);
    }
}

/// The square-root rule, among members with known collectors. The sum that weighted max-min gives
/// them goes where it saves most collection time: the room for garbage, target - live, is in
/// proportion to sqrt(weight x live x allocation rate / collection speed). No member gets more than
/// it wants, or less than its guarantee (or demand), except for what it would hardly miss (beyond
/// `modest`).
fn by_square_root(nodes: &mut [Node], class: &[u32], filler: &mut Filler) {
    filler.clear();
    let mut amount: u64 = 0;
    for &m in class {
        let node = &nodes[m as usize];
        if node.wants() && node.known {
            let base = node.kept();
            let offset = node.live.min(base);
            amount += node.target - offset;
            filler.push(m, node.pull, base - offset, node.demand - offset);
        }
    }
    if filler.items.len() < 2 {
        return;
    }
    filler.fill(amount);
    for item in &filler.items {
        let node = &mut nodes[item.node as usize];
        node.target = node.live.min(node.kept()) + item.got;
    }
}
