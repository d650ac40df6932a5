//! Which programs had to wait for memory. [`Stalls`] is the signal for one process: its allocation
//! stalls so far, by the best of several [`Tier`]s that works here. `read` at the beginning of
//! something, `read` at its end, and [`Stalled::since`] is what happened within.
//!
//! # Glossary
//! - **stall**: an allocation stall; a thread that wanted memory had to reclaim some first, at the
//!   limit of its group or because the machine had none left.
//! - **tier**: a way to learn of stalls. A tier that does not work here is *declined*, with a
//!   sentence that says why.
//! - **the switch**: `kernel.task_delayacct`. Threads that are made while it is 1 are counted by
//!   delay accounting for all their life, others never.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `signal` | [`Stalls`]: opens the best tier, reads it |
//! | `tier` | [`Tier`], [`Stalled`], and why a tier was [`Declined`] |
//! | `delays` | delay accounting of one process |
//! | `reclaim` | the tracepoints of reclaim, timed or counted |
//! | `cgroup_psi` | the total of the group that a process is in |
//! | `taskstats` | the kernel's interface under it, for any process and thread |
//! | `vmstat` | counters of the machine; blind to reclaim at the limit of a group |
//!
//! For a group see [`crate::cgroup::Cgroup::events`] and [`crate::cgroup::Stat`].

mod cgroup_psi;
mod delays;
mod reclaim;
mod signal;
mod taskstats;
mod tier;
mod vmstat;

pub use delays::is_switched_on;
pub use signal::Stalls;
pub use taskstats::{TaskStalls, Taskstats};
pub use tier::{Declined, Stalled, Tier};
pub use vmstat::{Vmstat, VmstatReader};
