//! `plimsoll together`.

use super::model::{Model, time};
use super::sim::{self, CollectorChoice, HeapChoice, SchedulerChoice};
use clap::{Args, ValueEnum};
use plimsoll_cli::args::number;
use plimsoll_sim::paging::Costs;
use plimsoll_sim::together::{Hog, Policy};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Priority, Weight};
use std::path::PathBuf;

const QUANTUM: &str =
    "How long a thread runs under rr and larf: one time for all programs, or one for each";
const MEMORY_QUANTUM: &str = "How much a thread allocates in its turn under mqrr: one size for all programs, \
     or one for each";
const TIES: &str = "Which of threads with equal rates runs next under larf: one for all programs, or one for \
     each";
const NEW_RATIO: &str = "How many times as large as the nursery the mature space is, 0.001 to 1000: one for \
     all programs, or one for each";

/// `plimsoll together`.
#[derive(Clone, Debug, Args)]
#[command(after_help = plimsoll_cli::args::EXIT_CODES)]
// The memory of all has that letter here; and a list of a program's settings has one value for each program.
#[command(mut_arg("memory_quantum", |it| it.short(None).help(MEMORY_QUANTUM)))]
#[command(mut_arg("quantum", |it| it.help(QUANTUM)))]
#[command(mut_arg("ties", |it| it.help(TIES)))]
#[command(mut_arg("new_ratio", |it| it.help(NEW_RATIO)))]
pub struct Together {
    /// The traces, one for each program; a trace may be given several times
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// The memory of all programs together
    #[arg(short, long, value_name = "SIZE", value_parser = number::bytes)]
    pub memory: u64,
    /// The policy that sizes the heaps; several are compared, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "shares"
    )]
    pub policy: Vec<SharingChoice>,
    /// The settings of each program.
    #[command(flatten)]
    pub each: Each,
    /// Memory that something else takes and gives back, such as 256M@45s-180s:10M (at 10M a second)
    #[arg(long, value_name = "HOG", value_parser = hog)]
    pub hog: Vec<Hog>,
    /// The device that memory is paged to
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "ssd")]
    pub paging: PagingChoice,
    /// Blocks of its hot data that a program touches for each block that it allocates, 0 to 1000
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = number::within::<u64>(0..=1000))]
    pub reach: u64,
    /// How threads are simulated.
    #[command(flatten)]
    pub model: Model,
    /// The outputs.
    #[command(flatten)]
    pub outputs: Outputs,
}

/// The settings of each program: lists of one value for all programs, or of one for each.
#[derive(Clone, Debug, Args)]
pub struct Each {
    /// Weights, 1 to 10000: one for all programs, or one for each, separated by commas
    #[arg(
        short,
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "100",
        allow_negative_numbers = true
    )]
    pub weight: Vec<Weight>,
    /// Priority classes, -100 to 100: one for all programs, or one for each
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "0",
        allow_negative_numbers = true
    )]
    pub priority: Vec<Priority>,
    /// When programs start: one time for all, or one for each (0s,90s)
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "0s", value_parser = moment)]
    pub start: Vec<u64>,
    /// When programs are stopped, if they have not ended: one time for all, or one for each (- is never)
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "-", value_parser = end,
        allow_hyphen_values = true)]
    pub stop: Vec<End>,
    /// Which ready thread of a program runs next: one for all programs, or one for each
    #[arg(
        short,
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "rr"
    )]
    pub scheduler: Vec<SchedulerChoice>,
    /// How garbage is collected: one for all programs, or one for each
    #[arg(
        short,
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "genmc"
    )]
    pub collector: Vec<CollectorChoice>,
    /// The largest heap size: a multiple of the largest live size (1.5) or an amount (64M); one for all
    /// programs, or one for each (when absent, 3 under fixed, and otherwise all of the memory)
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = sim::heap)]
    pub heap: Vec<HeapChoice>,
}

/// Where outcomes go.
#[derive(Clone, Debug, Args)]
pub struct Outputs {
    /// Draw memory and work over time into this file: SVG, or HTML where its name ends in .html
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write a page with the same pictures (- is standard output), instead of printing tables
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON, for programs, in exact numbers
    #[arg(long)]
    pub json: bool,
    /// Print the same as comma-separated values, or write them to a file (--csv=FILE)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
        conflicts_with = "json")]
    pub csv: Option<PathBuf>,
}

/// The policy that sizes the heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SharingChoice {
    /// The broker; programs report what their collections cost
    Shares,
    /// The broker, by weights alone
    Weights,
    /// Each heap by the allocation stalls that it sees
    IslaVista,
    /// Each heap by its allocation rate and the cost of its collections
    SquareRoot,
    /// Nothing: heaps are as large as they may be
    Fixed,
}

impl From<SharingChoice> for Policy {
    fn from(choice: SharingChoice) -> Policy {
        match choice {
            SharingChoice::Shares => Policy::Shares,
            SharingChoice::Weights => Policy::Weights,
            SharingChoice::IslaVista => Policy::IslaVista,
            SharingChoice::SquareRoot => Policy::SquareRoot,
            SharingChoice::Fixed => Policy::Fixed,
        }
    }
}

/// The device that memory is paged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PagingChoice {
    /// A solid-state disk
    Ssd,
    /// A disk of 2007
    Disk,
}

impl From<PagingChoice> for Costs {
    fn from(choice: PagingChoice) -> Costs {
        match choice {
            PagingChoice::Ssd => Costs::SOLID_STATE,
            PagingChoice::Disk => Costs::DISK,
        }
    }
}

/// When a program is stopped, nanoseconds; never when `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End(
    /// See [`End`].
    pub Option<u64>,
);

/// Nanoseconds since the beginning, which is `0s`.
fn moment(text: &str) -> Result<u64, String> {
    match text {
        "0" | "0s" => Ok(0),
        _ => time(text),
    }
}

fn end(text: &str) -> Result<End, String> {
    match text {
        "-" => Ok(End(None)),
        _ => moment(text).map(|time| End(Some(time))),
    }
}

/// `SIZE@FROM-UNTIL:RATE`; without a rate it takes all of it in a second.
fn hog(text: &str) -> Result<Hog, String> {
    let wrong = || {
        format!(
            "`{text}` is no hog: give its size, its times and its rate, such as 256M@45s-180s:10M"
        )
    };
    let (size, rest) = text.split_once('@').ok_or_else(wrong)?;
    let (times, rate) = match rest.split_once(':') {
        Some((times, rate)) => (times, Some(rate)),
        None => (rest, None),
    };
    let (from, until) = times.split_once('-').ok_or_else(wrong)?;
    let size = number::bytes(size)?;
    Ok(Hog {
        size: Bytes(size),
        from: Nanos(moment(from)?),
        until: Nanos(moment(until)?),
        rate: rate.map_or(Ok(size), number::bytes)?,
    })
}

/// The value for a program, of a list of one for all or one for each.
pub fn of<T: Copy>(list: &[T], program: usize) -> Option<T> {
    match list {
        [one] => Some(*one),
        all => all.get(program).copied(),
    }
}

impl Each {
    /// The lists by their flags, and how many values each has.
    fn lengths(&self) -> [(&'static str, usize); 7] {
        [
            ("weight", self.weight.len()),
            ("priority", self.priority.len()),
            ("start", self.start.len()),
            ("stop", self.stop.len()),
            ("scheduler", self.scheduler.len()),
            ("collector", self.collector.len()),
            ("heap", self.heap.len()),
        ]
    }
}

impl Together {
    /// The fault in the lengths of the lists, if there is one.
    pub fn fault(&self) -> Option<String> {
        let of_model = [
            ("quantum", self.model.quantum.len()),
            ("memory-quantum", self.model.memory_quantum.len()),
            ("ties", self.model.ties.len()),
            ("new-ratio", self.model.new_ratio.len()),
        ];
        let mut lists = self.each.lengths().into_iter().chain(of_model);
        let programs = self.traces.len();
        let wrong = lists
            .find(|(name, len)| *len != 1 && *len != programs && !(*name == "heap" && *len == 0));
        wrong.map(|(name, len)| {
            format!("--{name} has {len} values for {programs} programs: give one for all, or one for each")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_and_times_have_units_and_bounds() {
        let second = 1_000_000_000;
        let expected = Hog {
            size: Bytes::mib(256),
            from: Nanos::seconds(45),
            until: Nanos::seconds(180),
            rate: 10 << 20,
        };
        assert_eq!(hog("256M@45s-180s:10M"), Ok(expected));
        assert_eq!(hog("1M@0s-1s").map(|hog| hog.rate), Ok(1 << 20));
        for text in [
            "",
            "256M",
            "256M@45s",
            "x@1s-2s",
            "1M@1-2",
            "1M@1s-2s:0",
            "1M@1s-2s:x",
        ] {
            assert!(hog(text).is_err(), "{text}");
        }
        assert_eq!(end("-"), Ok(End(None)));
        assert_eq!(end("90s"), Ok(End(Some(90 * second))));
        assert!(end("never").is_err() && moment("-1s").is_err());
    }

    #[test]
    fn a_list_is_for_all_or_for_each() {
        assert_eq!((of(&[7], 0), of(&[7], 5)), (Some(7), Some(7)));
        assert_eq!((of(&[7, 8], 1), of(&[7, 8], 2)), (Some(8), None));
    }
}
