//! The numbers and events of a principal.

use plimsoll_unit::Nanos;
use plimsoll_wire::page::Numbers;
use std::ops::Deref;

/// The source of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Source {
    /// The broker, and it is alive.
    Broker = 0,
    /// The last numbers of a broker that gave no sign of life lately. Lasts for the moment that it
    /// takes to check.
    Stale = 1,
    /// Local sensing, because there is no broker.
    Local = 2,
}

impl Source {
    pub(crate) fn from_bits(bits: u64) -> Source {
        match bits & 3 {
            0 => Source::Broker,
            1 => Source::Stale,
            _ => Source::Local,
        }
    }
}

/// A consistent set of numbers with its source. Derefs to [`Numbers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The numbers, bytes.
    pub numbers: Numbers,
    /// Where they come from.
    pub source: Source,
    /// Counts changes of the numbers. Starts again when the source changes.
    pub generation: u64,
    /// `CLOCK_MONOTONIC` at the source's last sign of life.
    pub heartbeat: Nanos,
}

impl Deref for Reading {
    type Target = Numbers;

    fn deref(&self) -> &Numbers {
        &self.numbers
    }
}

impl Reading {
    /// The reading before anything was sensed.
    pub(crate) const NOTHING: Reading = Reading {
        numbers: Numbers {
            limit: 0,
            available: 0,
            owed: 0,
            deadline: 0,
            uses: 0,
            share: 0,
            level: plimsoll_wire::page::Level::Normal,
            sensed: 0,
        },
        source: Source::Local,
        generation: 0,
        heartbeat: Nanos::ZERO,
    };
}

/// The result of [`crate::Principal::wait`]. Changes that come faster than they are fetched are
/// merged: the last numbers are always told, intermediate ones may be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing happened in that time.
    Timeout(Reading),
    /// `owed` bytes must be given back before `deadline`. The debt is new, larger, or has another
    /// deadline.
    Owed(Reading),
    /// Nothing is owed any more, or the pressure level fell. The principal may grow up to its limit
    /// again.
    Relief(Reading),
    /// Other numbers changed, usually the limit.
    Changed(Reading),
    /// The broker is gone. The numbers are local now.
    BrokerLost(Reading),
    /// A broker runs (again) and knows the principal.
    Joined(Reading),
}

impl Event {
    /// The numbers at that moment.
    pub fn reading(&self) -> &Reading {
        match self {
            Event::Timeout(reading)
            | Event::Owed(reading)
            | Event::Relief(reading)
            | Event::Changed(reading)
            | Event::BrokerLost(reading)
            | Event::Joined(reading) => reading,
        }
    }
}

/// A state that was told to waiting threads, or is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The numbers.
    pub(crate) reading: Reading,
    /// Counts joins, so that a broker that died and came back unseen is still told.
    pub(crate) joins: u64,
    /// Whether there is a broker.
    pub(crate) joined: bool,
}

impl Told {
    /// The event that follows if `before` was told last; `None` if nothing that matters has
    /// changed.
    pub(crate) fn news_since(&self, before: &Told) -> Option<Event> {
        let (now, then) = (self.reading, before.reading);
        if self.joined && (!before.joined || self.joins != before.joins) {
            return Some(Event::Joined(now));
        }
        if before.joined && !self.joined {
            return Some(Event::BrokerLost(now));
        }
        if now.owed > then.owed || (now.owed > 0 && now.deadline != then.deadline) {
            return Some(Event::Owed(now));
        }
        if (then.owed > 0 && now.owed == 0) || now.level < then.level {
            return Some(Event::Relief(now));
        }
        let same = now.limit == then.limit
            && now.available == then.available
            && now.owed == then.owed
            && now.level == then.level;
        (!same).then_some(Event::Changed(now))
    }
}
