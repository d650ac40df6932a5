//! The measurements. How to add one: docs/src/adding-a-measurement.md.
//!
//! Floors from the top down. No floor imports from one above:
//! - [`docs`]: writes the list of measurements and their results into the docs;
//! - [`measurements`]: the measurements, one file or folder each, and the list of them;
//! - [`measurement`]: what a measurement is;
//! - [`runner`]: runs a measurement: repetition, order, place of the results;
//! - [`harness`]: runs programs under real memory limits, and watches them;
//! - [`report`]: tables, pictures, pages; [`progress`]: the progress line; `error`: errors.

pub mod docs;
mod error;
pub mod harness;
pub mod measurement;
pub mod measurements;
pub mod progress;
pub mod report;
pub mod runner;

pub use error::{Error, Result};
