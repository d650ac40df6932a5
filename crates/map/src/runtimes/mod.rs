//! The runtimes, a module each, and what they share.
//!
//! | module | is |
//! |---|---|
//! | [`hotspot`], [`go`], [`v8`], [`cpython`], [`libgc`] | the runtimes |
//! | `process_words` | words of a process's memory, and ranges of its addresses |

pub mod cpython;
pub mod go;
pub mod hotspot;
pub mod libgc;
mod process_words;
#[cfg(test)]
mod random_memory;
pub mod v8;

use crate::labels::Labeller;

/// The known runtimes, in the order in which they are asked.
pub const ALL: &[&dyn Labeller] = &[
    &hotspot::HotSpot,
    &go::Go,
    &cpython::CPython,
    &v8::V8,
    &libgc::LibGc,
    &libgc::LinkedLibGc,
];
