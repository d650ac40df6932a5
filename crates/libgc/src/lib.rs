//! `libgc.so.1`: the interface of the Boehm-Demers-Weiser collector over [`plimsoll_heap`].
//!
//! Programs that were linked with libgc 8 run unchanged with this library in its place. The
//! functions of libgc's public headers have the names and the meaning that the headers give them,
//! and are documented there.
//!
//! | module | content |
//! |---|---|
//! | `allocate`, `release`, `resize` | allocating objects, freeing them, changing their size |
//! | `kinds`, `typed`, `gcj`, `debug`, `inspect` | where references are in objects; debugging; queries |
//! | `roots`, `loader`, `thread` | roots: static data, loaded libraries, threads' stacks |
//! | `finalize`, `disclaim`, `links`, `toggle` | what happens when an object dies |
//! | `leaks` | objects that a program lost, and writes past the end of an object |
//! | `collect`, `mark`, `pace` | the phases of a collection; where marking begins; when to collect |
//! | `incremental`, `steps`, `helpers` | collections of young objects; in steps; by several threads |
//! | `footprint`, `follow` | how much memory the heap takes; following a broker's limit |
//! | `settings`, `environ`, `stats`, `report` | settings, environment variables, statistics, messages |
//! | `quantum` | threads that give their processors up by what they allocate |
//! | `table`, `memory` | tables by address; the memory of such tables |
//! | `places` | where the heap is, for tools that look from outside |
//! | `private` | functions of libgc's private headers |
//! | `fork`, `unwind` | children of fork; exceptions |
//! | [`stress`] | frequent collections, each of them checked, for tests |
//! | `collector`, `lock` | the state of all of the above, behind one lock |
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

mod allocate;
mod collect;
mod debug;
mod disclaim;
mod environ;
mod finalize;
mod follow;
mod fork;
mod front;
mod gcj;
mod inspect;
mod kinds;
mod leaks;
mod links;
mod loader;
mod lock;
mod memory;
mod places;
mod private;
mod quantum;
mod release;
mod report;
mod resize;
mod roots;
mod settings;
mod spawn;
mod state;
mod stats;
pub mod stress;
mod table;
mod thread;
mod toggle;
mod typed;
mod unwind;
