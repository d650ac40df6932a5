//! What Linux tells about memory, and what it lets others take of it. One module per kernel interface.
//!
//! # Glossary
//! - **domain**: where memory is bounded: the machine, or a cgroup with a limit. Domains nest; the
//!   one with the least room binds.
//! - **capacity**: bytes that a domain may hold at most.
//! - **used**: bytes in use that cannot be dropped for free: usage - clean inactive file pages - swap cache.
//! - **droppable**: the rest of the usage: the kernel can free it without writing anything.
//! - **watermark**: the margin (bytes) below capacity at which there is still time to react.
//! - **limit dip**: lowering the limit of a v1 cgroup for a moment, so that the kernel reclaims; v2
//!   has `memory.reclaim`.
//! - **working set**: bytes whose reference bits were set again within a sampling window.
//! - **allocation stall**: the kernel made an allocating thread reclaim memory before it got its own.
//! - **tier**: which of several ways to the same end this kernel and these rights allow; probed
//!   once, by calling it.
//!
//! # Conventions
//! Sizes are bytes in `u64`; times say their unit. A reader keeps its file descriptor and reads
//! with `pread` into a buffer on the stack: nothing is allocated on the paths that run every tick.
//! Every parser is a pure function on `&[u8]` that tolerates missing lines, cut text and absurd
//! numbers. Every [`Error`] names the file or the process, and tells what is absent (not offered
//! here) from what is broken (offered, but not as it should be).

pub mod advise;
pub mod capacity;
pub mod cgroup;
pub mod clock;
pub mod environment;
mod error;
pub mod identity;
pub mod meminfo;
pub mod overcommit;
pub mod pages;
pub mod parse;
pub mod peer;
pub mod pressure;
pub mod probe;
pub mod process;
pub mod reader;
pub mod referenced;
pub mod scan;
pub mod smaps;
pub mod stalls;
pub mod swap;
pub mod tracking;
pub mod words;

pub use error::{Error, Result};
