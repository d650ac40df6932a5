//! Shares of memory: Algorithms 1, 2 and 3 of Walfield with corrections, the safe limit,
//! and the slack.
//!
//! # Glossary
//! - *principal*: a node of the tree. Its *own* memory competes with its children like one more
//!   child, with the child-relative `own_weight` and `own_priority` (paper 4.1).
//! - *family*: the own memory and the children of one principal, or all principals at the top.
//! - *class*: the members of a family that have the same priority.
//! - *entitlement*: its weighted share among members that want memory; guaranteed, except what it
//!   lends.
//! - *modest*: the size at which its collections still cost it little.
//! - *target*: its size at rest: weighted max-min by priority class, capped by demand, with the
//!   slack distributed by the square-root rule.
//! - *limit*: the memory that it may use now. The sum of all that may be or still is used never exceeds the
//!   budget.
//! - *lacks*: it is near its limit and below its target. Then what others hold above their targets is
//!   *called*.
//! - *slack*: the part of entitlements that their owners do not want.
//! - *apart*: a principal that neither lends to its siblings nor borrows from them: a user's group.
//!
//! # The rule
//! From the top down, a family shares the memory of its principal (at the top, the budget). Only
//! members that want memory count. A member's demand is what it and its descendants can use, at
//! most its `max`.
//!
//! Classes are served from the highest down. Each class gets all that is left, except the memory
//! *protected* for lower classes: the working set of each member, up to its plain weighted share of
//! the family. So the protected memory always fits; Algorithm 1's halving is needed only in
//! [`Shares::victim`]. Within a class the rule is weighted max-min: all members rise at the pace of
//! their weights until each has what it wants.
//!
//! The *entitlement* follows the same rule, but assumes that the peers want any amount. So it does
//! not depend on how much peers of the same class want, only on which members want memory and on
//! what higher classes take. Entitlements of one class never exceed what the class has;
//! entitlements of several classes together may.
//!
//! A member whose collector is known lends the part of its entitlement beyond its *modest* size,
//! which it would hardly miss. Members with known collectors together get memory beyond what they
//! keep; it goes where it saves most collection time (square-root rule). A member with an unknown
//! collector gets exactly weighted max-min. So does a member that stands *apart*: reports about
//! collectors below it move no memory between it and its siblings. Rounding leaves less than one
//! byte per member unused, so that equal members get the same.
//!
//! The *limit* keeps two bounds, every `max` and the budget: the memory held (the greater of limit
//! and use) sums up to no more than the cap, or than the use where that is already more. No limit
//! falls below the rightful use (use up to the target). Unused grants are kept up to the
//! entitlement. Further free memory goes to the members furthest below their entitlements, in
//! proportion to these. Free memory that no member wants keeps limits from falling. A member that holds
//! more than its target keeps that until somebody lacks it whom it would help. A member at its *least*
//! owes only to one that waits for its entitlement.
//!
//! # Example
//! Weights 10, 40 and 20 share 1600 MB. If all want any amount, the entitlements and the targets
//! are 228, 914 and 457 MB. If the second wants only 400 MB, the targets are 400, 400 and 800, and
//! the entitlements stay. If it wants nothing, both are 533, 0 and 1066. If it comes back while the
//! others are at these sizes, its target is 914 at once and its limit 0. The others' limits fall to
//! 228 and 457, so they owe 305 and 609. With each byte that they return, its limit rises by one.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `types` | inputs of each principal, and decisions |
//! | `tree` | the principals as a flattened tree of competitors |
//! | `demand` | the memory that each principal and its descendants can use |
//! | `fill` | water-filling with weights, floors and caps |
//! | `collecting` | the collections that more memory saves a competitor |
//! | `target` | entitlement and target |
//! | `holding` | the memory that a competitor holds, lacks and must give back |
//! | `limit` | the safe limit |
//! | `prospect` | the memory that a competitor comes to and could have |
//! | `available` | the memory that each principal could have if it asked |
//! | `victim` | whom to revoke memory from |

mod available;
mod collecting;
mod demand;
mod fill;
mod holding;
mod limit;
mod prospect;
mod target;
mod tree;
mod types;
mod victim;

#[cfg(test)]
mod tests;

use plimsoll_unit::Bytes;
use target::Goal;

pub use demand::useful_demand;
pub use types::{Collector, Principal, Share, Victim};

/// The engine. It owns its scratch memory, so that a decision does not allocate.
#[derive(Debug, Default)]
pub struct Shares {
    tree: tree::Tree,
    filler: fill::Filler,
    ranks: available::Ranks,
    out: Vec<Share>,
    capacity: usize,
}

impl Shares {
    /// Allocates memory for `principals` principals. A decision about more grows it once.
    pub fn with_capacity(principals: usize) -> Shares {
        let mut shares = Shares::default();
        shares.reserve(principals);
        shares
    }

    fn reserve(&mut self, principals: usize) {
        if principals > self.capacity {
            self.tree.reserve(principals);
            self.filler.reserve(principals + 1);
            self.ranks.reserve(principals + 1);
            self.out.clear();
            self.out.reserve(principals);
            self.capacity = principals;
        }
    }

    /// Decides how much of the `budget` each principal may use. Returns one share per principal,
    /// in the same order. A `parent` that does not precede its child counts as none; a weight of 0
    /// counts as 1. The result depends only on the input.
    pub fn decide(&mut self, principals: &[Principal], budget: Bytes) -> &[Share] {
        self.reserve(principals.len());
        let budget = budget.0.min(types::MOST_BUDGET);
        self.tree.build(principals);
        for goal in [Goal::Entitlement, Goal::Target] {
            self.descend(budget, goal);
        }
        limit::decide(&mut self.tree, principals, budget, &mut self.filler);
        available::decide(&mut self.tree, budget, &mut self.filler, &mut self.ranks);
        self.publish(principals);
        &self.out
    }

    /// The principal whose own memory to revoke first (Algorithm 1); `None` when nobody uses any.
    pub fn victim(&mut self, principals: &[Principal]) -> Option<Victim> {
        self.reserve(principals.len());
        self.tree.build(principals);
        victim::select(&self.tree)
    }

    fn descend(&mut self, budget: u64, goal: Goal) {
        for family in 0..=self.tree.count() {
            let (nodes, members) = self.tree.open(family);
            let memory = match (family, goal) {
                (0, _) => budget,
                (_, Goal::Entitlement) => nodes[family - 1].entitlement,
                (_, Goal::Target) => nodes[family - 1].target,
            };
            target::share_out(nodes, members, memory, goal, &mut self.filler);
        }
    }

    fn publish(&mut self, principals: &[Principal]) {
        let n = principals.len();
        self.out.clear();
        self.out.extend(
            self.tree.nodes[n..]
                .iter()
                .zip(principals)
                .map(|(own, p)| limit::share(own, p)),
        );
        for i in (0..n).rev() {
            if let Some(parent) = tree::parent(principals, i) {
                self.out[parent].subtree_limit += self.out[i].subtree_limit;
            }
            let own = &mut self.out[i];
            own.subtree_available = self.tree.nodes[i].prospect.available.max(own.subtree_limit);
        }
    }
}
