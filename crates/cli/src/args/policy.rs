//! `--policy`: what decides how large a heap may be.

use clap::ValueEnum;
use plimsoll_runtimes::Policy;
use serde::Deserialize;

/// What decides the size of the heap of a steered program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyChoice {
    /// The broker's limit
    #[default]
    Limit,
    /// The program's own allocation stalls: needs no broker, and if one runs, its limit holds too
    IslaVista,
}

impl From<PolicyChoice> for Policy {
    fn from(choice: PolicyChoice) -> Policy {
        match choice {
            PolicyChoice::Limit => Policy::Limit,
            PolicyChoice::IslaVista => Policy::IslaVista,
        }
    }
}
