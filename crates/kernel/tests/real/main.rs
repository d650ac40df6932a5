//! Tests of this crate on the real kernel: own groups, own swap, real pressure, all cleaned up. A
//! test that lacks rights reports that it is skipped, and why. The same tests run again under
//! cgroup version 2 in a guest (see `guest`).

mod balance;
mod common;
mod guest;
mod leaderless;
mod limits;
mod pages;
mod processes;
mod sched;
mod stalls;
