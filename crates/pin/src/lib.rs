//! Finds the file pages that are worth keeping in memory, and keeps them.
//!
//! When memory is short, Linux gives up pages of files before it swaps, and programs read them from
//! disk again and again (Nakaike et al., "Performance Characteristics of Linux for Java Workloads
//! Oversubscribing Memory"). [`Pinner`] watches programs from outside, finds those pages, and keeps
//! them by locking the same pages of the same files from its own process. The programs are never
//! touched.
//!
//! | word | meaning |
//! |---|---|
//! | *look* | reading which file pages one process has mapped and present |
//! | *round* | a look at every program that is watched |
//! | *block* | 16 pages of a file (64 KiB with pages of 4 KiB): the unit of evidence |
//! | *lost* | a page was mapped and present in one round, and is mapped but absent in a later one |
//! | *refault* | a lost page is present again |
//! | *window* | the time over which refaults are counted, seconds |
//! | *value* | the cost of losing a page: time spent reading it again, ns a second |
//! | *budget* | the most bytes that are ever held |
//! | *allowance* | the most bytes that may be held now: less than the budget when memory is short |
//! | *held* | locked by us |
//!
//! Data flows one way: look -> [`Evidence`] -> rank -> hold -> [`Report`]. [`Pinner::tick`] does a
//! bounded part of that; there is no thread inside.
//!
//! Rooms inside, each imports only from those before it:
//! - [`pages`] (runs and sets of file pages), [`error`] (refusals), [`options`] (the user's options),
//!   [`descriptors`] (the division of open files), [`limits`] (limits that were reached);
//! - [`filesystem`] (file systems on which pages are held), [`mapped_pages`] (one process), [`refaults`]
//!   (pages that were lost and came back; pure), [`open_mapped`] (opening the file that a process has
//!   mapped);
//! - [`cost`] (the time of a read from each disk), [`rank`] (the order of pages by value; pure),
//!   [`allowance`] (the allowance now), [`locked_files`] (mapping and locking);
//! - [`report`] (the report), [`pinner`] (the loop over all of these).

// A set of pages is often one run.
#![cfg_attr(test, allow(clippy::single_range_in_vec_init))]

pub mod allowance;
pub mod cost;
pub mod descriptors;
pub mod error;
pub mod filesystem;
pub mod limits;
pub mod locked_files;
pub mod mapped_pages;
pub mod open_mapped;
pub mod options;
pub mod pages;
pub mod pinner;
pub mod rank;
pub mod refaults;
pub mod report;

pub use error::PinError;
pub use options::{Options, Programs};
pub use pinner::Pinner;
pub use refaults::Evidence;
pub use report::Report;

/// A file that tests make up.
#[cfg(test)]
fn key(inode: u64) -> plimsoll_kernel::smaps::FileKey {
    plimsoll_kernel::smaps::FileKey {
        inode,
        ..Default::default()
    }
}
