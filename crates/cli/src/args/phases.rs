//! `--phases`: in which order the threads of a Java program run.

use super::number::bytes;
use clap::{Args, ValueEnum};
use plimsoll_phases::Lever;
use plimsoll_policy::phases::Rule;

/// How the threads of a program are ordered.
#[derive(Clone, Copy, Debug, Args)]
pub struct Phases {
    /// Order the threads of a Java program by what they allocate, as long as it gets no less done
    #[arg(long, value_enum, value_name = "ORDER")]
    pub phases: Option<PhasesChoice>,
    /// With --phases mqrr: how much a thread allocates in a turn
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = bytes, requires = "phases")]
    pub phases_quantum: u64,
    /// With --phases: how a thread is held back (nice if that can be undone, else slices, when absent)
    #[arg(long, value_enum, value_name = "HOW", requires = "phases")]
    pub phases_lever: Option<LeverChoice>,
    /// With --phases: do not compare with the kernel's order, and never withdraw; for measurements
    #[arg(long, requires = "phases")]
    pub phases_always: bool,
}

/// An order of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PhasesChoice {
    /// Lower allocation rate first: threads that compute go before threads that allocate
    Larf,
    /// Memory-quantum round robin: each in turn, until it has allocated its quantum
    Mqrr,
}

impl From<PhasesChoice> for Rule {
    fn from(choice: PhasesChoice) -> Rule {
        match choice {
            PhasesChoice::Larf => Rule::Larf,
            PhasesChoice::Mqrr => Rule::Mqrr,
        }
    }
}

/// How a thread is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LeverChoice {
    /// By the idle policy: it runs where nobody else wants to
    Idle,
    /// By the highest nice level
    Nice,
    /// By a longer slice: needs no rights, and takes no time from it
    Slices,
}

impl From<LeverChoice> for Lever {
    fn from(choice: LeverChoice) -> Lever {
        match choice {
            LeverChoice::Idle => Lever::Idle,
            LeverChoice::Nice => Lever::Nice,
            LeverChoice::Slices => Lever::Slices,
        }
    }
}
