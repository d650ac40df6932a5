//! Collected heaps in one memory that replaces its least recently used pages.
//!
//! A [`World`] holds a memory, programs with a heap each, and hogs. A program allocates at a rate,
//! touches its hot live data, and collects its heap when that has reached the size that its policy
//! gives. Everything that it touches needs memory. Where none is free, the page that was touched longest ago
//! is written to swap (an *allocation stall*); a page in swap is read back (a *major fault*).
//!
//! | word | meaning |
//! |---|---|
//! | *block* | the unit of the model, [`BLOCK`] bytes: all of it is touched, paged out, live or dead |
//! | *room* | the memory that all heaps and hogs share, bytes |
//! | *plan* | how a heap collects: [`Plan`] |
//! | *wait* | time that a program lost by a touch: [`Wait`] |
//!
//! The model leaves out kernel threads that reclaim ahead (a cgroup's limit has none), pages read ahead,
//! processors (each program has its own), and memory other than heaps.
//!
//! # Map
//!
//! | module | holds |
//! |---|---|
//! | `memory` | blocks, their replacement by age, the swap device |
//! | `heap` | where a plan allocates, and what its collections touch |
//! | `program` | a program: its clock, its policy, its waits |
//! | `world` | which program runs next, hogs, the end |
//! | `setups` | the worlds that the tests and the figures are made from |

mod heap;
mod memory;
mod program;
pub mod setups;
mod world;

pub use heap::Plan;
pub(crate) use memory::Memory;
pub use memory::{BLOCK, Costs, Wait};
pub use program::{Behaviour, Outcome, Point, Policy, Signal};
pub use world::{Hog, World};
