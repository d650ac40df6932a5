//! A heap whose collections do not touch evicted pages: the bookmarking collector (Hertz, Feng and
//! Berger, PLDI 2005) on a stock kernel. The front end, which programs call, is a separate crate.
//!
//! | word | meaning |
//! |---|---|
//! | *granule* | 16 bytes: the alignment of objects and the unit of sizes |
//! | *page* | what the kernel maps and evicts, 4 KiB |
//! | *superpage* | 16 KiB, aligned: the unit of size classes, of residency and of summaries (paper 3.1) |
//! | *slot* | the place of one object in a superpage; a small object's slot never crosses into another |
//! | *kind* | what the objects of a superpage have in common: where their references are, who frees them |
//! | *hole* | adjacent slots that the last collection found dead |
//! | *side* | all metadata: one range beside the heap, never inside it |
//! | *absent* | of a superpage: a part of it was in swap when the collection began |
//! | *summary* | what a superpage's objects refer to, kept at the side while the superpage is absent |
//! | *bookmark* | a bit per slot, kept at the side, set if a summary that lists groups refers to the slot |
//! | *space* | the front end's objects beside the heap, which may move |
//! | *age* | collections since a superpage was last seen to be written to |
//! | *young* | of a superpage: it may have been written to since the last collection |
//! | *pending* | of a superpage: it has marked objects that have not been scanned yet |
//!
//! Each module imports only from modules above it in this table:
//!
//! | module | content |
//! |---|---|
//! | `address`, `class`, `kind` | units and addresses, size classes, what objects have in common |
//! | `bits`, `sparse`, `prefetch`, `sync` | bits in words, tables by kind and class, prefetching, locks |
//! | `os`, `mapped_stack` | every system call; a stack of values in addresses of its own |
//! | `descriptor`, `side` | what is known of a superpage; the address ranges, and all tables of metadata |
//! | `summary`, `tracking` | absent superpages' references; what was written to |
//! | `verify`, `stress` | checks that nothing was lost; injected faults |
//! | `heap` | the heap: its kinds, and queries about addresses |
//! | `central`, `bins` | the state that threads share, what each thread has of its own |
//! | `alloc`, `large` | small objects, large objects |
//! | `objects`, `sweep` | walks over objects; counting what is marked |
//! | `residency`, `steps` | what is in swap; marking while the program runs |
//! | `mark` | marking what is reachable |
//! | `collection` | the phases of a collection, in their only order |
//! | `fuzz` | entry points for fuzzers |
//!
//! Data flows one way: [`Heap`] knows its ranges (`os`, `side`); [`Bin`]s are filled from
//! superpages (`alloc`, over `central`); a collection marks (`mark`) and then counts (`sweep`),
//! which gives superpages back to `central`. The types of [`collection`] enforce the order of a
//! collection's phases.
//!
//! A process may have many heaps. A heap that is dropped gives back its memory and its addresses.
//!
//! This crate neither stops threads nor finds roots: the front end does both. While the world is
//! stopped, nothing here allocates with `malloc`, because a stopped thread may hold its locks. The
//! front end must hold [`Central`] exclusively before it stops the world.

mod address;
mod alloc;
mod bins;
mod bits;
mod central;
mod class;
pub mod collection;
mod descriptor;
#[doc(hidden)]
pub mod fuzz;
mod heap;
mod kind;
mod large;
mod mapped_stack;
pub mod mark;
mod objects;
pub mod os;
mod prefetch;
mod residency;
mod side;
mod sparse;
mod steps;
mod stress;
mod summary;
mod sweep;
mod sync;
mod tracking;
mod verify;

pub use address::{GRANULE, SUPERPAGE, Slot, Superpage};
pub use alloc::Freed;
pub use bins::{Bin, Bins};
pub use central::{Central, Exhausted};
pub use class::{CLASSES, Class, LARGEST_SMALL};
pub use heap::{Error, Heap, Places};
pub use kind::{KINDS, Kind, KindId, Layout, PointerMap};
pub use residency::{Look, Residency};
pub use side::UsedBy;
pub use sweep::SweepStatistics;
pub use tracking::{Means, Watch};
pub use verify::Difference;
