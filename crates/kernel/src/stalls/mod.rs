//! Who had to wait for memory: per process and thread by taskstats, of the machine by
//! `/proc/vmstat`; of a group see [`crate::cgroup::Cgroup::events`] and [`crate::cgroup::Stat`].

mod taskstats;
mod vmstat;

pub use taskstats::{TaskStalls, Taskstats};
pub use vmstat::{Vmstat, VmstatReader};
