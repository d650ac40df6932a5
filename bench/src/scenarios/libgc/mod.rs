//! Our collector in the place of libgc: without pressure, under pressure, and with parts of it turned off.

pub mod ablation;
pub mod plain;
mod pressed;
pub mod pressure;
mod stage;
