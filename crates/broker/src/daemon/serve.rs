//! Connections: accepts them, reads their calls, and cuts them off.

use super::Daemon;
use super::users::rules;
use crate::members::Members;
use crate::server::connection::{Connection, Occupation, Peer, Read};
use crate::server::poll::{Interest, Slot, Token, Turn};
use crate::server::users::Listening;
use plimsoll_kernel::clock::now_ns;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::{WireError, encode_error};
use rustix::io::Errno;

/// Most connections accepted per event, and most calls answered per connection and turn, before
/// others have their turn.
const ACCEPT_AT_ONCE: usize = 64;
const CALLS_AT_ONCE: usize = 32;
/// Time for turns of connections before a due tick is checked for, ns. A single call may take
/// longer.
const ROUND_NS: u64 = 5_000_000;
/// Connections to pressure sockets that a user may have beyond one per principal, for children that
/// speak the protocol as well. A quarter of its connections.
const LISTENERS_BEYOND: usize = 256;

impl Daemon {
    pub(super) fn accept(&mut self, now: u64) {
        for _ in 0..ACCEPT_AT_ONCE {
            match self.listener.accept() {
                Ok(Some((fd, peer))) => {
                    self.rest.worked();
                    match self.clients.insert(fd, peer, now, self.config.max_per_user) {
                        Ok(slot) => self.watch_new(slot),
                        Err(refused) => {
                            let (mut connection, why) = *refused;
                            tell(&mut connection, &why, now);
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => return self.rest_from(Token::Listener, error, now),
            }
        }
    }

    /// Stops watching a listener that cannot accept: a waiting client would only wake us
    /// repeatedly.
    fn rest_from(&mut self, listener: Token, error: Errno, now: u64) {
        if self.rest.begin(listener, now) {
            tracing::warn!(%error, "a connection could not be accepted; raise the limit of open files; \
                                    it is tried again each second");
        }
        self.arm(listener, Interest::Nothing);
    }

    /// Watches rested listeners again when their time is over.
    pub(super) fn end_rests(&mut self, now: u64) {
        for listener in self.rest.end(now) {
            self.arm(listener, Interest::Read);
        }
    }

    fn arm(&self, listener: Token, interest: Interest) {
        let armed = match listener {
            Token::PressureListener(id) => match self.members.get(id) {
                Some(member) => self.poll.modify(&member.pressure, listener, interest),
                None => Ok(()),
            },
            _ => self.poll.modify(&self.listener, listener, interest),
        };
        if let Err(error) = armed {
            tracing::warn!(?listener, %error, "a listener cannot be watched");
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

    /// Gives each waiting connection at most one turn, for a bounded time. The rest comes first in
    /// the next round.
    pub(super) fn take_turns(&mut self, now: u64) {
        self.clients.resume(now);
        let ends = now_ns().saturating_add(ROUND_NS);
        for _ in 0..self.clients.waiting() {
            let Some((slot, turn)) = self.clients.next_turn() else {
                return;
            };
            let uid = self
                .clients
                .get_mut(slot)
                .map(|connection| connection.peer.uid);
            let began = now_ns();
            self.have_turn(slot, turn, now, ends);
            let ended = now_ns();
            if let Some(uid) = uid.filter(|&uid| !self.is_ruler(uid)) {
                self.spending.spend(uid, ended.saturating_sub(began), ended);
            }
            if ended >= ends {
                return;
            }
        }
    }

    fn have_turn(&mut self, slot: Slot, turn: Turn, now: u64, ends: u64) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        let mut ended = turn.gone && !turn.readable;
        if turn.writable && !connection.flush(now) {
            ended = true;
        }
        // Messages read earlier are answered before more is read.
        if turn.readable && connection.wanted_interest() == Interest::Read {
            match connection.read(now) {
                Read::Some | Read::Empty => {}
                Read::End => ended = true,
                Read::TooMuch => {
                    let error = unfinished(connection.peer.uid);
                    return self.cut_off(slot, &error, now);
                }
            }
        }
        if !ended && turn.writable {
            self.caught_up(slot, now);
        }
        self.show_again(slot, now);
        // A closed connection has no further turn.
        self.answer(slot, now, if ended { u64::MAX } else { ends });
        match ended {
            true => self.close(slot),
            false => self.settle(slot),
        }
    }

    /// Answers messages that were read: a bounded number of calls, and no further one after `ends`.
    fn answer(&mut self, slot: Slot, now: u64, ends: u64) {
        for _ in 0..CALLS_AT_ONCE {
            let Some(connection) = self.clients.get_mut(slot) else {
                return;
            };
            if connection.occupation != Occupation::Free || connection.queued() > 0 {
                return;
            }
            let uid = connection.peer.uid;
            let may_spend = rules(self.uid, uid) || self.spending.may(uid, now);
            if !connection.may_call(now) || !may_spend {
                connection.pause();
                return self.clients.pause(slot, now);
            }
            match connection.next_message(now) {
                Ok(Some(message)) => self.carry_out(slot, &message, now),
                Ok(None) => return,
                Err(error) => {
                    let error = WireError::about("message", error.to_string());
                    return self.cut_off(slot, &error, now);
                }
            }
            if now_ns() >= ends {
                break;
            }
        }
        // Its remaining calls wait until others had their turn.
        if let Some(connection) = self.clients.get_mut(slot)
            && connection.occupation == Occupation::Free
        {
            connection.pause();
            self.clients.queue(slot, Turn::default());
        }
    }

    /// Executes one message. Any call except those for a listing may change what the listing shows.
    fn carry_out(&mut self, slot: Slot, message: &[u8], now: u64) {
        self.shown.watch_use();
        self.call(slot, message, now);
        if !self.shown.was_used() {
            self.shown.forget();
        }
    }

    /// Sends encoded messages; closes the connection when that fails. Messages to a new principal
    /// are held until its numbers are on its page.
    pub(super) fn send(&mut self, slot: Slot, encoded: &[u8], now: u64) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        if !connection.is_held() && lacks_numbers(connection, &self.members) {
            connection.hold();
            self.newcomers.push(slot);
        }
        match connection.send(encoded, now) {
            true => self.settle(slot),
            false => {
                let Peer { uid, pid } = connection.peer;
                tracing::debug!(uid, pid, "closed: it left, or leaves too much unread");
                self.close(slot);
            }
        }
    }

    /// Releases the held replies of principals whose numbers are on their pages now.
    pub(super) fn release_newcomers(&mut self) {
        let Daemon {
            newcomers,
            clients,
            members,
            ..
        } = self;
        newcomers.retain(|&slot| {
            let Some(connection) = clients.get_mut(slot) else {
                return false;
            };
            if lacks_numbers(connection, members) {
                return true;
            }
            connection.release();
            let turn = Turn {
                writable: true,
                ..Turn::default()
            };
            clients.queue(slot, turn);
            false
        });
    }

    pub(super) fn send_error(&mut self, slot: Slot, error: &WireError, now: u64) {
        let mut encoded = Vec::new();
        encode_error(&mut encoded, error);
        self.send(slot, &encoded, now);
    }

    /// Sends the error as far as the peer accepts it, and closes the connection.
    pub(super) fn cut_off(&mut self, slot: Slot, error: &WireError, now: u64) {
        if let Some(connection) = self.clients.get_mut(slot) {
            tracing::debug!(uid = connection.peer.uid, pid = connection.peer.pid, %error, "cut off");
            tell(connection, error, now);
        }
        self.close(slot);
    }

    /// Updates the events to watch for on a connection.
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

    /// Closes a connection and ends the principal that lives on it.
    pub(super) fn close(&mut self, slot: Slot) {
        let Some(connection) = self.clients.remove(slot) else {
            return;
        };
        self.rest.cut_short();
        if let Occupation::Subscribed { id, .. } = connection.occupation
            && let Some(member) = self.members.get_mut(id)
        {
            member.subscribers.retain(|subscriber| *subscriber != slot);
        }
        if let Some(id) = connection.principal {
            self.shown.forget();
            self.end(id, "its connection was closed");
        }
    }

    /// Cuts off connections with an unfinished message or an unread reply for too long, and frees
    /// unused state.
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
        self.clients.sweep_users();
        self.spending.sweep(now);
        self.state.forget_dead(now);
        self.shown.sweep(now);
    }

    pub(super) fn accept_pressure(&mut self, id: Id, now: u64) {
        let Some(owner) = self.members.get(id).map(|member| member.uid) else {
            return;
        };
        let most = self
            .members
            .owned_by(owner)
            .saturating_add(LISTENERS_BEYOND);
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let (clients, ours) = (&mut self.clients, self.uid);
        let admit = |peer: Peer| {
            let may = peer.uid == owner || rules(ours, peer.uid);
            let user = may.then(|| clients.user(peer.uid, now))?;
            Listening::begin(&user, most)
        };
        let failed = match member.pressure.accept(admit) {
            Ok(Some(fd)) => {
                // If it cannot be watched, its end is noticed only when a byte cannot be sent.
                let _ = self
                    .poll
                    .add(fd, Token::PressureListeners(id), Interest::Nothing);
                self.rest.worked();
                None
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            self.rest_from(Token::PressureListener(id), error, now);
        }
    }
}

fn unfinished(uid: u32) -> WireError {
    let message = format!(
        "user {uid} leaves more bytes of unfinished messages here than it may; end each message with a \
         NUL byte, and \
         read replies before the next calls"
    );
    WireError::about("message", message)
}

/// Whether the connection has a principal that no tick has seen yet.
fn lacks_numbers(connection: &Connection, members: &Members) -> bool {
    let member = connection.principal.and_then(|id| members.get(id));
    member.is_some_and(|member| member.page.generation() == 0)
}

fn tell(connection: &mut Connection, error: &WireError, now: u64) {
    let mut encoded = Vec::new();
    encode_error(&mut encoded, error);
    let _ = connection.send(&encoded, now);
}
