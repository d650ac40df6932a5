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
//! - *walk*: a trial of other values, step by step in one direction. Each is measured for a few
//!   periods.
//!
//! # How it decides
//! Nothing moves while little is lost. Then a walk begins, towards the kind whose refaults cost less
//! in all. It goes on while the loss does not rise, because the loss often falls only at the end of
//! the way: a hot file thrashes until nearly all of it has room. Where it rose, or at the bound, the
//! walk ends. If a value lowered the loss clearly, it is kept. Else the kept value returns, and the
//! next walk, the other way if that could help, comes after a rest that doubles with each failure.
//! So a wrong guess costs a few periods, and ever more rarely. Walks are judged by the loss and not
//! by refaults alone, because no balance prevents refaults of a file that is streamed through.

mod cost;
#[cfg(test)]
mod simulated_group;
#[cfg(test)]
mod tests;

pub use cost::{CostEstimate, Costs};

/// Least swappiness of a walk. At 0 the kernel takes file pages only, until nothing but a
/// kill is left; at 20 it looks at nine file pages for each anonymous one.
pub const LEAST: u32 = 20;
/// Greatest swappiness; the kernel's own limit. File pages are then reclaimed only if they are not
/// in use.
pub const MOST: u32 = 200;
/// First step of a walk, and each further one.
const STEP: u32 = 20;
const NEXT_STEP: u32 = 40;
/// Periods after each step that are not counted: the lists of the kernel adapt first.
const SETTLE: u32 = 1;
/// Periods over which a loss is measured.
const MEASURE: u32 = 3;
/// Below this loss (seconds waited per second of the clock) nothing is worth a walk.
const QUIET: f64 = 0.005;
/// A value is better if the loss is below this part of the least loss so far, and worse if that is
/// below this part of it.
const CLEARLY: f64 = 0.9;
/// A walk ends early if a single period loses this many times as much as before.
const HARMFUL: f64 = 1.5;
/// A kind of refault that makes up less than this part of what is lost is not worth protecting.
const WORTHWHILE: f64 = 0.1;
/// Rest after a first failure, in periods; it doubles with each further one, up to the longest.
const REST: u32 = 5;
const LONGEST_REST: u32 = 320;
/// A loss that changed by this factor since the last failure is another situation: walks come more
/// often again.
const OTHER: f64 = 2.0;
/// A longer period (seconds) is none.
const LONGEST_PERIOD: f64 = 86_400.0;
/// Least part of a period for which programs count as having run. Bounds the loss where they stood
/// still.
const LEAST_RUN: f64 = 0.001;

/// The readings of one period.
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

    /// Whether it can be reckoned with.
    fn is_sound(&self) -> bool {
        self.length > 0.0 && self.length <= LONGEST_PERIOD
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
        let ran = period
            .ran
            .filter(|ran| (0.0..f64::MAX / 16.0).contains(ran));
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
        self.waited() < self.length * QUIET
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The kept value is in force, and its loss is measured.
    Measuring(Window),
    /// As many periods more of the kept value, then it is measured.
    Resting(u32),
    /// Another value is tried.
    Walking(Walk),
}

#[derive(Clone, Copy, Debug)]
struct Walk {
    value: u32,
    up: bool,
    /// The least loss so far, and its value.
    best: (f64, u32),
    /// Periods more that are not counted.
    unsettled: u32,
    window: Window,
}

/// The balance of one group.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    usual: u32,
    kept: u32,
    phase: Phase,
    /// Walks that failed in a row.
    failures: u32,
    /// The loss when the last walk failed.
    failed_at: f64,
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
        }
    }

    /// The swappiness that was found, to be put back at the end.
    #[must_use]
    pub fn usual(&self) -> u32 {
        self.usual
    }

    /// The best swappiness so far.
    #[must_use]
    pub fn kept(&self) -> u32 {
        self.kept
    }

    /// The swappiness that should be in force now.
    #[must_use]
    pub fn swappiness(&self) -> u32 {
        match self.phase {
            Phase::Walking(walk) => walk.value,
            _ => self.kept,
        }
    }

    /// Takes a period in account; returns the swappiness for the next one. `may` says whether a
    /// walk may begin now; one in progress ends at once where it may not.
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
                if window.periods < MEASURE {
                    Phase::Measuring(window)
                } else {
                    self.measured(&window)
                }
            }
            Phase::Walking(walk) => self.walk(walk, period, costs),
        }
    }

    /// The loss of the kept value is known: begins a walk, rests, or measures again.
    fn measured(&mut self, window: &Window) -> Phase {
        if window.is_quiet() {
            return Phase::Measuring(Window::default());
        }
        let loss = window.loss();
        if loss > self.failed_at * OTHER || loss < self.failed_at / OTHER {
            self.failures = 0;
        }
        let first = (window.file > window.anon) != (self.failures % 2 == 1);
        let way = [first, !first]
            .into_iter()
            .find(|&up| helps(up, window) && next(self.kept, up, STEP).is_some());
        let value = way.and_then(|up| Some((up, next(self.kept, up, STEP)?)));
        match value {
            Some((up, value)) => Phase::Walking(Walk {
                value,
                up,
                best: (loss, self.kept),
                unsettled: SETTLE,
                window: Window::default(),
            }),
            None => self.failed(loss),
        }
    }

    fn walk(&mut self, mut walk: Walk, period: &Period, costs: &Costs) -> Phase {
        if walk.unsettled > 0 {
            walk.unsettled -= 1;
            return Phase::Walking(walk);
        }
        let mut single = Window::default();
        single.add(period, costs);
        if single.loss() > walk.best.0 * HARMFUL {
            return self.arrive(&walk);
        }
        walk.window.add(period, costs);
        if walk.window.periods < MEASURE {
            return Phase::Walking(walk);
        }
        let loss = walk.window.loss();
        if loss < walk.best.0 * CLEARLY {
            walk.best = (loss, walk.value);
        } else if loss * CLEARLY > walk.best.0 {
            return self.arrive(&walk);
        }
        match next(walk.value, walk.up, NEXT_STEP) {
            Some(value) => Phase::Walking(Walk {
                value,
                unsettled: SETTLE,
                window: Window::default(),
                ..walk
            }),
            None => self.arrive(&walk),
        }
    }

    /// Ends a walk.
    fn arrive(&mut self, walk: &Walk) -> Phase {
        if walk.best.1 == self.kept {
            return self.failed(walk.best.0);
        }
        self.kept = walk.best.1;
        self.failures = 0;
        self.failed_at = 0.0;
        Phase::Measuring(Window::default())
    }

    fn failed(&mut self, loss: f64) -> Phase {
        let rest = REST << self.failures.min(LONGEST_REST.ilog2());
        self.failures = self.failures.saturating_add(1);
        self.failed_at = loss;
        Phase::Resting(rest.min(LONGEST_REST))
    }
}

/// Whether a walk could lower the loss: upwards it spares file pages, downwards anonymous ones.
fn helps(up: bool, window: &Window) -> bool {
    let spared = if up { window.file } else { window.anon };
    spared >= window.waited() * WORTHWHILE
}

/// The next value of a walk, within the bounds; `None` if there is none.
fn next(value: u32, up: bool, step: u32) -> Option<u32> {
    let next = if up {
        value.saturating_add(step).min(MOST)
    } else {
        value.saturating_sub(step).max(LEAST)
    };
    let ahead = if up { next > value } else { next < value };
    ahead.then_some(next)
}
