//! The exported functions and variables, and nothing else: one file for each subject of libgc's headers. A
//! function makes the collector if there is none ([`crate::start`]), takes the lock, and calls inward.
//! Nothing inside calls a function here; `variables`, `heap_map` and the lists of `private` are words that
//! this library shares with the program, and modules inside read them.
//!
//! | module | content |
//! |---|---|
//! | `allocation` | allocating, resizing and freeing objects |
//! | `init_and_lock` | the beginning and the end; the allocation lock |
//! | `collection` | asking for collections |
//! | `debug` | the same functions for debugging |
//! | `disclaim`, `finalization` | functions and links of objects that die |
//! | `gcj`, `kinds`, `typed` | where references are in objects |
//! | `inspection` | queries about objects, and checks of pointers |
//! | `messages` | warnings, and the log |
//! | `heap_map` | where the heap is, for tools that look from outside |
//! | `private` | names of libgc's private headers |
//! | `pthreads`, `threads` | threads |
//! | `roots` | roots that the program adds |
//! | `statistics` | sizes and statistics |
//! | `variables` | variables and settings |

mod allocation;
mod collection;
mod debug;
mod disclaim;
mod finalization;
mod gcj;
pub(crate) mod heap_map;
mod init_and_lock;
mod inspection;
mod kinds;
mod messages;
pub(crate) mod private;
mod pthreads;
mod roots;
mod statistics;
mod threads;
mod typed;
pub(crate) mod variables;
