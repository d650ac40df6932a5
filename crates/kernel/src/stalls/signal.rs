//! The stall signal of one process, by the best tier that works.

use super::delays::Delays;
use super::reclaim::{Counted, Timed};
use super::{Declined, Stalled, Tier, pressure};
use crate::pressure::Psi;
use crate::process::Process;
use crate::{Error, Result};

/// The allocation stalls of one process, our own or another.
///
/// 1. [`Stalls::open`] tries the tiers, best first, and says by [`Stalls::declined`] why it passed
///    one over.
/// 2. [`Stalls::read`] at the beginning and at the end of something, e.g. of a collection.
/// 3. [`Stalled::since`] of the two is what happened within.
///
/// It may be sent to another thread. Reading allocates nothing.
#[derive(Debug)]
pub struct Stalls {
    process: Process,
    /// Whether it is our own, so that it need not be asked whether it lives.
    own: bool,
    source: Source,
    tier: Tier,
    declined: Vec<(Tier, Declined)>,
}

#[derive(Debug)]
enum Source {
    Delays(Delays),
    Reclaim(Timed),
    ReclaimCount(Counted),
    Pressure(Psi),
    Faults,
}

impl Stalls {
    /// Opens the signal of the process that has this number now. Takes less than a millisecond.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Denied`], as [`Process::open`]. A tier that does not work is no
    /// error.
    pub fn open(pid: i32) -> Result<Stalls> {
        Stalls::of(Process::open(pid)?)
    }

    /// Opens the signal of this process, all its threads.
    ///
    /// # Errors
    /// As [`Stalls::open`].
    pub fn own() -> Result<Stalls> {
        Stalls::of(Process::own()?)
    }

    /// Opens the signal of a process that is held already.
    ///
    /// # Errors
    /// As [`Stalls::open`].
    pub fn of(process: Process) -> Result<Stalls> {
        Stalls::among(process, &Tier::ALL)
    }

    /// As [`Stalls::of`], with these tiers only, in this order; for tests and measurements.
    ///
    /// # Errors
    /// As [`Stalls::open`]; [`Error::Argument`] if none of them works.
    pub fn among(process: Process, tiers: &[Tier]) -> Result<Stalls> {
        let pid = process.pid();
        let mut declined = Vec::new();
        for &tier in tiers {
            match Source::open(tier, &process) {
                // Not every tier notices by itself.
                Ok(_) if !process.alive() => return Err(Error::Gone { pid }),
                Ok(source) => {
                    return Ok(Stalls {
                        own: pid == own_pid(),
                        process,
                        source,
                        tier,
                        declined,
                    });
                }
                Err(Declined::Kernel(e)) if e.is_gone() => return Err(e),
                Err(why) => declined.push((tier, why)),
            }
        }
        Err(Error::Argument {
            what: "stall signal",
            why: "none of the tiers that were asked for works here",
        })
    }

    /// The tier in use.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The better tiers that do not work here, and why: each a sentence for a person.
    pub fn declined(&self) -> &[(Tier, Declined)] {
        &self.declined
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The stalls so far. See [`Tier`] for what they are, and [`Stalled`] for where they begin.
    ///
    /// # Errors
    /// [`Error::Gone`] when the process has exited; [`Error::Io`], [`Error::Call`].
    pub fn read(&mut self) -> Result<Stalled> {
        let read = match &mut self.source {
            Source::Delays(delays) => delays.read(&self.process),
            Source::Reclaim(timed) => timed.read(),
            Source::ReclaimCount(counted) => counted.read(),
            Source::Pressure(psi) => pressure::read(psi),
            Source::Faults => self.process.faults().map(|faults| Stalled {
                count: faults.major,
                ns: 0,
            }),
        };
        // A zombie still has counters, and another process may have got the number.
        match self.own || self.process.alive() {
            true => read,
            false => Err(Error::Gone {
                pid: self.process.pid(),
            }),
        }
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

impl Source {
    fn open(tier: Tier, process: &Process) -> std::result::Result<Source, Declined> {
        match tier {
            Tier::DelayAccounting => Delays::open(process).map(Source::Delays),
            Tier::Reclaim => Timed::open(process).map(Source::Reclaim),
            Tier::ReclaimCount => Counted::open(process).map(Source::ReclaimCount),
            Tier::Pressure => pressure::open(process).map(Source::Pressure),
            Tier::MajorFaults => {
                process.faults()?;
                Ok(Source::Faults)
            }
        }
    }
}
