//! Which thread of a running Java program goes first, by what it allocates: the disciplines of
//! [`plimsoll_policy::phases`] on a real kernel, from outside. The JVM is not attached to and does not stop.
//!
//! | word | meaning |
//! |---|---|
//! | *look* | a reading of the counters of all threads: time run, time waited, bytes allocated |
//! | *front* | normal scheduling parameters |
//! | *back* | parameters that let other threads run first ([`Lever`]) |
//! | *lever* | which parameters those are |
//! | *window* | a time in which the discipline is on or off throughout |
//!
//! Data flows one way: look -> decide ([`plimsoll_policy::phases::live`]) -> place. Windows with and without
//! the discipline alternate, and it is withdrawn where the program gets less done with it.
//!
//! Changes are undone when the discipline is off, when it ends, and on every error. A thread whose
//! parameters somebody else changes meanwhile is left alone from then on. Threads that the program starts
//! inherit the parameters of their creator; they, and child processes, get back what the program had.
//!
//! # Map
//! Each module imports only from those before it.
//!
//! | module | is |
//! |---|---|
//! | `deprioritise` | parameters of front and back |
//! | `events` | events that are reported to people |
//! | `parameters` | the own parameters of threads, and those that we set |
//! | `undo_on_kill` | undoes everything if the process with the loop is killed |
//! | `threads` | the threads of one machine, and the counters of each since the last look |
//! | `control_loop` | the loop, for one machine |

mod control_loop;
mod deprioritise;
mod events;
mod parameters;
mod threads;
mod undo_on_kill;

pub use control_loop::{Ended, FollowError, Options, follow};
pub use deprioritise::Lever;
pub use events::News;
pub use plimsoll_map::runtimes::hotspot::allocation::AllocationError;
pub use undo_on_kill::{Guarded, NOTE, guard, undo};
