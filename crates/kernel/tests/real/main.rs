//! The room against the real kernel: own groups, own swap, real pressure, all cleaned up. What
//! needs rights that are missing says so and why. The same tests run again under cgroup version 2
//! in a guest (see `guest`).

mod common;
mod guest;
mod limits;
mod pages;
mod processes;
mod warning;
