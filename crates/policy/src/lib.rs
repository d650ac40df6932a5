//! Every decision of the papers as pure functions and small state machines: no clock, no I/O, no
//! allocation per decision, no other room.
//!
//! | module | decides |
//! |---|---|
//! | [`shares`] | who may use how much |
//! | [`ownership`] | who is charged for shared memory |
//! | [`sizing`] | how large a heap may be: one trait, its policies, and which heap runs which |
//! | [`footprint`] | what bounds a heap: a broker, the machine, a group, and what the kernel took |
//! | [`generations`] | which collections are of young objects |

pub mod footprint;
pub mod generations;
pub mod ownership;
pub mod shares;
pub mod sizing;
