//! The decisions of the papers as pure functions and small state machines. They use no clock, no
//! I/O and no other crate of the workspace but `plimsoll_unit`, and a decision allocates nothing.
//!
//! Each module imports only from those before it.
//!
//! | module | decides |
//! |---|---|
//! | [`shares`] | who may use how much |
//! | [`ownership`] | which principal is charged for shared memory |
//! | [`sizing`] | how large a heap may be: one trait, its policies, and the policy of each heap |
//! | [`footprint`] | how a heap stays within its bound: a broker's, the machine's or a group's |
//! | [`generations`] | which collections examine young objects only |
//! | [`balance`] | which kind of a group's pages the kernel reclaims first |
//! | [`phases`] | which ready thread runs next, and for how long: round robin, LARF, MQRR |

pub mod balance;
pub mod footprint;
pub mod generations;
pub mod ownership;
pub mod phases;
pub mod shares;
pub mod sizing;
