//! Listeners that cannot accept because descriptors or memory ran out. They rest, because a waiting
//! client would wake the broker repeatedly.

use super::epoll::Token;
use plimsoll_unit::Nanos;

/// Length of a rest, unless something is closed before.
const REST: Nanos = Nanos::seconds(1);
/// Shortest time between two log messages about it, even if accepting works in between.
const TELL: Nanos = Nanos::seconds(60);

/// The resting listeners and the end of their rest. Belongs to the deciding thread.
#[derive(Debug, Default)]
pub struct Rest {
    /// The listeners.
    resting: Vec<Token>,
    /// Time when all of them try again.
    until: Nanos,
    /// Time of the last log message; 0 before the first.
    told_at: Nanos,
    /// Nothing was accepted since then.
    still: bool,
}

impl Rest {
    /// Notes that a listener could not accept and is no longer watched. Returns whether to log it.
    #[must_use]
    pub fn begin(&mut self, listener: Token, now: Nanos) -> bool {
        // Later listeners rest shorter: none can prolong the rest of the others.
        if self.resting.is_empty() {
            self.until = now + REST;
        }
        if !self.resting.contains(&listener) {
            self.resting.push(listener);
        }
        let recent = self.told_at != Nanos::ZERO && now - self.told_at < TELL;
        let news = !self.still && !recent;
        if news {
            self.told_at = now;
            self.still = true;
        }
        news
    }

    /// Notes that a connection was accepted.
    pub fn worked(&mut self) {
        self.still = false;
    }

    /// Ends the rest because something was closed: there is room again.
    pub fn cut_short(&mut self) {
        self.until = Nanos::ZERO;
    }

    /// Time when the rest is over.
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
        (!self.resting.is_empty()).then_some(self.until)
    }

    /// The listeners whose rest is over at `now`; they must be watched again.
    pub fn end(&mut self, now: Nanos) -> Vec<Token> {
        if self.due().is_some_and(|due| now >= due) {
            std::mem::take(&mut self.resting)
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_accept_rests_a_second_or_until_something_is_closed() {
        let mut rest = Rest::default();
        assert_eq!(rest.due(), None);
        assert!(rest.begin(Token::Listener, Nanos(10)));
        let _ = rest.begin(Token::PressureListener(3), Nanos(10) + REST / 2);
        assert_eq!(rest.due(), Some(Nanos(10) + REST));
        assert!(rest.end(Nanos(9) + REST).is_empty());
        let both = [Token::Listener, Token::PressureListener(3)];
        assert_eq!(rest.end(Nanos(10) + REST), both);
        assert_eq!(rest.due(), None);
        let _ = rest.begin(Token::Listener, REST * 2);
        rest.cut_short();
        assert_eq!(rest.end(REST * 2), [Token::Listener]);
    }

    #[test]
    fn it_is_told_once_until_it_works_again_and_not_every_second() {
        let mut rest = Rest::default();
        let mut told = 0;
        for second in 1..=300 {
            told += u32::from(rest.begin(Token::Listener, REST * second));
            assert_eq!(rest.end(REST * (second + 1)).len(), 1);
        }
        assert_eq!(told, 1);
        // One slot that becomes free and used again.
        for second in 301..=600 {
            rest.worked();
            told += u32::from(rest.begin(Token::Listener, REST * second));
            assert_eq!(rest.end(REST * (second + 1)).len(), 1);
        }
        assert_eq!(told, 6);
    }
}
