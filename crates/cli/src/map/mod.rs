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
use plimsoll_map::{Failed, Options, Report, look};
use std::time::Duration;
use text::Style;

/// Looks at the processes and prints what they have.
///
/// # Errors
/// When there is no such group, principal or broker. A process that shows nothing is none: a line
/// says why, and the status is 1.
pub fn run(place: &dyn Fn() -> Place, args: &args::Map) -> Result<u8, CliError> {
    let pids = targets::find(place, args)?;
    let options = Options {
        limit: Duration::from_secs(args.timeout),
        addresses: args.addresses,
    };
    let report = report(&pids, &options);
    let text = match args.json {
        true => json::pretty(&report),
        false => text::report(&report, &Style::of_terminal(args.width)),
    };
    crate::print(&text)?;
    for failed in report.failed.iter().filter(|_| !args.json) {
        crate::say(format_args!("{}", failed.why));
    }
    Ok(match report.failed.is_empty() {
        true => 0,
        false => FAILED,
    })
}

/// One look at each process.
fn report(pids: &[i32], options: &Options) -> Report {
    let (mut looks, mut failed) = (Vec::new(), Vec::new());
    for &pid in pids {
        match look(pid, options) {
            Ok(look) => looks.push(look),
            Err(error) => failed.push(Failed {
                pid,
                why: crate::rows::shown(&error.to_string(), 1000),
            }),
        }
    }
    Report::of(looks, failed)
}
