//! Act: the later rungs of the ladder, carried out by a thread of their own because the kernel
//! blocks while it reclaims.
//!
//! # Glossary
//! - *page out*: cold pages of a principal's processes go to swap (`process_madvise`).
//! - *take*: its cgroup is made to give bytes up now (`memory.reclaim`, a limit dip).
//! - *bound*: its cgroup is held to a limit that cannot kill until it owes nothing.
//! - *cgroup*: here always one that this broker made; others are never written to.

mod cgroups;
mod job;
mod worker;

pub use cgroups::{Cgroups, Home, LEAF, PARENT};
pub use job::{Job, Order, Outcome, Rights};
pub use worker::Worker;
