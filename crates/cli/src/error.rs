//! Why a command failed, and its exit status.

use crate::programs::ProgramsError;
use std::io;
use std::path::PathBuf;

/// Exit status of a failed command.
pub const FAILED: u8 = 1;
/// Exit status when the command line is invalid.
pub const USAGE: u8 = 2;
/// Exit status of `run` when plimsoll itself failed.
pub const RUN_FAILED: u8 = 125;
/// Exit status of `run` when the program cannot be executed.
pub const CANNOT_EXECUTE: u8 = 126;
/// Exit status of `run` when the program was not found.
pub const NOT_FOUND: u8 = 127;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CliError {
    #[error("no broker answers at {}: start a program with `plimsoll run`, or start plimsolld; `plimsoll \
             doctor` says more", socket.display())]
    NoBroker { socket: PathBuf },
    #[error("the broker could not be started: {0}")]
    NotStarted(String),
    #[error("the broker refused: {0}")]
    Refused(String),
    /// The user asked for something that no broker gives; in other errors no broker is there to give it.
    #[error("the broker refused: {0}")]
    Asked(String),
    #[error(transparent)]
    Client(plimsoll_client::Error),
    #[error("no principal is called `{0}`; `plimsoll ps` lists them")]
    NoSuchPrincipal(String),
    #[error("several principals are called `{name}`; give the number of one:\n{candidates}")]
    Ambiguous { name: String, candidates: String },
    #[error("no process has the number {0}, or it has ended")]
    NoSuchProcess(u32),
    #[error(transparent)]
    Held(#[from] plimsoll_runtimes::adapter_lock::Held),
    #[error("there is no process in `{0}`")]
    NoProcesses(String),
    #[error(
        "there is no memory cgroup {}: give its path as below /sys/fs/cgroup, or as in /proc/PID/cgroup",
        .0.display()
    )]
    NoSuchGroup(PathBuf),
    #[error("{0}")]
    Kernel(String),
    #[error("{program}: not found; give its path, or put its directory into PATH")]
    ProgramNotFound { program: String },
    #[error("{program}: cannot be executed: {source}")]
    NotExecutable { program: String, source: io::Error },
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    #[error("{}: {source}", path.display())]
    Path { path: PathBuf, source: io::Error },
    #[error("cwd {}: {source}", path.display())]
    Cwd { path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
    #[error("{0}")]
    Pin(String),
    #[error(
        "`plimsoll {0}` is in `plimsoll-lab`, which is not installed: install the package plimsoll-lab, or \
             put the program beside plimsoll or into PATH"
    )]
    NoLab(String),
    #[error("{0}")]
    Usage(String),
}

impl CliError {
    /// The exit status of every command but `run`.
    pub fn status(&self) -> u8 {
        match self {
            CliError::Usage(_) | CliError::Asked(_) => USAGE,
            _ => FAILED,
        }
    }

    /// The exit status of `run`, as with `env`, `nice` and `timeout`.
    pub fn run_status(&self) -> u8 {
        match self {
            CliError::Usage(_) | CliError::Asked(_) => USAGE,
            CliError::ProgramNotFound { .. } => NOT_FOUND,
            CliError::NotExecutable { .. } => CANNOT_EXECUTE,
            _ => RUN_FAILED,
        }
    }

    /// Wraps the error of a system call that should not fail.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CliError {
        move |source| CliError::System {
            what,
            source: source.into(),
        }
    }

    /// Wraps an error on a path.
    pub fn path<E: Into<io::Error>>(path: impl Into<PathBuf>) -> impl FnOnce(E) -> CliError {
        move |source| CliError::Path {
            path: path.into(),
            source: source.into(),
        }
    }
}
