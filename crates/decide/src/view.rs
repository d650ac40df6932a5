//! Values for listings, and the cheap check between two ticks.

use super::node::Node;
use super::{Core, DomainFigures, Figures, Nanos, Pace, pace};
use plimsoll_wire::messages::Id;
use plimsoll_wire::page::Numbers;

impl Core {
    /// How many principals there are.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Number of principals that count towards the bound: those that a client registered.
    pub fn counted(&self) -> usize {
        self.tree.nodes().filter(|node| !node.automatic).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of the next principal.
    pub fn next_id(&self) -> Id {
        self.next_id
    }

    /// The numbers of one principal at the last tick; for a group, those of all its descendants
    /// together.
    pub fn numbers(&self, id: Id) -> Option<Numbers> {
        self.tree.slot(id).map(|slot| self.tree.at(slot).numbers)
    }

    /// All values of one principal.
    pub fn figures(&self, id: Id) -> Option<Figures> {
        self.tree
            .slot(id)
            .map(|slot| self.figures_of(self.tree.at(slot)))
    }

    /// The name of one principal.
    pub fn name(&self, id: Id) -> Option<&str> {
        self.tree
            .slot(id)
            .map(|slot| self.tree.at(slot).name.as_str())
    }

    /// All principals, parents before their children, older ones first within a level.
    pub fn iter(&self) -> impl Iterator<Item = Figures> + '_ {
        self.tree.by_level().map(|node| self.figures_of(node))
    }

    /// The root domain (`None`), or the domain of a group that was sensed with one.
    pub fn domain(&self, group: Option<Id>) -> Option<DomainFigures> {
        let Some(id) = group else {
            return Some(self.root.figures());
        };
        let slot = self.tree.slot(id)?;
        self.tree
            .at(slot)
            .domain
            .as_ref()
            .map(|domain| domain.figures())
    }

    /// Whether a full tick should come now, from a cheap reading of a domain's use in bytes (the
    /// root's when `group` is `None`). Unknown groups never need one.
    pub fn glance(&self, group: Option<Id>, used: u64) -> bool {
        let Some(id) = group else {
            return pace::is_alarming(&self.root, used);
        };
        let domain = self
            .tree
            .slot(id)
            .and_then(|slot| self.tree.at(slot).domain.as_ref());
        domain.is_some_and(|domain| pace::is_alarming(domain, used))
    }

    /// Times of the next tick and glance, counted from the last tick. A command shortens them.
    pub fn pace(&self) -> Pace {
        self.pacer.pace()
    }

    /// Nanoseconds from the last tick until the next full one; less than a second.
    pub fn next_tick(&self) -> Nanos {
        self.pace().tick
    }

    fn figures_of(&self, node: &Node) -> Figures {
        Figures {
            id: node.id,
            parent: node.parent.map(|above| self.tree.at(above).id),
            kind: node.kind,
            adaptive: node.adaptive,
            weight: node.weight,
            priority: node.priority,
            own_weight: node.own_weight,
            own_priority: node.own_priority,
            max: node.max,
            tenant: node.tenant,
            numbers: node.numbers,
            subtree_uses: node.account.subtree_uses,
            subtree_limit: node.subtree_limit,
            target: node.share.target,
            demand: node.demand,
            working_set: node.working_set.map(|touched| touched.min(node.uses)),
            swapped: node.swapped,
            joined: node.joined,
            live: node.reported.live,
            collections: node.reported.collections,
            collection_ms: node.reported.collection_ms,
            stall_rate: node.trust.rate(self.clock.now),
            doubted: node.trust.is_doubted(self.clock.now),
            collector: node.reported.collector,
            at_least: node.is_at_least(),
            lacks: node.share.lacks,
            rung: node.ladder.rung,
        }
    }
}
