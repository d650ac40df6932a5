//! Adapters: what steers an unmodified program so that its memory follows the limit it is given.
//!
//! | word | meaning |
//! |---|---|
//! | *runtime* | what manages the memory of a program: `HotSpot`, libgc, or something else |
//! | *adapter* | the code that steers one kind of runtime; runs beside the program, never in the broker |
//! | *link* | where an adapter reads its limit and leaves its reports: a broker's client, or a script |
//! | *lever* | something that moves a running program's memory: a manageable flag, a collection |
//! | *uses* | the process's own memory: `RssAnon` + `RssShmem`, bytes |
//! | *native part* | what a managed program uses beside its heap |
//!
//! [`launch::prepare`] is asked before a program starts, [`run`] steers it while it runs.
//!
//! Rooms inside: [`detect`] (which runtime is it?), [`launch`] (what to add at the start, in which
//! [`setting`]), [`process`] (what `/proc` tells), [`running`] (which runtime it has while it
//! runs), [`hotspot`] (Java), [`libgc`] (which collector a program on libgc gets), [`passive`]
//! (anything else), [`adapter`] (what all of them are), [`client`] (the link to a broker), [`family`]
//! (a process and its descendants), `elf` (the libraries of an executable).

pub mod adapter;
pub mod client;
pub mod detect;
mod elf;
pub mod family;
pub mod hotspot;
pub mod launch;
pub mod libgc;
pub mod passive;
pub mod process;
pub mod running;
pub mod setting;

pub use adapter::{Adapter, Ended, Link, Options, run};
pub use detect::Runtime;
