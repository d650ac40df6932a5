//! Entitlement and target of each principal, one family at a time, from the top down. The
//! documentation of [`super`] states the rule.

use super::fill::{Filler, part};
use super::tree::{Node, next_class};

/// A size that changes by less than this part of it is no resizing.
const SLIGHT: u64 = 64;

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
        self.entitlement
            .min(self.target)
            .min(self.collecting.modest)
    }

    /// Whether the square-root rule applies to it.
    fn takes_part(&self) -> bool {
        self.wants() && self.collecting.known
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
///
/// The division of before stays while another would save less collection time, for as long as the figures
/// are expected to hold, than the resizings take.
fn by_square_root(nodes: &mut [Node], class: &[u32], filler: &mut Filler) {
    let mut amount: u64 = 0;
    let mut is_new = true;
    for &m in class {
        let node = &mut nodes[m as usize];
        if node.takes_part() {
            node.collecting.base = node.kept();
            amount += node.target - node.collecting.offset();
            is_new &= node.collecting.last == 0;
        }
    }
    enter(nodes, class, filler, |node| node.collecting.pull);
    if filler.items.len() < 2 {
        return;
    }
    filler.fill(amount);
    let best = spent(nodes, filler);
    give(nodes, filler);
    if is_new {
        return;
    }
    enter(nodes, class, filler, |node| node.collecting.last_room());
    filler.fill(amount);
    let saved = (spent(nodes, filler) - best) * holds(nodes, filler);
    if saved <= resizings(nodes, filler) {
        give(nodes, filler);
    }
}

/// Enters the members with known collectors into the filler, with these weights.
fn enter(nodes: &[Node], class: &[u32], filler: &mut Filler, weight: impl Fn(&Node) -> u64) {
    filler.clear();
    for &m in class {
        let node = &nodes[m as usize];
        if node.takes_part() {
            let offset = node.collecting.offset();
            filler.push(
                m,
                weight(node),
                node.collecting.base - offset,
                node.demand - offset,
            );
        }
    }
}

/// Makes what the filler gives the targets.
fn give(nodes: &mut [Node], filler: &Filler) {
    for item in &filler.items {
        let node = &mut nodes[item.node as usize];
        node.target = node.collecting.offset() + item.got;
    }
}

/// Seconds per second that collections take with what the filler gives, weighted.
fn spent(nodes: &[Node], filler: &Filler) -> f64 {
    let each = filler.items.iter().map(|item| {
        let node = &nodes[item.node as usize];
        node.collecting.spent(item.got)
    });
    each.sum()
}

/// Seconds for which the targets are expected to be better than what the filler gives: until those who give
/// memory want it back, or those who get it want it no more.
fn holds(nodes: &[Node], filler: &Filler) -> f64 {
    let mean = |moved: fn(u64, u64) -> u64| {
        let (mut bytes, mut lasting) = (0.0, 0.0);
        for item in &filler.items {
            let node = &nodes[item.node as usize];
            let by = moved(node.target, node.collecting.offset() + item.got) as f64;
            bytes += by;
            lasting += by * node.collecting.lasts;
        }
        lasting / bytes.max(1.0)
    };
    let given = mean(|to, from| from.saturating_sub(to));
    let got = mean(|to, from| to.saturating_sub(from));
    given.min(got)
}

/// Seconds that the resizings take by which members come from what the filler gives to their targets,
/// weighted.
fn resizings(nodes: &[Node], filler: &Filler) -> f64 {
    let each = filler.items.iter().map(|item| {
        let node = &nodes[item.node as usize];
        let from = node.collecting.offset() + item.got;
        if node.target.abs_diff(from) > from / SLIGHT {
            node.collecting.cost
        } else {
            0.0
        }
    });
    each.sum()
}
