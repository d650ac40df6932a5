//! Bytes of calls that were not answered yet, counted as their user's: a message that is begun and
//! not ended must not cost others their memory.

use super::users::User;
use crate::share::Held;
use plimsoll_wire::varlink::{Decoder, FramingError};

/// What was read of one connection.
#[derive(Debug)]
pub struct Inbox {
    decoder: Decoder,
    counted: Held,
}

impl Inbox {
    /// An empty one of that user's.
    #[must_use]
    pub fn new(user: &User) -> Inbox {
        Inbox {
            decoder: Decoder::default(),
            counted: user.unanswered().nothing(),
        }
    }

    /// Takes bytes in. `false` when its user holds more than it may now: the connection is to be
    /// cut off. A word is always taken.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.decoder.push(bytes);
        self.count()
    }

    /// Takes the next whole message out, without its NUL.
    ///
    /// # Errors
    /// [`FramingError`] for a message that is too long or empty; the connection is to be cut off.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let message = self
            .decoder
            .next_message()
            .map(|found| found.map(<[u8]>::to_vec));
        // It only becomes less.
        let _ = self.count();
        message
    }

    /// Bytes that wait for the rest of their message, or to be taken out.
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
    use crate::share::A_WORD;

    fn half() -> Vec<u8> {
        vec![b'x'; 60_000]
    }

    #[test]
    fn half_messages_of_a_user_are_bounded_over_all_of_its_connections_and_others_are_heard() {
        let mut users = Users::new(0);
        let begin = |users: &mut Users, uid: u32| -> Vec<Inbox> {
            let mut taken = Vec::new();
            for _ in 0..1024 {
                let mut inbox = Inbox::new(&users.get(uid, 1));
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
        // The longest message of somebody else still comes, in pieces.
        let mut honest = Inbox::new(&users.get(100, 1));
        for piece in half().chunks(16 << 10) {
            assert!(honest.push(piece) && honest.next_message() == Ok(None));
        }
        assert!(honest.push(b"\0"));
        assert_eq!(honest.next_message(), Ok(Some(half())));
        assert_eq!(honest.next_message(), Ok(None));
        assert!(honest.counted.count() <= A_WORD);
        // Who is cut off leaves room.
        drop(hostile);
        assert!(begin(&mut users, 12).len() > 20);
    }

    #[test]
    fn a_word_is_always_taken() {
        let mut users = Users::new(0);
        let all = users.get(0, 1).unanswered().take(UNANSWERED.most);
        let mut inbox = Inbox::new(&users.get(7, 1));
        assert!(inbox.push(&[b'x'; 1000]));
        assert!(!inbox.push(&half()));
        drop(all);
    }
}
