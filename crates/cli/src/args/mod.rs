//! The one definition of every command and flag. The parser, the help, the man pages and the
//! completions come from here, so the comments below are their text.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `adapter` | `--adapter` |
//! | `lever` | a flag for each option of a lever |
//! | `phases` | `--phases` |
//! | `check` | names, by the broker's rules |
//! | [`number`] | numbers and sizes |
//! | `map` | `plimsoll map` |
//! | `pin` | `plimsoll pin` |
//! | `watching` | `plimsoll metrics`, `plimsoll events` |

mod adapter;
mod check;
mod lever;
mod map;
pub mod number;
mod phases;
mod pin;
mod watching;

pub use adapter::AdapterChoice;
pub use check::check_name;
pub use lever::LeverOptions;
pub use map::Map;
pub use phases::{LeverChoice, Phases, PhasesChoice};
pub use pin::Pin;
pub use watching::{Events, Metrics};

use crate::size::{most, most_or_none};
use clap::{Args, Parser, Subcommand};
use plimsoll_wire::messages::{Priority, Weight};
use plimsoll_wire::size::Size;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable with the path of the broker's socket.
pub const SOCKET: &str = "PLIMSOLL_SOCKET";

/// The text below the help of commands that run no program.
pub const EXIT_CODES: &str = "\
Exit status:
  0    done
  1    not done; the message says why
  2    the command line is invalid";

/// The text below the help of those that run one.
pub const RUN_EXIT_CODES: &str = "\
Exit status:
  0    done
  1    not done: no broker, refused, or no such program; the message says which
  2    the command line is invalid
`plimsoll run` exits with the program's status, 128+N when signal N ended it, 125 when plimsoll \
itself failed, 126 when the program cannot be executed, 127 when it was not found.";

/// Memory shared by weight between programs that could use less or more of it.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = RUN_EXIT_CODES, disable_help_subcommand = true)]
#[command(
    infer_subcommands = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Path of the broker's socket, instead of that of the user's or the system's broker
    #[arg(long, value_name = "PATH", env = SOCKET)]
    pub socket: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The broker's socket, if one is given. After the command it counts more than before it.
    pub fn socket(&self) -> Option<&Path> {
        let at = match &self.command {
            Command::Run(args) => &args.at,
            Command::Adopt(args) => &args.at,
            Command::Top(args) => &args.at,
            Command::Ps(args) => &args.at,
            Command::Explain(args) => &args.at,
            Command::Metrics(args) => &args.at,
            Command::Events(args) => &args.at,
            Command::Set(args) => &args.at,
            Command::Map(args) => &args.at,
            Command::Doctor(args) => &args.at,
            Command::Broker(args) => &args.at,
            _ => &None,
        };
        let own = at.as_ref().and_then(|at| at.socket.as_deref());
        own.or(self.socket.as_deref())
    }
}

/// Where the broker is. Only commands that ask one have it.
#[derive(Clone, Debug, Args)]
pub struct At {
    /// Path of the broker's socket, instead of that of the user's or the system's broker (also
    /// PLIMSOLL_SOCKET)
    #[arg(long, value_name = "PATH", id = "at")]
    pub socket: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program, or several, under the broker
    Run(Run),
    /// Bring a program that already runs under the broker
    Adopt(Adopt),
    /// Watch how much memory each principal has, could have and owes
    Top(Top),
    /// List principals and their memory
    Ps(Ps),
    /// Tell why a principal may use as much as it may, who has the rest, and what would help
    Explain(Explain),
    /// Print or serve the broker's numbers for Prometheus
    Metrics(Metrics),
    /// Follow what happens: who joins, owes, pays, has memory taken, and leaves
    Events(Events),
    /// Change a principal's weight, priority, maximum or parent
    Set(Set),
    /// Show where the memory of programs is: by area and state, resident, swapped or cached
    Map(Map),
    /// Keep file pages in memory that programs lose and read again
    Pin(Pin),
    /// Simulate the threads of a trace under schedulers and collectors
    Sim(Elsewhere),
    /// Simulate several traces in one memory, under the broker or a heap policy
    Together(Elsewhere),
    /// Look at, check, convert, merge or make up traces of what threads allocate and lock
    Trace(Elsewhere),
    /// Show what this kernel and your rights allow, and what each missing thing costs
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write the man pages of all commands into a directory
    Man(Man),
    /// Run the broker of this user
    #[command(hide = true)]
    Broker(Broker),
    /// Give the threads of a process back what `run --phases` changed, once standard input ends
    #[command(hide = true)]
    UndoPhases(UndoPhases),
}

impl Command {
    /// Whether it runs a program of the user's, whose exit status becomes ours.
    pub fn runs_a_program(&self) -> bool {
        matches!(self, Command::Run(_))
    }
}

/// The settings of a principal, for both `run` and `adopt`.
#[derive(Clone, Debug, Default, Args)]
pub struct Principal {
    /// Weight relative to its siblings, 1 to 10000 (100 when absent)
    #[arg(short, long, value_name = "W", allow_negative_numbers = true)]
    pub weight: Option<Weight>,
    /// Priority class, -100 to 100: a higher class is served first (0 when absent)
    #[arg(short, long, value_name = "P", allow_negative_numbers = true)]
    pub priority: Option<Priority>,
    /// Name in ps and top (when absent, that of the jar, main class, module, script or file)
    #[arg(short, long, value_parser = check_name)]
    pub name: Option<String>,
    /// Most memory that it may use: 512M, 1.5G, 50%
    #[arg(short, long, value_name = "SIZE", allow_negative_numbers = true, value_parser = most)]
    pub max: Option<Size>,
    /// How the program is steered
    #[arg(short, long, value_enum, default_value_t)]
    pub adapter: AdapterChoice,
    /// The options of levers.
    #[command(flatten)]
    pub lever: LeverOptions,
}

/// `plimsoll run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXIT_CODES, override_usage = "\
plimsoll run [OPTIONS] [--] PROGRAM [ARGS]...
       plimsoll run [--record FILE [--interval MS]] [--top] -f PROGRAMS.TOML")]
pub struct Run {
    /// The settings of the program's principal.
    #[command(flatten)]
    pub principal: Principal,
    /// In which order its threads run.
    #[command(flatten)]
    pub phases: Phases,
    /// Report each step on standard error
    #[arg(short, long)]
    pub verbose: bool,
    /// Say nothing but warnings
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Write our own messages to this file instead of standard error (- is standard error)
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// Run the programs of this file under one budget
    #[arg(short, long, value_name = "PROGRAMS.TOML", conflicts_with_all =
        ["program", "weight", "priority", "name", "max", "adapter", lever::GROUP, "phases"])]
    pub file: Option<PathBuf>,
    /// With -f: write the output of `ps --json` to this file, one line per interval
    #[arg(long, value_name = "FILE", requires = "file")]
    pub record: Option<PathBuf>,
    /// With --record: milliseconds between two lines (100 to 60000)
    #[arg(long, value_name = "MS", default_value_t = 1000, requires = "record",
        value_parser = number::within::<u64>(100..=60_000))]
    pub interval: u64,
    /// With -f: show the live screen while the programs run
    #[arg(long, requires = "file")]
    pub top: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required_unless_present = "file"
    )]
    pub program: Vec<OsString>,
}

/// `plimsoll adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Process number; the descendants are adopted too
    #[arg(value_name = "PID", value_parser = number::pid::<u32>)]
    pub pid: u32,
    /// The settings of its principal.
    #[command(flatten)]
    pub principal: Principal,
    /// Also adopt the first process of a container, or one with more than 100 descendants
    #[arg(long)]
    pub whole: bool,
    /// Go on in the background until the program ends
    #[arg(short, long)]
    pub detach: bool,
    /// Close standard output once the process is adopted, which `--detach` waits for
    #[arg(long, hide = true, env = "PLIMSOLL_TELL_WHEN_DONE")]
    pub tell_when_done: bool,
    /// Report each step on standard error
    #[arg(short, long)]
    pub verbose: bool,
    /// Say nothing but warnings
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Print one frame as text and exit
    #[arg(long)]
    pub once: bool,
    /// With --once: show the details of this principal instead of the table
    #[arg(short = 'g', long, value_name = "NAME|ID", requires = "once")]
    pub collector: Option<String>,
    /// Milliseconds between two updates (100 to 60000)
    #[arg(short, long, value_name = "MS", default_value_t = 1000,
        value_parser = number::within::<u64>(100..=60_000))]
    pub interval: u64,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll ps`.
#[derive(Debug, Args)]
pub struct Ps {
    /// Print JSON, for programs: a tree of principals, in exact bytes
    #[arg(long)]
    pub json: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Name of the principal, or its number when several have the name
    #[arg(value_name = "NAME|ID")]
    pub which: String,
    /// Print JSON, for programs: the reason, the numbers and the sentences
    #[arg(long)]
    pub json: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct Set {
    /// Name of the principal, or its number when several have the name
    #[arg(value_name = "NAME|ID")]
    pub which: String,
    /// Weight relative to its siblings, 1 to 10000 (a program without one has 100)
    #[arg(
        short,
        long,
        value_name = "W",
        allow_negative_numbers = true,
        group = "change"
    )]
    pub weight: Option<Weight>,
    /// Priority class, -100 to 100: a higher class is served first
    #[arg(
        short,
        long,
        value_name = "P",
        allow_negative_numbers = true,
        group = "change"
    )]
    pub priority: Option<Priority>,
    /// Weight of its own memory against that of its children, 1 to 10000
    #[arg(
        long,
        value_name = "W",
        allow_negative_numbers = true,
        group = "change"
    )]
    pub own_weight: Option<Weight>,
    /// Priority class of its own memory among its children, -100 to 100
    #[arg(
        long,
        value_name = "P",
        allow_negative_numbers = true,
        group = "change"
    )]
    pub own_priority: Option<Priority>,
    /// Most memory that it may use: 512M, 1.5G, 50%; 0 removes the bound
    #[arg(
        short,
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        value_parser = most_or_none,
        group = "change"
    )]
    pub max: Option<Size>,
    /// Move it below this principal
    #[arg(long, value_name = "NAME|ID", group = "change")]
    pub parent: Option<String>,
    /// Do not say what was changed
    #[arg(short, long)]
    pub quiet: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// A command of `plimsoll-lab`, which reads its arguments.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Elsewhere {
    /// The arguments of the command
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub args: Vec<OsString>,
}

/// `plimsoll completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `plimsoll man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Directory for the pages; made when it is absent
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// `plimsoll broker`, started by `plimsoll run` and `adopt` where no broker runs.
#[derive(Debug, Args)]
pub struct Broker {
    /// Exit some seconds after the last principal is gone
    #[arg(long, hide = true)]
    pub embedded: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll undo-phases`, started by `plimsoll run --phases`.
#[derive(Debug, Args)]
pub struct UndoPhases {
    /// Words that say which changes to undo
    #[arg(value_name = "WORD", allow_hyphen_values = true)]
    pub words: Vec<String>,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
