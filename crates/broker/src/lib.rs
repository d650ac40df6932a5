//! The broker. One tick runs `sense -> account -> decide -> publish -> revoke`, in this order only.
//!
//! # Glossary
//! - *principal*: the unit of accounting: a process with its descendants, or a group.
//! - *domain*: the memory that is shared out: the machine, or the cgroup whose limit binds the
//!   broker.
//! - *limiting cgroup*: a cgroup inside the domain whose own limit is tighter; its principals hang
//!   under an *automatic group* that carries that limit.
//! - *user's group*: in the system's broker, the group at the top that holds all principals of one
//!   user; the core's *tenant*.
//! - *page*: one file per principal that holds its numbers (see `plimsoll_wire::page`).
//! - *tick*: one pass of sense, decide, publish; the core says when the next one is due.
//! - *ladder*: ask, page out, take, bound. Each rung applies only to the principal that owes
//!   memory.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | [`decide`] | the decision core, a crate of its own: no clock, no I/O |
//! | [`options`] | command line, socket and directory paths |
//! | [`config`] | `plimsoll.toml` |
//! | [`server`] | the epoll loop, connections, the table of methods |
//! | [`principals`] | the daemon's side of each principal: life, page, sockets, cgroup |
//! | [`sense`] | reads the domain and the principals; samples in the background |
//! | [`publish`] | pages, subscribers, pressure sockets |
//! | [`balance`] | measures what reclaimed pages cost that are read again; shifts reclaim |
//! | [`pinning`] | keeps file pages of principals in memory, where the configuration says so |
//! | [`act`] | the worker that executes the orders of the ladder |
//! | [`user_quota`] | divides scarce resources of the broker between users |
//! | [`descriptors`] | the number of file descriptors that can be shared |
//! | [`background`] | starts the threads that run beside the deciding thread |
//! | [`fair_queue`] | a queue of work in which users take turns |
//! | [`state`] | state that survives `kill -9` |
//! | [`service`] | the parts of a daemon: service manager, signals, memory lock, clock |
//! | [`error`], `owned_path` | errors that end the broker; names of files that the broker made |
//! | [`daemon`] | connects the other modules |

pub mod act;
pub mod background;
pub mod balance;
pub mod config;
pub mod daemon;
pub mod descriptors;
pub mod error;
pub mod fair_queue;
pub mod options;
mod owned_path;
pub mod pinning;
pub mod principals;
pub mod publish;
pub mod sense;
pub mod server;
pub mod service;
pub mod state;
pub mod user_quota;

/// Tests check that a tick does not allocate.
#[cfg(test)]
#[path = "../tests/simulation/allocations.rs"]
mod allocations;
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

pub use plimsoll_decide as decide;

pub use daemon::run;
pub use error::Error;
pub use options::Options;
