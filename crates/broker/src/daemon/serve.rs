//! Connections: who comes, what they send, when they are cut off.

use super::Daemon;
use crate::server::connection::{Connection, Occupation, Read};
use crate::server::poll::{Interest, Ready, Slot, Token};
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::{ErrorName, WireError, encode_error};

/// Connections accepted per event, calls answered per connection and event: then others have their
/// turn.
const ACCEPT_AT_ONCE: usize = 64;
const CALLS_AT_ONCE: usize = 32;

impl Daemon {
    pub(super) fn accept(&mut self, now: u64) {
        for _ in 0..ACCEPT_AT_ONCE {
            match self.listener.accept() {
                Ok(Some((fd, peer))) => {
                    match self.clients.insert(fd, peer, now, self.config.max_per_user) {
                        Ok(slot) => self.watch_new(slot),
                        Err(mut connection) => {
                            let limit = self.config.max_per_user;
                            let message = format!(
                                "user {} already has {limit} connections here; close some, or raise max_per_user in plimsoll.toml",
                                peer.uid
                            );
                            tell(
                                &mut connection,
                                &WireError::new(ErrorName::TooMany, message),
                                now,
                            );
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted; raise the limit of open files");
                    return;
                }
            }
        }
    }

    fn watch_new(&mut self, slot: Slot) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        if let Err(error) = self
            .poll
            .add(&*connection, Token::Connection(slot), Interest::Read)
        {
            tracing::warn!(%error, "a connection cannot be watched; it is closed");
            self.clients.remove(slot);
        }
    }

    pub(super) fn connection_ready(&mut self, slot: Slot, event: Ready, now: u64) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        let mut ended = event.gone && !event.readable;
        if event.writable && !connection.flush(now) {
            ended = true;
        }
        if event.readable && connection.read(now) == Read::End {
            ended = true;
        }
        if !ended && event.writable {
            self.caught_up(slot, now);
        }
        self.answer(slot, now);
        match ended {
            true => self.close(slot),
            false => self.settle(slot),
        }
    }

    /// Answers what was read, a bounded number of calls.
    fn answer(&mut self, slot: Slot, now: u64) {
        for _ in 0..CALLS_AT_ONCE {
            let Some(connection) = self.clients.get_mut(slot) else {
                return;
            };
            if connection.occupation != Occupation::Free || connection.queued() > 0 {
                return;
            }
            if !connection.allow_call(now) {
                break;
            }
            match connection.next_message(now) {
                Ok(Some(message)) => self.call(slot, &message, now),
                Ok(None) => return,
                Err(error) => {
                    let error = WireError::about("message", error.to_string());
                    return self.cut_off(slot, &error, now);
                }
            }
        }
        if let Some(connection) = self.clients.get_mut(slot) {
            connection.pause();
            self.clients.pause(slot);
        }
    }

    /// Those who called too often get their next turn.
    pub(super) fn serve_paused(&mut self, now: u64) {
        if !self.clients.any_paused() {
            return;
        }
        for slot in self.clients.take_paused() {
            self.answer(slot, now);
            self.settle(slot);
        }
    }

    /// Sends encoded messages; closes the connection when that fails.
    pub(super) fn send(&mut self, slot: Slot, encoded: &[u8], now: u64) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        match connection.send(encoded, now) {
            true => self.settle(slot),
            false => self.close(slot),
        }
    }

    pub(super) fn send_error(&mut self, slot: Slot, error: &WireError, now: u64) {
        let mut encoded = Vec::new();
        encode_error(&mut encoded, error);
        self.send(slot, &encoded, now);
    }

    /// Says what was wrong, as far as the peer takes it, and closes.
    pub(super) fn cut_off(&mut self, slot: Slot, error: &WireError, now: u64) {
        if let Some(connection) = self.clients.get_mut(slot) {
            tracing::debug!(uid = connection.peer.uid, pid = connection.peer.pid, %error, "cut off");
            tell(connection, error, now);
        }
        self.close(slot);
    }

    /// Watches for what the connection needs now.
    pub(super) fn settle(&mut self, slot: Slot) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        let wanted = connection.wanted_interest();
        if wanted == connection.interest {
            return;
        }
        connection.interest = wanted;
        if self
            .poll
            .modify(&*connection, Token::Connection(slot), wanted)
            .is_err()
        {
            self.close(slot);
        }
    }

    /// Ends a connection, and the principal that lives on it.
    pub(super) fn close(&mut self, slot: Slot) {
        let Some(connection) = self.clients.remove(slot) else {
            return;
        };
        if let Occupation::Subscribed { id, .. } = connection.occupation
            && let Some(member) = self.members.get_mut(id)
        {
            member.subscribers.retain(|subscriber| *subscriber != slot);
        }
        if let Some(id) = connection.principal {
            self.end(id, "its connection was closed");
        }
    }

    /// Cuts off those who keep half a message or an unread reply for too long.
    pub(super) fn sweep(&mut self, now: u64) {
        let late: Vec<Slot> = self.clients.slots().collect();
        for slot in late {
            let reason = self
                .clients
                .get_mut(slot)
                .and_then(|connection| connection.overdue(now));
            if let Some(reason) = reason {
                self.cut_off(slot, &WireError::about("message", reason), now);
            }
        }
    }

    pub(super) fn accept_pressure(&mut self, id: Id) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let (owner, ours) = (member.uid, self.uid);
        let may = |uid: u32| uid == owner || uid == 0 || uid == ours;
        if let Some(fd) = member.pressure.accept(|peer| may(peer.uid)) {
            // Without a watch it is only forgotten later, when a byte cannot be sent.
            let _ = self
                .poll
                .add(fd, Token::PressureListeners(id), Interest::Nothing);
        }
    }
}

fn tell(connection: &mut Connection, error: &WireError, now: u64) {
    let mut encoded = Vec::new();
    encode_error(&mut encoded, error);
    let _ = connection.send(&encoded, now);
}
