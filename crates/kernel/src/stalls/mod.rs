//! Which programs had to wait for memory: per process and thread by taskstats, for the machine by
//! `/proc/vmstat`. For a group see [`crate::cgroup::Cgroup::events`] and [`crate::cgroup::Stat`].

mod taskstats;
mod vmstat;

pub use taskstats::{TaskStalls, Taskstats};
pub use vmstat::{Vmstat, VmstatReader};
