//! Events that are reported to people.

use crate::deprioritise::Lever;
use plimsoll_policy::phases::live::Gain;
use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_unit::{MILLISECOND, Nanos};
use std::fmt;
use std::time::Duration;

/// Something to report.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A machine is followed.
    Follows {
        /// The process.
        pid: i32,
        /// The discipline.
        rule: Rule,
        /// Its quanta.
        quanta: Quanta,
        /// How threads are put back.
        lever: Lever,
        /// Processors that the program may use.
        processors: usize,
    },
    /// There was nothing to do so far: never were more threads ready than there are processors.
    NothingToDo {
        /// The process.
        pid: i32,
        /// Java threads that ran and allocated.
        threads: usize,
        /// Processors that the program may use.
        processors: usize,
    },
    /// More Java threads than can be followed.
    TooMany {
        /// The process.
        pid: i32,
        /// Threads that are not followed.
        left: usize,
    },
    /// The process that undoes everything if we are killed was not started, for this reason.
    NoGuard(String),
    /// A trial was stood: the discipline stays on.
    Stood(Gain),
    /// The program got less done: the discipline is off for a while.
    Withdrawn(Option<Gain>, Duration),
    /// The machine ended, or was left.
    Ends {
        /// The process.
        pid: i32,
        /// The gain over all pairs of windows.
        gain: Option<Gain>,
        /// How often a thread's parameters were set.
        changes: u64,
        /// Looks that were taken.
        looks: u64,
        /// Processor time of ours.
        cost: Nanos,
    },
}

impl News {
    /// Whether it is for everybody; the rest is for people who asked for every step.
    pub fn is_important(&self) -> bool {
        matches!(
            self,
            News::NothingToDo { .. } | News::TooMany { .. } | News::Withdrawn(..)
        )
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Follows { .. } => self.says_what_it_follows(f),
            News::NothingToDo {
                pid,
                threads,
                processors,
            } => write!(
                f,
                "nothing to order in process {pid}: {threads} of its Java threads run and allocate, and \
                 {processors} processors are there; more threads may come"
            ),
            News::TooMany { pid, left } => write!(
                f,
                "{left} threads of process {pid} are not ordered: more cannot be followed (raise the limit \
                 of open files, ulimit -n, or start fewer threads)"
            ),
            News::NoGuard(why) => write!(
                f,
                "if plimsoll is killed the threads stay as they are then: no process to undo it ({why})"
            ),
            News::Stood(gain) => write!(f, "the order of threads stays: {}", Said(gain)),
            News::Withdrawn(gain, rest) => {
                write!(
                    f,
                    "the order of threads is withdrawn for {} s: ",
                    rest.as_secs()
                )?;
                match gain {
                    Some(gain) => write!(f, "{}", Said(gain)),
                    None => f.write_str("the program got less done with it"),
                }
            }
            News::Ends {
                pid,
                gain,
                changes,
                looks,
                cost,
            } => {
                write!(f, "the order of threads of process {pid} ends: ")?;
                match gain {
                    Some(gain) => write!(f, "{}", Said(gain))?,
                    None => f.write_str(
                        "nothing was compared, because threads did not wait for processors",
                    )?,
                }
                write!(
                    f,
                    "; {changes} changes in {looks} looks, {} ms of processor time",
                    cost.0 / MILLISECOND
                )
            }
        }
    }
}

impl News {
    fn says_what_it_follows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let News::Follows {
            pid,
            rule,
            quanta,
            lever,
            processors,
        } = self
        else {
            return Ok(());
        };
        let turn = match rule {
            Rule::Mqrr => format!("{} KiB allocated", quanta.bytes.0 >> 10),
            Rule::RoundRobin | Rule::Larf => format!("{} ms", quanta.time.0 / 1_000_000),
        };
        write!(
            f,
            "threads of process {pid} are ordered by {} (a turn is {turn}, at most {} ms), by {}, on \
             {processors} processors",
            rule.name(),
            quanta.most.0 / 1_000_000,
            lever.name()
        )
    }
}

/// A gain in words.
struct Said<'a>(&'a Gain);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gain {
            pairs,
            mean,
            low,
            high,
        } = *self.0;
        let verdict = match (pairs, low > 0.0, high < 0.0) {
            (0..8, ..) => "too few windows for a verdict",
            (_, true, _) => "it helps",
            (_, _, true) => "it does harm",
            _ => "no difference is certain",
        };
        let percent = |part: f64| 100.0 * part;
        write!(
            f,
            "{verdict}; with it the threads allocate {:+.1} % in a second",
            percent(mean)
        )?;
        match pairs {
            0..8 => write!(f, ", in {pairs} pairs of windows"),
            _ => write!(
                f,
                " ({:+.1} to {:+.1} %, 95 % of {pairs} pairs of windows)",
                percent(low),
                percent(high)
            ),
        }
    }
}
