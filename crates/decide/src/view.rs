//! Values for listings, and the cheap check between two ticks.

use super::node::Node;
use super::{Core, DomainFigures, Figures, Pace, Subtree, pace};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Revocations};
use plimsoll_wire::page::Numbers;

impl Core {
    /// How many principals there are.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Number of principals that count towards the bound: those that a client registered.
    pub fn counted(&self) -> usize {
        self.tree
            .nodes()
            .filter(|node| !node.origin.automatic)
            .count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of the next principal.
    pub fn next_id(&self) -> Id {
        self.next_id
    }

    /// The numbers that one principal is told, as of the last tick; for a group, those of all its
    /// descendants together.
    pub fn numbers(&self, id: Id) -> Option<Numbers> {
        self.tree.slot(id).map(|slot| self.tree.at(slot).told())
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
            .sensed
            .domain
            .as_ref()
            .map(|domain| domain.figures())
    }

    /// How often memory was asked or taken back so far, also from principals that are gone. Never falls.
    pub fn revocations(&self) -> Revocations {
        let counts = self.tree.nodes().map(|node| node.ladder.tally.counts);
        counts.fold(self.gone, Revocations::plus)
    }

    /// Whether a full tick should come now, from a cheap reading of a domain's use (the root's
    /// when `group` is `None`). Unknown groups never need one.
    pub fn glance(&self, group: Option<Id>, used: Bytes) -> bool {
        let Some(id) = group else {
            return pace::is_alarming(&self.root, used);
        };
        let domain = self
            .tree
            .slot(id)
            .and_then(|slot| self.tree.at(slot).sensed.domain.as_ref());
        domain.is_some_and(|domain| pace::is_alarming(domain, used))
    }

    /// Times of the next tick and glance, counted from the last tick. A command shortens them.
    pub fn pace(&self) -> Pace {
        self.pacer.pace()
    }

    /// Time from the last tick until the next full one; less than a second.
    pub fn next_tick(&self) -> Nanos {
        self.pace().tick
    }

    fn figures_of(&self, node: &Node) -> Figures {
        Figures {
            id: node.id,
            parent: node.position.parent.map(|above| self.tree.at(above).id),
            kind: node.origin.kind,
            adaptive: node.adaptive,
            tenant: node.origin.tenant,
            joined: node.origin.joined,
            settings: node.settings,
            numbers: node.limits.numbers,
            subtree: Subtree {
                uses: node.account.subtree_uses,
                files: node.account.subtree_files,
                limit: node.limits.subtree_limit,
            },
            wants: node.wants(),
            working_set: node
                .sensed
                .working_set
                .map(|touched| touched.min(node.sensed.uses)),
            swapped: node.sensed.swapped,
            told: node.adapter.reported.told,
            stalls: node.trust.stalls(self.clock.now),
            rung: node.ladder.rung,
            revocations: node.ladder.tally.counts,
        }
    }
}
