//! Runs programs under one budget, with or without the broker, and watches them from outside.
//!
//! # Glossary
//! - *ground*: a memory cgroup with a limit, a swap file, a folder; gone when the measurement ends.
//! - *scenario*: data that says when programs start and stop, and what happens in between.
//! - *variant*: the same scenario under other conditions (with the broker, with fixed sizes, …).
//! - *trace*: samples of a run, several per second.
//! - *job*: a program that runs to its end, and its outcome.
//! - *work*: how much a program has done, as a number that it prints.

pub mod broker;
pub mod collections;
pub mod folder;
pub mod follow;
pub mod ground;
pub mod interrupt;
pub mod java;
pub mod job;
pub mod libgc;
pub mod load;
pub mod mapped;
pub mod pauses;
pub mod play;
pub mod processor;
pub mod programs;
pub mod scenario;
pub mod servers;
pub mod trace;
pub mod watch;
pub mod work;
