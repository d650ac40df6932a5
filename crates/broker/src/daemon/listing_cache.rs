//! The last listings, encoded.

use plimsoll_unit::Nanos;
use serde_json::value::RawValue;
use std::collections::VecDeque;

/// Lifetime of a listing without a tick or a call that changes it.
const GOOD: Nanos = Nanos::millis(100);
/// Most listings that are kept, each as long as a reply.
const KEPT: usize = 4;
/// The last listings, each encoded once for all callers that see the same within a short time. Belongs to
/// the deciding thread.
#[derive(Debug, Default)]
pub(super) struct ListingCache {
    /// Listings as JSON, oldest first, each with the user whose own principals alone are named in it; `None`
    /// if all are.
    encoded: VecDeque<(Option<u32>, Box<RawValue>)>,
    /// Time when the first of them was made.
    made_at: Nanos,
    /// Planned time of the next tick when they were made; differs after a tick.
    tick_at: Nanos,
    /// Whether a caller asked for a listing since [`ListingCache::watch_use`].
    used: bool,
}

impl ListingCache {
    /// Discards listings from before a tick or some time ago.
    pub(super) fn renew(&mut self, now: Nanos, tick_at: Nanos) {
        self.sweep(now);
        if self.tick_at != tick_at {
            self.forget();
        }
        if self.encoded.is_empty() {
            (self.made_at, self.tick_at) = (now, tick_at);
        }
    }

    /// The listing for whom only the own principals of that user are named; for all if `None`.
    pub(super) fn of(&self, named_for: Option<u32>) -> Option<&RawValue> {
        let mut encoded = self.encoded.iter();
        let (_, found) = encoded.find(|(whom, _)| *whom == named_for)?;
        Some(found)
    }

    /// Keeps a listing; the oldest goes.
    pub(super) fn keep(&mut self, named_for: Option<u32>, encoded: Box<RawValue>) {
        if self.encoded.len() >= KEPT {
            self.encoded.pop_front();
        }
        self.encoded.push_back((named_for, encoded));
    }

    /// Discards the listings, because something that they show changed.
    pub(super) fn forget(&mut self) {
        self.encoded.clear();
    }

    /// Frees the memory when nobody asks any more.
    pub(super) fn sweep(&mut self, now: Nanos) {
        if now - self.made_at >= GOOD {
            self.encoded.clear();
        }
    }

    /// Somebody asks.
    pub(super) fn use_it(&mut self) {
        self.used = true;
    }

    /// Starts to note whether somebody asks.
    pub(super) fn watch_use(&mut self) {
        self.used = false;
    }

    /// Whether somebody asked since [`ListingCache::watch_use`].
    pub(super) fn was_used(&self) -> bool {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::messages::Listing;
    use serde_json::value::to_raw_value;

    #[test]
    fn a_listing_is_good_until_a_tick_or_a_change_and_for_a_moment() {
        let mut shown = ListingCache::default();
        let fill = |shown: &mut ListingCache, now, tick_at| {
            shown.renew(now, tick_at);
            assert!(shown.of(None).is_none());
            shown.keep(None, to_raw_value(&Listing::default()).unwrap());
        };
        fill(&mut shown, Nanos(10), Nanos(500));
        shown.renew(Nanos(9) + GOOD, Nanos(500));
        shown.sweep(Nanos(9) + GOOD);
        assert!(shown.of(None).is_some() && shown.of(Some(7)).is_none());
        fill(&mut shown, Nanos(10) + GOOD, Nanos(500));
        // A tick was planned anew.
        fill(&mut shown, Nanos(10) + GOOD, Nanos(501));
        shown.forget();
        assert!(shown.of(None).is_none());
    }

    #[test]
    fn the_listings_of_some_users_are_kept_beside_each_other() {
        let mut shown = ListingCache::default();
        let most = KEPT as u32;
        for uid in 0..=most {
            shown.renew(Nanos(1), Nanos::ZERO);
            shown.keep(Some(uid), to_raw_value(&uid).unwrap());
        }
        assert!(shown.of(Some(0)).is_none());
        assert!((1..=most).all(|uid| shown.of(Some(uid)).unwrap().get() == uid.to_string()));
    }
}
