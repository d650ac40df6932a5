//! How the threads of a program are simulated: the same for `plimsoll sim` and `plimsoll together`.

use clap::{Args, ValueEnum};
use plimsoll_cli::args::number::{self, bytes};
use plimsoll_policy::phases::{PATIENCE, Ties};
use plimsoll_sim::threads::heap::NewRatio;
use std::path::PathBuf;

/// The most processors of a program.
const MOST_PROCESSORS: u32 = 1024;

/// How threads are simulated. `plimsoll sim` simulates each value of the lists; `plimsoll together` takes
/// one value for all programs, or one for each.
#[derive(Clone, Debug, Args)]
pub struct Model {
    /// How long a thread runs under rr and larf: 1.14ms, 500us; several are separated by commas
    #[arg(short, long, value_delimiter = ',', value_name = "LIST",
        default_value = "1.14ms", value_parser = time)]
    pub quantum: Vec<u64>,
    /// How much a thread allocates in its turn under mqrr; several are separated by commas
    #[arg(short, long, value_delimiter = ',', value_name = "LIST",
        default_value = "10K", value_parser = bytes)]
    pub memory_quantum: Vec<u64>,
    /// Which of threads with equal rates runs next under larf; both are separated by a comma
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "newest"
    )]
    pub ties: Vec<TiesChoice>,
    /// How many times as large as the nursery the mature space is, 0.001 to 1000; several are separated by
    /// commas
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "2", value_parser = new_ratio)]
    pub new_ratio: Vec<NewRatio>,
    /// How long a thread runs under mqrr that allocates less than its memory quantum
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    pub time_bound: u64,
    /// How many rounds a ready thread may be passed over
    #[arg(long, value_name = "ROUNDS", default_value_t = PATIENCE)]
    pub patience: u32,
    /// How many processors a program has, 1 to 1024
    #[arg(short, long, value_name = "N", default_value_t = 1,
        value_parser = number::within::<u32>(1..=MOST_PROCESSORS))]
    pub processors: u32,
    /// Heed the priorities that a program gave its threads
    #[arg(long)]
    pub priorities: bool,
    /// Costs, as `plimsoll sim calibrate` measured them (the paper's constants when absent)
    #[arg(long, value_name = "FILE")]
    pub constants: Option<PathBuf>,
    /// Cost of a collection for each byte that it marks or copies, nanoseconds (18 when absent)
    #[arg(long, value_name = "NS", value_parser = picoseconds)]
    pub gc_cost: Option<u64>,
    /// Cost of a contention for a monitor, nanoseconds (2700 when absent)
    #[arg(long, value_name = "NS", value_parser = picoseconds)]
    pub contention_cost: Option<u64>,
    /// Cost of a switch of threads, nanoseconds (2.3 when absent)
    #[arg(long, value_name = "NS", value_parser = picoseconds)]
    pub switch_cost: Option<u64>,
    /// Instructions a nanosecond, for traces that count instructions
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = rate)]
    pub instructions: f64,
}

/// Which of equal rates goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TiesChoice {
    /// The thread that became ready last: a thread that just ran goes on
    Newest,
    /// The thread that waits longest: they take turns
    Oldest,
}

impl From<TiesChoice> for Ties {
    fn from(choice: TiesChoice) -> Ties {
        match choice {
            TiesChoice::Newest => Ties::Newest,
            TiesChoice::Oldest => Ties::Oldest,
        }
    }
}

/// A ratio of the mature space to the nursery.
fn new_ratio(text: &str) -> Result<NewRatio, String> {
    let ratio = text.parse().ok().and_then(NewRatio::new);
    ratio.ok_or_else(|| format!("`{text}` is no ratio: give 0.001 to 1000, such as 2"))
}

/// Picoseconds, from nanoseconds of 0 to a second.
fn picoseconds(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1e9).contains(number));
    let wrong = || format!("`{text}` is no cost: give nanoseconds, 0 to 1000000000");
    Ok((number.ok_or_else(wrong)? * 1000.0).round() as u64)
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
    if (1e3..=1e12).contains(&nanoseconds) {
        Ok(nanoseconds.round() as u64)
    } else {
        Err(wrong())
    }
}

/// Instructions a nanosecond.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..=1000.0).contains(number));
    number
        .ok_or_else(|| format!("`{text}` is no rate: give 0.001 to 1000 instructions a nanosecond"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_costs_have_bounds() {
        assert_eq!(new_ratio("2"), Ok(NewRatio::PAPER));
        for text in ["", "0", "-2", "1001", "nan", "1/3"] {
            assert!(new_ratio(text).is_err(), "{text}");
        }
        assert_eq!(picoseconds("2.3"), Ok(2300));
        assert!(picoseconds("-1").is_err() && picoseconds("inf").is_err());
    }

    #[test]
    fn times_and_rates_have_units_and_bounds() {
        assert_eq!(time("1.14ms"), Ok(1_140_000));
        for text in ["", "5", "0.5us", "1001s", "nanms", "-1ms", "1 ms"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(rate("0").is_err() && rate("nan").is_err() && rate("2") == Ok(2.0));
    }
}
