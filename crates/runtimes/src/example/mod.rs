//! A runtime without practical use: the worked example of `docs/src/adding-a-runtime.md`. It steers
//! programs called `plimsoll-example`. It is compiled and tested but not in [`crate::ALL`]; make a
//! list with it to use it. To write a real runtime, begin with a copy of this folder.

use crate::family;
use crate::link::{Ended, Link};
use crate::runtime::{Addition, Choice, Runtime, Start, Steered, Target};
pub use plimsoll_programs::example::Example;
use plimsoll_programs::{Candidate, Recognise};
use plimsoll_wire::messages::Report;
use std::ffi::OsString;
use std::time::Duration;

/// The name of the adapter and the value of `--adapter`.
const NAME: &str = "example";
/// The variable that tells the program how many bytes it could use alone.
const BUDGET: &str = "PLIMSOLL_EXAMPLE_BUDGET";
/// The pause between two turns of the loop.
const TURN: Duration = Duration::from_millis(500);

impl Runtime for Example {
    fn choices(&self) -> &'static [Choice] {
        &[Choice {
            name: NAME,
            help: "A program that is called plimsoll-example",
        }]
    }

    /// Adds what the user did not give, and notes it.
    fn prepare(&self, start: &Start<'_>) -> Addition {
        let given = (start.command.setting.variables)(BUDGET).is_some();
        let budget = start.plan.budget.filter(|_| !given);
        let value = budget.map(|bytes| bytes.to_string());
        Addition {
            notes: value
                .iter()
                .map(|value| format!("{BUDGET}={value}"))
                .collect(),
            environment: value
                .map(|value| (OsString::from(BUDGET), OsString::from(value)))
                .into_iter()
                .collect(),
            steered: true,
            ..Addition::default()
        }
    }

    fn steered(&self) -> Steered {
        Steered::Outside(steer)
    }
}

/// Tells the link that it steers before the first turn, and that it no longer does after the last.
fn steer(target: &Target<'_>, link: &mut dyn Link) -> Ended {
    link.steered_by(Some(NAME));
    let ended = follow(target, link);
    link.steered_by(None);
    ended
}

fn follow(target: &Target<'_>, link: &mut dyn Link) -> Ended {
    let pid = target.process.pid;
    loop {
        if link.stopped() {
            return Ended::Stopped;
        }
        // The process may have become another program.
        if !target.process.alive() || !Example.runs(&Candidate::look(pid)) {
            return Ended::ProgramGone;
        }
        // The limit is for the program and its descendants together.
        let others = family::uses_of_others(target.root, pid);
        let uses = family::uses(pid).unwrap_or(0).saturating_add(others);
        // A real adapter would make the program keep to this limit here, and report the most that
        // the program could use.
        let limit = link.numbers().map_or(u64::MAX, |numbers| numbers.limit);
        link.report(&Report {
            demand: Some(uses.min(limit)),
            ..Report::default()
        });
        link.wait(TURN);
    }
}
