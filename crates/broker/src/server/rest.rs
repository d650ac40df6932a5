//! Listeners that cannot accept, because descriptors or memory ran out, rest: whoever waits there
//! would wake us at once, again and again.

use super::poll::Token;

/// So long, ns, unless something is closed before.
const REST_NS: u64 = 1_000_000_000;
/// It is told again after so long (ns) at the earliest, however often it works in between.
const TELL_NS: u64 = 60_000_000_000;

/// Which listeners rest, and until when.
#[derive(Debug, Default)]
pub struct Rest {
    resting: Vec<Token>,
    /// When all of them try again, ns.
    until: u64,
    /// When somebody was told last, ns; 0 when nobody was.
    told_at: u64,
    /// Nothing was accepted since then.
    still: bool,
}

impl Rest {
    /// A listener could not accept and is watched no more. Says whether that is to be told.
    #[must_use]
    pub fn begin(&mut self, listener: Token, now: u64) -> bool {
        // Those that come later rest shorter: nobody can keep the others resting.
        if self.resting.is_empty() {
            self.until = now.saturating_add(REST_NS);
        }
        if !self.resting.contains(&listener) {
            self.resting.push(listener);
        }
        let recent = self.told_at != 0 && now.saturating_sub(self.told_at) < TELL_NS;
        let news = !self.still && !recent;
        if news {
            self.told_at = now;
            self.still = true;
        }
        news
    }

    /// Somebody was accepted.
    pub fn worked(&mut self) {
        self.still = false;
    }

    /// Something was closed: there is room again.
    pub fn cut_short(&mut self) {
        self.until = 0;
    }

    /// When somebody's rest is over, ns.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        (!self.resting.is_empty()).then_some(self.until)
    }

    /// Those whose rest is over at `now`: they are to be watched again.
    pub fn end(&mut self, now: u64) -> Vec<Token> {
        match self.due().is_some_and(|due| now >= due) {
            true => std::mem::take(&mut self.resting),
            false => Vec::new(),
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
        assert!(rest.begin(Token::Listener, 10));
        let _ = rest.begin(Token::PressureListener(3), 10 + REST_NS / 2);
        assert_eq!(rest.due(), Some(10 + REST_NS));
        assert!(rest.end(9 + REST_NS).is_empty());
        let both = [Token::Listener, Token::PressureListener(3)];
        assert_eq!(rest.end(10 + REST_NS), both);
        assert_eq!(rest.due(), None);
        let _ = rest.begin(Token::Listener, 2 * REST_NS);
        rest.cut_short();
        assert_eq!(rest.end(2 * REST_NS), [Token::Listener]);
    }

    #[test]
    fn it_is_told_once_until_it_works_again_and_not_every_second() {
        let mut rest = Rest::default();
        let mut told = 0;
        for second in 1..=300 {
            told += u32::from(rest.begin(Token::Listener, second * REST_NS));
            assert_eq!(rest.end((second + 1) * REST_NS).len(), 1);
        }
        assert_eq!(told, 1);
        // One slot that comes and goes.
        for second in 301..=600 {
            rest.worked();
            told += u32::from(rest.begin(Token::Listener, second * REST_NS));
            assert_eq!(rest.end((second + 1) * REST_NS).len(), 1);
        }
        assert_eq!(told, 6);
    }
}
