//! Our collector in the place of libgc: without pressure, under pressure, with parts of it turned off, and on
//! other kernels.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `plain` | enough memory: time, pauses and memory beside libgc's |
//! | `pressure` | too little memory: what finishes, how soon, how long collections take |
//! | `pressed` | the workloads of that |
//! | `ablation` | the worth of each means |
//! | `kernels` | the same on other kernels |
//! | `strangers` | programs of many kinds |
//! | `pairs` | workloads in enough memory, with both collectors |
//! | `stage` | runs workloads with a collector |

pub(super) mod ablation;
pub(super) mod kernels;
mod pairs;
pub(super) mod plain;
mod pressed;
pub(super) mod pressure;
pub(super) mod stage;
pub(super) mod strangers;
