//! Tests of this crate on real processes: own groups, own swap, real pressure, all cleaned up. A test
//! that lacks rights reports that it is skipped, and why.

mod bad;
mod btrfs;
mod common;
mod native;
mod refaults;
mod rest;
mod served;
mod sums;
