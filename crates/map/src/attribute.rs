//! Counts the states of each label's pages.

use crate::area::{Kind, States};
use serde::Serialize;

/// One area of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AreaOf {
    /// What it is for.
    pub kind: Kind,
    /// Its memory.
    #[serde(flatten)]
    pub states: States,
}

/// The areas of a process with their states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Picture {
    /// As the kernel counts the process (`smaps`). The areas sum up to it.
    pub total: States,
    /// The areas that have memory, in the order of [`Kind`].
    pub areas: Vec<AreaOf>,
    /// What could not be told apart, and why.
    pub notes: Vec<String>,
}
