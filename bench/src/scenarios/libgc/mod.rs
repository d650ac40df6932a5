//! Our collector in the place of libgc: without pressure, under pressure, with parts of it turned
//! off, and by other kernels.

pub mod ablation;
pub mod kernels;
pub mod plain;
mod pressed;
pub mod pressure;
mod stage;
