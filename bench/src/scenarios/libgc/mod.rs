//! Our collector in the place of libgc: without pressure, under pressure, with parts of it turned off, and on
//! other kernels.

pub(super) mod ablation;
pub(super) mod kernels;
pub(super) mod plain;
mod pressed;
pub(super) mod pressure;
pub(super) mod stage;
