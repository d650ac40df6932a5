//! A runtime without practical use: the worked example of `docs/src/adding-a-runtime.md`. It steers
//! programs called `plimsoll-example`. It is compiled and tested but not in [`crate::ALL`]; make a
//! list with it to use it. To write a real runtime, begin with a copy of this folder.

use crate::family;
use crate::lever::Target;
use crate::lever::{Goal, Lever, Reach, Sample};
use crate::lever_options::Choice;
use crate::process::Process;
use crate::runtime::{Addition, Runtime, Start, Steered};
use plimsoll_programs::Recognise;
pub use plimsoll_programs::example::Example;
use plimsoll_wire::messages::Report;
use std::ffi::OsString;

/// The name of the adapter and the value of `--adapter`.
const NAME: &str = "example";
/// The variable that tells the program how many bytes it could use alone.
const BUDGET: &str = "PLIMSOLL_EXAMPLE_BUDGET";

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
        Steered::Outside(begin)
    }
}

/// The lever of one program. It is reached at once; others ask the program what it is first, and refuse until
/// it answers.
struct Idle {
    /// The program's process.
    process: Process,
    /// The most that it could use, bytes, as seen last.
    demand: u64,
}

fn begin(target: Target<'_>) -> Reach<'_> {
    Box::new(move || {
        Ok(Box::new(Idle {
            process: target.process,
            demand: 0,
        }))
    })
}

impl Lever for Idle {
    fn name(&self) -> &'static str {
        Example.name()
    }

    /// A real lever would keep what it saw, and make the program keep to the goal in [`Lever::act`].
    fn sample(&mut self, goal: &Goal) -> Option<Sample> {
        let uses = family::uses(self.process.pid)?;
        let limit = Some(goal.limit).filter(|&limit| limit > 0);
        self.demand = limit.map_or(uses, |limit| uses.min(limit));
        Some(Sample {
            uses,
            limit: goal.limit,
            ..Sample::default()
        })
    }

    fn facts(&self) -> Report {
        Report {
            demand: Some(self.demand),
            ..Report::default()
        }
    }
}
