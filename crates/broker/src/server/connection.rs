//! One client connection: bounded buffers, its peer, and its state.

use super::epoll::{Interest, Turn};
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::users::{Allowance, User};
use crate::user_quota::Held;
pub use plimsoll_kernel::peer::Peer;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::{FramingError, MAX_REPLY};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Most bytes queued for a slow reader: one reply of the largest size and a little.
pub const MAX_QUEUED: usize = MAX_REPLY + 4096;
/// Bytes read from one connection before others have their turn.
const READ_AT_ONCE: usize = 16 * 1024;
/// How long an unfinished message is waited for.
pub const PARTIAL_TIMEOUT: Nanos = Nanos::seconds(10);
/// How long an unread reply is kept.
pub const UNREAD_TIMEOUT: Nanos = Nanos::seconds(30);
/// Bytes that a principal or a subscriber may leave unread for longer: a program that was stopped
/// for a while must not lose its registration because of a few short messages. Only listings are
/// longer.
const MAX_KEPT: usize = 64 * 1024;
/// Calls per second of one connection; with more it waits.
const CALLS_PER_SECOND: u32 = 2_000;

/// The use of a connection. Any but `Free` keeps it from calling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occupation {
    /// Nothing: it may call.
    #[default]
    Free,
    /// It receives every change of a principal.
    Subscribed {
        /// The principal.
        id: Id,
        /// Whether a newer change than the last one sent waits for room.
        stale: bool,
    },
    /// It receives a listing repeatedly.
    Watching {
        /// Time between two listings.
        interval: Nanos,
        /// Time when the next one is due.
        due: Nanos,
    },
    /// It gets a last error, then is cut off.
    Ending,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// There may be messages now.
    Some,
    /// Nothing at present.
    Empty,
    /// More was read than its user may leave unfinished; the connection must be cut off.
    TooMuch,
    /// The peer will send no more.
    End,
}

/// One client. Belongs to the deciding thread.
#[derive(Debug)]
pub struct Connection {
    /// The socket, which does not block.
    fd: OwnedFd,
    /// Uid and process id of the peer.
    pub peer: Peer,
    /// Its use: whether it may call.
    pub occupation: Occupation,
    /// The principal that lives on this connection.
    pub principal: Option<Id>,
    /// Interest last set in epoll.
    pub interest: Interest,
    /// Reasons for its turn, while it waits for one.
    pub turn: Option<Turn>,
    /// The user that everything here counts for.
    user: Rc<User>,
    /// Bytes read that are not a whole message yet.
    inbox: Inbox,
    /// Counts the descriptor for the user.
    _descriptor: Option<Held>,
    /// Whether calls that were read have to wait.
    paused: bool,
    /// Whether its reply is held until its principal has its first numbers.
    held: bool,
    /// Bytes to be sent.
    outbox: Outbox,
    /// Time since which an unfinished message waits for its end; 0 when there is none.
    partial_since: Nanos,
    /// Time since which a reply waits to be read by the client; 0 when there is none.
    unread_since: Nanos,
    /// Rate limit of this connection's calls.
    calls: Allowance,
}

impl Connection {
    /// Takes over an accepted non-blocking socket of a user. A connection that only gets a refusal
    /// has no `descriptor` counted for the user.
    #[must_use]
    pub fn new(
        fd: OwnedFd,
        peer: Peer,
        user: Rc<User>,
        descriptor: Option<Held>,
        now: Nanos,
    ) -> Connection {
        Connection {
            fd,
            peer,
            occupation: Occupation::Free,
            principal: None,
            interest: Interest::Read,
            turn: None,
            outbox: Outbox::new(&user),
            inbox: Inbox::new(&user),
            user,
            _descriptor: descriptor,
            paused: false,
            held: false,
            partial_since: Nanos::ZERO,
            unread_since: Nanos::ZERO,
            calls: Allowance::new(CALLS_PER_SECOND, now),
        }
    }

    /// The user of the connection.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Reads once, at most `READ_AT_ONCE` bytes, so that no connection keeps others waiting.
    pub fn read(&mut self, now: Nanos) -> Read {
        let mut buffer = [0; READ_AT_ONCE];
        match rustix::net::recv(&self.fd, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Read::End,
            Ok((count, _)) => {
                if self.partial_since == Nanos::ZERO {
                    self.partial_since = now;
                }
                if self.inbox.push(&buffer[..count]) {
                    Read::Some
                } else {
                    Read::TooMuch
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Empty,
            Err(_) => Read::End,
        }
    }

    /// Takes the next whole message out of the bytes read, without its NUL; it counts as a call.
    ///
    /// # Errors
    /// [`FramingError`] for a message that is too long or empty; the connection must be cut off.
    pub fn next_message(&mut self, now: Nanos) -> Result<Option<Vec<u8>>, FramingError> {
        let message = self.inbox.next_message()?;
        self.paused = false;
        if message.is_some() {
            self.calls.take();
            self.user.called();
        }
        match message {
            _ if self.inbox.pending() == 0 => self.partial_since = Nanos::ZERO,
            Some(_) => self.partial_since = now,
            None => {}
        }
        Ok(message)
    }

    /// Whether one more call may be answered at `now`; otherwise the connection waits a while.
    pub fn may_call(&mut self, now: Nanos) -> bool {
        self.calls.allows(now) && self.user.may_call(now)
    }

    /// Notes that calls that were already read have to wait.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Starts to queue messages without sending them.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Allows held messages to be sent; [`Connection::flush`] sends them.
    pub fn release(&mut self) {
        self.held = false;
    }

    /// Whether its reply is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Sends encoded messages and queues what the peer does not take at once. `false` when the
    /// connection must be closed: the peer is gone, or more bytes would wait than [`MAX_QUEUED`] or
    /// than its user may leave unread.
    #[must_use]
    pub fn send(&mut self, encoded: &[u8], now: Nanos) -> bool {
        let mut rest = encoded;
        if !self.held && self.outbox.is_empty() {
            let Some(sent) = transmit(&self.fd, encoded) else {
                return false;
            };
            rest = &encoded[sent..];
            self.unread_since = if rest.is_empty() { Nanos::ZERO } else { now };
        }
        rest.is_empty() || self.outbox.push(rest, MAX_QUEUED)
    }

    /// Sends as many queued bytes as possible. `false` when the peer is gone.
    #[must_use]
    pub fn flush(&mut self, now: Nanos) -> bool {
        if self.held || self.outbox.is_empty() {
            return true;
        }
        let Some(sent) = transmit(&self.fd, self.outbox.waiting()) else {
            return false;
        };
        self.outbox.advance(sent);
        if self.outbox.is_empty() {
            self.unread_since = Nanos::ZERO;
            // Nothing was read from it meanwhile, so the rest of a message could not arrive.
            if self.partial_since != Nanos::ZERO {
                self.partial_since = now;
            }
        } else if sent > 0 || self.unread_since == Nanos::ZERO {
            self.unread_since = now;
        }
        true
    }

    /// Bytes that wait to be read by the peer.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.outbox.waiting().len()
    }

    /// The events that epoll should watch for in its current state.
    #[must_use]
    pub fn wanted_interest(&self) -> Interest {
        match (self.queued() > 0, self.occupation) {
            (true, _) if self.held => Interest::Nothing,
            (true, _) => Interest::Write,
            (false, Occupation::Free) if !self.paused => Interest::Read,
            (false, _) => Interest::Nothing,
        }
    }

    /// Whether it has waited too long with an unfinished message or an unread reply. For a
    /// principal or a subscriber only a long reply counts.
    #[must_use]
    pub fn overdue(&self, now: Nanos) -> Option<&'static str> {
        let late = |since: Nanos, timeout: Nanos| since != Nanos::ZERO && now - since > timeout;
        if self.occupation == Occupation::Free
            && late(self.partial_since, PARTIAL_TIMEOUT)
            && !self.paused
            && self.queued() == 0
        {
            return Some(
                "a message was begun and not ended within 10 seconds; send whole messages, each ended by \
                 a NUL byte",
            );
        }
        let subscribed = matches!(self.occupation, Occupation::Subscribed { .. });
        let may_keep = (self.principal.is_some() || subscribed) && self.queued() <= MAX_KEPT;
        if late(self.unread_since, UNREAD_TIMEOUT) && !may_keep {
            return Some("a reply was not read for 30 seconds; read replies");
        }
        None
    }
}

/// Sends as many bytes as possible at once and returns their number. `None` when the peer is gone.
fn transmit(fd: &OwnedFd, bytes: &[u8]) -> Option<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(fd, &bytes[sent..], flags) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => return None,
        }
    }
    Some(sent)
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::users::Users;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{Read as _, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (Connection, UnixStream) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let user = Users::new(0).get(7, Nanos(1));
        let peer = Peer { uid: 7, pid: 1 };
        let descriptor = user.descriptors().take(1);
        (
            Connection::new(ours, peer, user, descriptor, Nanos(1)),
            theirs.into(),
        )
    }

    /// Sends until the peer's socket is full and a few bytes are queued here.
    fn fill(connection: &mut Connection, now: Nanos) {
        while connection.queued() == 0 {
            assert!(connection.send(&[b'x'; 1000], now));
        }
    }

    #[test]
    fn messages_are_cut_at_nul_however_they_arrive() {
        let (mut connection, mut peer) = pair();
        for byte in b"one\0two\0thr" {
            peer.write_all(&[*byte]).unwrap();
            assert_eq!(connection.read(Nanos(5)), Read::Some);
        }
        assert_eq!(connection.next_message(Nanos(6)), Ok(Some(b"one".to_vec())));
        assert_eq!(connection.next_message(Nanos(6)), Ok(Some(b"two".to_vec())));
        assert_eq!(connection.next_message(Nanos(6)), Ok(None));
        assert_eq!(connection.overdue(Nanos(7)), None);
        assert!(
            connection
                .overdue(Nanos(6) + PARTIAL_TIMEOUT + Nanos(1))
                .is_some()
        );
    }

    #[test]
    fn an_endless_message_is_refused_within_its_bound() {
        let (mut connection, mut peer) = pair();
        let chunk = vec![b'x'; READ_AT_ONCE];
        let refused = (0..100).any(|_| {
            let _ = peer.write(&chunk);
            connection.read(Nanos(1));
            connection.next_message(Nanos(1)).is_err()
        });
        assert!(refused);
    }

    #[test]
    fn a_peer_that_never_reads_is_bounded() {
        let (mut connection, _peer) = pair();
        let message = vec![b'x'; 1 << 20];
        let kept = (0..100)
            .take_while(|_| connection.send(&message, Nanos(9)))
            .count();
        assert!((16..=32).contains(&kept), "{kept}");
        assert!(connection.queued() <= MAX_QUEUED);
        assert_eq!(connection.wanted_interest(), Interest::Write);
        assert!(
            connection
                .overdue(Nanos(9) + UNREAD_TIMEOUT + Nanos(1))
                .is_some()
        );
    }

    #[test]
    fn what_is_read_at_once_does_not_count_and_comes_whole() {
        let (mut connection, mut peer) = pair();
        peer.set_nonblocking(true).unwrap();
        let message: Vec<u8> = (0..8u32 << 20).map(|n| n as u8).collect();
        assert!(connection.send(&message, Nanos(9)));
        assert!(0 < connection.queued() && connection.queued() < message.len());
        let (mut heard, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
        while heard.len() < message.len() {
            let count = peer.read(&mut buffer).unwrap();
            heard.extend_from_slice(&buffer[..count]);
            // The reader is slow but makes progress.
            assert!(connection.flush(Nanos(9) + UNREAD_TIMEOUT * 2));
            assert_eq!(connection.overdue(Nanos(9) + UNREAD_TIMEOUT * 2), None);
        }
        assert!(heard == message, "the same bytes in the same order");
        assert_eq!(connection.queued(), 0);
        assert_eq!(connection.wanted_interest(), Interest::Read);
    }

    #[test]
    fn a_stopped_principal_or_subscriber_may_leave_a_word_unread_but_no_listing() {
        let late = Nanos(9) + UNREAD_TIMEOUT + Nanos(1);
        let subscribed = Occupation::Subscribed {
            id: 1,
            stale: false,
        };
        let watching = Occupation::Watching {
            interval: Nanos(1),
            due: Nanos(1),
        };
        for (principal, occupation, keeps_a_word) in [
            (None, Occupation::Free, false),
            (None, watching, false),
            (None, subscribed, true),
            (Some(1), Occupation::Free, true),
        ] {
            let (mut connection, _peer) = pair();
            connection.principal = principal;
            connection.occupation = occupation;
            fill(&mut connection, Nanos(9));
            assert_eq!(connection.overdue(late).is_none(), keeps_a_word);
            assert!(connection.send(&[b'x'; MAX_KEPT], Nanos(9)));
            assert_eq!(connection.overdue(late - Nanos(1)), None);
            assert!(connection.overdue(late).is_some(), "{occupation:?}");
        }
    }

    #[test]
    fn a_held_reply_goes_out_when_it_is_released() {
        let (mut connection, mut peer) = pair();
        peer.set_nonblocking(true).unwrap();
        let mut buffer = [0; 16];
        connection.hold();
        assert!(connection.send(b"reply", Nanos(9)) && connection.flush(Nanos(9)));
        assert_eq!(connection.wanted_interest(), Interest::Nothing);
        assert!(peer.read(&mut buffer).is_err());
        connection.release();
        assert_eq!(connection.wanted_interest(), Interest::Write);
        assert!(connection.flush(Nanos(9)));
        assert_eq!(peer.read(&mut buffer).unwrap(), 5);
        assert_eq!(connection.wanted_interest(), Interest::Read);
    }

    #[test]
    fn a_flood_of_calls_earns_a_pause() {
        let (mut connection, mut peer) = pair();
        let mut served = 0;
        while served <= CALLS_PER_SECOND {
            peer.write_all(b"{}\0").unwrap();
            assert_eq!(connection.read(Nanos(1)), Read::Some);
            if !connection.may_call(Nanos(1)) {
                break;
            }
            assert_eq!(connection.next_message(Nanos(1)), Ok(Some(b"{}".to_vec())));
            // Finding no message is not counted as a call.
            assert_eq!(connection.next_message(Nanos(1)), Ok(None));
            served += 1;
        }
        assert_eq!(served, CALLS_PER_SECOND);
        connection.pause();
        assert_eq!(connection.wanted_interest(), Interest::Nothing);
        assert!(connection.may_call(Nanos(100_000_000)));
        assert!(
            connection
                .next_message(Nanos(2))
                .is_ok_and(|call| call.is_some())
        );
        assert_eq!(connection.wanted_interest(), Interest::Read);
    }
}
