//! Limits of watching, holding and reporting; a limit that is reached is reported. The fields are a
//! contract of `plimsoll pin --json`.

use serde::Serialize;

/// A limit: memory beyond it is not watched, not held or not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Processes.
    Processes,
    /// Cgroups of the programs.
    Groups,
    /// Files that are followed.
    Files,
    /// Mappings of files that are followed.
    Mappings,
    /// Pages in use that are followed.
    Pages,
    /// The areas that are read of one process.
    Look,
    /// Questions to the page cache.
    PageCache,
    /// Files with held pages.
    HeldFiles,
    /// Ranges that are held.
    Ranges,
    /// Files and processes that are passed over and reported.
    Passed,
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// Which.
    pub limit: Limit,
    /// The consequence, a sentence.
    pub reason: String,
}
