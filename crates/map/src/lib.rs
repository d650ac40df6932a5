//! Which area of a program each page belongs to, and in which state it is.
//!
//! | word | meaning |
//! |---|---|
//! | *mapping* | a part of an address space as the kernel lists it (a VMA) |
//! | *area* | what memory is for: eden, code, stacks, … ([`Kind`]) |
//! | *label* | says that a range of addresses belongs to an area |
//! | *state* | resident, swapped, cached, shared, referenced, refaulted: bytes ([`States`]) |
//! | *part* | a range of one mapping that belongs to one area ([`parts::Part`]) |
//! | *snapshot* | what was read of a process in one look ([`Snapshot`]) |
//! | *picture* | the areas of a process with their states ([`Picture`]) |
//! | *view* | one of several mappings of the same part of a file |
//!
//! Data flows one way: look (read a [`Snapshot`]) -> label (a [`Labeller`] says what its ranges are;
//! [`native`] says it of the rest) -> cut into parts -> count their pages -> attribute (divide what
//! the kernel counted of each mapping) -> [`Picture`]. Nothing of the process is touched: memory of
//! it is read only where it is resident, and its files so that the page cache stays as it was.
//!
//! # Map
//! Each imports only from those before it.
//!
//! | module | is |
//! |---|---|
//! | [`area`], [`memory`], [`snapshot`] | kinds and states; words of another process; what was read |
//! | `area_style` | the colour of each area |
//! | [`labels`], [`runtimes`], [`native`] | the trait; the runtimes; what every program has |
//! | [`parts`], [`tally`] | parts of mappings; the states of pages, and their sums |
//! | `multiply_mapped`, [`count`] | files that are mapped several times; the pages of parts |
//! | [`cached_files`] | what of mapped files is in the page cache |
//! | [`history`] | which pages left memory and came back, from look to look; pure |
//! | `apportion`, [`attribute`], `caveats` | dividing what the kernel counted; pure; what it does not say |
//! | [`change`], [`sharers`] | what happened between two looks; who else maps the same files |
//! | `label_and_count` | labels and counts, side by side with the kernel's own counting |
//! | [`look`](mod@look), [`watch`] | all of it, for one process; again and again |
//! | [`report`] | several processes and their sum |

mod apportion;
pub mod area;
mod area_style;
pub mod attribute;
pub mod cached_files;
mod caveats;
pub mod change;
pub mod count;
pub mod history;
mod label_and_count;
pub mod labels;
pub mod look;
pub mod memory;
mod multiply_mapped;
pub mod native;
pub mod parts;
pub mod report;
pub mod runtimes;
pub mod sharers;
pub mod snapshot;
pub mod tally;
pub mod watch;

pub use area::{Kind, States};
pub use attribute::Picture;
pub use labels::{Labeller, Labels};
pub use look::{Look, LookError, Options, look};
pub use report::{Failed, Report};
pub use snapshot::Snapshot;
pub use watch::Watch;
