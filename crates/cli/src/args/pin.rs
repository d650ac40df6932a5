//! `plimsoll pin`.

use crate::size::no_empty_part;
use clap::Args;
use plimsoll_wire::size::Size;
use std::path::PathBuf;
use std::time::Duration;

/// `plimsoll pin`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("programs").required(true))]
#[command(after_help = super::EXIT_CODES)]
pub struct Pin {
    /// Watch these processes and their descendants
    #[arg(value_name = "PID", group = "programs",
        value_parser = super::number::pid::<u32>)]
    pub pids: Vec<u32>,
    /// Watch all processes in this cgroup and below it
    #[arg(long, value_name = "PATH", group = "programs")]
    pub cgroup: Option<PathBuf>,
    /// Watch all processes that you may look at
    #[arg(long, group = "programs")]
    pub all: bool,
    /// Lock at most this amount: 100M (without --budget and --share the smaller of 256M and 5%)
    #[arg(short, long, value_name = "SIZE", allow_negative_numbers = true, value_parser = no_empty_part)]
    pub budget: Option<Size>,
    /// Lock at most this part of the memory: 10%
    #[arg(long, value_name = "PART", value_parser = part)]
    pub share: Option<f64>,
    /// Count what is read again over this time: 30s, 2m
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = window)]
    pub window: Duration,
    /// Choose only once, when something is worth holding, and hold that until the end
    #[arg(long)]
    pub once: bool,
    /// Watch for one window, and only show what would be locked
    #[arg(long, conflicts_with = "once")]
    pub dry_run: bool,
    /// Show each range that is held, why, and what it saves
    #[arg(short, long)]
    pub explain: bool,
    /// Print JSON, for programs: one line whenever there is something new
    #[arg(long)]
    pub json: bool,
    /// Lock pages even where nothing can be swapped; if memory then runs short, the kernel kills
    #[arg(long)]
    pub without_swap: bool,
}

/// A part of the memory, above 0 and at most 1.
fn part(text: &str) -> Result<f64, String> {
    match no_empty_part(text)? {
        Size::Part(part) => Ok(part),
        Size::Bytes(_) => Err("give a part: 10% (bytes go to --budget)".into()),
    }
}

/// Seconds, or minutes with `m`; 1 s to a day.
fn window(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: give 1s to 24h, such as 30s or 2m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = digits.parse::<f64>().map_err(|_| wrong())? * unit;
    if !(1.0..=86_400.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        for (text, seconds) in [
            ("30", 30),
            ("30s", 30),
            ("2m", 120),
            ("1h", 3600),
            ("2000ms", 2),
        ] {
            assert_eq!(window(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "0", "-3s", "25h", "nans", "infs", "1x", "3 s"] {
            assert!(window(text).unwrap_err().contains("is no time"), "{text}");
        }
        assert_eq!(part("10%"), Ok(0.1));
        assert!(part("10M").unwrap_err().contains("--budget"));
        assert!(part("0%").is_err());
    }
}
