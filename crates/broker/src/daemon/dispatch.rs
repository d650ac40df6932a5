//! Parses a message, calls its method and returns the reply.

use super::Daemon;
use super::caller::Caller;
use super::methods::{Handler, find};
use crate::server::connection::Occupation;
use crate::server::epoll::Slot;
use crate::server::reply::Answer;
use plimsoll_unit::Nanos;
use plimsoll_wire::varlink::{Call, ErrorName, WireError};

impl Daemon {
    /// Executes one message. If it is no valid call, its sender gets an error and is cut off,
    /// because the start of the next message is no longer certain.
    pub(super) fn call(&mut self, slot: Slot, message: &[u8], now: Nanos) {
        let Some(peer) = self
            .serving
            .connection(slot)
            .map(|connection| connection.peer)
        else {
            return;
        };
        let call = match Call::parse(message) {
            Ok(call) => call,
            Err(error) => return self.cut_off(slot, &error, now),
        };
        let caller = Caller { slot, peer, now };
        let answer = self.dispatch(&caller, &call);
        match answer {
            Ok(_) if call.oneway => {}
            Ok(encoded) => self.send(slot, &encoded, now),
            Err(_) if call.oneway => {}
            Err(error) => self.send_error(slot, &error, now),
        }
        if !call.oneway {
            return;
        }
        // A call without a reply cannot occupy its connection either.
        if let Some(connection) = self.serving.connection(slot) {
            connection.occupation = Occupation::Free;
        }
    }

    fn dispatch(&mut self, caller: &Caller, call: &Call<'_>) -> Answer {
        let Some(handler) = find(&call.method) else {
            return Err(WireError::unknown_method(&call.method));
        };
        if call.upgrade {
            return Err(WireError::new(
                ErrorName::Failed,
                "no other protocol is spoken here; leave \"upgrade\" out",
            ));
        }
        match handler {
            Handler::Once(method) => method(self, caller, call),
            Handler::Again(_) if !call.more || call.oneway => {
                Err(WireError::expected_more(&call.method))
            }
            Handler::Again(method) => method(self, caller, call),
        }
    }
}
