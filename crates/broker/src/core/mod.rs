//! The decision core: a state machine without a clock or I/O. The daemon feeds it what it sensed
//! and carries out its actions; the simulation does the same with simulated programs.
//!
//! # Glossary
//! - *domain*: what a budget belongs to: the root (machine or limiting cgroup), and each group with
//!   a cgroup of its own.
//! - *outsiders*: what is used in a domain by nobody that is registered in it.
//! - *reserve*: what is held back of a domain so that warnings come early enough: the growth rate
//!   of the outsiders x the time that programs take to react.
//! - *budget*: capacity - outsiders - what outsiders are expected to take soon - reserve.
//! - *flow*: a smoothed level and its growth rate.
//! - *debt*: what a principal must give back, and by when; paid in *batches*: new debt waits until
//!   the batch before it is paid or overdue.
//! - *need*: bytes that a domain lacks now, or that somebody under its entitlement waits for.
//! - *rung*: how far the *ladder* (ask, page out, take, bound) has gone with a debtor.
//!
//! - *core time*: the clock without its jumps: it never goes back, and a leap counts as one tick.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `types` | what goes in and what comes out |
//! | `tree`, `node` | who is under whom; one principal |
//! | `commands` | register, remove, set, report |
//! | `tick` | one pass, from what was sensed to the actions |
//! | `domain`, `flow` | outsiders, their growth, the reserve, the budget |
//! | `demand` | how much a principal can make use of |
//! | `settle`, `debt` | the limit in force, what is owed and by when, what is news |
//! | `revoke`, `ladder` | what is needed, and from whom; what to do to who does not pay |
//! | `pace` | when to look again |
//! | `view`, `keep` | listings; settings that outlive a crash |
//!
//! # Use
//! `register`, `set`, `report`, `remove` as they come; `tick` with what was sensed, then carry out
//! its actions, then sleep for [`Core::next_tick`] (or until something is registered, released or
//! reported). [`Core::glance`] in between is cheap.

mod commands;
mod debt;
mod demand;
mod domain;
mod flow;
mod keep;
mod ladder;
mod node;
mod pace;
mod revoke;
mod settle;
#[cfg(test)]
mod tests;
mod tick;
mod tree;
mod types;
mod view;

pub use types::*;

use domain::Domain;
use pace::Pacer;
use plimsoll_policy::shares::{Principal, Shares};
use plimsoll_wire::messages::Id;
use tree::Tree;

/// Principals that there is room for from the start.
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
    /// How many principals `shares` has room for.
    room: usize,
    /// What `shares` decides on, in the tree's order; grown at registration.
    inputs: Vec<Principal>,
    /// What the last tick asks for; grown at registration.
    actions: Vec<Action>,
}

/// The clock of the pages, and core time beside it.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    last: Option<Nanos>,
    now: Nanos,
    /// Whether the last tick came after a jump.
    jumped: bool,
}

/// A longer way from one tick to the next is a jump of the clock, not time that passed.
const LEAP: Nanos = 10_000_000_000;
/// What counts as the length of such a tick.
const NOMINAL: Nanos = 50_000_000;

impl Clock {
    /// Takes over the time of a tick; the length of it in core time.
    fn advance(&mut self, clock: Nanos) -> Nanos {
        let way = self.last.map(|last| clock.checked_sub(last));
        self.jumped = way.is_some_and(|way| way.is_none_or(|way| way > LEAP));
        let passed = if self.jumped {
            NOMINAL
        } else {
            way.flatten().unwrap_or(0)
        };
        self.last = Some(clock);
        self.now = self.now.saturating_add(passed);
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
        }
    }

    /// Another configuration (`Reload`). Principals beyond a smaller `max_principals` stay.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
        self.next_id = self.next_id.max(config.first_id);
        self.pacer.prompt();
    }
}
