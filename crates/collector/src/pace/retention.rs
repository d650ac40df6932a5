//! Objects that are alive only because of stale summaries.

use plimsoll_unit::Bytes;

/// Their upper bound: the live bytes beyond those that a collection without summaries found.
#[derive(Default)]
pub(super) struct Retention {
    /// The live objects that the last collection found that trusted no summaries.
    known_live: Bytes,
    /// The next collection is not to trust summaries either.
    complete: bool,
}

impl Retention {
    /// Whether the next collection is to trust no summaries: stale summaries may keep objects that
    /// add up to a fifth of the heap.
    pub(super) fn wants_complete(&self) -> bool {
        self.complete
    }

    /// Notes that a collection found `live`. `trusted`: whether it trusted summaries. A heap that grew
    /// by less than `little` is not collected again.
    pub(super) fn after(&mut self, live: Bytes, trusted: bool, little: Bytes) {
        if !trusted {
            self.known_live = live;
        }
        self.complete = trusted && live > self.known_live / 5 * 6 + little;
    }

    /// The live objects that may be alive only because of stale summaries.
    pub(super) fn retained(&self, live: Bytes) -> Bytes {
        live - self.known_live
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
            retention.after(Bytes(live), trusted, Bytes(10));
            assert_eq!(retention.wants_complete(), complete, "{live}");
        }
        assert_eq!(
            (retention.retained(Bytes(131)), retention.retained(Bytes(9))),
            (Bytes(31), Bytes::ZERO)
        );
        retention.after(Bytes(131), false, Bytes(10));
        assert!(!retention.wants_complete() && retention.retained(Bytes(131)) == Bytes::ZERO);
    }
}
