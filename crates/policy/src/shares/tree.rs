//! The principals as a flattened tree of competitors: entry `i` is principal `i` with its
//! descendants, entry `n + i` its own memory, which competes with its children like one more child
//! (paper 4.1). All passes run over indices, upwards or downwards; nothing recurses.

use super::collecting::{self, Collecting};
use super::holding::Holding;
use super::prospect::Prospect;
use super::types::{MOST_USED, Principal};
use std::cmp::Reverse;

/// One competitor. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    pub(super) weight: u32,
    pub(super) priority: i32,
    pub(super) max: u64,
    pub(super) demand: u64,
    pub(super) uses: u64,
    pub(super) working_set: u64,
    /// It stands apart: collectors below it do not affect its siblings.
    pub(super) apart: bool,
    pub(super) entitlement: u64,
    pub(super) target: u64,
    /// The figures of the square-root rule.
    pub(super) collecting: Collecting,
    /// The figures of the safe limit.
    pub(super) holding: Holding,
    /// The figures of Algorithms 2 and 3.
    pub(super) prospect: Prospect,
}

impl Node {
    pub(super) fn wants(&self) -> bool {
        self.demand > 0
    }
}

/// The tree. Family 0 is the top; family `i + 1` is the own memory and the children of principal
/// `i`.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    first: Vec<u32>,
    members: Vec<u32>,
    /// Scratch memory to sort one family by class.
    keys: Vec<u64>,
    count: usize,
}

/// The parent of `index`, if it precedes it.
pub(super) fn parent(principals: &[Principal], index: usize) -> Option<usize> {
    principals[index]
        .parent
        .map(|p| p as usize)
        .filter(|&p| p < index)
}

impl Tree {
    pub(super) fn reserve(&mut self, principals: usize) {
        self.nodes.clear();
        self.first.clear();
        self.members.clear();
        self.nodes.reserve(2 * principals);
        self.first.reserve(principals + 2);
        self.members.reserve(2 * principals);
        self.keys.clear();
        self.keys.reserve(principals + 1);
    }

    /// How many principals.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The place of family `family` in `members`.
    fn family(&self, family: usize) -> std::ops::Range<usize> {
        self.first[family] as usize..self.first[family + 1] as usize
    }

    /// The members of a family, high classes first.
    pub(super) fn members(&self, family: usize) -> &[u32] {
        &self.members[self.family(family)]
    }

    /// Borrows the nodes mutably and the members of a family immutably.
    pub(super) fn open(&mut self, family: usize) -> (&mut [Node], &[u32]) {
        let range = self.family(family);
        (&mut self.nodes, &self.members[range])
    }

    /// Builds the tree from the principals and sums up from the leaves.
    pub(super) fn build(&mut self, principals: &[Principal]) {
        self.count = principals.len();
        self.nodes.clear();
        self.nodes.extend(principals.iter().map(branch));
        self.nodes.extend(principals.iter().map(leaf));
        self.link(principals);
        for family in (0..=self.count).rev() {
            self.sum_up(family);
        }
    }

    /// Lists each family's members, high classes first (counting sort by parent).
    fn link(&mut self, principals: &[Principal]) {
        let n = principals.len();
        self.first.clear();
        self.first.resize(n + 2, 0);
        for i in 0..n {
            self.first[i + 1] += 1; // its own memory
            self.first[parent(principals, i).map_or(0, |p| p + 1)] += 1;
        }
        let mut end = 0;
        for slot in &mut self.first {
            end += *slot;
            *slot = end;
        }
        self.members.clear();
        self.members.resize(2 * n, 0);
        for i in (0..n).rev() {
            for (family, node) in [
                (i + 1, n + i),
                (parent(principals, i).map_or(0, |p| p + 1), i),
            ] {
                self.first[family] -= 1;
                self.members[self.first[family] as usize] = node as u32;
            }
        }
        for family in 0..=n {
            self.sort_by_class(family);
        }
    }

    /// Sorts the members of a family, which are in the order of their numbers, by class, high
    /// classes first.
    fn sort_by_class(&mut self, family: usize) {
        let range = self.family(family);
        let (nodes, members) = (&self.nodes, &mut self.members[range]);
        let class = |m: u32| nodes[m as usize].priority;
        if members.is_sorted_by_key(|&m| Reverse(class(m))) {
            return;
        }
        // Class and number share one word, so that sorting looks nothing up.
        let key = |&m: &u32| {
            let below = class(m).abs_diff(i32::MAX);
            u64::from(below) << 32 | u64::from(m)
        };
        self.keys.clear();
        self.keys.extend(members.iter().map(key));
        self.keys.sort_unstable();
        for (member, key) in members.iter_mut().zip(&self.keys) {
            *member = *key as u32;
        }
    }

    /// Sums a family up into the node that it belongs to.
    fn sum_up(&mut self, family: usize) {
        let (nodes, members) = self.open(family);
        let weights: u64 = members
            .iter()
            .map(|&m| &nodes[m as usize])
            .filter(|n| n.wants())
            .map(|n| u64::from(n.weight))
            .sum();
        let (mut class, mut one_class) = (None, true);
        let (mut sum, mut collecting) = (Node::default(), collecting::Sum::new());
        for &member in members {
            let node = &mut nodes[member as usize];
            sum.uses = sum.uses.saturating_add(node.uses);
            sum.working_set = sum.working_set.saturating_add(node.working_set);
            sum.prospect.add(&node.prospect);
            collecting.add_last(&node.collecting);
            if node.wants() {
                sum.demand = sum.demand.saturating_add(node.demand);
                collecting.add(&mut node.collecting, node.weight, weights);
                one_class &= class.is_none_or(|class| class == node.priority);
                class = Some(node.priority);
            }
        }
        if family == 0 {
            return;
        }
        let node = &mut nodes[family - 1];
        node.uses = sum.uses;
        node.working_set = sum.working_set;
        node.prospect = sum.prospect;
        node.prospect.expects = sum.prospect.expects.min(node.max.max(sum.uses));
        node.demand = sum.demand.min(node.max);
        node.collecting = collecting.whole(one_class);
        node.collecting.known &= sum.demand > 0 && !node.apart;
    }
}

/// The principal among its siblings, before summing up.
fn branch(p: &Principal) -> Node {
    Node {
        weight: p.weight.max(1),
        priority: p.priority,
        max: p.max,
        apart: p.apart,
        ..Node::default()
    }
}

/// Its own memory among its children.
fn leaf(p: &Principal) -> Node {
    Node {
        weight: p.own_weight.max(1),
        priority: p.own_priority,
        max: p.max,
        demand: p.demand.min(p.max),
        uses: p.uses.min(MOST_USED),
        working_set: p.working_set,
        collecting: Collecting::own(p),
        prospect: Prospect::own(p),
        ..Node::default()
    }
}

/// Splits the next class to serve off `left` (high classes first).
pub(super) fn next_class<'a>(nodes: &[Node], left: &mut &'a [u32]) -> Option<&'a [u32]> {
    let priority = |m: u32| nodes[m as usize].priority;
    let first = priority(*left.first()?);
    let count = left.iter().take_while(|&&m| priority(m) == first).count();
    let (class, below) = left.split_at(count);
    *left = below;
    Some(class)
}
