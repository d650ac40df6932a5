//! Connections: gives them turns, carries out their calls, and cuts them off.

use super::Daemon;
use super::serving::{Begun, Message};
use crate::server::epoll::{Slot, Turn};
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::varlink::{WireError, encode_error};

/// Most calls answered per connection and turn, before others have their turn.
const CALLS_AT_ONCE: usize = 32;
/// Time for turns of connections before a due tick is checked for. A single call may take
/// longer.
const ROUND: Nanos = Nanos::millis(5);

impl Daemon {
    /// Gives each waiting connection at most one turn, for a bounded time. The rest comes first in
    /// the next round.
    pub(super) fn take_turns(&mut self, now: Nanos) {
        self.serving.resume(now);
        let ends = clock::now() + ROUND;
        for _ in 0..self.serving.waiting() {
            let Some((slot, turn, uid)) = self.serving.next_turn() else {
                return;
            };
            let began = clock::now();
            self.have_turn(slot, turn, now, ends);
            let ended = clock::now();
            if let Some(uid) = uid {
                self.time.spend(uid, ended - began, ended);
            }
            if ended >= ends {
                return;
            }
        }
    }

    fn have_turn(&mut self, slot: Slot, turn: Turn, now: Nanos, ends: Nanos) {
        let (ended, caught_up) = match self.serving.begin_turn(slot, turn, now) {
            None => return,
            Some(Begun::Broken(error)) => return self.cut_off(slot, &error, now),
            Some(Begun::Goes { ended, caught_up }) => (ended, caught_up),
        };
        if caught_up && let Some(encoded) = self.serving.newer(&self.members, &self.core, slot) {
            self.send(slot, &encoded, now);
        }
        self.show_again(slot, now);
        // A closed connection has no further turn.
        self.answer(slot, now, if ended { Nanos(u64::MAX) } else { ends });
        if ended || !self.serving.settle(slot) {
            self.close(slot);
        }
    }

    /// Answers messages that were read: a bounded number of calls, and no further one after `ends`.
    fn answer(&mut self, slot: Slot, now: Nanos, ends: Nanos) {
        for _ in 0..CALLS_AT_ONCE {
            match self.serving.next_message(slot, &self.time, now) {
                Message::Call(message) => self.carry_out(slot, &message, now),
                Message::Nothing => return,
                Message::Broken(error) => return self.cut_off(slot, &error, now),
            }
            if clock::now() >= ends {
                break;
            }
        }
        self.serving.put_off(slot);
    }

    /// Executes one message. Any call except those for a listing may change what the listing shows.
    fn carry_out(&mut self, slot: Slot, message: &[u8], now: Nanos) {
        self.serving.shown().watch_use();
        self.call(slot, message, now);
        let shown = self.serving.shown();
        if !shown.was_used() {
            shown.forget();
        }
    }

    /// Sends encoded messages; closes the connection when that fails. Messages to a new principal
    /// are held until its numbers are on its page.
    pub(super) fn send(&mut self, slot: Slot, encoded: &[u8], now: Nanos) {
        if !self.serving.send(&self.members, slot, encoded, now) {
            self.close(slot);
        }
    }

    pub(super) fn send_error(&mut self, slot: Slot, error: &WireError, now: Nanos) {
        let mut encoded = Vec::new();
        encode_error(&mut encoded, error);
        self.send(slot, &encoded, now);
    }

    /// Sends the error as far as the peer accepts it, and closes the connection.
    pub(super) fn cut_off(&mut self, slot: Slot, error: &WireError, now: Nanos) {
        self.serving.tell(slot, error, now);
        self.close(slot);
    }

    /// Closes a connection and ends the principal that lives on it.
    fn close(&mut self, slot: Slot) {
        let Some(connection) = self.serving.close(&mut self.members, slot) else {
            return;
        };
        if let Some(id) = connection.principal {
            self.serving.shown().forget();
            self.end(id, "its connection was closed");
        }
    }

    /// Cuts off connections with an unfinished message or an unread reply for too long, and frees
    /// unused state.
    pub(super) fn sweep(&mut self, now: Nanos) {
        for slot in self.serving.slots() {
            let connection = self.serving.connection(slot);
            if let Some(reason) = connection.and_then(|connection| connection.overdue(now)) {
                self.cut_off(slot, &WireError::about("message", reason), now);
            }
        }
        self.serving.sweep(now);
        self.time.sweep(now);
        self.state.forget_dead(now);
    }
}
