//! The principals as a flattened tree of competitors: entry `i` is principal `i` with its
//! descendants, entry `n + i` its own memory, which competes with its children like one more child
//! (paper 4.1). All passes run over indices, upwards or downwards; nothing recurses.

use super::Principal;
use std::cmp::Reverse;

/// Larger sizes count as these, so that sums cannot overflow: 256 TiB used by one principal, 64 PiB
/// to share.
pub(super) const MOST_USED: u64 = 1 << 48;
pub(super) const MOST_BUDGET: u64 = 1 << 56;
/// Square-root coefficients stay below this.
const MOST_PULL: f64 = (1u64 << 48) as f64;
/// Square roots are kept in units of 1/256.
pub(super) const PULL_UNIT: f64 = 256.0;

/// Whether what is held above a target must be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// Nobody lacks it.
    #[default]
    None,
    /// A principal that has its entitlement wants more.
    Wanted,
    /// A principal waits for its entitlement, or a family uses more than it may have.
    Needed,
}

/// One competitor. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    pub(super) weight: u32,
    pub(super) priority: i32,
    pub(super) max: u64,
    pub(super) demand: u64,
    pub(super) uses: u64,
    pub(super) working_set: u64,
    pub(super) live: u64,
    /// Below this it lends nothing.
    pub(super) modest: u64,
    /// Square-root coefficient in units of [`PULL_UNIT`]; `pull` is the coefficient relative to its siblings.
    pub(super) coefficient: u64,
    pub(super) pull: u64,
    /// Seconds that a change of its size costs: for each program in it a collection of the whole heap, or
    /// its reaction time if that is longer. `cost` is weighted among its siblings.
    pub(super) resizing: f64,
    pub(super) cost: f64,
    /// Seconds for which its coefficient is expected to hold: of a family, the mean of its members.
    pub(super) lasts: f64,
    /// Its target as decided last.
    pub(super) last: u64,
    /// The part of its target that it keeps in the square-root rule.
    pub(super) base: u64,
    /// Whether the collectors of all descendants that want memory are known.
    pub(super) known: bool,
    /// It stands apart: collectors below it do not affect its siblings.
    pub(super) apart: bool,
    /// Algorithm 3: what it would have if its trend continued unhindered, and what without growth.
    pub(super) expects: u64,
    pub(super) starts: u64,
    pub(super) entitlement: u64,
    pub(super) target: u64,
    /// The memory that it certainly holds: its use, and earlier grants that it keeps.
    pub(super) keeps: u64,
    /// The most it can hold: the greater of its target and its use.
    pub(super) tops: u64,
    /// As much as keeps its limit from falling.
    pub(super) likes: u64,
    pub(super) holds: u64,
    /// Its lack of its target, and of its entitlement.
    pub(super) lacks: u64,
    pub(super) waits: u64,
    /// Whether it must give back what it holds above its target.
    pub(super) call: Call,
    pub(super) effective: u64,
    pub(super) available: u64,
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
        let mut lasting = (0.0, 0.0);
        let mut sum = Node {
            known: true,
            ..Node::default()
        };
        for &member in members {
            let node = &mut nodes[member as usize];
            sum.uses = sum.uses.saturating_add(node.uses);
            sum.working_set = sum.working_set.saturating_add(node.working_set);
            sum.expects = sum.expects.saturating_add(node.expects);
            sum.starts = sum.starts.saturating_add(node.starts);
            sum.last = sum.last.saturating_add(node.last);
            if node.wants() {
                // Floating point, but rounded once per node to a whole number, so the sum does not
                // depend on the order.
                let part = f64::from(node.weight) / weights as f64;
                node.pull = (node.coefficient as f64 * part.sqrt()) as u64;
                node.cost = node.resizing * part;
                sum.resizing += node.cost;
                // One that rests has no pull, and may give memory all the same.
                let by = node.pull.max(1) as f64;
                lasting.0 += by * node.lasts;
                lasting.1 += by;
                sum.demand = sum.demand.saturating_add(node.demand);
                sum.live = sum.live.saturating_add(node.live);
                sum.modest = sum.modest.max(scaled(node.modest, weights, node.weight));
                one_class &= class.is_none_or(|class| class == node.priority);
                class = Some(node.priority);
                sum.coefficient = sum
                    .coefficient
                    .saturating_add(node.pull)
                    .min(MOST_PULL as u64);
                sum.known &= node.known;
            }
        }
        if family == 0 {
            return;
        }
        let node = &mut nodes[family - 1];
        node.uses = sum.uses;
        node.working_set = sum.working_set;
        node.starts = sum.starts;
        node.expects = sum.expects.min(node.max.max(sum.uses));
        node.demand = sum.demand.min(node.max);
        node.live = sum.live;
        // With this size each member has what it needs. With several classes that does not hold:
        // lower classes are served last, from less.
        node.modest = if one_class { sum.modest } else { MOST_BUDGET };
        node.coefficient = sum.coefficient;
        (node.resizing, node.last) = (sum.resizing, sum.last);
        node.lasts = lasting.0 / lasting.1.max(1.0);
        node.known = sum.known && sum.demand > 0 && !node.apart;
    }
}

/// The whole, if `bytes` is its fraction `weight / weights`.
fn scaled(bytes: u64, weights: u64, weight: u32) -> u64 {
    let all = u128::from(bytes) * u128::from(weights) / u128::from(weight.max(1));
    u64::try_from(all).unwrap_or(u64::MAX).min(MOST_BUDGET)
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
    let uses = p.uses.min(MOST_USED);
    let expects = uses
        .saturating_add_signed(p.trend)
        .min(uses.max(p.max))
        .min(MOST_USED);
    let c = &p.collector;
    let known = c.is_known();
    let whole = if known {
        c.live as f64 / c.collection_speed as f64
    } else {
        0.0
    };
    // A program that says that it takes long holds up the moves of its siblings, so it is not believed more
    // than this.
    let reaction = (f64::from(p.resizing_ms) / 1e3).min(4.0 * whole + 0.2);
    let root = (whole * c.allocation_rate as f64).sqrt();
    Node {
        weight: p.own_weight.max(1),
        priority: p.own_priority,
        max: p.max,
        demand: p.demand.min(p.max),
        uses,
        working_set: p.working_set,
        live: c.live,
        modest: p.modest.min(MOST_BUDGET),
        resizing: whole.max(reaction),
        lasts: f64::from(p.lasts_ms) / 1e3,
        last: p.last_target,
        coefficient: (root * PULL_UNIT).min(MOST_PULL) as u64,
        known,
        expects,
        starts: uses.min(expects),
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
