//! Readings of memory from Linux, and its means to take memory from programs. One module per kernel
//! interface.
//!
//! # Glossary
//! - **domain**: where memory is bounded: the machine, or a cgroup with a limit. Domains nest; the
//!   one with the least room binds.
//! - **capacity**: bytes that a domain may hold at most.
//! - **used**: bytes in use that cannot be dropped for free: usage - clean inactive file pages - those
//!   pages of the swap cache that no process has mapped.
//! - **droppable**: the rest of the usage: the kernel can free it without writing anything.
//! - **limit dip**: lowering the limit of a v1 cgroup for a moment, so that the kernel reclaims; v2
//!   has `memory.reclaim`.
//! - **working set**: bytes whose reference bits were set again within a sampling window.
//! - **allocation stall**: the kernel made an allocating thread reclaim memory before it got its own.
//! - **tier**: one of several ways to the same end. The best one that this kernel and our rights
//!   allow is found once, by trying it.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | [`capacity`], [`meminfo`], [`swap`], [`overcommit`] | sizes of memory by kind |
//! | [`cgroup`] | a memory cgroup of version 1 or 2 |
//! | [`process`], [`smaps`] | one process; what each of its areas holds |
//! | [`pages`], [`pagemap_scan`], [`pagemap`] | which pages are in memory and which in swap |
//! | [`write_tracking`], [`referenced`] | which pages were written to; which are in use |
//! | [`process_vm`], [`page_cache`] | copies of another process's memory; how much of a file is cached |
//! | [`uncached_read`] | reads of files that leave the page cache as it was |
//! | [`advise`] | advice on another process's memory |
//! | [`sealed_memfd`] | a memory file that two processes map |
//! | [`mapped`], [`mounts`], [`pin`] | the file of a mapping; kinds of file systems; locking pages of files |
//! | [`pressure`], [`stalls`] | thresholds and pressure stall information; waits of programs for memory |
//! | [`disk`] | how long devices take |
//! | [`sched`] | scheduling parameters of threads, and what threads used |
//! | [`probe`] | the interfaces that this kernel and these rights allow |
//! | [`identity`], [`capabilities`] | acting as another user; the rights of this process |
//! | [`sandbox`] | filters of system calls on this process |
//! | [`peer`], [`environment`] | which peers and variables to trust |
//! | [`descriptors`], [`locks`] | which files a process has open; who holds locks of files |
//! | [`sockets`] | the sockets on which a process listens |
//! | [`undo_notes`] | changes that have to be undone if this process is killed |
//! | [`reader`], [`parse`], [`clock`] | files that are read again, parsers, the one clock |
//! | [`timeout`], `interrupt` | a bounded wait for what may block; an end to it |
//! | [`barrier`] | a memory barrier in all threads of this process |
//! | `error` | errors that name the file or process |
//!
//! # Conventions
//! Sizes are bytes in `u64`; times say their unit. A reader keeps its file descriptor and reads
//! with `pread` into a buffer on the stack, so paths that run every tick do not allocate. Every
//! parser is a pure function on `&[u8]` that tolerates missing lines, cut text and absurd numbers.
//! Every [`Error`] names the file or the process, and distinguishes absent (not offered here) from
//! broken (offered, but malformed).

pub mod advise;
pub mod barrier;
pub mod capabilities;
pub mod capacity;
pub mod cgroup;
pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod environment;
mod error;
pub mod identity;
mod interrupt;
pub mod locks;
pub mod mapped;
pub mod meminfo;
pub mod mounts;
pub mod overcommit;
pub mod page_cache;
pub mod pagemap;
pub mod pagemap_scan;
pub mod pages;
pub mod parse;
pub mod peer;
pub mod pin;
pub mod pressure;
pub mod probe;
pub mod process;
pub mod process_vm;
pub mod reader;
pub mod referenced;
pub mod sandbox;
pub mod sched;
pub mod sealed_memfd;
pub mod smaps;
pub mod sockets;
pub mod stalls;
pub mod swap;
pub mod timeout;
pub mod uncached_read;
pub mod undo_notes;
pub mod write_tracking;

pub use error::{Error, Result};
