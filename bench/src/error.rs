//! Errors of measurements. Each message says what happened, to what, and what to do.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement has no result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
    /// A file or a folder cannot be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A program that a measurement runs is missing.
    #[error(
        "cannot start {program}: {source} (`make bench-NAME` builds and fetches what NAME runs)"
    )]
    Start { program: String, source: io::Error },
    /// A library that is loaded into a program, or a compiler, is missing.
    #[error(
        "{} is missing: {why} (`make bench-NAME` builds and fetches what NAME runs)",
        path.display()
    )]
    Missing { path: PathBuf, why: String },
    /// We lack the rights to make a cgroup, a swap file or the like.
    #[error("no {what}: {source} (run the measurements as root)")]
    Ground {
        what: &'static str,
        source: plimsoll_kernel::Error,
    },
    /// A program printed something that is not what it prints.
    #[error(
        "what {program} printed cannot be read: {source} (are it and this program of one build?)"
    )]
    Output {
        program: &'static str,
        source: serde_json::Error,
    },
    /// A program ended before it printed what it always prints.
    #[error("{program} ended before it told {figure}; run it by hand to see why")]
    Ended {
        program: String,
        figure: &'static str,
    },
    /// The system does not let us wait for something.
    #[error("cannot wait for {what}: {source}")]
    Wait {
        what: &'static str,
        source: io::Error,
    },
    /// A server that is under load gives no answer.
    #[error("the server at {server} does not answer: {source}")]
    NoAnswer {
        server: SocketAddr,
        source: io::Error,
    },
    /// A thread of the harness cannot be started.
    #[error("cannot start a thread of {what}: {source}")]
    Thread {
        what: &'static str,
        source: io::Error,
    },
    /// A trace cannot be made or read.
    #[error("{0}")]
    Trace(#[from] plimsoll_trace::TraceError),
    /// A program has no map.
    #[error("{0}")]
    Map(#[from] plimsoll_map::LookError),
    /// A simulation of threads has no outcome.
    #[error("{0}")]
    Simulation(#[from] plimsoll_sim::threads::SimError),
    /// A simulation of programs that share memory has no outcome.
    #[error(transparent)]
    Model(#[from] plimsoll_sim::together::Error),
    /// The kernel refused something else.
    #[error(transparent)]
    Kernel(#[from] plimsoll_kernel::Error),
    /// The broker did not answer, or refused.
    #[error(transparent)]
    Broker(#[from] plimsoll_client::Error),
    /// A scenario has a number that the broker does not take.
    #[error(transparent)]
    Wire(#[from] plimsoll_wire::varlink::WireError),
    /// The broker of the run ended as soon as it was started.
    #[error("plimsolld ended at once ({status}): {log}")]
    BrokerEnded { status: ExitStatus, log: String },
    /// The broker of the run runs, but did not open its socket in time.
    #[error("plimsolld did not open {} within {seconds} s: {log}", socket.display())]
    BrokerSilent {
        socket: PathBuf,
        seconds: u64,
        log: String,
    },
    /// The broker has no principal of this name.
    #[error("{name} is not among the principals: its program may have ended early")]
    NoPrincipal { name: String },
    /// A page file of the broker cannot be mapped as one.
    #[error(
        "{} is no availability page: {why} (are the broker and this program of one build?)",
        path.display()
    )]
    Page { path: PathBuf, why: String },
    /// A program ended or went on without the result that the measurement needs.
    #[error("{program}: {what}")]
    Program { program: String, what: String },
    /// A thread of the harness panicked.
    #[error("{0} panicked, as said above")]
    Panicked(&'static str),
    /// The virtual machine returned no figures.
    #[error("nothing was measured in the guest: {0}")]
    Guest(String),
    /// A measurement was asked to run in a guest that it does not have.
    #[error("{0} has no such variant: `--inside` is for the guests that it boots")]
    NoGuest(&'static str),
    /// The outcome of a run was printed for the machine that asked for it. Ends all that would follow.
    #[error("the run was made")]
    Answered,
    /// An option would change nothing.
    #[error(
        "{name} does not take `{flag}`, and would ignore it: leave it out, or name one of those that take \
         it: {}",
        takes.join(", ")
    )]
    NotTaken {
        name: String,
        flag: &'static str,
        takes: Vec<&'static str>,
    },
    /// `--only` left nothing to measure.
    #[error(
        "no variant's name contains {only:?}: nothing was measured (names are in the first column)"
    )]
    NoVariant { only: String },
    /// A recorded result or plot cannot be read.
    #[error("{} is not what a measurement records: {source}; measure again", path.display())]
    Recorded {
        path: PathBuf,
        source: serde_json::Error,
    },
    /// The time that was given is over.
    #[error(
        "stopped, since {minutes} minutes are over or the next run may take longer; all runs until here are \
         kept, and the same command goes on with {name}"
    )]
    Unfinished { name: &'static str, minutes: u64 },
    /// Rows of another recording are there.
    #[error(
        "a recording of {name} at {commit} was cut, of another commit, machine or part than this one: go on \
         with that one, or begin anew with --again (its rows are in {})",
        folder.display()
    )]
    Begun {
        name: &'static str,
        commit: String,
        folder: PathBuf,
    },
    /// The outcome of a run cannot be kept, or not be read again.
    #[error("the outcome of {variant:?} is no row, or not one of this program: {source}")]
    Unreadable {
        variant: String,
        source: serde_json::Error,
    },
    /// A document lacks the lines between which a table belongs.
    #[error("{} lacks the lines {begin:?} and {end:?}: put them around the table", path.display())]
    Marks {
        path: PathBuf,
        begin: &'static str,
        end: &'static str,
    },
    /// A row of the README's table names no target of a measurement.
    #[error(
        "bench/results/{measurement}.json has no target that begins with {claim:?}: name another in ROWS \
         (bench/src/docs.rs), or measure again"
    )]
    NoTarget {
        measurement: &'static str,
        claim: &'static str,
    },
    /// Some of several measurements failed, each with a message of its own.
    #[error("{} of the measurements failed or are not finished: {}", .0.len(), .0.join(", "))]
    Several(Vec<&'static str>),
}

impl Error {
    /// Makes an error from a failed operation ("read", "write", ...) on a file.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File {
            doing,
            path,
            source,
        }
    }

    /// Makes an error from a program that could not be started.
    pub(crate) fn start(command: &std::process::Command) -> impl FnOnce(io::Error) -> Error {
        let program = command.get_program().to_string_lossy().into_owned();
        move |source| Error::Start { program, source }
    }

    /// Makes an [`Error::Program`] from the program's name and what it did wrong.
    pub(crate) fn program(program: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Program {
            program: program.into(),
            what: what.into(),
        }
    }
}
