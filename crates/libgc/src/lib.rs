//! `libgc.so.1`: the interface of the Boehm-Demers-Weiser collector over [`plimsoll_heap`].
//!
//! Programs that were linked with libgc 8 run with this in its place, unchanged. What its public
//! headers declare means here what they say; each function is named as there, and documented there.
//!
//! | room | is |
//! |---|---|
//! | `allocate`, `release`, `resize` | objects: getting them, giving them back, changing their size |
//! | `kinds`, `typed`, `gcj`, `debug`, `inspect` | what is in them, and questions about them |
//! | `roots`, `loader`, `thread` | where references are that are not in objects |
//! | `finalize`, `disclaim`, `links`, `toggle` | what happens when an object dies |
//! | `leaks` | what a program lost, or wrote beside of |
//! | `collect`, `mark`, `pace` | a collection, phase by phase; where marking begins; when there is one |
//! | `incremental`, `steps`, `helpers` | of young objects; in steps; by several threads |
//! | `footprint`, `follow` | how much memory the heap takes; a broker's limit |
//! | `settings`, `environ`, `stats`, `report` | what can be set, read, and is said |
//! | `private` | names of libgc's private headers |
//! | `fork`, `unwind` | a child of fork; exceptions |
//! | `stress` | collections often, and each is checked |
//! | `collector`, `lock` | all of the above together, behind one lock |
//!
//! While the world stands still no thread may be waited for and nothing may be allocated or freed
//! with `malloc`: a stopped thread may have its lock. What tables need for a collection they have
//! before.

#![allow(
    non_upper_case_globals,
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "names, and contracts, are those of libgc's headers"
)]

mod allocate;
mod collect;
mod collector;
mod debug;
mod disclaim;
mod environ;
mod finalize;
mod follow;
mod footprint;
mod fork;
mod gcj;
mod helpers;
mod incremental;
mod inspect;
mod kinds;
mod leaks;
mod links;
mod loader;
mod lock;
mod mark;
mod pace;
mod private;
mod release;
mod report;
mod resize;
mod roots;
mod settings;
mod stats;
mod steps;
mod stress;
mod thread;
mod toggle;
mod typed;
mod unwind;
