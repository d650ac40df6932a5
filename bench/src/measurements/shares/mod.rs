//! Do programs use their weighted shares, and how soon after a change?
//!
//! Three programs of one kind with weights 10, 40 and 20 start one after another; then one changes its
//! weight, and one ends (paper, section 5.2, Figures 3 and 4). Another scenario does this with thirty
//! programs; several of them start and end at once. The broker does not lend, as the paper's does not. Beside
//! that some kinds run with lending, and the cost to those who lend is judged; and some small ones run in a
//! guest with cgroup version 2.
//!
//! | module | is |
//! |---|---|
//! | `outcome` | how far programs are from their shares in a run |
//! | `lending` | what lending costs those who lend |
//! | `kinds` | the programs |
//! | `report` | tables and verdicts |

mod kinds;
mod lending;
mod outcome;
mod report;

use crate::Result;
use crate::harness::java::Classes;
use crate::harness::memory_plot::memory_plot;
use crate::harness::progress_plot::progress_plot;
use crate::harness::run_scenario::play;
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::{Elsewhere, Runner, Turn};
use kinds::{Kind, kinds};
use outcome::Outcome;
use std::path::Path;

/// The measurement `shares`.
pub(super) struct Shares;

impl Measurement for Shares {
    fn about(&self) -> About {
        About {
            name: "shares",
            question: "Do programs use their weighted shares, and how soon after arrivals, \
                       departures and weight changes?",
            asks: report::ASKS,
            minutes: 175,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let trees = Classes::of("bench/programs/GcBench.java")?;
        let services = Classes::of("bench/programs/Service.java")?;
        let classes =
            [trees.folder(), services.folder()].map(|folder| folder.display().to_string());
        let classes = classes.join(":");
        let ran = runner
            .experiment(kinds(Path::new(&classes)))
            .wanted()
            .rotating(|kind| kind.group)
            .elsewhere(Elsewhere::user_mode(), |kind| kind.elsewhere)
            .by_group()
            .run(|kind, turn| {
                let trace = play(&ground, &kind.scenario, kind.conditions, &turn.progress)?;
                if turn.first {
                    draw(runner, kind, turn, &trace)?;
                }
                Ok(Outcome::of(&kind.scenario, kind.rules, &trace))
            })?;
        Ok(report::report(&ran, runner))
    }
}

/// The paper's Figures 3 and 4.
fn draw(runner: &Runner, kind: &Kind, turn: &Turn<'_>, trace: &Trace) -> Result<()> {
    let (part, name) = (turn.variant.to_lowercase().replace(' ', "-"), turn.variant);
    let memory = memory_plot(&format!("Weighted shares: {name}"), &kind.scenario, trace);
    runner.plot(&part, &memory)?;
    let progress = progress_plot(&format!("Work done: {name}"), &kind.scenario, trace);
    runner.plot(&format!("{part}-progress"), &progress)
}
