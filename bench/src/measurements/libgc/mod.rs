//! Our collector in the place of libgc: without pressure, under pressure, with parts of it turned off, and on
//! other kernels.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `plain` | enough memory: time, pauses and memory beside libgc's |
//! | `pressure` | too little memory: what finishes, how soon, how long collections take |
//! | `limited_memory` | the workloads of that |
//! | `ablation` | the worth of each means |
//! | `kernels` | the same on other kernels |
//! | `strangers` | programs of many kinds |
//! | `pairs` | workloads in enough memory, with both collectors |
//! | `run_workloads` | runs workloads with a collector |

pub(super) mod ablation;
pub(super) mod kernels;
mod limited_memory;
mod pairs;
pub(super) mod plain;
pub(super) mod pressure;
pub(super) mod run_workloads;
pub(super) mod strangers;
