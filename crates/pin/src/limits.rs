//! Limits of what is watched, held and told, so that one that is reached can be told. The fields are a
//! contract of `plimsoll pin --json`.

use serde::Serialize;

/// A limit: what is beyond it is not watched, not held or not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Of processes.
    Processes,
    /// Of cgroups of the programs.
    Groups,
    /// Of files that are followed.
    Files,
    /// Of mappings of files that are followed.
    Mappings,
    /// Of pages in use that are followed.
    Pages,
    /// Of what is looked at in one process.
    Look,
    /// Of questions to the page cache.
    PageCache,
    /// Of files of which pages are held.
    HeldFiles,
    /// Of ranges that are held.
    Ranges,
    /// Of what is passed over and told.
    Passed,
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// Which.
    pub limit: Limit,
    /// What that means, a sentence.
    pub reason: String,
}
