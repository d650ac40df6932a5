//! When the deciding thread does what. Times of the monotonic clock.

use plimsoll_unit::Nanos;
use std::time::Duration;

/// Interval at which connections are checked for unfinished messages and unread replies, and
/// processes for moves between cgroups.
const SWEEP: Nanos = Nanos::seconds(1);
/// Interval between writes of the state, however often it changes. After a quiet time a few
/// writes may follow at once, so that a crash right after a few changes loses none.
const STATE: Nanos = Nanos::seconds(1);
const STATES_AT_ONCE: u64 = 8;
/// Shortest time between two ticks for newcomers. Other newcomers wait for the next tick, which
/// comes soon.
const NEWCOMER: Nanos = Nanos::millis(10);
/// Shortest time between two ticks, however many events ask for one.
const MIN_TICK: Nanos = Nanos::millis(2);
/// Delay of the tick for a user that asks for too many.
const LATER: Nanos = Nanos::millis(100);
/// Longest time until memory that was given back is looked at.
const ANSWER: Nanos = Nanos::millis(25);

/// The times of the next work. Belongs to the deciding thread.
#[derive(Debug)]
pub(super) struct Timers {
    /// The next tick.
    tick: Nanos,
    /// Duration of the last tick.
    tick_took: Nanos,
    /// The next glance.
    glance: Nanos,
    /// The next check of the connections and of moved processes.
    sweep: Nanos,
    /// Up to when writes of the state are used up; each write uses `STATE`.
    state: Nanos,
    /// Earliest time of the next tick for a newcomer.
    newcomer: Nanos,
    /// Since when no principal and no connection exists.
    idle_since: Nanos,
}

impl Timers {
    /// All is due at `now`.
    pub(super) fn new(now: Nanos) -> Timers {
        Timers {
            tick: now,
            tick_took: Nanos::ZERO,
            glance: now,
            sweep: now,
            state: now,
            newcomer: now,
            idle_since: now,
        }
    }

    /// The next tick or glance.
    pub(super) fn next_look(&self) -> Nanos {
        self.tick.min(self.glance)
    }

    /// The next tick.
    pub(super) fn next_tick(&self) -> Nanos {
        self.tick
    }

    pub(super) fn is_tick_due(&self, now: Nanos) -> bool {
        now >= self.tick
    }

    pub(super) fn is_glance_due(&self, now: Nanos) -> bool {
        now >= self.glance && now < self.tick
    }

    /// Whether a tick within two milliseconds would come before the planned one.
    pub(super) fn is_tick_far(&self, now: Nanos) -> bool {
        self.tick > now + MIN_TICK
    }

    /// Plans a tick at once.
    pub(super) fn tick_now(&mut self) {
        self.tick = Nanos::ZERO;
    }

    /// Plans a tick within two milliseconds, so that several events share it.
    pub(super) fn tick_soon(&mut self, now: Nanos) {
        self.tick = self.tick.min(now + MIN_TICK);
    }

    /// Plans a tick within the time for which a user waits that asked for too many.
    pub(super) fn tick_later(&mut self, now: Nanos) {
        self.tick = self.tick.min(now + LATER);
    }

    /// Whether a newcomer may have a tick of its own at `now`, unless one had it a moment ago.
    pub(super) fn is_newcomer_due(&self, now: Nanos) -> bool {
        now >= self.newcomer
    }

    /// A newcomer has a tick of its own.
    pub(super) fn newcomer(&mut self, now: Nanos) {
        self.newcomer = now + NEWCOMER;
    }

    /// Duration of the last tick.
    pub(super) fn tick_took(&self) -> Nanos {
        self.tick_took
    }

    /// A tick began at `now` and took `took`. Plans the next tick and glance; `answers`: whether memory
    /// that was given back is to be looked at soon.
    pub(super) fn ticked(
        &mut self,
        now: Nanos,
        took: Nanos,
        pace: &crate::decide::Pace,
        answers: bool,
    ) {
        self.tick_took = took;
        self.tick = now + pace.tick.max(MIN_TICK);
        if answers {
            self.tick = self.tick.min(now + ANSWER);
        }
        self.glanced(now, pace);
    }

    /// Plans the next glance.
    pub(super) fn glanced(&mut self, now: Nanos, pace: &crate::decide::Pace) {
        self.glance = now + pace.glance.max(MIN_TICK);
    }

    /// Whether it is time to sweep; if so, plans the next.
    pub(super) fn take_sweep(&mut self, now: Nanos) -> bool {
        let due = now >= self.sweep;
        if due {
            self.sweep = now + SWEEP;
        }
        due
    }

    /// Earliest time to write the state.
    pub(super) fn next_write(&self) -> Nanos {
        self.state - STATE * (STATES_AT_ONCE - 1)
    }

    /// The state is written.
    pub(super) fn written(&mut self, now: Nanos) {
        self.state = self.state.max(now) + STATE;
    }

    /// For how long nobody was here. `any`: whether somebody is here now.
    pub(super) fn idle(&mut self, any: bool, now: Nanos) -> Duration {
        if any {
            self.idle_since = now;
        }
        (now - self.idle_since).duration()
    }
}
