//! Isla Vista for a machine: turns stalls within collections into a limit of the process.
//!
//! Until the first stall the machine sizes its heap by its own rule, as if nobody was there: the
//! rule of the paper would let the heap grow to its maximum too. From the first stall on
//! [`IslaVista`] decides, and the limit that follows is kept like one of a broker. When the heap has
//! grown back to its maximum without a stall, the machine is let go again. A machine that was
//! started so that it does not grow by itself is sized from the start.
//!
//! Three things differ from a heap that asks the policy by itself:
//! - A limit only grows as far as the heap follows. A collection that did not fill the limit proves
//!   nothing about it (RFC 2861 says the same of windows that were not used).
//! - A limit that was lowered is not lowered again before the heap has become smaller, because that
//!   takes a collection or two, which stall as well (RFC 6582 says the same of losses within one
//!   window). Only for some time, since the heap may be unable to follow.
//! - Several collections may end between two looks. They count as one that had all their stalls.

use super::stalls::and;
use plimsoll_kernel::stalls::Stalled;
use plimsoll_policy::sizing::{Ended, IslaVista, Kind, Ratios, Sizing};

/// A heap is never asked to be smaller, bytes.
const LEAST: u64 = 32 << 20;

/// A machine that does not grow by itself begins with one part in this many of its maximum.
const BEGIN_PART: u64 = 8;

/// Stalls put a heap under the policy if they took more than this part of the time.
const TOUCHED: f64 = 1.0 / 64.0;
/// A heap is at its limit if it is within one part in this many of it.
const NEAR: u64 = 16;
/// How long a heap may take to become smaller, nanoseconds.
const FOLLOWS: u64 = 2_000_000_000;

/// One moment of a machine. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    /// Time, nanoseconds.
    pub(super) now_ns: u64,
    /// Collections of all kinds since its start.
    pub(super) collections: u64,
    /// Collections of the whole heap among them.
    pub(super) whole: u64,
    /// The time in which the signal counts, nanoseconds: in pauses, or all of it.
    pub(super) counted_ns: u64,
    /// What the heap takes, in memory and in swap.
    pub(super) heap: u64,
    /// What is in use after the last collection. After one of the whole heap that is what lives.
    pub(super) used: u64,
    /// The most that the heap may ever take.
    pub(super) most: u64,
    /// Stalls since the last moment.
    pub(super) stalled: Stalled,
    /// Fewer stalls than this in a collection tell nothing.
    pub(super) few: u64,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A stall put the heap under the policy.
    Begun,
    /// The spike is over.
    Over,
}

/// The state for one machine. Used by the steering loop's thread alone.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    /// The policy; present from the first stall until the spike is over.
    policy: Option<IslaVista>,
    /// Collections at the last look; `None` before the first.
    collections: Option<u64>,
    /// Collections of the whole heap at the last look.
    whole: u64,
    /// The time in which the signal counts, until the last collection, nanoseconds.
    counted_ns: u64,
    /// When the limit was last lowered, nanoseconds; `None` once the heap has followed.
    lowered_ns: Option<u64>,
    /// Stalls since the last collection.
    stalled: Stalled,
    /// The machine does not grow by itself.
    always: bool,
}

impl Feedback {
    /// `always`: the machine does not grow by itself, so it is never left its own rule.
    pub(super) fn new(always: bool) -> Feedback {
        Feedback {
            always,
            ..Feedback::default()
        }
    }

    /// Looks at one moment.
    pub(super) fn look(&mut self, moment: &Moment) -> Option<Turn> {
        self.stalled = and(self.stalled, moment.stalled);
        if self.always && self.policy.is_none() {
            let begin = moment.heap.max(moment.most / BEGIN_PART);
            self.begin(begin, moment);
        }
        let before = *self.collections.get_or_insert(moment.collections);
        if moment.collections == before {
            return None;
        }
        self.collections = Some(moment.collections);
        let stalled = match std::mem::take(&mut self.stalled) {
            stalled if stalled.count < moment.few => Stalled::default(),
            stalled => stalled,
        };
        let ended = self.ended(stalled, moment);
        let begun = self.policy.is_none() && ended.stalled_part() > TOUCHED;
        if begun {
            self.begin(moment.heap, moment);
        }
        let size = self.size()?;
        let followed = moment.heap <= size.saturating_add(size / NEAR);
        let late = |since| moment.now_ns.saturating_sub(since) > FOLLOWS;
        if followed || self.lowered_ns.is_some_and(late) {
            self.lowered_ns = None;
        }
        // A collection below the limit proves nothing, except that it had no stalls.
        let filled = moment.heap.saturating_add(moment.heap / NEAR) >= size;
        let policy = self.policy.as_mut()?;
        policy.bounded(moment.most);
        match stalled.any() {
            true if self.lowered_ns.is_some() => {}
            false if !filled => {}
            _ => policy.ended(&ended),
        }
        if policy.size() < size {
            self.lowered_ns = Some(moment.now_ns);
        }
        if !stalled.any() && policy.size() >= moment.most && !self.always {
            self.policy = None;
            return Some(Turn::Over);
        }
        begun.then_some(Turn::Begun)
    }

    /// Puts the heap under the policy, with a limit of `bytes`.
    fn begin(&mut self, bytes: u64, moment: &Moment) {
        let bytes = bytes.max(LEAST).min(moment.most);
        self.policy = Some(IslaVista::new(Ratios::MENDED, bytes, moment.most));
    }

    /// The collections since the last look, as one.
    fn ended(&mut self, stalled: Stalled, moment: &Moment) -> Ended {
        let took = moment.counted_ns.saturating_sub(self.counted_ns);
        let whole = moment.whole != self.whole;
        (self.counted_ns, self.whole) = (moment.counted_ns, moment.whole);
        let kind = match whole {
            true => Kind::Full,
            false => Kind::Nursery,
        };
        Ended {
            now: moment.now_ns,
            took,
            cost: took,
            kind,
            live: moment.used,
            growth: u64::MAX,
            // A signal without a number has a time.
            stalls: stalled.count.max(u64::from(stalled.any())),
            stalled: stalled.ns,
            ..Ended::default()
        }
    }

    /// The bytes that the heap may take; `None` while the machine's own rule holds.
    pub(super) fn size(&self) -> Option<u64> {
        let size = self.policy.as_ref()?.size();
        Some(size.max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn moment(collections: u64, heap: u64, stalls: u64) -> Moment {
        Moment {
            collections,
            heap: heap * MIB,
            used: 100 * MIB,
            whole: collections,
            counted_ns: collections * 1000,
            most: 1000 * MIB,
            stalled: Stalled {
                count: stalls,
                ns: stalls * 1000,
            },
            ..Moment::default()
        }
    }

    #[test]
    fn a_machine_is_left_alone_until_a_collection_stalls_and_after_the_spike() {
        let mut feedback = Feedback::default();
        assert_eq!(feedback.look(&moment(3, 400, 9)), None, "before we came");
        assert_eq!(feedback.look(&moment(4, 500, 0)), Some(Turn::Begun));
        let size = feedback.size().unwrap();
        assert_eq!(size, 300 * MIB, "half of what is not live is lost");
        assert_eq!(feedback.look(&moment(4, 500, 0)), None, "no collection");
        assert_eq!(feedback.size(), Some(size));
        assert_eq!(feedback.look(&moment(5, 200, 0)), None);
        assert_eq!(feedback.size(), Some(size), "the limit was not filled");
        let mut collections = 5;
        let over = (0..400).find(|_| {
            collections += 1;
            let heap = feedback.size().unwrap() / MIB;
            feedback.look(&moment(collections, heap, 0)) == Some(Turn::Over)
        });
        assert!(over.is_some());
        assert_eq!(feedback.size(), None);
    }

    #[test]
    fn a_limit_is_between_what_lives_and_twice_that_where_all_stalls() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(0, 110, 0));
        for collections in 1..50 {
            feedback.look(&moment(collections, 110, 3));
        }
        let size = feedback.size().unwrap();
        assert!((100 * MIB..=200 * MIB).contains(&size), "{size}");
    }
}
