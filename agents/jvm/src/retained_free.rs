//! How much free memory stays resident at the end of a pause: what the adapter's wish leaves beside
//! objects, or what the program takes again at once, whichever is more.
//!
//! A program that fills its eden a hundred times a second would get all of it back as page faults. To give
//! it back makes nothing of it free for anybody: it is in use again before others could have it. So the
//! memory that the program will take within [`SOON`], judged by the last pauses, stays. Collections of
//! the whole heap are rare, and are asked for to shrink: after them only the wish counts.

use plimsoll_unit::Nanos;
use plimsoll_wire::collections::Kind;

/// Pauses by which is judged what a program takes.
const PAUSES: usize = 8;
/// Memory that is taken again within this time is not given back.
pub const SOON: Nanos = Nanos::millis(250);

/// Memory taken between the ends of two pauses.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    bytes: u64,
    time: Nanos,
}

/// Record of the last pauses. Changed within pauses.
#[derive(Debug, Default)]
pub struct Keeping {
    /// The last ones; the oldest is overwritten.
    taken: [Taken; PAUSES],
    next: usize,
    /// When the last pause ended. `None` if it was not looked at.
    last: Option<Nanos>,
}

impl Keeping {
    /// A pause ended, before which `bytes` bytes were taken.
    pub fn note(&mut self, bytes: u64, now: Nanos) {
        if let Some(last) = self.last.replace(now) {
            let time = now - last;
            self.taken[self.next % PAUSES] = Taken { bytes, time };
            self.next = (self.next + 1) % PAUSES;
        }
    }

    /// A pause ended that was not looked at: what is taken before the next is not known.
    pub fn forget(&mut self) {
        *self = Keeping::default();
    }

    /// The bytes that stay, if the wish is that `resident` bytes of the heap do, and `used` hold objects.
    pub fn keep(&self, resident: u64, used: u64, kind: Kind) -> u64 {
        let wished = resident.saturating_sub(used);
        match kind {
            Kind::Full => wished,
            _ => wished.max(self.soon()),
        }
    }

    /// The bytes that the program takes soon, and before the next pause.
    fn soon(&self) -> u64 {
        let sum = |part: fn(&Taken) -> u64| -> u128 {
            self.taken.iter().map(|taken| u128::from(part(taken))).sum()
        };
        let bytes = sum(|taken| taken.bytes);
        let time = sum(|taken| taken.time.0).max(1);
        let most = self.taken.iter().map(|taken| taken.bytes).max();
        let rate = bytes.saturating_mul(u128::from(SOON.0)) / time;
        u64::try_from(rate)
            .unwrap_or(u64::MAX)
            .min(most.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MIB;

    fn after(pauses: &[(u64, Nanos)]) -> Keeping {
        let mut keeping = Keeping::default();
        let mut now = Nanos(5);
        keeping.note(0, now);
        for &(bytes, time) in pauses {
            now += time;
            keeping.note(bytes, now);
        }
        keeping
    }

    #[test]
    fn a_wish_counts_where_the_program_is_slow() {
        let idle = after(&[]);
        assert_eq!(idle.keep(100, 60, Kind::Young), 40);
        assert_eq!(idle.keep(60, 100, Kind::Young), 0);
        // 60 MB a second, an eden of 500 MB: a quarter of a second of it.
        let slow = after(&[(500 * MIB, Nanos::seconds(8)); 8]);
        let kept = slow.keep(0, 0, Kind::Young);
        assert!((15 * MIB..16 * MIB).contains(&kept), "{kept}");
        assert_eq!(slow.keep(100 * MIB, 0, Kind::Young), 100 * MIB);
    }

    #[test]
    fn what_is_taken_at_once_stays_but_after_whole_collections() {
        let fast = after(&[(10 * MIB, Nanos::millis(10)); 20]);
        assert_eq!(fast.keep(0, 0, Kind::Young), 10 * MIB);
        assert_eq!(fast.keep(0, 0, Kind::Concurrent), 10 * MIB);
        assert_eq!(fast.keep(0, 0, Kind::Unknown), 10 * MIB);
        assert_eq!(fast.keep(0, 0, Kind::Full), 0);
        assert_eq!(fast.keep(15 * MIB, 0, Kind::Young), 15 * MIB);
        // After a long rest it is not judged by what was before.
        let mut rested = after(&[(10 * MIB, Nanos::millis(10)); 20]);
        rested.note(10 * MIB, Nanos::seconds(3600));
        assert!(rested.keep(0, 0, Kind::Young) < MIB);
        rested.forget();
        assert_eq!(rested.keep(0, 0, Kind::Young), 0);
    }

    proptest! {
        #[test]
        fn never_more_than_the_wish_or_what_was_taken(
            pauses in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            resident in any::<u64>(),
            used in any::<u64>(),
        ) {
            let mut keeping = Keeping::default();
            for (bytes, now) in &pauses {
                keeping.note(*bytes, Nanos(*now));
            }
            let most = pauses.iter().map(|pause| pause.0).max().unwrap_or(0);
            let wished = resident.saturating_sub(used);
            let kept = keeping.keep(resident, used, Kind::Young);
            prop_assert!(kept >= wished && kept <= wished.max(most));
            prop_assert_eq!(keeping.keep(resident, used, Kind::Full), wished);
        }
    }
}
