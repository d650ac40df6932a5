//! One piece of work on one principal.

use plimsoll_kernel::advise::{Advice, advise};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_kernel::meminfo::MeminfoReader;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::{Error, Result};
use plimsoll_wire::messages::Id;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bounds of one turn: the bytes that are taken at most, and the time after which no further process
/// is begun, because each may have many areas to read.
const TURN_BYTES: u64 = 256 << 20;
const TURN: Duration = Duration::from_millis(250);
/// With less free swap than this (bytes) no limit is set under version 1: the kernel would kill.
const SWAP_NEEDED: u64 = 64 << 20;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Page out so many bytes.
    PageOut(u64),
    /// Take so many bytes.
    Take(u64),
    /// Set the limit; `u64::MAX` lifts it.
    Bound(u64),
}

impl Order {
    /// Whether a newer order of this kind makes `other` pointless: what is to be taken is not taken twice.
    #[must_use]
    pub fn replaces(self, other: Order) -> bool {
        self.takes() == other.takes()
    }

    /// Whether it takes so many bytes, once; a bound is a state.
    #[must_use]
    pub fn takes(self) -> bool {
        !matches!(self, Order::Bound(_))
    }

    /// The same for `most` bytes at most; `None` where nothing is left to take.
    #[must_use]
    pub(super) fn at_most(self, most: u64) -> Option<Order> {
        match self {
            Order::Bound(_) => Some(self),
            Order::PageOut(bytes) => Some(Order::PageOut(bytes.min(most))).filter(|_| most > 0),
            Order::Take(bytes) => Some(Order::Take(bytes.min(most))).filter(|_| most > 0),
        }
    }
}

/// An order with what it needs.
#[derive(Clone, Debug)]
pub struct Job {
    /// Whose.
    pub id: Id,
    /// What.
    pub order: Order,
    /// Its processes: number and start time, so that a number given to another is not mistaken.
    pub processes: Vec<(i32, u64)>,
    /// The cgroup that the broker made for it.
    pub cgroup: Option<PathBuf>,
}

/// What a job came to.
#[derive(Debug)]
pub struct Outcome {
    /// Whose.
    pub id: Id,
    /// What was ordered.
    pub order: Order,
    /// Bytes paged out or taken.
    pub bytes: u64,
    /// Why less was done than ordered.
    pub error: Option<Error>,
}

/// Which rungs these rights have reached so far, for the log: each lack is told once.
#[derive(Debug, Default)]
pub struct Rights {
    told_page_out: bool,
    told_cgroup: bool,
}

impl Rights {
    /// Tells once why a rung cannot be climbed here.
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
    /// Whether a newer one for the same principal makes this one pointless.
    #[must_use]
    pub(super) fn is_replaced_by(&self, newer: &Job) -> bool {
        self.id == newer.id && newer.order.replaces(self.order)
    }

    /// Carries it out; blocks.
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

/// A job on its way. What is long is done in several turns, with those of others between them.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) job: Job,
    /// Bytes paged out or taken so far.
    pub(super) done: u64,
    /// Of its processes, the one whose turn it is.
    next: usize,
    error: Option<Error>,
}

impl Running {
    pub(super) fn new(job: Job) -> Running {
        Running {
            job,
            done: 0,
            next: 0,
            error: None,
        }
    }

    /// Goes on for a turn; what it came to, when that was the last. Blocks.
    pub(super) fn turn(&mut self) -> Option<Outcome> {
        let ended = match (self.job.order, &self.job.cgroup) {
            (Order::PageOut(bytes), _) | (Order::Take(bytes), None) => self.page_out(bytes),
            (Order::Take(bytes), Some(cgroup)) => {
                let part = bytes.saturating_sub(self.done).min(TURN_BYTES);
                let taken = take(cgroup, part);
                self.note(taken).is_none_or(|taken| taken < part / 2) || self.done >= bytes
            }
            (Order::Bound(bytes), Some(cgroup)) => {
                let bound = bound(cgroup, bytes).map(|()| 0);
                self.note(bound);
                true
            }
            (Order::Bound(_), None) => true,
        };
        ended.then(|| Outcome {
            id: self.job.id,
            order: self.job.order,
            bytes: self.done,
            error: self.error.take().filter(|_| self.done == 0),
        })
    }

    /// Bytes of one step, if it worked.
    fn note(&mut self, step: Result<u64>) -> Option<u64> {
        match step {
            Ok(bytes) => {
                self.done = self.done.saturating_add(bytes);
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

    /// Pages out of each process until `bytes` are out, or the turn is over. Whether there is no more to do.
    fn page_out(&mut self, bytes: u64) -> bool {
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
            // One that gave all that was asked of it may have more.
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

fn take(cgroup: &Path, bytes: u64) -> Result<u64> {
    Cgroup::at(cgroup)?.reclaim(bytes)
}

/// A limit that cannot kill: version 2's `memory.high` slows down and reclaims. Version 1's limit
/// kills, with swap free, who uses all that it has at once (reclaim finds nothing that is not in
/// use), so what is above the bound is taken, and taken again as long as the ladder says so, and no
/// limit stays.
fn bound(cgroup: &Path, bytes: u64) -> Result<()> {
    let cgroup = Cgroup::at(cgroup)?;
    let limit = Some(bytes).filter(|&bytes| bytes != u64::MAX);
    if cgroup.version() == Version::V2 {
        return cgroup.set_high(limit);
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
    let excess = cgroup.usage()?.saturating_sub(bytes);
    cgroup.reclaim(excess).map(|_| ())
}
