//! `plimsoll map`.

use clap::Args;
use std::path::PathBuf;

/// `plimsoll map`.
#[derive(Debug, Args)]
#[command(override_usage = "plimsoll map [OPTIONS] PID...
       plimsoll map [OPTIONS] --cgroup PATH
       plimsoll map [OPTIONS] --principal NAME|ID")]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub struct Map {
    /// The processes
    #[arg(value_name = "PID", value_parser = super::number::pid::<i32>, group = "which")]
    pub pids: Vec<i32>,
    /// All processes of this cgroup and of those below it
    #[arg(long, value_name = "PATH", group = "which")]
    pub cgroup: Option<PathBuf>,
    /// All processes of this principal and of those below it; this asks the broker
    #[arg(long, value_name = "NAME|ID", group = "which")]
    pub principal: Option<String>,
    /// Repeat the look at this interval (1 to 3600 s; 2 when absent), and tell what happened meanwhile
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
        value_parser = interval)]
    pub watch: Option<u64>,
    /// With --watch: end after N looks
    #[arg(long, value_name = "N", requires = "watch",
        value_parser = super::number::from(1))]
    pub count: Option<u64>,
    /// With --watch: end after this time, 1 to 1000000 s
    #[arg(long, value_name = "SECONDS", requires = "watch",
        value_parser = super::number::within::<u64>(1..=1_000_000))]
    pub r#for: Option<u64>,
    /// With --watch: clear the reference bits at each look, so that REFERENCED is what was touched
    /// since the last one. The kernel, which decides by the same bits what to evict, then knows less
    #[arg(long, requires = "watch")]
    pub referenced: bool,
    /// Show only a line for each process, and their sum
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub sum: bool,
    /// Also show which other processes map the same files
    #[arg(long)]
    pub who: bool,
    /// Print JSON, for programs, in exact bytes; with --watch one line a look
    #[arg(long)]
    pub json: bool,
    /// With --json: also print the address, file and states of each part of the address space
    #[arg(long, requires = "json")]
    pub addresses: bool,
    /// Write pictures to this file, one page of HTML (- is standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Time limit for each read of a process, in seconds (1 to 600)
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = super::number::within::<u64>(1..=600))]
    pub timeout: u64,
    /// Columns of the text (60 to 500); the terminal's when absent, and 80 where there is none
    #[arg(short, long, value_name = "COLUMNS",
        value_parser = super::number::within::<u16>(60..=500))]
    pub width: Option<u16>,
    /// The broker, for --principal.
    #[command(flatten)]
    pub at: Option<super::At>,
}

/// Seconds from one look to the next. A process number that stands behind --watch is taken for its value.
fn interval(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ 1..=3600) => Ok(seconds),
        _ => Err("it is 1 to 3600 seconds; write process numbers before --watch".into()),
    }
}
