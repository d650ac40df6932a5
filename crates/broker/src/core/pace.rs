//! When to look again: fast while something moves or owes, slowly when all is calm.

use super::domain::Domain;
use super::{Nanos, Pace};

const MILLISECOND: Nanos = 1_000_000;
/// Between two looks: while memory is short, while anything moves, and when that is over.
const FAST: Nanos = 25 * MILLISECOND;
const MOVING: Nanos = 50 * MILLISECOND;
const SETTLED: Nanos = 250 * MILLISECOND;
/// Pages carry a heartbeat each second at least.
const CALM: Nanos = 900 * MILLISECOND;
/// Quiet for this long is calm.
const CALM_AFTER: Nanos = 3_000 * MILLISECOND;
/// Growth of outsiders that would take all that is free within this time is worth following closely;
/// slower growth, as any busy machine has, is seen soon enough by the slow ticks.
const AHEAD: Nanos = 10_000 * MILLISECOND;
/// A hog that begins is taken to grow this fast, bytes per second.
const FASTEST: u64 = 1 << 30;
const GLANCE_LEAST: Nanos = 20 * MILLISECOND;

/// What a tick saw, most urgent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mood {
    #[default]
    Still,
    /// Somebody grows, shrinks, owes or waits.
    Moving,
    /// Bytes are needed, or the margin shrinks.
    Urgent,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    mood: Mood,
    moved_at: Nanos,
    now: Nanos,
    thinnest: u64,
    prompted: bool,
}

impl Pacer {
    /// Before the domains and principals of a tick are looked at.
    pub(super) fn begin(&mut self, now: Nanos) {
        *self = Pacer {
            mood: Mood::Still,
            now,
            thinnest: u64::MAX,
            prompted: false,
            ..*self
        };
    }

    /// Takes note of a domain.
    pub(super) fn note_domain(&mut self, domain: &Domain) {
        self.thinnest = self.thinnest.min(domain.free());
        let thin = domain.free() < domain.sensed.capacity / 8;
        let grows = super::flow::over(domain.growth(), AHEAD) > super::flow::signed(domain.free());
        if domain.lack() > 0 || (grows && thin) {
            self.note(Mood::Urgent);
        } else if grows {
            self.note(Mood::Moving);
        }
    }

    pub(super) fn note(&mut self, mood: Mood) {
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
        let quiet = self.now.saturating_sub(self.moved_at);
        let tick = match self.mood {
            _ if self.prompted => FAST,
            Mood::Urgent => FAST,
            Mood::Moving => MOVING,
            Mood::Still if quiet < CALM_AFTER => SETTLED,
            Mood::Still => CALM,
        };
        // Half of what is free at the speed of the fastest hog.
        let until_half =
            (u128::from(self.thinnest / 2) * 1_000_000_000 / u128::from(FASTEST)) as Nanos;
        Pace {
            tick,
            glance: until_half
                .clamp(GLANCE_LEAST, tick.max(GLANCE_LEAST))
                .min(tick),
        }
    }
}

/// Whether usage that went from `then` to `used` is reason for a full tick.
pub(super) fn is_alarming(domain: &Domain, used: u64) -> bool {
    let then = domain.sensed.used;
    let grown = used.saturating_sub(then);
    let step = (domain.free() / 4)
        .min(64 << 20)
        .max(domain.watermark() / 8);
    grown > step
}
