//! The broker: `sense -> account -> decide -> publish -> revoke`, one way, once per tick.
//!
//! # Glossary
//! - *principal*: whoever memory is accounted to: a process with its descendants, or a group.
//! - *domain*: what is shared out: the machine, or the cgroup whose limit binds the broker.
//! - *limiting cgroup*: a cgroup inside the domain whose own limit is tighter; its principals hang
//!   under an *automatic group* that carries that limit.
//! - *user's group*: in the system's broker, the group at the top that holds all principals of one
//!   user; the core's *tenant*.
//! - *page*: one file per principal that holds its numbers (see `plimsoll_wire::page`).
//! - *tick*: one pass of sense, decide, publish; the core says when the next one is due.
//! - *ladder*: ask, page out, take, bound; only the principal that owes pays.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | [`core`] | the decision core: no clock, no I/O |
//! | [`options`] | command line, socket and directory paths |
//! | [`config`] | `plimsoll.toml` |
//! | [`server`] | the epoll loop, connections, the table of methods |
//! | [`members`] | the daemon's side of each principal: life, page, sockets, cgroup |
//! | [`sense`] | reads the domain and the principals; samples in the background |
//! | [`publish`] | pages, subscribers, pressure sockets |
//! | [`act`] | the worker that carries out the ladder |
//! | [`share`] | how users share what the broker has little of |
//! | [`descriptors`] | how many descriptors there are to share |
//! | [`background`] | starts the threads beside the one that decides |
//! | [`turns`] | work by user, one after the other |
//! | [`state`] | what survives `kill -9` |
//! | [`service`] | manners: service manager, signals, memory lock, clock |
//! | [`error`], `own_name` | why it cannot go on; names of files that it made |
//! | [`daemon`] | puts them together |

pub mod act;
pub mod background;
pub mod config;
pub mod core;
pub mod daemon;
pub mod descriptors;
pub mod error;
pub mod members;
pub mod options;
mod own_name;
pub mod publish;
pub mod sense;
pub mod server;
pub mod service;
pub mod share;
pub mod state;
pub mod turns;

/// Ticks are held to no allocation by tests.
#[cfg(test)]
#[path = "../tests/simulation/allocations.rs"]
mod allocations;
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

pub use daemon::run;
pub use error::Error;
pub use options::Options;
