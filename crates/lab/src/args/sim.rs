//! `plimsoll sim`.

use super::model::Model;
use clap::{Args, Subcommand, ValueEnum};
use plimsoll_cli::args::number::{self, bytes};
use plimsoll_policy::phases::Rule;
use plimsoll_sim::threads::heap::Algorithm;
use std::path::PathBuf;

/// `plimsoll sim`.
#[derive(Clone, Debug, Args)]
#[command(after_help = plimsoll_cli::args::EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Sim {
    /// A command other than simulating.
    #[command(subcommand)]
    pub command: Option<SimCommand>,
    /// The traces
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Which ready thread runs next; several are separated by commas
    #[arg(
        short,
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "rr,larf,mqrr"
    )]
    pub scheduler: Vec<SchedulerChoice>,
    /// How garbage is collected; several are separated by commas
    #[arg(
        short,
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "genmc"
    )]
    pub collector: Vec<CollectorChoice>,
    /// Heap size: a multiple of the largest live size (1.5) or an amount (64M); several are separated by
    /// commas
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "3", value_parser = heap)]
    pub heap: Vec<HeapChoice>,
    /// How threads are simulated.
    #[command(flatten)]
    pub model: Model,
    /// The outputs.
    #[command(flatten)]
    pub outputs: Outputs,
}

/// Where outcomes go, and which simulations are made.
#[derive(Clone, Debug, Args)]
pub struct Outputs {
    /// Print JSON, for programs, in exact numbers
    #[arg(long)]
    pub json: bool,
    /// Print the same as comma-separated values, or write them to a file (--csv=FILE)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
        conflicts_with = "json")]
    pub csv: Option<PathBuf>,
    /// Keep the outcomes in this file, as Parquet; simulations that it already has are not repeated
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a page with pictures of the outcomes (- is standard output)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How many simulations are made at the same time (as many as there are processors when absent)
    #[arg(short, long, value_name = "N", value_parser = number::within::<u16>(1..=1024))]
    pub jobs: Option<u16>,
    /// Simulate nothing, and print as JSON what would be simulated
    #[arg(long, conflicts_with_all = ["json", "csv", "cell"])]
    pub plan: bool,
    /// Make only the simulation with this number in the plan, and print it as a line of FILE.cells
    #[arg(long, value_name = "N", conflicts_with_all = ["json", "csv"])]
    pub cell: Option<usize>,
}

/// The commands of `plimsoll sim` other than simulating.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// Measure what collections, contentions and switches cost on this machine
    Calibrate(Calibrate),
}

/// `plimsoll sim calibrate`.
#[derive(Clone, Debug, Args)]
pub struct Calibrate {
    /// Write the medians into this file, for `plimsoll sim --constants`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How often each is measured, 5 to 1000
    #[arg(long, value_name = "N", default_value_t = 7,
        value_parser = number::within::<u32>(5..=1000))]
    pub repeat: u32,
    /// Live bytes of the heap that is collected, 1M to 4G; about seven times as much memory is used
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = live)]
    pub live: u64,
    /// Print JSON, for programs, with each value
    #[arg(long)]
    pub json: bool,
}

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchedulerChoice {
    /// Round robin
    Rr,
    /// Lower allocation rate first
    Larf,
    /// Memory-quantum round robin
    Mqrr,
}

impl From<SchedulerChoice> for Rule {
    fn from(choice: SchedulerChoice) -> Rule {
        match choice {
            SchedulerChoice::Rr => Rule::RoundRobin,
            SchedulerChoice::Larf => Rule::Larf,
            SchedulerChoice::Mqrr => Rule::Mqrr,
        }
    }
}

/// A collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CollectorChoice {
    /// Mark-compact
    Markcompact,
    /// Semi-space copying
    Semispace,
    /// Generational copying
    Gencopy,
    /// Generational mark-compact
    Genmc,
    /// Generational mark-sweep
    #[value(alias = "gms")]
    Genms,
    /// Regional, like HotSpot's G1
    G1,
}

impl From<CollectorChoice> for Algorithm {
    fn from(choice: CollectorChoice) -> Algorithm {
        match choice {
            CollectorChoice::Markcompact => Algorithm::MarkCompact,
            CollectorChoice::Semispace => Algorithm::SemiSpace,
            CollectorChoice::Gencopy => Algorithm::GenCopy,
            CollectorChoice::Genmc => Algorithm::GenMc,
            CollectorChoice::Genms => Algorithm::GenMs,
            CollectorChoice::G1 => Algorithm::G1,
        }
    }
}

/// How large a heap is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeapChoice {
    /// This multiple of the largest live size.
    Times(f64),
    /// An amount, bytes.
    Bytes(u64),
}

/// A factor up to 1000, or a size with its unit.
pub(super) fn heap(text: &str) -> Result<HeapChoice, String> {
    if let Ok(times) = text.parse::<f64>() {
        let times = Some(times).filter(|times| *times > 0.0 && *times <= 1000.0);
        return times.map(HeapChoice::Times).ok_or_else(|| {
            format!("`{text}` is no factor: give up to 1000, or a size with a unit: 64M")
        });
    }
    bytes(text).map(HeapChoice::Bytes)
}

/// 1 MiB to 4 GiB.
fn live(text: &str) -> Result<u64, String> {
    let live = bytes(text)?;
    if (1 << 20..=4 << 30).contains(&live) {
        Ok(live)
    } else {
        Err("give 1M to 4G".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_have_units_and_bounds() {
        assert_eq!(heap("1.5"), Ok(HeapChoice::Times(1.5)));
        assert_eq!(heap("64M"), Ok(HeapChoice::Bytes(64 << 20)));
        for text in ["0", "-1", "1001", "inf", "nan", "0M", "50%", "much"] {
            assert!(heap(text).is_err(), "{text}");
        }
    }
}
