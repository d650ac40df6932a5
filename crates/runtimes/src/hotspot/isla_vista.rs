//! Isla Vista for a machine: turns stalls into a limit of the process. At the end of a collection the
//! policy hears how long the process stalled since the one before, as a part of that time.
//!
//! Until the first stall the heap may take the memory that is free in the program's group or on the machine,
//! so that it does not outgrow memory before anybody was stalled. From the first stall on [`HotSpotAlone`]
//! decides. The limit of either is kept like one of a broker. When the heap has grown back to its maximum
//! without a stall, free memory is its only bound again.
//!
//! The rule as the paper prints it can be chosen instead, to compare with: the policy decides from the first
//! look on, and each stall in a pause is one (each stall at all, where no agent tells pauses apart).
//!
//! Three things differ from a heap that asks the policy by itself:
//! - A limit only grows as far as the heap follows. A collection that did not fill the limit proves
//!   nothing about it (RFC 2861 says the same of windows that were not used). A heap that would have to grow
//!   by too little to be worth a collection has filled it: else the limit would wait for the heap, and the
//!   heap for the limit.
//! - A limit that was lowered is not lowered again before the heap has become smaller, because that
//!   takes a collection or two, which stall as well (RFC 6582 says the same of losses within one
//!   window). Only for some time, since the heap may be unable to follow.
//! - Several collections may end between two looks. They count as one that had all their stalls.

use super::stalls::Span;
use plimsoll_policy::footprint::Within;
use plimsoll_policy::sizing::{Ended, HotSpotAlone, Kind, Sizing, hotspot_alone, hotspot_printed};
use plimsoll_unit::{Bytes, Nanos};
use std::cmp::Ordering::{Equal, Greater, Less};

/// A heap is never asked to be smaller.
const LEAST: Bytes = Bytes::mib(32);

/// Stalls put a heap under the policy if they took more than this part of the time.
const TOUCHED: f64 = 1.0 / 64.0;
/// A heap is at its limit if it is within one part in this many of it.
const NEAR: u64 = 16;
/// Free memory bounds the heap anew when it has changed by more than one part in this many: others take and
/// return a little all the time.
const STEADY: u64 = 16;
/// How long a heap may take to become smaller.
const FOLLOWS: Nanos = Nanos::seconds(2);

/// One moment of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    /// Time since the steering began.
    pub(super) now: Nanos,
    /// Collections of all kinds since its start.
    pub(super) collections: u64,
    /// Collections of the whole heap among them.
    pub(super) whole: u64,
    /// The memory that the heap takes, in memory and in swap.
    pub(super) heap: Bytes,
    /// In use after the last collection. After one of the whole heap that is what lives.
    pub(super) used: Bytes,
    /// The most that the heap may ever take.
    pub(super) most: Bytes,
    /// The most that it may take of the memory that is there now: what it has there, and what is free.
    pub(super) reach: Bytes,
    /// Stalls since the last moment. Its length is 0 if nothing new was read.
    pub(super) span: Span,
    /// Fewer stalls than this in a collection tell nothing.
    pub(super) few: u64,
    /// Whether the program keeps to a broker's limit.
    pub(super) keeps: bool,
    /// Whether this limit holds, and is too little above the heap for it to be enlarged.
    pub(super) close: bool,
}

/// A change of the state of the heap.
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
    /// The memory that the heap may take while there is no policy; 0 before the first look.
    reach: Bytes,
    /// Collections at the last look; `None` before the first.
    collections: Option<u64>,
    /// Collections of the whole heap at the last look.
    whole: u64,
    /// The spans that the policy has heard of, together: its clock.
    heard: Nanos,
    /// When the limit was last lowered; `None` once the heap has followed.
    lowered_at: Option<Nanos>,
    /// Stalls since the last collection.
    span: Span,
    /// How many stalls there were in spans in which they took more than [`TOUCHED`], although it kept to a
    /// broker's limit.
    within: Within,
    /// The rule is the printed one.
    is_printed: bool,
}

impl Feedback {
    /// By the rule that the paper prints.
    pub(super) fn printed() -> Feedback {
        Feedback {
            is_printed: true,
            ..Feedback::default()
        }
    }

    /// Looks at one moment.
    pub(super) fn look(&mut self, moment: &Moment) -> Option<Turn> {
        self.span = self.span.and(moment.span);
        self.within.look(moment.keeps, None);
        let reach = moment.reach.min(moment.most);
        if reach.abs_diff(self.reach) > self.reach / STEADY {
            self.reach = reach;
        }
        if self.is_printed && self.policy.is_none() {
            let limit = moment.heap.max(LEAST).min(moment.most);
            self.policy = Some(hotspot_printed(self.heard, limit, moment.most));
        }
        let before = *self.collections.get_or_insert(moment.collections);
        if moment.collections < before {
            // Counters of another machine, or of nobody: what they were before means nothing.
            self.collections = Some(moment.collections);
            return None;
        }
        // Stalls until the end of a collection may be told a look later.
        if moment.collections == before || self.span.length == Nanos::ZERO {
            return None;
        }
        self.collections = Some(moment.collections);
        let span = match std::mem::take(&mut self.span) {
            Span {
                stalled, length, ..
            } if stalled.count < moment.few => Span {
                length,
                ..Span::default()
            },
            span => span,
        };
        let ended = self.ended(span, moment);
        let touched = ended.stalled_part() > TOUCHED;
        // The first stall tells that the heap has outgrown memory, whatever its limit was until then.
        let begun = touched && self.policy.is_none();
        let felt = if touched { ended.stalls } else { 0 };
        self.within.look(moment.keeps, Some(felt));
        if begun {
            self.begin(moment.heap, moment);
        }
        let size = self.size();
        let followed = moment.heap <= size + size / NEAR;
        let late = |since| moment.now - since > FOLLOWS;
        if followed || self.lowered_at.is_some_and(late) {
            self.lowered_at = None;
        }
        // A collection below the limit proves nothing, except that it had no stalls.
        let filled = moment.close || moment.heap + moment.heap / NEAR >= size;
        let policy = self.policy.as_mut()?;
        policy.bounded(moment.most);
        let mut next = policy.clone();
        next.ended(&ended);
        let counts = match next.size().cmp(&policy.size()) {
            Less => self.lowered_at.is_none(),
            Equal => true,
            Greater => filled,
        };
        if counts {
            *policy = next;
            self.heard = ended.now;
        }
        if policy.size() < size {
            self.lowered_at = Some(moment.now);
        }
        if !touched && policy.size() >= moment.most && !self.is_printed {
            self.policy = None;
            return Some(Turn::Over);
        }
        begun.then_some(Turn::Begun)
    }

    /// Puts the heap under the policy, with this limit.
    fn begin(&mut self, limit: Bytes, moment: &Moment) {
        let limit = limit.max(LEAST).min(moment.most);
        self.policy = Some(hotspot_alone(self.heard, limit, moment.most));
    }

    /// The collections since the last look, as one. Stalls are weighed as a part of all the time that they
    /// were counted in; but those within pauses, if they took a part that counts, as all of it: nobody worked
    /// meanwhile, and the next pause walks the same way.
    fn ended(&mut self, span: Span, moment: &Moment) -> Ended {
        let whole = moment.whole != self.whole;
        self.whole = moment.whole;
        let kind = if whole { Kind::Full } else { Kind::Nursery };
        let in_pauses = span.in_pauses.unwrap_or_default();
        let counts_whole = in_pauses.time.0 as f64 > span.length.0 as f64 * TOUCHED;
        // A signal without a number has a time.
        let all = span.stalled.count.max(u64::from(span.stalled.any()));
        let (stalls, stalled) = match (self.is_printed, span.in_pauses) {
            (false, _) if counts_whole => (all, span.length),
            (false, _) => (all, span.stalled.time),
            (true, Some(in_pauses)) => (in_pauses.count, in_pauses.time),
            (true, None) => (all, span.stalled.time),
        };
        Ended {
            now: self.heard + span.length,
            took: span.length,
            cost: span.length,
            kind,
            live: moment.used,
            growth: Bytes::MAX,
            stalls,
            stalled,
            ..Ended::default()
        }
    }

    /// How many stalls mattered so far of those that came from one collection to the next while the program
    /// kept to a broker's limit all the time. Where files fill the memory, every program stalls a little.
    pub(super) fn within(&self) -> u64 {
        self.within.count()
    }

    /// Whether a stall put the heap under the policy.
    pub(super) fn is_stalled(&self) -> bool {
        self.policy.is_some()
    }

    /// The memory that the heap may take, from the first look on.
    pub(super) fn size(&self) -> Bytes {
        let policy = self.policy.as_ref();
        let size = policy.map_or(self.reach, Sizing::size);
        size.max(LEAST)
    }
}

#[cfg(test)]
mod tests;
