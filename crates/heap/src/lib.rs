//! A heap whose collections do not touch evicted pages: the bookmarking collector (Hertz, Feng and
//! Berger, PLDI 2005) on a stock kernel, without the front end that a program sees.
//!
//! | word | is |
//! |---|---|
//! | *granule* | 16 bytes: what every object starts at, and the unit of sizes |
//! | *page* | what the kernel takes and gives, 4 KiB |
//! | *superpage* | 16 KiB, aligned: the unit of a size class, of residency, of summaries (paper 3.1) |
//! | *slot* | the place of one object in a superpage; slots never cross one |
//! | *kind* | what the objects of a superpage have in common: where references are, who frees them |
//! | *hole* | adjacent slots that the last collection found dead |
//! | *side* | all metadata: one range beside the heap, never inside of it |
//! | *absent* | said of a superpage a part of which was in swap when the collection began |
//! | *summary* | what a superpage's objects refer to, kept at the side while it is absent |
//! | *bookmark* | a bit at the side: an absent superpage, whose summary names no slots, refers to this one |
//! | *age* | for how many collections nobody wrote to a superpage, as far as it is watched |
//! | *young* | said of a superpage that may have been written to since the last collection |
//! | *pending* | said of a superpage with marked objects that nobody looked into yet |
//!
//! | module | is |
//! |---|---|
//! | `address`, `class`, `kind` | units and addresses, size classes, what objects have in common |
//! | `heap`, `side` | the ranges; the tables of metadata beside them |
//! | `alloc`, `large`, `central` | small objects, large ones, what threads share |
//! | `mark`, `census` | what can be reached, and counting it |
//! | `residency`, `watch`, `summary` | what is in swap, who was written to, what absent superpages refer to |
//! | `steps` | marking while the program runs |
//! | `stress`, `verify`, `fuzz` | bad luck on demand; whether a collection lost something; any bytes |
//! | `area`, `bits`, `prefetch` | a stack of values, bits in words, loading ahead |
//! | `os` | every system call |
//!
//! Data flows one way: [`Heap`] knows its ranges (`os`, `side`), [`Bin`]s are filled from
//! superpages (`alloc`, over `central`), a collection marks (`mark`) and then counts (`census`),
//! which gives superpages back to `central`. The order of its parts is the types of [`collection`].
//!
//! Nothing here stops threads or finds roots: a front end does. While the world stands still
//! nothing here allocates with `malloc`, whose locks a stopped thread may hold; who stops it has
//! [`Central`] to itself before.

mod address;
mod alloc;
mod area;
mod bits;
mod census;
mod central;
mod class;
pub mod collection;
#[doc(hidden)]
pub mod fuzz;
mod heap;
mod kind;
mod large;
pub mod mark;
pub mod os;
mod prefetch;
mod residency;
mod side;
mod steps;
mod stress;
mod summary;
mod verify;
mod watch;

pub use address::{GRANULE, SUPERPAGE, Slot, Superpage};
pub use alloc::{Bin, Bins};
pub use census::Census;
pub use central::{Central, Exhausted};
pub use class::{CLASSES, Class, LARGEST_SMALL};
pub use heap::{Error, Heap};
pub use kind::{KINDS, Kind, KindId, Layout};
pub use residency::{Look, Means, Residency};
pub use side::UsedBy;
pub use verify::Difference;
pub use watch::Watch;
