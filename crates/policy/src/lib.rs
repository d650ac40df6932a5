//! Every decision of the papers as pure functions and small state machines: no clock, no I/O, no
//! allocation per decision, no other room.

pub mod footprint;
pub mod generations;
pub mod ownership;
pub mod shares;
pub mod sizing;
