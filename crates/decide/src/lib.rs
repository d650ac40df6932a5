//! The decision core: a state machine without a clock or I/O. The daemon feeds it sensed values and
//! executes its actions; the simulation does the same with simulated programs.
//!
//! # Glossary
//! - *domain*: memory with a budget: the root (machine or limiting cgroup), and each group that has
//!   a cgroup of its own.
//! - *outsiders*: programs not registered in a domain; also the memory that they use in it.
//! - *reserve*: memory of a domain that is held back so that warnings come early enough: growth
//!   rate of the outsiders x reaction time of the programs.
//! - *budget*: capacity - outsiders - expected growth of outsiders - reserve.
//! - *flow*: a smoothed level and its growth rate.
//! - *debt*: bytes that a principal must give back, with a deadline. It is paid in *batches*: new
//!   debt waits until the previous batch is paid or overdue.
//! - *need*: bytes that a domain is short of now, or that a principal below its entitlement waits
//!   for.
//! - *rung*: step of the *ladder* (ask, page out, take, bound) that was reached with a debtor.
//!
//! - *core time*: the clock without its jumps: it never goes back, and a jump counts as one tick.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `types` | inputs and outputs |
//! | `tree`, `node` | parents and children; one principal |
//! | `commands` | register, remove, set, report |
//! | `tick` | one pass, from sensed values to actions |
//! | `domain`, `smoothed_level` | outsiders, their growth, the reserve, the budget |
//! | `demand`, `allocation_rhythm` | how much memory a principal can use; how often that turns |
//! | `trust` | whether a principal stalls although it keeps to its limit |
//! | `settle`, `debt` | the limit in force, the debt and its deadline, and whether to publish |
//! | `least` | the size that a program cannot go below |
//! | `revoke`, `ladder` | which bytes are needed and from whom; how they are taken |
//! | `tally` | how often they were asked for and taken |
//! | `pace` | when the next tick and glance are due |
//! | `view`, `snapshot` | listings; settings that survive a crash |
//!
//! # Use
//! Call `register`, `set`, `report` and `remove` as requests come. Call `tick` with the sensed
//! values, carry out its actions, and sleep for [`Core::next_tick`], or until a principal
//! registers, reports, or releases memory. [`Core::glance`] in between is cheap.

mod allocation_rhythm;
mod commands;
mod debt;
mod demand;
mod domain;
mod ladder;
mod least;
mod node;
mod pace;
mod revoke;
mod settle;
mod smoothed_level;
mod snapshot;
mod tally;
#[cfg(test)]
mod tests;
mod tick;
mod tree;
mod trust;
mod types;
mod view;

pub use types::*;

use domain::Domain;
use pace::Pacer;
use plimsoll_policy::shares::{Principal, Shares};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Id, Revocations};
use tree::Tree;

/// Initial capacity, in principals.
const FIRST_ROOM: usize = 64;

/// The decision core. See the module for its use.
#[derive(Debug)]
pub struct Core {
    config: Config,
    tree: Tree,
    root: Domain,
    next_id: Id,
    clock: Clock,
    pacer: Pacer,
    shares: Shares,
    /// Number of principals that `shares` has room for.
    room: usize,
    /// Input of `shares`, in the tree's order; grown at registration.
    inputs: Vec<Principal>,
    /// Actions of the last tick; grown at registration.
    actions: Vec<Action>,
    /// Counts of the principals that are gone.
    gone: Revocations,
}

/// The clock of the pages and core time.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    last: Option<Nanos>,
    now: Nanos,
    /// Whether the last tick came after a jump.
    jumped: bool,
}

/// A longer time between two ticks counts as a jump of the clock, not as time that passed.
const LEAP: Nanos = Nanos::seconds(10);
/// Length in core time of a tick after a jump.
const NOMINAL: Nanos = Nanos::millis(50);

impl Clock {
    /// Notes the time of a tick; returns its length in core time.
    fn advance(&mut self, clock: Nanos) -> Nanos {
        let last = self.last.replace(clock).unwrap_or(clock);
        self.jumped = clock < last || clock - last > LEAP;
        let passed = if self.jumped { NOMINAL } else { clock - last };
        self.now += passed;
        passed
    }
}

impl Core {
    /// An empty core.
    pub fn new(config: Config) -> Core {
        Core {
            config,
            tree: Tree::default(),
            root: Domain::default(),
            next_id: config.first_id.max(1),
            clock: Clock::default(),
            pacer: Pacer::default(),
            shares: Shares::with_capacity(FIRST_ROOM),
            room: FIRST_ROOM,
            inputs: Vec::new(),
            actions: Vec::new(),
            gone: Revocations::default(),
        }
    }

    /// Replaces the configuration (`Reload`). Principals beyond a smaller `max_principals` stay.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
        self.next_id = self.next_id.max(config.first_id);
        self.pacer.prompt();
    }
}
