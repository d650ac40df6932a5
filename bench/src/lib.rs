//! The measurements. How to add one: docs/src/adding-a-measurement.md.
//!
//! Floor by floor, from the top; nothing imports from above:
//! - [`docs`]: the list of measurements and what they came to, written into the docs;
//! - [`scenarios`]: the measurements, one file or folder each, and the list of them;
//! - [`measurement`]: what a measurement is;
//! - [`runner`]: what runs one: repetition, order, where results go;
//! - [`harness`]: has programs run under real memory limits, and watches them;
//! - [`report`]: tables, pictures, pages; [`progress`]: what goes on; `error`: what can go wrong.

pub mod docs;
mod error;
pub mod harness;
pub mod measurement;
pub mod progress;
pub mod report;
pub mod runner;
pub mod scenarios;

pub use error::{Error, Result};
