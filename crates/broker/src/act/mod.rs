//! Act: the later rungs of the ladder. A separate thread executes them, because the kernel blocks
//! while it reclaims.
//!
//! # Glossary
//! - *page out*: cold pages of a principal's processes go to swap (`process_madvise`).
//! - *take*: bytes are reclaimed from the principal's cgroup now (`memory.reclaim`, or a limit
//!   dip).
//! - *bound*: the principal's cgroup gets a limit that cannot kill, until the debt is paid.
//! - *cgroup*: in this module always one that this broker made; the broker writes to no other.

mod cgroups;
mod job;
mod worker;

pub use cgroups::{Cgroups, Home, LEAF, PARENT, Target};
pub use job::{Job, Order, Outcome, Rights};
pub use worker::Worker;
