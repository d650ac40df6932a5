//! Bytes of calls not answered yet, counted against their user: an unfinished message must not use
//! up the memory of others.

use super::users::User;
use crate::user_quota::Held;
use plimsoll_wire::varlink::{Decoder, FramingError};

/// Bytes read from one connection.
#[derive(Debug)]
pub struct Inbox {
    /// The bytes, and the messages in them.
    decoder: Decoder,
    /// Counts the bytes for the user.
    counted: Held,
}

impl Inbox {
    /// An empty inbox of that user.
    #[must_use]
    pub fn new(user: &User) -> Inbox {
        Inbox {
            decoder: Decoder::default(),
            counted: user.unanswered().nothing(),
        }
    }

    /// Adds bytes. `false` when its user then holds more than it may: the connection must be cut
    /// off. A short message ([`A_WORD`](crate::user_quota::A_WORD)) is always accepted.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.decoder.push(bytes);
        self.count()
    }

    /// Takes the next whole message out, without its NUL.
    ///
    /// # Errors
    /// [`FramingError`] for a message that is too long or empty; the connection must be cut off.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let message = self
            .decoder
            .next_message()
            .map(|found| found.map(<[u8]>::to_vec));
        // The count only falls here, so this cannot fail.
        let _ = self.count();
        message
    }

    /// Bytes of an unfinished message or of messages not taken out yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.decoder.pending()
    }

    fn count(&mut self) -> bool {
        self.counted.resize_bytes(self.decoder.held())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::users::{UNANSWERED, Users};
    use crate::user_quota::A_WORD;
    use plimsoll_unit::Nanos;

    fn half() -> Vec<u8> {
        vec![b'x'; 60_000]
    }

    #[test]
    fn half_messages_of_a_user_are_bounded_over_all_of_its_connections_and_others_are_heard() {
        let mut users = Users::new(0);
        let begin = |users: &mut Users, uid: u32| -> Vec<Inbox> {
            let mut taken = Vec::new();
            for _ in 0..1024 {
                let mut inbox = Inbox::new(&users.get(uid, Nanos(1)));
                if !inbox.push(&half()) {
                    break;
                }
                taken.push(inbox);
            }
            taken
        };
        let hostile: Vec<Vec<Inbox>> = (7..12).map(|uid| begin(&mut users, uid)).collect();
        assert!(hostile[0].len() > 20 && hostile[0].len() < 1024);
        let bytes: usize = hostile
            .iter()
            .flatten()
            .map(|inbox| inbox.decoder.held())
            .sum();
        assert!(bytes <= UNANSWERED.most, "{bytes}");
        // The longest message of another user still arrives, in pieces.
        let mut honest = Inbox::new(&users.get(100, Nanos(1)));
        for piece in half().chunks(16 << 10) {
            assert!(honest.push(piece) && honest.next_message() == Ok(None));
        }
        assert!(honest.push(b"\0"));
        assert_eq!(honest.next_message(), Ok(Some(half())));
        assert_eq!(honest.next_message(), Ok(None));
        assert!(honest.counted.count() <= A_WORD);
        // A connection that was cut off leaves room.
        drop(hostile);
        assert!(begin(&mut users, 12).len() > 20);
    }

    #[test]
    fn a_word_is_always_taken() {
        let mut users = Users::new(0);
        let all = users.get(0, Nanos(1)).unanswered().take(UNANSWERED.most);
        let mut inbox = Inbox::new(&users.get(7, Nanos(1)));
        assert!(inbox.push(&[b'x'; 1000]));
        assert!(!inbox.push(&half()));
        drop(all);
    }
}
