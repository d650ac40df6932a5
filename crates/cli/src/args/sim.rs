//! `plimsoll sim`.

use crate::size::Size;
use clap::{Args, ValueEnum};
use plimsoll_policy::phases::{PATIENCE, Rule};
use plimsoll_sim::threads::heap::Algorithm;
use std::path::PathBuf;

/// The most processors that are simulated.
const MOST_PROCESSORS: i64 = 1024;

/// `plimsoll sim`.
#[derive(Clone, Debug, Args)]
#[command(after_help = super::EXIT_CODES)]
pub struct Sim {
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
    /// Size of the heap: so many times the largest live size (1.5), or so large (64M); several are separated
    /// by commas
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "3", value_parser = heap)]
    pub heap: Vec<HeapChoice>,
    /// How long a thread runs under rr and larf: 1.14ms, 500us
    #[arg(short, long, value_name = "TIME", default_value = "1.14ms", value_parser = time)]
    pub quantum: u64,
    /// How much a thread allocates in its turn under mqrr
    #[arg(short, long, value_name = "SIZE", default_value = "10K", value_parser = bytes)]
    pub memory_quantum: u64,
    /// How long a thread runs under mqrr that allocates less than that
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    pub time_bound: u64,
    /// How many rounds a ready thread may be passed over
    #[arg(long, value_name = "ROUNDS", default_value_t = PATIENCE)]
    pub patience: u32,
    /// How many processors there are, 1 to 1024
    #[arg(short, long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MOST_PROCESSORS))]
    pub processors: u32,
    /// Heed the priorities that the program gave its threads
    #[arg(long)]
    pub priorities: bool,
    /// What a collection costs for each byte that it marks or copies, nanoseconds
    #[arg(long, value_name = "NS", default_value = "18", value_parser = picoseconds)]
    pub gc_cost: u64,
    /// What a contention for a monitor costs, nanoseconds
    #[arg(long, value_name = "NS", default_value = "2700", value_parser = picoseconds)]
    pub contention_cost: u64,
    /// What a switch of threads costs, nanoseconds
    #[arg(long, value_name = "NS", default_value = "2.3", value_parser = picoseconds)]
    pub switch_cost: u64,
    /// Instructions a nanosecond, for traces that count instructions
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = rate)]
    pub instructions: f64,
    /// The same for programs, in exact numbers
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
}

impl From<CollectorChoice> for Algorithm {
    fn from(choice: CollectorChoice) -> Algorithm {
        match choice {
            CollectorChoice::Markcompact => Algorithm::MarkCompact,
            CollectorChoice::Semispace => Algorithm::SemiSpace,
            CollectorChoice::Gencopy => Algorithm::GenCopy,
            CollectorChoice::Genmc => Algorithm::GenMc,
        }
    }
}

/// How large a heap is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeapChoice {
    /// So many times the largest live size.
    Times(f64),
    /// So many bytes.
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

pub(super) fn bytes(text: &str) -> Result<u64, String> {
    match text.parse::<Size>() {
        Ok(Size::Bytes(0)) => Err("give more than 0 bytes".into()),
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(Size::Part(_)) => Err("give a size: 64M".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Nanoseconds, from a number with `us`, `ms` or `s`; 1 µs to 1000 s.
pub(super) fn time(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time: give 1us to 1000s, such as 1.14ms");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let nanoseconds = digits.parse::<f64>().map_err(|_| wrong())? * unit;
    match (1e3..=1e12).contains(&nanoseconds) {
        true => Ok(nanoseconds.round() as u64),
        false => Err(wrong()),
    }
}

/// Picoseconds, from nanoseconds of 0 to a second.
fn picoseconds(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1e9).contains(number));
    let wrong = || format!("`{text}` is no cost: give nanoseconds, 0 to 1000000000");
    Ok((number.ok_or_else(wrong)? * 1000.0).round() as u64)
}

/// Instructions a nanosecond.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..=1000.0).contains(number));
    number
        .ok_or_else(|| format!("`{text}` is no rate: give 0.001 to 1000 instructions a nanosecond"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_times_and_costs_have_units_and_bounds() {
        assert_eq!(heap("1.5"), Ok(HeapChoice::Times(1.5)));
        assert_eq!(heap("64M"), Ok(HeapChoice::Bytes(64 << 20)));
        for text in ["0", "-1", "1001", "inf", "nan", "0M", "50%", "much"] {
            assert!(heap(text).is_err(), "{text}");
        }
        assert_eq!(time("1.14ms"), Ok(1_140_000));
        for text in ["", "5", "0.5us", "1001s", "nanms", "-1ms", "1 ms"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert_eq!(picoseconds("2.3"), Ok(2300));
        assert!(picoseconds("-1").is_err() && picoseconds("inf").is_err());
        assert!(rate("0").is_err() && rate("nan").is_err() && rate("2") == Ok(2.0));
    }
}
