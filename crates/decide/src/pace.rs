//! When the next tick is due: soon while something changes or is owed, later when all is calm.

use super::Pace;
use super::domain::Domain;
use plimsoll_unit::{Bytes, Nanos, SECOND};

/// Time between ticks: while memory is short, while something changes, and after that.
const FAST: Nanos = Nanos::millis(25);
const MOVING: Nanos = Nanos::millis(50);
const SETTLED: Nanos = Nanos::millis(250);
/// Longest time between ticks: pages promise a heartbeat each second.
const CALM: Nanos = Nanos::millis(900);
/// Calm begins after this time without changes.
const CALM_AFTER: Nanos = Nanos::seconds(3);
/// Growth of outsiders that would use up all free memory within this time is followed closely.
/// Slower growth is normal on a busy machine, and slow ticks see it early enough.
const AHEAD: Nanos = Nanos::seconds(10);
/// Assumed speed of a program that suddenly grows, bytes per second.
const FASTEST: u64 = 1 << 30;
const GLANCE_LEAST: Nanos = Nanos::millis(20);

/// State that a tick found, most urgent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mood {
    #[default]
    Still,
    /// A principal grows, shrinks, owes or waits.
    Moving,
    /// Bytes are needed, or the margin shrinks.
    Urgent,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    mood: Mood,
    /// Core time of the last tick that found movement.
    moved_at: Nanos,
    /// Core time of this tick.
    now: Nanos,
    /// Least free memory of a domain in this tick.
    thinnest: Bytes,
    /// Whether a command asked for a tick soon.
    prompted: bool,
}

impl Pacer {
    /// Resets the state before a tick examines the domains and principals.
    pub(super) fn reset(&mut self, now: Nanos) {
        *self = Pacer {
            mood: Mood::Still,
            now,
            thinnest: Bytes::MAX,
            prompted: false,
            ..*self
        };
    }

    /// Includes a domain in the pace.
    pub(super) fn record_domain(&mut self, domain: &Domain) {
        self.thinnest = self.thinnest.min(domain.free());
        let thin = domain.free() < domain.sensed.capacity / 8;
        let grows = super::smoothed_level::change(domain.growth(), AHEAD)
            > super::smoothed_level::signed(domain.free().0);
        if domain.lack() > Bytes::ZERO || (grows && thin) {
            self.record(Mood::Urgent);
        } else if grows {
            self.record(Mood::Moving);
        }
    }

    pub(super) fn record(&mut self, mood: Mood) {
        self.mood = self.mood.max(mood);
        if mood > Mood::Still {
            self.moved_at = self.now;
        }
    }

    /// A command changed something: tick soon.
    pub(super) fn prompt(&mut self) {
        self.prompted = true;
    }

    pub(super) fn pace(&self) -> Pace {
        let quiet = self.now - self.moved_at;
        let tick = match self.mood {
            _ if self.prompted => FAST,
            Mood::Urgent => FAST,
            Mood::Moving => MOVING,
            Mood::Still if quiet < CALM_AFTER => SETTLED,
            Mood::Still => CALM,
        };
        // Time in which the fastest growth would use up half of the free memory.
        let until_half = u128::from(self.thinnest.0 / 2) * u128::from(SECOND) / u128::from(FASTEST);
        let until_half = Nanos(until_half as u64);
        Pace {
            tick,
            glance: until_half
                .clamp(GLANCE_LEAST, tick.max(GLANCE_LEAST))
                .min(tick),
        }
    }
}

/// Whether a change of use from `then` to `used` needs a full tick.
pub(super) fn is_alarming(domain: &Domain, used: Bytes) -> bool {
    let grown = used - domain.sensed.used;
    let step = (domain.free() / 4)
        .min(Bytes::mib(64))
        .max(domain.watermark() / 8);
    grown > step
}
