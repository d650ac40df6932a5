//! `plimsoll trace`.

use clap::{Args, Subcommand, ValueEnum};
use plimsoll_cli::args::number;
use plimsoll_trace::synth::table::PROGRAMS;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `plimsoll trace`.
#[derive(Clone, Debug, Args)]
#[command(after_help = plimsoll_cli::args::RUN_EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct Trace {
    /// The command for existing traces.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The arguments of a recording.
    #[command(flatten)]
    pub record: Record,
}

/// `plimsoll trace -o FILE -- java …`.
#[derive(Clone, Debug, Args)]
pub struct Record {
    /// Record a Java program into this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep the raw trace, with reference stores and without deaths (`trace deaths` computes them)
    #[arg(long, conflicts_with = "sampled")]
    pub raw: bool,
    /// Lighter: watch one object of each group of 16, and report a death when a collection finds it
    #[arg(long)]
    pub sampled: bool,
    /// The program: `java` of version 17 or later, or a tool of a JDK (`javac`), and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The commands of `plimsoll trace`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show which program a trace is of, and sums over it
    Info(Info),
    /// Read a whole trace and check that it makes sense
    Verify(Verify),
    /// Print the first events of a trace
    Head(Head),
    /// Turn a trace into text or CSV, or text or CSV into a trace
    Convert(Convert),
    /// Join several files of one recording into one trace
    Merge(Merge),
    /// Compute when objects die, from a raw trace or from what a recording left
    Deaths(ComputeDeaths),
    /// Make up the trace of a program from a published table, with phases of allocation and computation
    Synth(Synth),
}

/// `plimsoll trace info`.
#[derive(Clone, Debug, Args)]
pub struct Info {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Show each thread
    #[arg(long)]
    pub threads: bool,
    /// Print JSON, for programs, in exact numbers
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll trace verify`.
#[derive(Clone, Debug, Args)]
pub struct Verify {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll trace head`.
#[derive(Clone, Debug, Args)]
pub struct Head {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// How many events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = number::from(1))]
    pub events: u64,
    /// Skip the first N events
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::from(0))]
    pub skip: u64,
    /// Only the events of this thread
    #[arg(short, long, value_name = "NUMBER", value_parser = number::within::<u32>(0..=u32::MAX))]
    pub thread: Option<u32>,
}

/// The formats that `convert` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A trace
    Trace,
    /// Lines for people, with all that a trace has
    Text,
    /// Comma-separated values: the events only
    Csv,
}

/// `plimsoll trace convert`.
#[derive(Clone, Debug, Args)]
pub struct Convert {
    /// A trace, text or CSV, which its first bytes tell apart (- is standard input, for text and CSV)
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// Where to write, as with -o
    #[arg(value_name = "INTO", conflicts_with = "output")]
    pub into: Option<PathBuf>,
    /// Where to write (standard output when absent, for text and CSV)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The format to write (when absent, a trace becomes text, and everything else becomes a trace)
    #[arg(long, value_enum)]
    pub to: Option<Form>,
    /// The CSV is of a raw trace, with reference stores
    #[arg(long)]
    pub raw: bool,
    /// How hard to compress a trace, 1 to 19
    #[arg(long, value_name = "LEVEL", value_parser = number::within::<i32>(1..=19))]
    pub level: Option<i32>,
}

impl Convert {
    /// Where to write; standard output when absent.
    pub fn place(&self) -> Option<&Path> {
        self.output.as_deref().or(self.into.as_deref())
    }
}

/// `plimsoll trace merge`.
#[derive(Clone, Debug, Args)]
pub struct Merge {
    /// The traces, each of other threads of the same recording
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `plimsoll trace deaths`.
#[derive(Clone, Debug, Args)]
pub struct ComputeDeaths {
    /// The raw traces of one recording: one of all threads, or one each, or the folder that a recording left
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `plimsoll trace synth`.
#[derive(Clone, Debug, Args)]
pub struct Synth {
    /// The program
    #[arg(value_name = "NAME", value_parser = PROGRAMS.map(|program| program.name))]
    pub program: String,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Divide objects, bytes, live size and time by this, 1 to 1000000
    #[arg(long, value_name = "N", default_value = "1", value_parser = factor)]
    pub scale: f64,
    /// Divide objects, bytes and time by this, 1 to 1000000, but for the data that the program loads first
    #[arg(long, value_name = "N", default_value = "1", value_parser = factor)]
    pub shorten: f64,
    /// The seed of all random choices; the same seed makes the same file
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::from(0))]
    pub seed: u64,
}

/// A factor by which a program is made smaller.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|it| (1.0..=1e6).contains(it));
    factor.ok_or_else(|| format!("`{text}` is no factor: give 1 to 1000000"))
}
