//! Bytes queued for a slow reader, counted against its user.

use super::users::User;
use crate::user_quota::Held;

/// A larger empty buffer is freed. Bytes.
const KEEP: usize = 4096;

/// Bytes queued for one connection.
#[derive(Debug)]
pub struct Outbox {
    /// Counts the bytes for the user.
    counted: Held,
    /// The bytes, those that were sent included.
    bytes: Vec<u8>,
    /// Number of bytes at the front that were already sent.
    sent: usize,
}

impl Outbox {
    /// An empty outbox of that user.
    #[must_use]
    pub fn new(user: &User) -> Outbox {
        Outbox {
            counted: user.unread().nothing(),
            bytes: Vec::new(),
            sent: 0,
        }
    }

    /// Bytes to send, in order.
    #[must_use]
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Appends bytes. `false`, and none are taken, when more than `most` would be queued here, or
    /// more than the user or all users together may leave unread.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8], most: usize) -> bool {
        let all = self.bytes.len().saturating_add(bytes.len());
        let waiting = self.waiting().len().saturating_add(bytes.len());
        if waiting > most || !self.counted.resize_bytes(all) {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Notes that `count` more bytes were sent. At most as many sent bytes are kept as unsent ones:
    /// a peer that leaves the last byte of a long reply unread holds a byte, not the reply.
    pub fn advance(&mut self, count: usize) {
        self.sent = self.sent.saturating_add(count).min(self.bytes.len());
        if self.sent < self.waiting().len() {
            return;
        }
        self.bytes.drain(..self.sent);
        self.counted.resize_anyway(self.bytes.len());
        self.sent = 0;
        if self.bytes.capacity() > KEEP {
            self.bytes.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::users::Users;
    use crate::user_quota::A_WORD;
    use plimsoll_unit::Nanos;

    const MOST: usize = 1 << 30;

    #[test]
    fn what_is_sent_is_let_go_of_before_the_last_byte_is_read() {
        let mut outbox = Outbox::new(&Users::new(0).get(7, Nanos(1)));
        let reply: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        assert!(outbox.push(&reply, MOST));
        let mut read = Vec::new();
        while !outbox.is_empty() {
            let count = outbox.waiting().len().min(999);
            read.extend_from_slice(&outbox.waiting()[..count]);
            outbox.advance(count);
            assert!(outbox.bytes.len() <= 2 * outbox.waiting().len());
            assert!(outbox.bytes.capacity() <= (2 * outbox.bytes.len()).max(KEEP));
        }
        assert!(read == reply, "the same bytes in the same order");
    }

    #[test]
    fn what_a_user_leaves_unread_is_bounded_over_all_of_its_connections() {
        let mut users = Users::new(0);
        let reply = vec![b'x'; 1 << 20];
        let user = users.get(7, Nanos(1));
        let mut outboxes: Vec<Outbox> = (0..1024).map(|_| Outbox::new(&user)).collect();
        let taken = outboxes
            .iter_mut()
            .map(|outbox| outbox.push(&reply, MOST))
            .take_while(|taken| *taken)
            .count();
        assert_eq!(taken, 24, "MiB");
        assert!(outboxes[100].push(&reply[..A_WORD], MOST), "a word");
        assert!(!outboxes[100].push(b"x", MOST), "and no more");
        let mut other = Outbox::new(&users.get(8, Nanos(1)));
        assert!(other.push(&reply, MOST), "nobody else's loss");
        assert!(!other.push(&reply, reply.len()), "its own bound holds too");
        outboxes.drain(..2);
        assert!(
            outboxes[200].push(&reply, MOST),
            "a connection that ends leaves room"
        );
    }

    #[test]
    fn however_many_users_read_nothing_the_next_gets_its_listing() {
        let mut users = Users::new(0);
        let reply = vec![b'x'; 1 << 20];
        let mut hostile = Vec::new();
        for uid in 7..10 {
            let user = users.get(uid, Nanos(1));
            loop {
                let mut outbox = Outbox::new(&user);
                if !outbox.push(&reply, MOST) {
                    break;
                }
                hostile.push(outbox);
            }
        }
        let mut honest = Outbox::new(&users.get(100, Nanos(1)));
        assert!((0..4).all(|_| honest.push(&reply, MOST)));
    }
}
