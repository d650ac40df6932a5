//! What a principal reads and what it hears.

use plimsoll_wire::page::Numbers;
use std::ops::Deref;

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Source {
    /// The broker, which is alive.
    Broker = 0,
    /// The broker, which gave no sign of life lately: its last numbers, for the moment that it takes
    /// to find out.
    Stale = 1,
    /// Local sensing: no broker is there.
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

/// A consistent set of numbers and where it comes from. Derefs to [`Numbers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The numbers, bytes.
    pub numbers: Numbers,
    /// Who says so.
    pub source: Source,
    /// Counts changes of the numbers; starts anew when the source changes.
    pub generation: u64,
    /// `CLOCK_MONOTONIC` ns of the source's last sign of life.
    pub heartbeat: u64,
}

impl Deref for Reading {
    type Target = Numbers;

    fn deref(&self) -> &Numbers {
        &self.numbers
    }
}

impl Reading {
    /// A reading that nothing was sensed for yet.
    pub(crate) const NOTHING: Reading = Reading {
        numbers: Numbers {
            limit: 0,
            available: 0,
            owed: 0,
            deadline: 0,
            uses: 0,
            share: 0,
            level: plimsoll_wire::page::Level::Normal,
        },
        source: Source::Local,
        generation: 0,
        heartbeat: 0,
    };
}

/// What [`crate::Principal::wait`] comes back with. Changes that come faster than they are waited
/// for are merged: the last numbers are always told, those between need not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing happened in that time.
    Timeout(Reading),
    /// `owed` bytes are to be given back before `deadline`: new, more than before, or by another
    /// time.
    Owed(Reading),
    /// Nothing is owed any more, or the level fell: it may grow again up to its limit.
    Relief(Reading),
    /// Other numbers, mostly the limit.
    Changed(Reading),
    /// The broker is gone; the numbers are local now.
    BrokerLost(Reading),
    /// A broker is (back) there and knows the principal.
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

/// What was told to whoever waits, or is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) reading: Reading,
    /// Counts joins, so that a broker that died and came back unseen is still told.
    pub(crate) joins: u64,
    pub(crate) joined: bool,
}

impl Told {
    /// What has to be told to who was last told `before`; nothing when it knows all that matters.
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
