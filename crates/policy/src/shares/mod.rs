//! Who may use how much: Algorithms 1, 2 and 3 of Walfield, mended; the safe limit; the slack.
//!
//! # Glossary
//! - *principal*: a node of the tree. Its *own* memory competes with its children as if it were one
//!   more child, with the child-relative `own_weight` and `own_priority` (paper 4.1).
//! - *family*: the own memory and the children of one principal, or those at the top.
//! - *class*: the members of a family that have the same priority.
//! - *entitlement*: its weighted share among those who want memory; guaranteed, but for what it lends.
//! - *modest*: the size with which its collections still cost it little.
//! - *target*: what it should have at rest: weighted max-min by priority class, capped by demand,
//!   the slack spread by the square-root rule.
//! - *limit*: what it may use now: at most the target, and never so much that the sum of what all
//!   may use or still use exceeds the budget.
//! - *slack*: what others do not want of their entitlement.
//! - *apart*: a principal that lends nothing to its siblings, nor they to it: the group of a user.
//!
//! # The rule
//! From the top down, a family shares what its principal got (at the top, the budget). Only members
//! that want memory count; a member's demand is what it and all below it can use, at most its `max`.
//! Classes are served from the highest down. Each gets all that is left, except what is *protected*
//! of the classes below: the working set of each, up to its plain weighted share of the family
//! (so all that is protected always fits; Algorithm 1's halving is left to [`Shares::victim`]).
//! In a class it is weighted max-min: everybody rises at the pace of its weight until it has what it
//! wants. The *entitlement* is the same, but with peers that want any amount: so it does not depend
//! on what peers of the same class want, only on who wants anything, and on what higher classes
//! take. Entitlements of one class never exceed what the class has; over several classes they may.
//! One whose collector is known lends what its entitlement is beyond its *modest* size: it would hardly
//! miss that. What members with known collectors get in sum beyond what they keep goes where it saves most
//! collection time (square-root rule); one whose collector is not known gets exactly weighted
//! max-min, and so does one that stands *apart*: what is told of the collectors below it moves nothing
//! between it and its siblings. Rounding leaves less than one byte per member to nobody: equals get the same.
//!
//! The *limit* holds, under every `max` and under the budget: what is held (the greater of limit and
//! use) sums up to no more than the cap, or than the use where that is more already. Nobody's limit
//! falls below what it rightly uses (use up to target). Unused grants are kept up to the entitlement;
//! what is free beyond goes to whoever is furthest under its entitlement, in proportion to it.
//!
//! # Example
//! Weights 10, 40 and 20 share 1600 MB. All want any amount: 228, 914 and 457 MB, entitlement and
//! target alike. The second wants 400 MB only: the targets are 400, 400 and 800, the entitlements
//! stay. It wants nothing: 533, 0 and 1066. It comes back with the others at these: its target is
//! 914 at once, its limit 0; the others' limits fall to 228 and 457, and they owe 305 and 609; with
//! each byte that they return, its limit rises by one.

mod available;
mod demand;
mod fill;
mod limit;
mod target;
mod tree;
mod types;
mod victim;

#[cfg(test)]
mod tests;

use target::Goal;

pub use demand::useful_demand;
pub use types::{Collector, Principal, Share, Victim};

/// The engine. It owns its scratch memory, so that a decision allocates nothing.
#[derive(Debug, Default)]
pub struct Shares {
    tree: tree::Tree,
    filler: fill::Filler,
    ranks: available::Ranks,
    out: Vec<Share>,
    capacity: usize,
}

impl Shares {
    /// Takes the memory for `principals` principals. More may be decided about; then it grows once.
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

    /// Decides who may use how much of `budget` bytes; one share per principal, in their order. A
    /// `parent` that does not stand before its child counts as none; weights of 0 count as 1. Same
    /// input, same output.
    pub fn decide(&mut self, principals: &[Principal], budget: u64) -> &[Share] {
        self.reserve(principals.len());
        let budget = budget.min(tree::MOST_BUDGET);
        self.tree.build(principals);
        for goal in [Goal::Entitlement, Goal::Target] {
            self.descend(budget, goal);
        }
        limit::decide(&mut self.tree, principals, budget, &mut self.filler);
        available::decide(&mut self.tree, budget, &mut self.filler, &mut self.ranks);
        self.publish(principals);
        &self.out
    }

    /// Whose own memory to revoke first (Algorithm 1); `None` when nobody uses any.
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
        }
    }
}
