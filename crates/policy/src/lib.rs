//! Every decision of the papers as pure functions and small state machines: no clock, no I/O, no
//! allocation per decision, no other room.
//!
//! | module | decides |
//! |---|---|
//! | [`shares`] | who may use how much |
//! | [`ownership`] | who is charged for shared memory |
//! | [`footprint`] | how much memory a collected heap takes |
//! | [`generations`] | which collections are of young objects |
//! | [`isla_vista`] | heap sizes from stalls |

pub mod footprint;
pub mod generations;
pub mod ownership;
pub mod shares;
pub mod sizing;
