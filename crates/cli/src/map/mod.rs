//! `plimsoll map`: where the memory of processes is, by area and state.
//!
//! # Map
//! `targets` finds the processes, `text` writes the map for people. What a process has is read in
//! [`plimsoll_map`].

mod targets;
mod text;

use crate::args;
use crate::embed::Place;
use crate::error::{CliError, FAILED};
use crate::json;
use plimsoll_map::{Failed, Look, Options, Report, look};
use std::io::IsTerminal;
use std::time::{Duration, UNIX_EPOCH};
use text::Style;

/// Puts the cursor at the top and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Looks at the processes and prints what they have, once or again and again.
///
/// # Errors
/// When there is no such group, principal or broker. A process that shows nothing is none: a line
/// says why, and the status is 1.
pub fn run(place: &dyn Fn() -> Place, args: &args::Map) -> Result<u8, CliError> {
    let options = Options {
        limit: Duration::from_secs(args.timeout),
        addresses: args.addresses,
        who: args.who,
        clear_references: args.referenced,
    };
    let mut before: Vec<Look> = Vec::new();
    for looks in 1u64.. {
        let report = report(&targets::find(place, args)?, &options, &before);
        show(&report, args)?;
        // Programs that end while they are watched are no failure.
        let failed = !report.failed.is_empty() && looks == 1;
        let over = args.count.is_some_and(|count| looks >= count) || report.processes.is_empty();
        match args.watch.filter(|_| !over) {
            Some(seconds) => std::thread::sleep(Duration::from_secs(seconds)),
            None => return Ok(if failed { FAILED } else { 0 }),
        }
        before = report.processes;
    }
    Ok(0)
}

fn show(report: &Report, args: &args::Map) -> Result<(), CliError> {
    let text = match (args.json, args.watch) {
        (true, None) => json::pretty(report),
        (true, Some(_)) => json::line(report) + "\n",
        (false, watch) => {
            let clears = watch.is_some() && std::io::stdout().is_terminal();
            let text = text::report(report, &Style::of_terminal(args.width));
            match clears {
                true => format!("{CLEAR}{text}"),
                false => text + if watch.is_some() { "\n" } else { "" },
            }
        }
    };
    crate::print(&text)?;
    for failed in report.failed.iter().filter(|_| !args.json) {
        crate::say(format_args!("{}", failed.why));
    }
    Ok(())
}

/// One look at each process.
fn report(pids: &[i32], options: &Options, before: &[Look]) -> Report {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
    let (mut looks, mut failed) = (Vec::new(), Vec::new());
    for &pid in pids {
        match look(pid, options) {
            Ok(mut look) => {
                for earlier in before.iter().filter(|earlier| earlier.pid == pid) {
                    look.compare(earlier);
                }
                looks.push(look);
            }
            Err(error) => failed.push(Failed {
                pid,
                why: crate::rows::shown(&error.to_string(), 1000),
            }),
        }
    }
    Report::of(u64::try_from(now).unwrap_or(0), looks, failed)
}
