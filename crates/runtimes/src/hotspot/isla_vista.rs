//! Isla Vista for a machine: turns stalls within collections into a limit of the process.
//!
//! Until the first stall the machine sizes its heap by its own rule, as if nobody was there: the
//! rule of the paper would let the heap grow to its maximum too. From the first stall on
//! [`IslaVista`] decides, and the limit that follows is kept like one of a broker. When the heap has
//! grown back to its maximum without a stall, the machine is let go again. A machine that was
//! started so that it does not grow by itself is sized from the start.
//!
//! Two things differ from a heap that asks the policy by itself:
//! - A limit only grows as far as the heap follows. A collection that did not fill the limit proves
//!   nothing about it (RFC 2861 says the same of windows that were not used).
//! - Several collections may end between two looks. They count as one that had all their stalls.

use super::stalls::Stalled;
use plimsoll_policy::sizing::{Ended, IslaVista, Ratios, Sizing};

/// A heap is never asked to be smaller, bytes.
const LEAST: u64 = 32 << 20;

/// A machine that does not grow by itself begins with one part in this many of its maximum.
const BEGIN_PART: u64 = 8;

/// One moment of a machine. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    /// Time, nanoseconds.
    pub(super) now_ns: u64,
    /// Collections of all kinds since its start.
    pub(super) collections: u64,
    /// Time in their pauses, nanoseconds.
    pub(super) pauses_ns: u64,
    /// What the heap takes, in memory and in swap.
    pub(super) heap: u64,
    /// What the last collection left.
    pub(super) live: u64,
    /// The most that the heap may ever take.
    pub(super) most: u64,
    /// Stalls since the last moment.
    pub(super) stalled: Stalled,
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
    /// Time in pauses at the last collection.
    pauses_ns: u64,
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
        self.stalled = self.stalled.and(moment.stalled);
        if self.always && self.policy.is_none() {
            let begin = moment.heap.max(moment.most / BEGIN_PART).max(LEAST);
            let begin = begin.min(moment.most);
            self.policy = Some(IslaVista::new(Ratios::MENDED, begin, moment.most));
        }
        let before = *self.collections.get_or_insert(moment.collections);
        if moment.collections == before {
            return None;
        }
        self.collections = Some(moment.collections);
        let took = moment.pauses_ns.saturating_sub(self.pauses_ns);
        self.pauses_ns = moment.pauses_ns;
        let stalled = std::mem::take(&mut self.stalled);
        let begun = self.policy.is_none() && stalled.count > 0;
        if begun {
            let begin = moment.heap.max(LEAST).min(moment.most);
            self.policy = Some(IslaVista::new(Ratios::MENDED, begin, moment.most));
        }
        let policy = self.policy.as_mut()?;
        policy.bounded(moment.most);
        // A collection below the limit proves nothing, except that it had no stalls.
        let filled = moment.heap.saturating_add(moment.heap / 16) >= policy.size();
        if stalled.count > 0 || filled {
            policy.ended(&Ended {
                now: moment.now_ns,
                took,
                cost: took,
                live: moment.live,
                growth: u64::MAX,
                stalls: stalled.count,
                ..Ended::default()
            });
        }
        if stalled.count == 0 && policy.size() >= moment.most && !self.always {
            self.policy = None;
            return Some(Turn::Over);
        }
        begun.then_some(Turn::Begun)
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
            live: 100 * MIB,
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
        assert_eq!(size, 400 * MIB, "a quarter of what is not live is lost");
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
    fn a_limit_below_what_lives_is_what_lives() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(0, 110, 0));
        for collections in 1..50 {
            feedback.look(&moment(collections, 110, 3));
        }
        let size = feedback.size().unwrap();
        assert!((100 * MIB..108 * MIB).contains(&size), "{size}");
    }
}
