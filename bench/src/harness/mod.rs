//! Has programs run under one budget, with or without the broker, and watches them from outside.
//!
//! # Glossary
//! - *ground*: a memory cgroup with a limit, a swap file, a folder; gone when the measurement ends.
//! - *scenario*: which programs start and stop when, what happens in between; data, not code.
//! - *variant*: the same scenario under other conditions (with the broker, with fixed sizes, …).
//! - *trace*: what was seen, some times a second.
//! - *job*: a program that runs to its end, and what came of it.
//! - *work*: what a program says it has done, as a number on its output.

pub mod broker;
pub mod collections;
pub mod folder;
pub mod follow;
pub mod ground;
pub mod interrupt;
pub mod java;
pub mod job;
pub mod libgc;
pub mod mapped;
pub mod pauses;
pub mod play;
pub mod processor;
pub mod programs;
pub mod scenario;
pub mod trace;
pub mod watch;
pub mod work;
