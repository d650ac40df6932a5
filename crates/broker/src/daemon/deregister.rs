//! Removes a principal.

use super::Daemon;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::{ErrorName, WireError, encode_error};

impl Daemon {
    pub(super) fn process_ended(&mut self, id: Id) {
        self.end(id, "its process exited");
    }

    /// Removes a principal: its children move to its parent, and its subscribers are told.
    pub(super) fn end(&mut self, id: Id, why: &str) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        tracing::debug!(principal = id, name = %member.name, why, "ended");
        let parent = self.core.figures(id).and_then(|figures| figures.parent);
        let _ = self.core.remove(id);
        self.acting.forget(id);
        self.state.forget(id);
        let gone = WireError::new(
            ErrorName::NoSuchPrincipal,
            format!("principal {id} ended: {why}"),
        );
        let mut encoded = Vec::new();
        encode_error(&mut encoded, &gone);
        let now = plimsoll_kernel::clock::now();
        for &slot in &member.outlet.subscribers {
            if let Some(connection) = self.serving.connection(slot) {
                connection.occupation = Default::default();
            }
            self.send(slot, &encoded, now);
        }
        if let Some(home) = member.home {
            self.acting
                .retire(member.owner.uid, home, member.descriptors);
        }
        if !member.unit.is_empty() {
            self.stand_without(parent);
        }
        self.drop_empty_automatic(parent);
        self.weigh_automatic();
        self.state.touch();
        self.tick_soon_for(member.owner.uid, now);
    }
}
