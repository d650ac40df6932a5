//! Units of memory and time, each once in the project.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `memory` | [`Bytes`] and [`Pages`], and [`KIB`], [`MIB`], [`GIB`] and [`PAGE`] in bytes |
//! | `time` | [`Nanos`], and [`MICROSECOND`], [`MILLISECOND`] and [`SECOND`] in nanoseconds |
//! | [`float`] | the same numbers for arithmetic with fractions |
//! | [`index`] | the same numbers for lengths and offsets in memory |
//!
//! # Invariants
//!
//! Arithmetic saturates: no operation here panics or wraps. Nothing here reads a clock, and nothing asks the
//! system for its page size.

#![no_std]
#![forbid(unsafe_code)]

mod memory;
mod time;

pub use memory::{Bytes, GIB, KIB, MB, MIB, PAGE, Pages};
pub use time::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// The numbers as floats. Each is exact.
pub mod float {
    /// Bytes of a kibibyte.
    pub const KIB: f64 = super::KIB as f64;
    /// Bytes of a mebibyte.
    pub const MIB: f64 = super::MIB as f64;
    /// Nanoseconds of a millisecond.
    pub const MILLISECOND: f64 = super::MILLISECOND as f64;
    /// Nanoseconds of a second.
    pub const SECOND: f64 = super::SECOND as f64;
}

/// The numbers as lengths and offsets.
pub mod index {
    /// Bytes of a kibibyte.
    pub const KIB: usize = 1 << 10;
    /// Bytes of a mebibyte.
    pub const MIB: usize = 1 << 20;
    /// Bytes of a page.
    pub const PAGE: usize = 4096;

    const _: () = assert!(KIB as u64 == super::KIB, "one kibibyte");
    const _: () = assert!(MIB as u64 == super::MIB, "one mebibyte");
    const _: () = assert!(PAGE as u64 == super::PAGE, "one page");
}

const _: () = assert!((1u64 << 53) > GIB * KIB, "a float holds them exactly");
