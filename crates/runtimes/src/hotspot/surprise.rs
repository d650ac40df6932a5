//! Native memory that grows at once, and what is kept free for it where an excess ends the program.
//! Pure: no clock.

use super::control::RETURNING;
use plimsoll_policy::footprint::surprise;

/// How fast native memory grows is told over this time at the least, nanoseconds.
const SPAN: u64 = 150_000_000;
/// What grew is taken to grow on for so long, nanoseconds.
const GOES_ON: u64 = 2_000_000_000;
/// Milliseconds from when memory is short until a collection has given way, on a busy machine; and
/// until one is on its way.
const REACTION_MS: u64 = 500;
const ASKING_MS: u64 = 150;

/// The native memory of one machine over time. Changed by its steering loop alone.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// As it was first, bytes.
    first: Option<u64>,
    /// When it was looked at, nanoseconds, and what it was, bytes: the older one first.
    marks: [(u64, u64); 2],
    /// The committed heap when it was looked at last, bytes; and until when what it gave back is
    /// waited for, nanoseconds.
    committed: u64,
    returning: u64,
    /// When it was looked at last, nanoseconds; what the process used then, bytes; how fast that
    /// grew to there, bytes per second.
    used: (u64, u64),
    pace: u64,
    /// Its fastest growth lately, bytes per second, and until when that counts, nanoseconds.
    fastest: (u64, u64),
}

impl Growth {
    /// It is so large now, beside a heap with so much committed, in a process that uses so much.
    pub(super) fn look(&mut self, now_ns: u64, native: u64, committed: u64, uses: u64) {
        let passed_ms = now_ns.saturating_sub(self.used.0) / 1_000_000;
        if passed_ms >= 20 {
            self.pace = uses.saturating_sub(self.used.1).saturating_mul(1000) / passed_ms;
            self.used = (now_ns, uses);
        }
        if committed < self.committed {
            // Until then some of what it gave back is taken for native.
            self.returning = now_ns.saturating_add(RETURNING);
        }
        self.committed = committed;
        if self.first.is_none() || now_ns < self.returning {
            self.first.get_or_insert(native);
            self.marks = [(now_ns, native); 2];
        }
        if now_ns > self.fastest.1 {
            self.fastest = (0, now_ns);
        }
        if now_ns.saturating_sub(self.marks[1].0) < SPAN {
            return;
        }
        let (then, before) = self.marks[0];
        let passed_ms = now_ns.saturating_sub(then) / 1_000_000;
        let rate = native.saturating_sub(before).saturating_mul(1000) / passed_ms.max(1);
        if rate > self.fastest.0 {
            self.fastest = (rate, now_ns.saturating_add(GOES_ON));
        }
        self.marks = [self.marks[1], (now_ns, native)];
    }

    /// What to keep free of `limit` bytes. What has come is no surprise any more, but some more may
    /// come, and what grows goes on.
    pub(super) fn spare(&self, limit: u64) -> u64 {
        let first = self.first.unwrap_or(0);
        let grown = self.marks[1].1.saturating_sub(first);
        let left = surprise(limit).saturating_sub(grown);
        let goes_on = self.fastest.0.saturating_mul(REACTION_MS) / 1000;
        left.max(limit / 16).max(goes_on.min(limit / 2))
    }

    /// Of that, what is left for the time until a collection is on its way: with less a program is
    /// taken for one that is over its limit.
    pub(super) fn kept(&self, limit: u64) -> u64 {
        let fills = self.pace.saturating_mul(ASKING_MS) / 1000;
        fills.max(limit / 16).min(self.spare(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LIMIT: u64 = 240 * MIB;
    const HEAP: u64 = 100 * MIB;
    const LOOK: u64 = 50_000_000;

    fn grown(megabytes_each: u64, looks: u64) -> Growth {
        let mut growth = Growth::default();
        for look in 0..looks {
            growth.look(look * LOOK, (40 + look * megabytes_each) * MIB, HEAP, 0);
        }
        growth
    }

    #[test]
    fn a_surprise_that_has_come_is_none_any_more() {
        assert_eq!(grown(0, 20).spare(LIMIT), LIMIT / 4);
        let mut growth = grown(0, 20);
        growth.look(100 * LOOK, 80 * MIB, HEAP, 0);
        // Long ago: it does not go on.
        growth.look(200 * LOOK, 80 * MIB, HEAP, 0);
        assert_eq!(growth.spare(LIMIT), LIMIT / 4 - 40 * MIB);
    }

    #[test]
    fn a_heap_that_became_smaller_is_no_native_memory() {
        let mut growth = grown(0, 20);
        // What it gives back is resident for a while, and then it is not.
        growth.look(21 * LOOK, 90 * MIB, HEAP / 2, 0);
        growth.look(25 * LOOK, 80 * MIB, HEAP / 2, 0);
        growth.look(29 * LOOK, 40 * MIB, HEAP / 2, 0);
        growth.look(40 * LOOK, 40 * MIB, HEAP / 2, 0);
        assert_eq!(growth.spare(LIMIT), LIMIT / 4);
    }

    #[test]
    fn what_fills_fast_is_collected_early() {
        let mut growth = grown(0, 20);
        assert_eq!(growth.kept(LIMIT), LIMIT / 16);
        growth.look(20 * LOOK, 40 * MIB, HEAP, 100 * MIB);
        // 300 MB/s.
        growth.look(21 * LOOK, 40 * MIB, HEAP, 115 * MIB);
        assert_eq!(growth.kept(LIMIT), 45 * MIB);
    }

    #[test]
    fn room_is_kept_for_what_grows_until_it_stands() {
        // 160 MB/s.
        let mut growth = grown(8, 10);
        let spare = growth.spare(LIMIT);
        assert!((75 * MIB..=85 * MIB).contains(&spare), "{}", spare / MIB);
        for look in 10..80 {
            growth.look(look * LOOK, 120 * MIB, HEAP, 0);
        }
        assert_eq!(growth.spare(LIMIT), LIMIT / 16);
    }
}
