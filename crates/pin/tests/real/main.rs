//! Holding pages on the real kernel: own cgroups, own files on the disk, programs that read them.

// A set of pages is often one run.
#![allow(clippy::single_range_in_vec_init)]

mod bad;
mod btrfs;
mod charge;
mod common;
mod files;
mod guest;
mod limits;
mod programs;
mod saves;
