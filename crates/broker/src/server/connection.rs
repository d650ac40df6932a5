//! One client: bounded buffers, who it is, what it waits for.

use super::poll::Interest;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::{Decoder, FramingError, MAX_REPLY};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that wait for a slow reader at most: one reply of the largest size and a little.
pub const MAX_QUEUED: usize = MAX_REPLY + 4096;
/// Bytes read from one connection before others have their turn.
const READ_AT_ONCE: usize = 16 * 1024;
/// An unfinished message is waited for so long, ns.
pub const PARTIAL_TIMEOUT_NS: u64 = 10_000_000_000;
/// A reply that nobody reads is kept so long, ns.
pub const UNREAD_TIMEOUT_NS: u64 = 30_000_000_000;
/// Calls per second of one connection; beyond them it waits.
const CALLS_PER_SECOND: u32 = 2_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user.
    pub uid: u32,
    /// Process at the time of connecting, 0 when it is in another pid namespace.
    pub pid: u32,
}

/// What occupies a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occupation {
    /// It may call.
    #[default]
    Free,
    /// It is told of every change of a principal; `stale` when a change waits for room.
    Subscribed {
        /// Whose changes.
        id: Id,
        /// A newer change than the last one sent is to be told.
        stale: bool,
    },
    /// It is sent a listing again and again.
    Watching {
        /// Nanoseconds between two.
        interval: u64,
        /// When the next one is due.
        due: u64,
    },
    /// It is told what was wrong with it, then cut off.
    Ending,
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// There may be messages now.
    Some,
    /// Nothing for now.
    Empty,
    /// The peer will send no more.
    End,
}

/// One client.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    /// Who.
    pub peer: Peer,
    /// What occupies it.
    pub occupation: Occupation,
    /// The principal that lives as long as it does.
    pub principal: Option<Id>,
    /// What epoll was told last.
    pub interest: Interest,
    decoder: Decoder,
    /// Calls that were read wait until more are allowed.
    paused: bool,
    output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    /// Since when an unfinished message, or an unread reply, waits (ns); 0 when none.
    partial_since: u64,
    unread_since: u64,
    allowance: u32,
    allowance_at: u64,
}

impl Connection {
    /// Takes over an accepted, non-blocking socket.
    #[must_use]
    pub fn new(fd: OwnedFd, peer: Peer, now: u64) -> Connection {
        Connection {
            fd,
            peer,
            occupation: Occupation::Free,
            principal: None,
            interest: Interest::Read,
            decoder: Decoder::default(),
            paused: false,
            output: Vec::new(),
            sent: 0,
            partial_since: 0,
            unread_since: 0,
            allowance: CALLS_PER_SECOND,
            allowance_at: now,
        }
    }

    /// Reads once, at most [`READ_AT_ONCE`] bytes, so that nobody keeps others waiting.
    pub fn read(&mut self, now: u64) -> Read {
        let mut buffer = [0; READ_AT_ONCE];
        match rustix::net::recv(&self.fd, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Read::End,
            Ok((count, _)) => {
                self.decoder.push(&buffer[..count]);
                if self.partial_since == 0 {
                    self.partial_since = now;
                }
                Read::Some
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Empty,
            Err(_) => Read::End,
        }
    }

    /// Takes the next whole message out of what was read, without its NUL.
    ///
    /// # Errors
    /// [`FramingError`] for a message that is too long or empty; the connection is to be cut off.
    pub fn next_message(&mut self, now: u64) -> Result<Option<Vec<u8>>, FramingError> {
        let message = self.decoder.next_message()?.map(<[u8]>::to_vec);
        self.paused = false;
        match message {
            _ if self.decoder.pending() == 0 => self.partial_since = 0,
            Some(_) => self.partial_since = now,
            None => {}
        }
        Ok(message)
    }

    /// Whether one more call may be answered now; otherwise the connection waits a while.
    pub fn allow_call(&mut self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.allowance_at);
        let earned = u128::from(elapsed) * u128::from(CALLS_PER_SECOND) / u128::from(SECOND_NS);
        if earned > 0 {
            self.allowance = CALLS_PER_SECOND.min(
                self.allowance
                    .saturating_add(earned.min(u128::from(u32::MAX)) as u32),
            );
            self.allowance_at = now;
        }
        let allowed = self.allowance > 0;
        self.allowance = self.allowance.saturating_sub(1);
        allowed
    }

    /// Notes that calls that were read already wait until more are allowed.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Whether calls that were read already wait.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Queues encoded messages and sends as much as goes. `false` when the connection is to be
    /// closed: the peer is gone, or more than [`MAX_QUEUED`] bytes would wait.
    #[must_use]
    pub fn send(&mut self, encoded: &[u8], now: u64) -> bool {
        if self.queued() + encoded.len() > MAX_QUEUED {
            return false;
        }
        self.output.extend_from_slice(encoded);
        self.flush(now)
    }

    /// Sends as much as goes. `false` when the peer is gone.
    #[must_use]
    pub fn flush(&mut self, now: u64) -> bool {
        while self.sent < self.output.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.fd, &self.output[self.sent..], flags) {
                Ok(count) => {
                    self.sent += count;
                    self.unread_since = 0;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.unread_since == 0 {
                        self.unread_since = now;
                    }
                    return true;
                }
                Err(_) => return false,
            }
        }
        self.sent = 0;
        self.unread_since = 0;
        match self.output.capacity() > 4096 {
            true => self.output = Vec::new(),
            false => self.output.clear(),
        }
        true
    }

    /// Bytes that wait to be read by the peer.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.output.len() - self.sent
    }

    /// What epoll should watch for, given what occupies it.
    #[must_use]
    pub fn wanted_interest(&self) -> Interest {
        match (self.queued() > 0, self.occupation) {
            (true, _) => Interest::Write,
            (false, Occupation::Free) if !self.paused => Interest::Read,
            (false, _) => Interest::Nothing,
        }
    }

    /// Whether it kept others waiting for too long: half a message, or a reply that it does not
    /// read. A connection that principals live on is not cut for an unread reply.
    #[must_use]
    pub fn overdue(&self, now: u64) -> Option<&'static str> {
        let late = |since: u64, timeout: u64| since != 0 && now.saturating_sub(since) > timeout;
        if self.occupation == Occupation::Free
            && late(self.partial_since, PARTIAL_TIMEOUT_NS)
            && !self.paused
        {
            return Some(
                "a message was begun and not ended within 10 seconds; send whole messages, each ended by a NUL byte",
            );
        }
        if late(self.unread_since, UNREAD_TIMEOUT_NS)
            && self.principal.is_none()
            && self.queued() > 4096
        {
            return Some("a reply was not read for 30 seconds; read replies");
        }
        None
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Connection, UnixStream) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        (
            Connection::new(ours, Peer { uid: 0, pid: 1 }, 1),
            theirs.into(),
        )
    }

    #[test]
    fn messages_are_cut_at_nul_however_they_arrive() {
        let (mut connection, mut peer) = pair();
        for byte in b"one\0two\0thr" {
            peer.write_all(&[*byte]).unwrap();
            assert_eq!(connection.read(5), Read::Some);
        }
        assert_eq!(connection.next_message(6), Ok(Some(b"one".to_vec())));
        assert_eq!(connection.next_message(6), Ok(Some(b"two".to_vec())));
        assert_eq!(connection.next_message(6), Ok(None));
        assert_eq!(connection.overdue(7), None);
        assert!(connection.overdue(6 + PARTIAL_TIMEOUT_NS + 1).is_some());
    }

    #[test]
    fn an_endless_message_is_refused_within_its_bound() {
        let (mut connection, mut peer) = pair();
        let chunk = vec![b'x'; READ_AT_ONCE];
        let refused = (0..100).any(|_| {
            let _ = peer.write(&chunk);
            connection.read(1);
            connection.next_message(1).is_err()
        });
        assert!(refused);
    }

    #[test]
    fn a_peer_that_never_reads_is_bounded() {
        let (mut connection, _peer) = pair();
        let message = vec![b'x'; 1 << 20];
        let kept = (0..100)
            .take_while(|_| connection.send(&message, 9))
            .count();
        assert!((16..=32).contains(&kept), "{kept}");
        assert!(connection.queued() <= MAX_QUEUED);
        assert_eq!(connection.wanted_interest(), Interest::Write);
        assert!(connection.overdue(9 + UNREAD_TIMEOUT_NS + 1).is_some());
    }

    #[test]
    fn a_flood_of_calls_earns_a_pause() {
        let (mut connection, _peer) = pair();
        let served = (0..10 * CALLS_PER_SECOND)
            .take_while(|_| connection.allow_call(1))
            .count();
        assert_eq!(served as u32, CALLS_PER_SECOND);
        connection.pause();
        assert_eq!(connection.wanted_interest(), Interest::Nothing);
        assert!(connection.allow_call(1 + SECOND_NS / 10));
    }
}
