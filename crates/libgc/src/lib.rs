//! `libgc.so.1`: the interface of the Boehm-Demers-Weiser collector over [`plimsoll_heap`].
//!
//! Programs that were linked with libgc 8 run unchanged with this library in its place. The
//! functions of libgc's public headers have the names and the meaning that the headers give them,
//! and are documented there.
//!
//! # Map
//!
//! | module | content |
//! |---|---|
//! | `abi` | the exported functions and variables |
//! | `start`, `state`, `heap`, `lock` | making the collector; its state, the heap, the lock of both |
//! | `word_lock`, `sync` | the word of a lock; what threads wait with |
//! | `front_end`, `collect` | this library as a front end of [`plimsoll_collector`]; asking for collections |
//! | `objects` | allocating objects, freeing them, changing their size; where references are in them |
//! | `roots`, `thread` | roots: static data, loaded libraries, threads' stacks |
//! | `finalization` | what happens when an object dies |
//! | `leaks`, `leak_report` | objects that a program lost, writes past the end of an object; their report |
//! | `broker_thread` | following a broker's limit |
//! | `environ`, `output`, `diagnostics` | environment variables, messages, giving up |
//! | `quantum` | threads that give their processors up by what they allocate |
//! | `table`, `memory` | tables by address; the memory of tables |
//! | `racy_cell`, `spawn` | words that the program assigns; threads of our own |
//! | `fork`, `unwind` | children of fork; exceptions |
//! | [`stress`] | frequent collections, each of them checked, for tests |
//!
//! The memory of all this is not from the program's `malloc`, which may reserve 64 MiB of addresses
//! for each thread that calls it: where addresses are limited (`ulimit -v`), the program needs them.
//!
//! While the world is stopped, no code here may wait for a thread, and none may allocate or free
//! memory: a stopped thread may hold the lock of that. Tables get the memory that a collection needs
//! before the world is stopped.

#![allow(
    non_upper_case_globals,
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "names, and contracts, are those of libgc's headers"
)]

// In tests, the library that is built on this one brings it.
#[cfg(not(test))]
#[global_allocator]
static OWN: memory::Own = memory::Own;

mod abi;
mod broker_thread;
mod collect;
mod diagnostics;
mod environ;
mod finalization;
mod fork;
mod front_end;
mod heap;
mod leak_report;
mod leaks;
mod lock;
mod memory;
mod objects;
mod output;
mod quantum;
mod racy_cell;
mod roots;
mod spawn;
mod start;
mod state;
pub mod stress;
mod sync;
mod table;
mod thread;
mod unwind;
mod word_lock;
