//! When the deciding thread does what. Times of the monotonic clock, in nanoseconds.

use plimsoll_unit::{MILLISECOND, SECOND};
use std::time::Duration;

/// Interval at which connections are checked for unfinished messages and unread replies, and
/// processes for moves between cgroups.
const SWEEP: u64 = SECOND;
/// Interval between writes of the state, however often it changes. After a quiet time a few
/// writes may follow at once, so that a crash right after a few changes loses none.
const STATE: u64 = SECOND;
const STATES_AT_ONCE: u64 = 8;
/// Shortest time between two ticks for newcomers. Other newcomers wait for the next tick, which
/// comes soon.
const NEWCOMER: u64 = 10 * MILLISECOND;
/// Shortest time between two ticks, however many events ask for one.
const MIN_TICK: u64 = 2 * MILLISECOND;
/// Delay of the tick for a user that asks for too many.
const LATER: u64 = 100 * MILLISECOND;
/// Longest time until memory that was given back is looked at.
const ANSWER: u64 = 25 * MILLISECOND;

/// The times of the next work. Belongs to the deciding thread.
#[derive(Debug)]
pub(super) struct Timers {
    /// The next tick.
    tick: u64,
    /// Duration of the last tick.
    tick_took: u64,
    /// The next glance.
    glance: u64,
    /// The next check of the connections and of moved processes.
    sweep: u64,
    /// Up to when writes of the state are used up; each write uses `STATE`.
    state: u64,
    /// Earliest time of the next tick for a newcomer.
    newcomer: u64,
    /// Since when no principal and no connection exists.
    idle_since: u64,
}

impl Timers {
    /// All is due at `now`.
    pub(super) fn new(now: u64) -> Timers {
        Timers {
            tick: now,
            tick_took: 0,
            glance: now,
            sweep: now,
            state: now,
            newcomer: now,
            idle_since: now,
        }
    }

    /// The next tick or glance.
    pub(super) fn next_look(&self) -> u64 {
        self.tick.min(self.glance)
    }

    /// The next tick.
    pub(super) fn next_tick(&self) -> u64 {
        self.tick
    }

    pub(super) fn is_tick_due(&self, now: u64) -> bool {
        now >= self.tick
    }

    pub(super) fn is_glance_due(&self, now: u64) -> bool {
        now >= self.glance && now < self.tick
    }

    /// Whether a tick within two milliseconds would come before the planned one.
    pub(super) fn is_tick_far(&self, now: u64) -> bool {
        self.tick > now.saturating_add(MIN_TICK)
    }

    /// Plans a tick at once.
    pub(super) fn tick_now(&mut self) {
        self.tick = 0;
    }

    /// Plans a tick within two milliseconds, so that several events share it.
    pub(super) fn tick_soon(&mut self, now: u64) {
        self.tick = self.tick.min(now.saturating_add(MIN_TICK));
    }

    /// Plans a tick within the time for which a user waits that asked for too many.
    pub(super) fn tick_later(&mut self, now: u64) {
        self.tick = self.tick.min(now.saturating_add(LATER));
    }

    /// Whether a newcomer may have a tick of its own at `now`, unless one had it a moment ago.
    pub(super) fn is_newcomer_due(&self, now: u64) -> bool {
        now >= self.newcomer
    }

    /// A newcomer has a tick of its own.
    pub(super) fn newcomer(&mut self, now: u64) {
        self.newcomer = now.saturating_add(NEWCOMER);
    }

    /// Duration of the last tick.
    pub(super) fn tick_took(&self) -> u64 {
        self.tick_took
    }

    /// A tick began at `now` and took `took`. Plans the next tick and glance; `answers`: whether memory
    /// that was given back is to be looked at soon.
    pub(super) fn ticked(
        &mut self,
        now: u64,
        took: u64,
        pace: &crate::decide::Pace,
        answers: bool,
    ) {
        self.tick_took = took;
        self.tick = now.saturating_add(pace.tick.0.max(MIN_TICK));
        if answers {
            self.tick = self.tick.min(now.saturating_add(ANSWER));
        }
        self.glanced(now, pace);
    }

    /// Plans the next glance.
    pub(super) fn glanced(&mut self, now: u64, pace: &crate::decide::Pace) {
        self.glance = now.saturating_add(pace.glance.0.max(MIN_TICK));
    }

    /// Whether it is time to sweep; if so, plans the next.
    pub(super) fn take_sweep(&mut self, now: u64) -> bool {
        let due = now >= self.sweep;
        if due {
            self.sweep = now.saturating_add(SWEEP);
        }
        due
    }

    /// Earliest time to write the state.
    pub(super) fn next_write(&self) -> u64 {
        self.state.saturating_sub((STATES_AT_ONCE - 1) * STATE)
    }

    /// The state is written.
    pub(super) fn written(&mut self, now: u64) {
        self.state = self.state.max(now).saturating_add(STATE);
    }

    /// For how long nobody was here. `any`: whether somebody is here now.
    pub(super) fn idle(&mut self, any: bool, now: u64) -> Duration {
        if any {
            self.idle_since = now;
        }
        Duration::from_nanos(now.saturating_sub(self.idle_since))
    }
}
