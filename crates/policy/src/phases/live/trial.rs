//! Whether a discipline is worth it: windows with it and without it alternate, and it is withdrawn when the
//! program gets less done with it.
//!
//! Nobody outside knows how much work a program gets done. The bytes that its threads allocate in a second
//! stand for it: the same work allocates the same bytes in any order. Windows in which no thread had to wait
//! for a processor are not compared: there the order does not matter.
//!
//! # The bound on harm
//! A pair in which the program allocates less with the discipline adds its loss, less [`TOLERANCE`], to a
//! debt; a pair in which it allocates more takes from it, not below 0. At a debt of [`BUDGET`] windows the
//! discipline is withdrawn. No pair adds more than [`LARGEST`], so that one window in which another program
//! took the processors decides nothing. So what a program loses in a trial is at most the work of
//! `BUDGET / (LARGEST - TOLERANCE) + 1` windows, which is 3.2, and `TOLERANCE` of each: a fall by half is
//! withdrawn after three pairs, one by a tenth after seven.
//! A discipline that stood [`PAIRS`] pairs is held on for [`HOLD`] windows between two pairs; the first pair
//! with a loss begins a trial again.

use plimsoll_unit::{Bytes, Nanos};

/// The readings of one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its length.
    pub elapsed: Nanos,
    /// Memory that all threads allocated.
    pub bytes: Bytes,
    /// Processor time of all threads.
    pub time: Nanos,
    /// Time for which threads were ready and did not run, all together.
    pub waited: Nanos,
}

/// A loss, as a part of what is done without the discipline, that is not counted: noise, and the price of
/// looking.
pub const TOLERANCE: f64 = 0.02;
/// The debt at which the discipline is withdrawn, in windows.
pub const BUDGET: f64 = 0.5;
/// The largest loss of a pair that is counted.
pub const LARGEST: f64 = 0.25;
/// Pairs of a trial.
pub const PAIRS: u32 = 8;
/// Windows between two pairs after a trial that was stood.
pub const HOLD: u32 = 12;
/// Windows between a withdrawal and the next trial. Each time twice as many, up to `LONGEST_REST`.
pub const REST: u32 = 60;
const LONGEST_REST: u32 = 3840;
/// A window is crowded if all threads together waited in it for its length divided by this.
const CROWDED: u64 = 4;
/// The most that one pair is believed to have gained or lost, as a ratio.
const MOST: f64 = 8.0;
/// Deviations of the mean that a verdict needs: 95 % for many pairs.
const DEVIATIONS: f64 = 1.96;
/// Pairs that a verdict needs.
const FEWEST: u32 = 8;

/// Whether the discipline is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The kernel's order.
    Off,
    /// The discipline's.
    On,
}

/// The outcome of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to report.
    Going,
    /// The first trial was stood, or one after a loss.
    Stood,
    /// The program got less done: withdrawn for this many windows.
    Withdrawn(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Pairs one after the other; how many are to come.
    Pairs(u32),
    /// On, for this many more windows.
    Hold(u32),
    /// Off, for this many more windows.
    Rest(u32),
}

/// The gain so far, as a part of the work done without the discipline: 0.02 is 2 % more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Pairs that were compared.
    pub pairs: u32,
    /// The mean.
    pub mean: f64,
    /// Between which the mean is with 95 % probability, if pairs are independent; all there is with few.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The alternation of windows, and what it found. Pure; [`Trial::end`] allocates nothing.
#[derive(Clone, Debug)]
pub struct Trial {
    stage: Stage,
    /// The switch of the present window.
    switch: Switch,
    /// The first window of the present pair.
    first: Option<Window>,
    /// Pairs begin with and without it in turn, so that what only drifts cancels out.
    starts: Switch,
    /// In windows.
    debt: f64,
    /// The next rest, windows.
    rest: u32,
    pairs: u32,
    /// Sum of logarithms of ratios, and of their squares.
    sum: f64,
    squares: f64,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial {
            stage: Stage::Pairs(PAIRS),
            switch: Switch::Off,
            first: None,
            starts: Switch::Off,
            debt: 0.0,
            rest: REST,
            pairs: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }
}

impl Trial {
    /// Whether the discipline is on in the present window.
    pub fn switch(&self) -> Switch {
        self.switch
    }

    /// The present window is over. The next one has the new [`Trial::switch`].
    pub fn end(&mut self, window: Window) -> Outcome {
        let outcome = match self.stage {
            Stage::Pairs(left) => self.end_of_pairs(window, left),
            Stage::Hold(left) => {
                self.stage = match left {
                    0 | 1 => Stage::Pairs(1),
                    left => Stage::Hold(left - 1),
                };
                Outcome::Going
            }
            Stage::Rest(left) => {
                self.stage = match left {
                    0 | 1 => Stage::Pairs(PAIRS),
                    left => Stage::Rest(left - 1),
                };
                Outcome::Going
            }
        };
        self.switch = match (self.stage, self.first) {
            (Stage::Pairs(_), None) => self.starts,
            (Stage::Pairs(_), Some(_)) => opposite(self.starts),
            (Stage::Hold(_), _) => Switch::On,
            (Stage::Rest(_), _) => Switch::Off,
        };
        outcome
    }

    fn end_of_pairs(&mut self, window: Window, left: u32) -> Outcome {
        let Some(first) = self.first.take() else {
            self.first = Some(window);
            return Outcome::Going;
        };
        let (without, with) = match self.starts {
            Switch::Off => (first, window),
            Switch::On => (window, first),
        };
        self.starts = opposite(self.starts);
        let Some(ratio) = ratio(without, with) else {
            return Outcome::Going;
        };
        self.pairs = self.pairs.saturating_add(1);
        let logarithm = ratio.ln();
        self.sum += logarithm;
        self.squares += logarithm * logarithm;
        let loss = (1.0 - ratio).min(LARGEST);
        self.debt = (self.debt + loss - TOLERANCE).max(0.0);
        if self.debt >= BUDGET {
            let rest = self.rest;
            self.rest = rest.saturating_mul(2).min(LONGEST_REST);
            self.debt = 0.0;
            self.stage = Stage::Rest(rest);
            return Outcome::Withdrawn(rest);
        }
        match left {
            0 | 1 if self.debt > 0.0 => {
                self.stage = Stage::Pairs(PAIRS / 2);
                Outcome::Going
            }
            0 | 1 => {
                self.stage = Stage::Hold(HOLD);
                Outcome::Stood
            }
            left => {
                self.stage = Stage::Pairs(left - 1);
                Outcome::Going
            }
        }
    }

    /// The gain over all pairs; `None` before the first.
    pub fn gain(&self) -> Option<Gain> {
        if self.pairs == 0 {
            return None;
        }
        let pairs = f64::from(self.pairs);
        let mean = self.sum / pairs;
        let variance = (self.squares - pairs * mean * mean).max(0.0) / (pairs - 1.0).max(1.0);
        let margin = if self.pairs < FEWEST {
            MOST.ln()
        } else {
            DEVIATIONS * (variance / pairs).sqrt()
        };
        Some(Gain {
            pairs: self.pairs,
            mean: mean.exp() - 1.0,
            low: (mean - margin).exp() - 1.0,
            high: (mean + margin).exp() - 1.0,
        })
    }

    /// The debt, windows.
    pub fn debt(&self) -> f64 {
        self.debt
    }
}

fn opposite(switch: Switch) -> Switch {
    match switch {
        Switch::Off => Switch::On,
        Switch::On => Switch::Off,
    }
}

/// How much more was allocated per time with the discipline; `None` if the windows show nothing.
fn ratio(without: Window, with: Window) -> Option<f64> {
    let is_crowded = |window: Window| window.waited >= window.elapsed / CROWDED;
    let is_empty = |window: Window| window.elapsed == Nanos::ZERO;
    // Threads that are put back wait more, so only the kernel's own order shows whether it is crowded.
    if !is_crowded(without) || without.bytes == Bytes::ZERO || is_empty(without) || is_empty(with) {
        return None;
    }
    let rate = |window: Window| window.bytes.0 as f64 / window.elapsed.0 as f64;
    Some((rate(with) / rate(without)).clamp(1.0 / MOST, MOST))
}
