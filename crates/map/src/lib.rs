//! Which area of a program each page belongs to, and in which state it is.
//!
//! | word | meaning |
//! |---|---|
//! | *mapping* | a part of an address space as the kernel lists it (a VMA) |
//! | *area* | what memory is for: eden, code, stacks, … ([`Kind`]) |
//! | *label* | says that a range of addresses belongs to an area |
//! | *state* | resident, swapped, cached, shared, referenced: bytes ([`States`]) |
//! | *sight* | what was read of a process in one look ([`Sight`]) |
//! | *picture* | the areas of a process with their states ([`Picture`]) |
//!
//! Data flows one way: look (read a [`Sight`]) -> label (a [`Runtime`] says what its ranges are;
//! [`native`] says it of the rest) -> attribute (count the states of each label) -> [`Picture`].
//! Nothing of the process is touched: memory of it is read only where it is resident.
//!
//! Rooms inside, each imports only from those before it: [`area`], [`memory`] (words of another
//! process), [`sight`], [`runtime`] (the trait), the runtimes in [`runtimes`], [`native`],
//! [`attribute`].

pub mod area;
pub mod attribute;
pub mod memory;
pub mod native;
pub mod runtime;
pub mod runtimes;
mod shown;
pub mod sight;

pub use area::{Kind, States};
pub use attribute::Picture;
pub use runtime::{Labels, Runtime};
pub use sight::Sight;
