//! Sends new numbers to pages, subscribers and pressure sockets.

use super::Serving;
use crate::decide::{Action, Core};
use crate::principals::Members;
use crate::server::connection::Occupation;
use crate::server::epoll::{Interest, Slot, Token};
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Changed, Id};
use plimsoll_wire::varlink::encode_reply;

impl Serving {
    /// The newest numbers for a slow subscriber that has read everything queued for it, encoded; `None` if
    /// it has them.
    pub(in crate::daemon) fn newer(
        &mut self,
        members: &Members,
        core: &Core,
        slot: Slot,
    ) -> Option<Vec<u8>> {
        let connection = self.clients.get_mut(slot)?;
        let Occupation::Subscribed { id, stale: true } = connection.occupation else {
            return None;
        };
        if connection.queued() > 0 {
            return None;
        }
        connection.occupation = Occupation::Subscribed { id, stale: false };
        let changed = Changed {
            id,
            generation: members.get(id)?.outlet.page.generation(),
            numbers: core.numbers(id)?,
        };
        let mut encoded = Vec::new();
        encode_reply(&mut encoded, &changed, true).ok()?;
        Some(encoded)
    }

    /// Carries out a `Publish`; ignores other actions. `encoded` is room that is used again.
    pub(in crate::daemon) fn publish(
        &mut self,
        members: &mut Members,
        action: &Action,
        encoded: &mut Vec<u8>,
        now: Nanos,
    ) {
        let Action::Publish { id, numbers, wake } = action else {
            return;
        };
        let Some(member) = members.get_mut(*id) else {
            return;
        };
        // The heartbeat is the time of the write, not of the start of the tick.
        if let Err(error) = member.outlet.publish(numbers, clock::now()) {
            tracing::warn!(principal = id, %error, "its page is old until it can be written");
        }
        if *wake && !member.outlet.subscribers.is_empty() {
            encoded.clear();
            let changed = Changed {
                id: *id,
                generation: member.outlet.page.generation(),
                numbers: *numbers,
            };
            if encode_reply(encoded, &changed, true).is_ok() {
                for &slot in &member.outlet.subscribers {
                    self.tell_numbers(*id, slot, encoded, now);
                }
            }
        }
    }

    /// Sends numbers to one subscriber. A subscriber that has not read the previous ones gets only the
    /// newest later.
    fn tell_numbers(&mut self, id: Id, slot: Slot, encoded: &[u8], now: Nanos) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        if connection.queued() > 0 {
            connection.occupation = Occupation::Subscribed { id, stale: true };
            return;
        }
        // If the peer is gone, a separate event reports it.
        let _ = connection.send(encoded, now);
        let wanted = connection.wanted_interest();
        let token = Token::Connection(slot);
        if wanted != connection.interest && self.poll.modify(&*connection, token, wanted).is_ok() {
            connection.interest = wanted;
        }
        debug_assert!(wanted != Interest::Read);
    }
}
