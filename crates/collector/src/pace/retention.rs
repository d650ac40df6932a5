//! Objects that are alive only because of stale summaries.

/// What is known of them: at most the live bytes beyond those that a collection without summaries found.
#[derive(Default)]
pub(super) struct Retention {
    /// Live bytes that the last collection found that trusted no summaries.
    known_live: usize,
    /// The next collection is not to trust summaries either.
    complete: bool,
}

impl Retention {
    /// Whether the next collection is to trust no summaries: stale summaries may keep objects that
    /// add up to a fifth of the heap.
    pub(super) fn wants_complete(&self) -> bool {
        self.complete
    }

    /// Notes that a collection found `live` bytes. `trusted`: whether it trusted summaries. A heap that grew
    /// by less than `little` bytes is not collected again.
    pub(super) fn after(&mut self, live: usize, trusted: bool, little: usize) {
        if !trusted {
            self.known_live = live;
        }
        self.complete = trusted && live > self.known_live / 5 * 6 + little;
    }

    /// Bytes of the live objects that may be alive only because of stale summaries.
    pub(super) fn retained(&self, live: u64) -> u64 {
        live.saturating_sub(self.known_live as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_more_is_looked_at_without_summaries() {
        let mut retention = Retention::default();
        for (live, trusted, complete) in
            [(100, false, false), (130, true, false), (131, true, true)]
        {
            retention.after(live, trusted, 10);
            assert_eq!(retention.wants_complete(), complete, "{live}");
        }
        assert_eq!((retention.retained(131), retention.retained(9)), (31, 0));
        retention.after(131, false, 10);
        assert!(!retention.wants_complete() && retention.retained(131) == 0);
    }
}
