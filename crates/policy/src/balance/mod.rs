//! Which pages of a group the kernel reclaims first: file pages or anonymous pages. Linux takes
//! that balance as a number, *swappiness*: 0 to 200, where 100 says that reading either kind back
//! costs the same (kernel document `sysctl/vm.rst`). Low values destroy the file pages of programs
//! that hold cold anonymous memory (Nakaike and others, sections 2 and 5.4).
//!
//! # Glossary
//! - *refault*: a page that is read again after it was reclaimed. Either kind has its *cost*:
//!   seconds that a program waits for such a page.
//! - *loss*: seconds waited for refaults, per second for which the programs ran. A program that
//!   waits most of the time refaults less often, so seconds of the clock would hide the harm.
//! - *usual*: the swappiness that was found. It is put back at the end.
//! - *kept*: the best swappiness so far.
//! - *trial*: a few periods with another swappiness, one step away from the kept one.
//!
//! # How it decides
//! Nothing moves while little is lost. Then one step is tried at a time: first towards the kind
//! whose refaults cost less in all, then the other way, then both ways with a longer step. A step
//! stays only if it lowered the loss clearly. Else the kept value returns, and the next trial comes
//! after a rest that doubles with each failure. So a wrong guess costs a few periods, and ever more
//! rarely. Trials are judged by the loss and not by refaults alone, because refaults of a file that
//! is streamed through can be prevented by no balance.

mod cost;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use cost::{CostEstimate, Costs};

/// Least swappiness that a trial sets. At 0 the kernel takes file pages only, until nothing but a
/// kill is left; at 20 it looks at nine file pages for each anonymous one.
pub const LEAST: u32 = 20;
/// Greatest swappiness; the kernel's own limit. File pages are then reclaimed only if they are not
/// in use.
pub const MOST: u32 = 200;
/// First step, and the longest.
const STEP: u32 = 20;
const LONGEST_STEP: u32 = 80;
/// Periods of a trial that are not counted: the lists of the kernel adapt first.
const SETTLE: u32 = 1;
/// Periods over which a loss is measured.
const MEASURE: u32 = 3;
/// Below this loss (seconds waited per second of the clock) nothing is worth a trial.
const QUIET: f64 = 0.005;
/// A trial succeeds if the loss falls below this part of the loss before.
const CLEARLY: f64 = 0.9;
/// A trial ends early if a single period loses this many times as much as before.
const HARMFUL: f64 = 1.5;
/// A kind of refault that makes up less than this part of what is lost is not worth protecting.
const WORTHWHILE: f64 = 0.1;
/// Rest after a first failure, in periods; it doubles with each further one, up to the longest.
const REST: u32 = 5;
const LONGEST_REST: u32 = 320;
/// A loss that changed by this factor since the last failure is another situation: trials begin
/// anew.
const OTHER: f64 = 2.0;
/// Least part of a period for which programs count as having run. Bounds the loss where they stood
/// still.
const LEAST_RUN: f64 = 0.01;

/// What one period brought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Period {
    /// Length, seconds.
    pub length: f64,
    /// File pages that were read again.
    pub file: u64,
    /// Anonymous pages that were read again.
    pub anon: u64,
    /// Seconds for which the programs ran (user time of all threads). `None` if unknown; then the
    /// length counts.
    pub ran: Option<f64>,
}

impl Period {
    /// Seconds waited for file pages and for anonymous pages.
    fn waited(&self, costs: &Costs) -> (f64, f64) {
        (self.file as f64 * costs.file, self.anon as f64 * costs.anon)
    }

    fn is_sound(&self) -> bool {
        self.length.is_finite() && self.length > 0.0
    }
}

/// Sums over some periods, seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    periods: u32,
    length: f64,
    ran: f64,
    file: f64,
    anon: f64,
}

impl Window {
    fn add(&mut self, period: &Period, costs: &Costs) {
        let (file, anon) = period.waited(costs);
        let ran = period.ran.filter(|ran| ran.is_finite());
        self.periods += 1;
        self.length += period.length;
        self.ran += ran.unwrap_or(period.length).max(period.length * LEAST_RUN);
        self.file += file;
        self.anon += anon;
    }

    fn waited(&self) -> f64 {
        self.file + self.anon
    }

    /// The loss. Both are positive.
    fn loss(&self) -> f64 {
        self.waited() / self.ran.max(f64::MIN_POSITIVE)
    }

    fn is_quiet(&self) -> bool {
        // Also true where the sums are no numbers.
        !(self.waited() >= self.length * QUIET)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The kept value is in force, and its loss is measured.
    Measuring(Window),
    /// As many periods more of the kept value, then it is measured.
    Resting(u32),
    /// Another value is tried; the loss before, and as many periods more that are not counted.
    Trying {
        value: u32,
        before: f64,
        unsettled: u32,
        window: Window,
    },
}

/// The balance of one group.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    usual: u32,
    kept: u32,
    phase: Phase,
    /// Trials that failed in a row.
    failures: u32,
    /// The loss when the last trial failed.
    failed_at: f64,
    /// The last step that succeeded upwards or downwards.
    last_up: Option<bool>,
}

impl Balance {
    /// A group whose swappiness was found to be `usual`. If that is 0, somebody wants no swapping
    /// there, and it stays.
    #[must_use]
    pub fn new(usual: u32) -> Balance {
        Balance {
            usual,
            kept: usual,
            phase: Phase::Measuring(Window::default()),
            failures: 0,
            failed_at: 0.0,
            last_up: None,
        }
    }

    /// The swappiness that was found, to be put back at the end.
    #[must_use]
    pub fn usual(&self) -> u32 {
        self.usual
    }

    /// The swappiness that should be in force now.
    #[must_use]
    pub fn swappiness(&self) -> u32 {
        match self.phase {
            Phase::Trying { value, .. } => value,
            _ => self.kept,
        }
    }

    /// Takes a period in account; returns the swappiness for the next one. `may` says whether a
    /// trial may begin now; one in progress ends at once where it may not.
    pub fn step(&mut self, period: &Period, costs: &Costs, may: bool) -> u32 {
        if !may || self.usual == 0 {
            self.phase = Phase::Measuring(Window::default());
        } else if period.is_sound() {
            self.phase = self.next(period, &costs.sound());
        }
        self.swappiness()
    }

    fn next(&mut self, period: &Period, costs: &Costs) -> Phase {
        match self.phase {
            Phase::Resting(left) => match left {
                0 | 1 => Phase::Measuring(Window::default()),
                _ => Phase::Resting(left - 1),
            },
            Phase::Measuring(mut window) => {
                window.add(period, costs);
                match window.periods < MEASURE {
                    true => Phase::Measuring(window),
                    false => self.measured(&window),
                }
            }
            Phase::Trying {
                value,
                before,
                unsettled,
                mut window,
            } => {
                let mut single = Window::default();
                single.add(period, costs);
                if single.loss() > before * HARMFUL && unsettled == 0 {
                    return self.failed(before);
                }
                if unsettled == 0 {
                    window.add(period, costs);
                }
                if window.periods == MEASURE {
                    return self.judge(value, before, &window);
                }
                Phase::Trying {
                    value,
                    before,
                    unsettled: unsettled.saturating_sub(1),
                    window,
                }
            }
        }
    }

    /// The loss of the kept value is known: begins a trial, rests, or measures again.
    fn measured(&mut self, window: &Window) -> Phase {
        if window.is_quiet() {
            return Phase::Measuring(Window::default());
        }
        let loss = window.loss();
        if loss > self.failed_at * OTHER || loss < self.failed_at / OTHER {
            self.failures = 0;
        }
        match self.proposal(window) {
            Some(value) => Phase::Trying {
                value,
                before: loss,
                unsettled: SETTLE,
                window: Window::default(),
            },
            None => self.failed(loss),
        }
    }

    /// The value to try next, if it differs from the kept one and could help.
    fn proposal(&self, window: &Window) -> Option<u32> {
        let cheaper_up = window.file > window.anon;
        let first_up = self.last_up.unwrap_or(cheaper_up);
        let up = first_up != (self.failures % 2 == 1);
        let protected = if up { window.file } else { window.anon };
        if protected < window.waited() * WORTHWHILE {
            return None;
        }
        let doublings = (self.failures / 2).min(LONGEST_STEP.ilog2());
        let step = (STEP << doublings).min(LONGEST_STEP);
        let value = match up {
            true => self.kept.saturating_add(step).min(MOST),
            false => self.kept.saturating_sub(step).max(LEAST),
        };
        let ahead = if up {
            value > self.kept
        } else {
            value < self.kept
        };
        ahead.then_some(value)
    }

    fn judge(&mut self, value: u32, before: f64, window: &Window) -> Phase {
        let loss = window.loss();
        if !(loss < before * CLEARLY) {
            return self.failed(before);
        }
        self.last_up = Some(value > self.kept);
        self.kept = value;
        self.failures = 0;
        self.failed_at = 0.0;
        // What was just measured is the loss of the value that is kept now.
        self.measured(window)
    }

    fn failed(&mut self, loss: f64) -> Phase {
        let rest = REST << self.failures.min(LONGEST_REST.ilog2());
        self.failures = self.failures.saturating_add(1);
        self.failed_at = loss;
        self.last_up = None;
        Phase::Resting(rest.min(LONGEST_REST))
    }
}
