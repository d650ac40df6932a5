//! Why a command of the lab failed, and its exit status.

use plimsoll_cli::error::{CliError, FAILED, RUN_FAILED};
use std::io;
use std::path::PathBuf;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LabError {
    #[error(transparent)]
    Cli(#[from] CliError),
    #[error(transparent)]
    Together(#[from] plimsoll_sim::together::Error),
    #[error(transparent)]
    Trace(#[from] plimsoll_trace::TraceError),
    #[error("{}: no file of constants: {why}\n`plimsoll sim calibrate -o FILE` writes one", path.display())]
    Constants { path: PathBuf, why: String },
    #[error("{0}")]
    Simulation(String),
    #[error(
        "{}: {why}. It stays as it is: give another path, or put the file away", path.display()
    )]
    Place { path: PathBuf, why: String },
    #[error(
        "{}: {source}. What was simulated before is kept: make room, and give the same command again",
        path.display()
    )]
    NotKept { path: PathBuf, source: io::Error },
}

impl LabError {
    /// The exit status of every command that runs no program.
    pub fn status(&self) -> u8 {
        match self {
            LabError::Cli(error) => error.status(),
            _ => FAILED,
        }
    }

    /// The exit status of a recording, as of `plimsoll run`.
    pub fn run_status(&self) -> u8 {
        match self {
            LabError::Cli(error) => error.run_status(),
            _ => RUN_FAILED,
        }
    }

    /// The command line is invalid.
    pub(crate) fn usage(why: impl Into<String>) -> LabError {
        LabError::Cli(CliError::Usage(why.into()))
    }

    /// As [`CliError::system`].
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> LabError {
        move |source| CliError::system(what)(source).into()
    }

    /// As [`CliError::path`].
    pub(crate) fn path<E: Into<io::Error>>(path: impl Into<PathBuf>) -> impl FnOnce(E) -> LabError {
        move |source| CliError::path(path)(source).into()
    }
}
