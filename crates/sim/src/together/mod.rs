//! Several programs of threads in one memory, under one broker or under a heap policy each.
//!
//! A program is a machine of [`crate::threads`] over its trace, with its own processors. The memory is that
//! of [`crate::paging`]. Nothing is decided here: the broker is `plimsoll_decide` in virtual time, and the
//! other policies are those of `plimsoll_policy::sizing`. So what the paper on memory-adaptive applications
//! (Walfield) shows of real programs, and what the paper on allocation phases (Xian, Srisa-an, Jiang)
//! simulates, comes from one deterministic model.
//!
//! | word | meaning |
//! |---|---|
//! | *entrant* | a program with its weight, priority, and the times at which it begins and is stopped |
//! | *seat* | the memory of one program, and how large its heap may be |
//! | *side* | blocks in which a heap lies; a collector that copies has two |
//! | *floor* | the size that a heap is let have in any case, because it could not go on with less |
//! | *ideal* | the part of a program by its weight of what is shared out |
//! | *batch* | bytes that the broker asks back by a deadline |
//!
//! The model leaves out processors that programs compete for, memory other than heaps, shared memory, and the
//! time that the broker's messages and decisions take.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `settings` | programs, memory, policy, hogs; what is refused |
//! | `layout` | where a heap's bytes are, in blocks |
//! | `seat` | the memory below the heaps |
//! | `heap_size`, `releases` | how large a heap may be; when memory is given back |
//! | `broker` | the broker's core in virtual time |
//! | `hog` | memory that something else takes |
//! | `record` | memory over time, debts and their deadlines |
//! | `outcome` | what a simulation shows |
//! | `world` | time: which program goes on, and what happens in between |
//! | [`setups`] | the worlds of Walfield's evaluation |

mod broker;
mod heap_size;
mod hog;
mod layout;
mod outcome;
mod record;
mod releases;
mod seat;
mod settings;
pub mod setups;
mod world;

pub use outcome::{Outcome, Point, Program, Revocations, Share, Waits};
pub use settings::{
    Entrant, Hog, LEAST_MEMORY, MOST_MEMORY, MOST_PROGRAMS, Policy, Refusal, Setup,
};
pub use world::Error;

use crate::threads::{self, Log};

/// Simulates programs, one for each entrant of the setup, in their order.
///
/// # Errors
/// The setup makes no sense, or a program fails: its trace is damaged, its threads wait for each other for
/// ever, or its heap is too small at its maximum.
pub fn simulate(
    setup: &Setup,
    programs: &mut [&mut dyn threads::Program],
) -> Result<Outcome, Error> {
    let mut logs = vec![(); programs.len()];
    let programs = programs.iter_mut().zip(&mut logs);
    let programs =
        programs.map(|(program, log)| (&mut **program as &mut dyn threads::Program, log));
    simulate_and_tell(setup, programs.collect())
}

/// Simulates programs, and tells the log of each what happens in it while it does.
///
/// # Errors
/// As those of [`simulate`].
pub fn simulate_and_tell<'a, L: Log>(
    setup: &'a Setup,
    programs: Vec<(&'a mut dyn threads::Program, &'a mut L)>,
) -> Result<Outcome, Error> {
    world::World::new(setup, programs)?.run()
}
