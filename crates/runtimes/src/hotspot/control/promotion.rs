//! How fast an old generation fills between two collections of it.

use super::collections::News;
use super::observation::Seen;
use plimsoll_unit::{Bytes, Nanos};

/// The smoothed rate. A measurement is from one young collection to the next.
#[derive(Debug, Default)]
pub(super) struct Promotion {
    /// Bytes per second; 0 before the first measurement.
    rate: f64,
    /// When the present measurement began, and the use of the old generation then.
    began: Option<(Nanos, Bytes)>,
}

impl Promotion {
    /// Takes in one moment. A collection of the whole heap takes away what would be measured.
    pub(super) fn look(&mut self, seen: &Seen, news: News) {
        let used = seen.heap.old.used;
        let (began, before) = *self.began.get_or_insert((seen.now, used));
        if news.whole {
            self.began = Some((seen.now, used));
        } else if news.young > 0 {
            let seconds = (seen.now - began).duration().as_secs_f64().max(0.001);
            let rate = (used - before).0 as f64 / seconds;
            self.rate = if self.rate == 0.0 {
                rate
            } else {
                self.rate * 0.8 + rate * 0.2
            };
            self.began = Some((seen.now, used));
        }
    }

    /// By how much the old generation fills in this time.
    pub(super) fn within(&self, span: Nanos) -> Bytes {
        Bytes((self.rate * span.duration().as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::MIB;

    #[test]
    fn what_becomes_old_is_told_by_young_collections() {
        let mut promotion = Promotion::default();
        let news = News {
            young: 1,
            stopped: false,
            whole: false,
            cycle: false,
            asked: false,
        };
        let mut seen = Seen::default();
        for second in 1..60 {
            seen.now = Nanos::seconds(second);
            // Every ten seconds all of it is collected.
            seen.heap.old.used = Bytes(100 * MIB + second % 10 * 3 * MIB);
            let whole = second % 10 == 0;
            promotion.look(&seen, News { whole, ..news });
        }
        let mib = promotion.within(Nanos::seconds(10)).0 / MIB;
        assert!((29..=30).contains(&mib), "{mib}");
    }
}
