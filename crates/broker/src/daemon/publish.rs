//! Sends new numbers to pages, subscribers and pressure sockets.

use super::Daemon;
use crate::core::Action;
use crate::members::{Member, Members};
use crate::server::clients::Clients;
use crate::server::connection::Occupation;
use crate::server::poll::{Interest, Poll, Slot, Token};
use plimsoll_kernel::clock::now_ns;
use plimsoll_wire::messages::{Changed, Id};
use plimsoll_wire::page::{Level, Numbers};
use plimsoll_wire::varlink::encode_reply;

impl Daemon {
    /// A slow subscriber has read everything queued for it: sends the newest numbers if they are
    /// newer.
    pub(super) fn caught_up(&mut self, slot: Slot, now: u64) {
        let Some(connection) = self
            .clients
            .get_mut(slot)
            .filter(|connection| connection.queued() == 0)
        else {
            return;
        };
        let Occupation::Subscribed { id, stale: true } = connection.occupation else {
            return;
        };
        connection.occupation = Occupation::Subscribed { id, stale: false };
        let (Some(numbers), Some(member)) = (self.core.numbers(id), self.members.get(id)) else {
            return;
        };
        let mut encoded = Vec::new();
        let changed = Changed {
            id,
            generation: member.page.generation(),
            numbers,
        };
        if encode_reply(&mut encoded, &changed, true).is_ok() {
            self.send(slot, &encoded, now);
        }
    }
}

/// The parts of the daemon needed to publish, apart from the core, whose actions are being carried
/// out.
pub(super) struct Publisher<'d> {
    /// The principals, whose pages and pressure sockets are written.
    pub(super) members: &'d mut Members,
    /// The connections, of which the subscribed ones get a message.
    pub(super) clients: &'d mut Clients,
    /// Where connections wait until they can be written to.
    pub(super) poll: &'d Poll,
    /// Time of the tick, nanoseconds.
    pub(super) now: u64,
}

impl Publisher<'_> {
    /// Carries out a `Publish`; ignores other actions.
    pub(super) fn publish(&mut self, action: &Action, encoded: &mut Vec<u8>) {
        let Action::Publish { id, numbers, wake } = action else {
            return;
        };
        let Some(member) = self.members.get_mut(*id) else {
            return;
        };
        // The heartbeat is the time of the write, not of the start of the tick.
        if let Err(error) = member.page.publish(numbers, now_ns()) {
            tracing::warn!(principal = id, %error, "its page is old until it can be written");
        }
        press(member, numbers);
        if *wake && !member.subscribers.is_empty() {
            encoded.clear();
            let changed = Changed {
                id: *id,
                generation: member.page.generation(),
                numbers: *numbers,
            };
            if encode_reply(encoded, &changed, true).is_ok() {
                for &slot in &member.subscribers {
                    tell(self.clients, self.poll, *id, slot, encoded, self.now);
                }
            }
        }
    }
}

/// Wakes the listeners of the pressure socket when the level rose, or when more is owed at a raised
/// level.
fn press(member: &mut Member, numbers: &Numbers) {
    let rose = numbers.level > member.level;
    let owes_more = numbers.level > Level::Normal && numbers.owed > member.owed;
    if rose || owes_more {
        member.pressure.wake();
    }
    member.level = numbers.level;
    member.owed = numbers.owed;
}

/// Sends numbers to one subscriber. A subscriber that has not read the previous ones gets only the
/// newest later.
fn tell(clients: &mut Clients, poll: &Poll, id: Id, slot: Slot, encoded: &[u8], now: u64) {
    let Some(connection) = clients.get_mut(slot) else {
        return;
    };
    if connection.queued() > 0 {
        connection.occupation = Occupation::Subscribed { id, stale: true };
        return;
    }
    // If the peer is gone, a separate event reports it.
    let _ = connection.send(encoded, now);
    let wanted = connection.wanted_interest();
    if wanted != connection.interest
        && poll
            .modify(&*connection, Token::Connection(slot), wanted)
            .is_ok()
    {
        connection.interest = wanted;
    }
    debug_assert!(wanted != Interest::Read);
}
