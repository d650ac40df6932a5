//! `List` and `Watch`.

use super::Daemon;
use crate::core::Figures;
use crate::server::connection::Occupation;
use crate::server::poll::Slot;
use crate::server::reply::again;
use plimsoll_wire::messages::{Id, Listing, Principal};
use std::collections::HashMap;

impl Daemon {
    pub(super) fn listing(&mut self) -> Listing {
        let domain = self.core.domain(None).unwrap_or_default();
        let figures: Vec<Figures> = self.core.iter().collect();
        let members = &mut self.members;
        let shown = figures
            .iter()
            .filter_map(|figures| Some((figures, members.get_mut(figures.id)?.show(figures))));
        Listing {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            capacity: domain.capacity,
            outsiders: domain.outsiders,
            reserve: domain.reserve.saturating_add(domain.expected),
            budget: domain.budget,
            domain: self.domain.name(),
            principals: nest(
                shown
                    .map(|(figures, principal)| (figures.parent, principal))
                    .collect(),
            ),
        }
    }

    /// When the next watcher is due, ns.
    pub(super) fn next_watch(&self) -> Option<u64> {
        self.clients.next_watch()
    }

    /// Sends a listing to every watcher that is due; one that has not read the last is left out.
    pub(super) fn watch_due(&mut self, now: u64) {
        if self.clients.next_watch().is_none_or(|due| due > now) {
            return;
        }
        let slots: Vec<Slot> = self.clients.slots().collect();
        let mut encoded: Option<Vec<u8>> = None;
        for slot in slots {
            let Some(connection) = self.clients.get_mut(slot) else {
                continue;
            };
            let Occupation::Watching { interval, due } = connection.occupation else {
                continue;
            };
            if due > now {
                continue;
            }
            connection.occupation = Occupation::Watching {
                interval,
                due: now.saturating_add(interval),
            };
            if connection.queued() > 0 {
                continue;
            }
            if encoded.is_none() {
                encoded = again(&self.listing()).ok();
            }
            if let Some(encoded) = &encoded {
                self.send(slot, encoded, now);
            }
        }
    }
}

/// Puts principals (parents before their children) under their parents.
fn nest(flat: Vec<(Option<Id>, Principal)>) -> Vec<Principal> {
    let mut children: HashMap<Option<Id>, Vec<Principal>> = HashMap::new();
    // From the end: when a principal is reached, all of its children were.
    for (parent, mut principal) in flat.into_iter().rev() {
        principal.children = children.remove(&Some(principal.id)).unwrap_or_default();
        principal.children.reverse();
        children.entry(parent).or_default().push(principal);
    }
    let mut top = children.remove(&None).unwrap_or_default();
    top.reverse();
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_stand_under_their_parents_in_order() {
        let principal = |id| Principal {
            id,
            ..Principal::default()
        };
        let flat = vec![
            (None, principal(1)),
            (Some(1), principal(2)),
            (Some(2), principal(3)),
            (Some(1), principal(4)),
            (None, principal(5)),
        ];
        let tree = nest(flat);
        assert_eq!(tree.iter().map(|p| p.id).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(
            tree[0].children.iter().map(|p| p.id).collect::<Vec<_>>(),
            [2, 4]
        );
        assert_eq!(tree[0].children[0].children[0].id, 3);
    }
}
