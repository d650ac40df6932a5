//! The library that is put under stress, beside the one that is installed.

use crate::library;
use crate::programs;
use std::path::PathBuf;

/// Variables that put a program on it under stress.
pub(crate) const VARIABLES: [&str; 3] =
    ["PLIMSOLL_GC_STRESS", "PLIMSOLL_GC_SEED", "PLIMSOLL_GC_FAIL"];

/// Its path.
pub(crate) fn built() -> PathBuf {
    library::find("libplimsoll_gc_stressed.so")
}

/// A directory for a program that gets these variables: with this library if one of them asks for
/// stress, else with the one that is installed. Every test binary has its own.
pub(crate) fn library_for(of: &str, variables: &[(&str, &str)]) -> PathBuf {
    if !variables.iter().any(|(name, _)| VARIABLES.contains(name)) {
        return programs::library(of);
    }
    let directory = programs::temporary().join(format!("{of}-stressed"));
    library::link_to(&directory, &built());
    directory
}
