//! Isla Vista for a machine: turns stalls into a limit of the process. At the end of a collection the
//! policy hears how long the process stalled since the one before, as a part of that time.
//!
//! Until the first stall the machine sizes its heap by its own rule, as if nobody was there: the
//! rule of the paper would let the heap grow to its maximum too. From the first stall on
//! [`HotSpotAlone`] decides, and the limit that follows is kept like one of a broker. When the heap has
//! grown back to its maximum without a stall, the machine is let go again. A machine that was
//! started so that it does not grow by itself is enlarged until then where that pays: its limit is half of
//! its maximum, or twice what it takes if that is more, so that it does not outgrow memory by much at once.
//!
//! Three things differ from a heap that asks the policy by itself:
//! - A limit only grows as far as the heap follows. A collection that did not fill the limit proves
//!   nothing about it (RFC 2861 says the same of windows that were not used).
//! - A limit that was lowered is not lowered again before the heap has become smaller, because that
//!   takes a collection or two, which stall as well (RFC 6582 says the same of losses within one
//!   window). Only for some time, since the heap may be unable to follow.
//! - Several collections may end between two looks. They count as one that had all their stalls.

use super::stalls::Span;
use plimsoll_policy::footprint::Within;
use plimsoll_policy::sizing::{Ended, HotSpotAlone, Kind, Sizing, hotspot_alone};

/// A heap is never asked to be smaller, bytes.
const LEAST: u64 = 32 << 20;

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
    /// What the heap takes, in memory and in swap.
    pub(super) heap: u64,
    /// What is in use after the last collection. After one of the whole heap that is what lives.
    pub(super) used: u64,
    /// The most that the heap may ever take.
    pub(super) most: u64,
    /// Stalls since the last moment. Its length is 0 if nothing new was read.
    pub(super) span: Span,
    /// Fewer stalls than this in a collection tell nothing.
    pub(super) few: u64,
    /// Whether the program keeps to a broker's limit.
    pub(super) keeps: bool,
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
    policy: Option<HotSpotAlone>,
    /// Collections at the last look; `None` before the first.
    collections: Option<u64>,
    /// Collections of the whole heap at the last look.
    whole: u64,
    /// The spans that the policy has heard of, together, nanoseconds: its clock.
    heard_ns: u64,
    /// When the limit was last lowered, nanoseconds; `None` once the heap has followed.
    lowered_ns: Option<u64>,
    /// Stalls since the last collection.
    span: Span,
    /// How many stalls there were in spans in which they took more than [`TOUCHED`].
    felt: u64,
    /// Those of them that came although it kept to a broker's limit.
    within: Within,
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
        self.span = self.span.and(moment.span);
        self.within.look(moment.keeps, None);
        if self.always && self.felt == 0 {
            let limit = moment.heap.saturating_mul(2).max(moment.most / 2);
            self.begin(limit.max(self.size().unwrap_or(0)), moment);
        }
        let before = *self.collections.get_or_insert(moment.collections);
        if moment.collections < before {
            // Counters of another machine, or of nobody: what they were before means nothing.
            self.collections = Some(moment.collections);
            return None;
        }
        // Stalls until the end of a collection may be told a look later.
        if moment.collections == before || self.span.ns == 0 {
            return None;
        }
        self.collections = Some(moment.collections);
        let span = match std::mem::take(&mut self.span) {
            Span { stalled, ns } if stalled.count < moment.few => Span {
                ns,
                ..Span::default()
            },
            span => span,
        };
        let stalled = span.stalled;
        let ended = self.ended(span, moment);
        let touched = ended.stalled_part() > TOUCHED;
        // The first stall tells that the heap has outgrown memory, whatever its limit was until then.
        let begun = touched && (self.policy.is_none() || self.felt == 0);
        let felt = if touched { ended.stalls } else { 0 };
        self.felt = self.felt.saturating_add(felt);
        self.within.look(moment.keeps, Some(felt));
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
            _ => {
                policy.ended(&ended);
                self.heard_ns = ended.now;
            }
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
        self.policy = Some(hotspot_alone(bytes, moment.most));
    }

    /// The collections since the last look, as one. Stalls are weighed as a part of all the time that they
    /// were counted in.
    fn ended(&mut self, span: Span, moment: &Moment) -> Ended {
        let whole = moment.whole != self.whole;
        self.whole = moment.whole;
        let kind = match whole {
            true => Kind::Full,
            false => Kind::Nursery,
        };
        Ended {
            now: self.heard_ns.saturating_add(span.ns),
            took: span.ns,
            cost: span.ns,
            kind,
            live: moment.used,
            growth: u64::MAX,
            // A signal without a number has a time.
            stalls: span.stalled.count.max(u64::from(span.stalled.any())),
            stalled: span.stalled.ns,
            ..Ended::default()
        }
    }

    /// How many stalls mattered so far of those that came from one collection to the next while the program
    /// kept to a broker's limit all the time. Where files fill the memory, every program stalls a little.
    pub(super) fn within(&self) -> u64 {
        self.within.count()
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
    use plimsoll_kernel::stalls::Stalled;

    const MIB: u64 = 1 << 20;

    const MS: u64 = 1_000_000;

    /// A moment 100 ms after the last one, of which `stalled_ms` were spent in stalls.
    fn moment(collections: u64, heap: u64, stalled_ms: u64) -> Moment {
        Moment {
            collections,
            heap: heap * MIB,
            used: 100 * MIB,
            whole: collections,
            most: 1000 * MIB,
            span: span(100, stalled_ms),
            keeps: true,
            ..Moment::default()
        }
    }

    fn span(ms: u64, stalled_ms: u64) -> Span {
        let stalled = Stalled {
            count: stalled_ms,
            ns: stalled_ms * MS,
        };
        Span {
            stalled,
            ns: ms * MS,
        }
    }

    #[test]
    fn a_machine_is_left_alone_until_a_collection_stalls_and_after_the_spike() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(3, 400, 0));
        assert_eq!(feedback.look(&moment(4, 500, 90)), Some(Turn::Begun));
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

    /// Where the limit of the group, or what the policy says, is less than what lives.
    #[test]
    fn a_limit_is_between_what_lives_and_twice_that_where_all_stalls() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(0, 110, 0));
        for collections in 1..50 {
            feedback.look(&moment(collections, 110, 60));
        }
        let size = feedback.size().unwrap();
        assert!((100 * MIB..=200 * MIB).contains(&size), "{size}");
    }

    /// The sizes after a collection in each of these spans, of `ms` and with `stalled_ms` of stalls.
    fn sizes(spans: &[(u64, u64)], pieces: u64) -> Vec<Option<u64>> {
        let mut feedback = Feedback::default();
        feedback.look(&Moment {
            span: Span::default(),
            ..moment(0, 500, 0)
        });
        let mut sizes = Vec::new();
        for (collections, (ms, stalled_ms)) in (1..).zip(spans) {
            let heap = feedback.size().map_or(500, |size| size / MIB);
            let piece = span(ms / pieces, stalled_ms / pieces);
            for part in 1..=pieces {
                // The collection ends with the last piece.
                let ended = collections - u64::from(part < pieces);
                feedback.look(&Moment {
                    span: piece,
                    ..moment(ended, heap, 0)
                });
            }
            sizes.push(feedback.size());
        }
        sizes
    }

    /// The agent tells once a pause, the kernel whenever it is asked.
    #[test]
    fn what_counts_is_the_part_of_the_time_in_stalls_whoever_tells() {
        let spans = [
            (400, 0),
            (4000, 400),
            (400, 16),
            (800, 0),
            (4000, 4),
            (400, 96),
        ];
        let once = sizes(&spans, 1);
        assert_eq!(once, sizes(&spans, 4), "in one piece or in four");
        let longer = spans.map(|(ms, stalled_ms)| (8 * ms, 8 * stalled_ms));
        assert_eq!(once, sizes(&longer, 1), "only the part matters");
        let (calm, begun) = (once[0], once[1]);
        assert!(calm.is_none() && begun.is_some(), "{once:?}");
        assert!(once[2] < begun, "16 of 400 ms is more than 1/32: {once:?}");
        assert!(once[4] > once[3], "1 of 1000 ms is nothing: {once:?}");
        assert!(once[5] < once[4], "{once:?}");
    }

    #[test]
    fn stalls_that_took_hardly_any_time_are_not_told_of() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(1, 500, 0));
        for (collections, stalled_ms, felt) in [(2, 1, 0), (3, 2, 2), (3, 50, 2), (4, 1, 53)] {
            feedback.look(&moment(collections, 500, stalled_ms));
            assert_eq!(feedback.within(), felt, "{collections}, {stalled_ms}");
        }
    }

    /// The broker takes memory from who is above its limit, which makes it stall.
    #[test]
    fn stalls_count_if_the_limit_was_kept_to_from_collection_to_collection() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(1, 500, 0));
        let mut after = |collections, keeps| {
            feedback.look(&Moment {
                keeps,
                ..moment(collections, 500, 50)
            });
            feedback.within()
        };
        assert_eq!(after(2, true), 0, "nobody knows when it began");
        assert_eq!(after(3, true), 50);
        after(3, false);
        assert_eq!(after(4, true), 50, "it was above its limit in between");
        assert_eq!(after(5, true), 100);
        assert_eq!(after(6, false), 100, "it is above its limit");
        assert_eq!(after(7, true), 100, "it gave memory back");
        assert_eq!(after(8, true), 150);
    }

    #[test]
    fn more_stalls_than_time_count_as_all_of_it() {
        // Eight threads that wait all the time.
        let sizes = [1, 8].map(|threads| sizes(&[(400, 400 * threads)], 1));
        assert_eq!(sizes[0], sizes[1]);
        assert!(sizes[0][0].is_some());
    }

    #[test]
    fn a_collection_whose_stalls_are_not_told_yet_is_looked_at_with_the_next() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(1, 500, 0));
        feedback.look(&moment(2, 500, 0));
        let early = Moment {
            span: Span::default(),
            ..moment(3, 500, 0)
        };
        assert_eq!(feedback.look(&early), None);
        assert_eq!(feedback.look(&moment(3, 500, 90)), Some(Turn::Begun));
    }

    #[test]
    fn counters_that_go_backwards_begin_anew() {
        let mut feedback = Feedback::default();
        feedback.look(&moment(u64::MAX, 500, 0));
        assert_eq!(feedback.look(&moment(7, 500, 90)), None, "none has ended");
        assert_eq!(feedback.look(&moment(8, 500, 90)), Some(Turn::Begun));
        let size = feedback.size();
        let wild = Moment {
            heap: 0,
            used: u64::MAX,
            whole: 0,
            most: 1,
            span: Span {
                stalled: Stalled {
                    count: u64::MAX,
                    ns: u64::MAX,
                },
                ns: u64::MAX,
            },
            ..moment(9, 0, 0)
        };
        for _ in 0..3 {
            feedback.look(&wild);
        }
        assert!(feedback.size() >= size.map(|_| LEAST));
    }

    #[test]
    fn few_faults_tell_nothing() {
        let few = |faults| {
            let mut feedback = Feedback::default();
            feedback.look(&moment(1, 500, 0));
            let stalled = Stalled {
                count: faults,
                ns: 0,
            };
            feedback.look(&Moment {
                few: 10,
                span: Span {
                    stalled,
                    ns: 100 * MS,
                },
                ..moment(2, 500, 0)
            })
        };
        assert_eq!((few(9), few(10)), (None, Some(Turn::Begun)));
    }
}
