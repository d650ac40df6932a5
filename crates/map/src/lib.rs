//! Which area of a program each page belongs to, and in which state it is.
//!
//! | word | meaning |
//! |---|---|
//! | *mapping* | a part of an address space as the kernel lists it (a VMA) |
//! | *area* | what memory is for: eden, code, stacks, … ([`Kind`]) |
//! | *label* | says that a range of addresses belongs to an area |
//! | *state* | resident, swapped, cached, shared, referenced, refaulted: bytes ([`States`]) |
//! | *part* | a range of one mapping that belongs to one area ([`parts::Part`]) |
//! | *sight* | what was read of a process in one look ([`Sight`]) |
//! | *picture* | the areas of a process with their states ([`Picture`]) |
//! | *view* | one of several mappings of the same part of a file |
//!
//! Data flows one way: look (read a [`Sight`]) -> label (a [`Labeller`] says what its ranges are;
//! [`native`] says it of the rest) -> cut into parts -> count their pages -> attribute (divide what
//! the kernel counted of each mapping) -> [`Picture`]. Nothing of the process is touched: memory of
//! it is read only where it is resident, and its files so that the page cache stays as it was.
//!
//! # Map
//! Each imports only from those before it.
//!
//! | module | is |
//! |---|---|
//! | [`area`], [`memory`], [`sight`] | kinds and states; words of another process; what was read |
//! | `shown` | the colour of each area |
//! | [`labels`], [`runtimes`], [`native`] | the trait; the runtimes; what every program has |
//! | [`parts`], [`tally`] | parts of mappings; the states of pages, and their sums |
//! | `views`, [`count`] | files that are mapped several times; the pages of parts |
//! | [`cached`] | what of mapped files is in the page cache |
//! | [`history`] | which pages left memory and came back, from look to look; pure |
//! | `proportion`, [`attribute`], `notes` | dividing what the kernel counted; pure; what it does not say |
//! | [`change`], [`who`] | what happened between two looks; who else maps the same files |
//! | `found` | labels and counts, side by side with the kernel's own counting |
//! | [`look`](mod@look), [`watch`] | all of it, for one process; again and again |
//! | [`report`] | several processes and their sum |

pub mod area;
pub mod attribute;
pub mod cached;
pub mod change;
pub mod count;
mod found;
pub mod history;
pub mod labels;
pub mod look;
pub mod memory;
pub mod native;
mod notes;
pub mod parts;
mod proportion;
pub mod report;
pub mod runtimes;
mod shown;
pub mod sight;
pub mod tally;
mod views;
pub mod watch;
pub mod who;

pub use area::{Kind, States};
pub use attribute::Picture;
pub use labels::{Labeller, Labels};
pub use look::{Look, LookError, Options, look};
pub use report::{Failed, Report};
pub use sight::Sight;
pub use watch::Watch;
