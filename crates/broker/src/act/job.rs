//! One piece of work on one principal.

use super::cgroups::Target;
use plimsoll_kernel::advise::{Advice, advise};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_kernel::meminfo::MeminfoReader;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::{Error, Result};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Id;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bounds of one turn: the most bytes taken, and the time after which no further process is begun, and
/// after which the kernel stops taking from a cgroup. One process may have many areas to read.
const TURN_BYTES: Bytes = Bytes::mib(256);
const TURN: Duration = Duration::from_millis(250);
/// The most turns of one order to take from a cgroup. The core repeats what is still owed.
const MOST_TURNS: u32 = 64;
/// Least free swap. With less, no limit is set under version 1, because the kernel would
/// kill.
const SWAP_NEEDED: Bytes = Bytes::mib(64);

/// An order to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Page out this much.
    PageOut(Bytes),
    /// Take this much.
    Take(Bytes),
    /// Set the limit; [`Bytes::MAX`] lifts it.
    Bound(Bytes),
}

impl Order {
    /// Whether this newer order makes `other` pointless. So the same bytes are not taken twice.
    #[must_use]
    pub fn replaces(self, other: Order) -> bool {
        self.takes() == other.takes()
    }

    /// Whether it takes an amount once; a bound, in contrast, is a state.
    #[must_use]
    pub fn takes(self) -> bool {
        !matches!(self, Order::Bound(_))
    }

    /// This order, reduced to at most `most`; `None` when nothing is left to take.
    #[must_use]
    pub(super) fn at_most(self, most: Bytes) -> Option<Order> {
        match self {
            Order::Bound(_) => Some(self),
            Order::PageOut(bytes) => {
                Some(Order::PageOut(bytes.min(most))).filter(|_| most > Bytes::ZERO)
            }
            Order::Take(bytes) => Some(Order::Take(bytes.min(most))).filter(|_| most > Bytes::ZERO),
        }
    }
}

/// An order with what it needs.
#[derive(Clone, Debug)]
pub struct Job {
    /// The principal that the order applies to.
    pub id: Id,
    /// The order.
    pub order: Order,
    /// Process id and start time of each process; the start time detects a reused process id.
    pub processes: Vec<(i32, u64)>,
    /// The cgroup of the principal, if any.
    pub cgroup: Option<Target>,
    /// Swappiness with which bytes are taken under cgroup version 2; the machine's where `None`.
    pub swappiness: Option<u32>,
}

/// Result of a job.
#[derive(Debug)]
pub struct Outcome {
    /// The principal that the order applied to.
    pub id: Id,
    /// The order.
    pub order: Order,
    /// Memory paged out or taken.
    pub bytes: Bytes,
    /// Why fewer bytes were handled than ordered.
    pub error: Option<Error>,
}

/// Which failures were logged already: each missing right is logged once. Belongs to the deciding thread.
#[derive(Debug, Default)]
pub struct Rights {
    /// A failure to page out was logged.
    told_page_out: bool,
    /// A failure of an action on a cgroup was logged.
    told_cgroup: bool,
}

impl Rights {
    /// Logs once why a rung does not work here.
    pub fn tell(&mut self, outcome: &Outcome) {
        let Some(error) = &outcome.error else { return };
        let told = match outcome.order {
            Order::PageOut(_) => &mut self.told_page_out,
            _ => &mut self.told_cgroup,
        };
        if error.is_gone() || std::mem::replace(told, true) {
            return;
        }
        tracing::warn!(principal = outcome.id, order = ?outcome.order, %error,
            "memory could not be taken from a principal that owes; `plimsoll doctor` shows what is missing");
    }
}

impl Job {
    /// Whether a newer job for the same principal makes this one pointless.
    #[must_use]
    pub(super) fn is_replaced_by(&self, newer: &Job) -> bool {
        self.id == newer.id && newer.order.replaces(self.order)
    }

    /// Executes the job to its end; blocks.
    #[must_use]
    pub fn run(&self) -> Outcome {
        let mut running = Running::new(self.clone());
        loop {
            if let Some(outcome) = running.turn() {
                return outcome;
            }
        }
    }
}

/// A job in progress. A long job takes several turns, so that jobs of others can run in between.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) job: Job,
    /// Memory paged out or taken so far.
    pub(super) done: Bytes,
    /// Index of the process to handle next.
    next: usize,
    /// Turns in which its cgroup was taken from.
    turns: u32,
    /// The last error. The outcome has it if nothing was done.
    error: Option<Error>,
}

impl Running {
    pub(super) fn new(job: Job) -> Running {
        Running {
            job,
            done: Bytes::ZERO,
            next: 0,
            turns: 0,
            error: None,
        }
    }

    /// Runs one turn; returns the result when the job is finished. Blocks.
    pub(super) fn turn(&mut self) -> Option<Outcome> {
        let ended = match (self.job.order, &self.job.cgroup) {
            (Order::Take(_) | Order::Bound(_), Some(target)) if target.is_left() => true,
            (Order::PageOut(bytes), _) | (Order::Take(bytes), None) => self.page_out(bytes),
            (Order::Take(bytes), Some(cgroup)) => {
                let (began, part) = (Instant::now(), (bytes - self.done).min(TURN_BYTES));
                let taken = take(&cgroup.directory, part, self.job.swappiness);
                self.turns += 1;
                // Less than a part because the turn is over says nothing of the rest.
                let least = if began.elapsed() < TURN {
                    part / 2
                } else {
                    Bytes(1)
                };
                self.note(taken).is_none_or(|taken| taken < least)
                    || self.done >= bytes
                    || self.turns >= MOST_TURNS
            }
            (Order::Bound(bytes), Some(target)) => {
                let bound = bound(&target.directory, bytes);
                if target.is_left() {
                    // It is gone, or ours to lift, like the bound before.
                    let _ = self::bound(&target.directory, Bytes::MAX);
                }
                self.note(bound.map(|()| Bytes::ZERO));
                true
            }
            (Order::Bound(_), None) => true,
        };
        ended.then(|| Outcome {
            id: self.job.id,
            order: self.job.order,
            bytes: self.done,
            error: self.error.take().filter(|_| self.done == Bytes::ZERO),
        })
    }

    /// Adds the bytes of one step, or keeps its error.
    fn note(&mut self, step: Result<Bytes>) -> Option<Bytes> {
        match step {
            Ok(bytes) => {
                self.done += bytes;
                Some(bytes)
            }
            Err(error) => {
                if !error.is_gone() {
                    self.error = Some(error);
                }
                None
            }
        }
    }

    /// Pages out each process in turn until `bytes` are out or the turn is over. Returns whether
    /// the job is finished.
    fn page_out(&mut self, bytes: Bytes) -> bool {
        let (began, before) = (Instant::now(), self.done);
        while let Some(&(pid, start_time)) = self.job.processes.get(self.next) {
            let here = self.done - before;
            if self.done >= bytes {
                break;
            }
            if here >= TURN_BYTES || began.elapsed() >= TURN {
                return false;
            }
            let part = (bytes - self.done).min(TURN_BYTES - here);
            let advised = Process::open_known(pid, start_time)
                .and_then(|process| advise(&process, Advice::PageOut, part));
            // A process that gave all the bytes asked of it may have more.
            if self
                .note(advised.map(|advised| advised.bytes))
                .is_none_or(|out| out < part)
            {
                self.next += 1;
            }
        }
        true
    }
}

/// An older kernel takes no swappiness, and then goes by the machine's.
fn take(cgroup: &Path, bytes: Bytes, swappiness: Option<u32>) -> Result<Bytes> {
    let cgroup = Cgroup::at(cgroup)?;
    let swappiness = swappiness.filter(|_| cgroup.takes_by_swappiness());
    cgroup.reclaim_within(bytes, swappiness, TURN)
}

/// Sets a limit that cannot kill. Version 2's `memory.high` slows the program down and reclaims.
/// Version 1's limit kills a program that uses all of its memory at once, even with free swap,
/// because reclaim finds no page that is not in use. There the bytes above the bound are taken
/// instead, repeatedly while the ladder asks for it, and no limit stays.
fn bound(cgroup: &Path, bytes: Bytes) -> Result<()> {
    let cgroup = Cgroup::at(cgroup)?;
    let limit = Some(bytes).filter(|&bytes| bytes != Bytes::MAX);
    if cgroup.version() == Version::V2 {
        return cgroup.set_high_within(limit, TURN);
    }
    let Some(bytes) = limit else {
        return cgroup.set_limit(None).map(|_| ());
    };
    if MeminfoReader::open()?.read()?.swap_free < SWAP_NEEDED {
        return Err(Error::Busy {
            path: cgroup.dir().into(),
            why: "without free swap nothing can be taken of a program; add swap to let the broker bound \
                  programs",
        });
    }
    let excess = cgroup.usage()? - bytes;
    cgroup.reclaim_within(excess, None, TURN).map(|_| ())
}
