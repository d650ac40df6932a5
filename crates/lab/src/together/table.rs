//! A table for people: a row for each quantity and a column for each program.

use super::quantities::{ENDED, QUANTITIES, Quantity};
use crate::sim::{time, written};
use plimsoll_cli::rows::shown;
use plimsoll_cli::size::Human;
use plimsoll_sim::together::{Outcome, Program};
use std::fmt::Write as _;

/// Columns of the names of quantities, and of each program.
const WIDTHS: (usize, usize) = (20, 12);
/// Programs beside each other; more follow below.
const BESIDE: usize = 5;

/// The table of one simulation.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let policy = outcome.policy.name();
    let (memory, ended) = (Human(outcome.memory), time(outcome.ended as f64));
    let _ = write!(text, "{policy} in {memory}, all over at {ended}");
    if outcome.ticks > 0 {
        let (ticks, most) = (outcome.ticks, Human(outcome.most_granted));
        let _ = write!(text, "; at most {most} granted, in {ticks} ticks");
    }
    text.push('\n');
    let (names, column) = WIDTHS;
    for programs in outcome.programs.chunks(BESIDE) {
        let _ = write!(text, "\n{:names$}", "");
        for program in programs {
            let _ = write!(
                text,
                "{:>column$}",
                shown(&short(&program.name), column - 1)
            );
        }
        text.push('\n');
        for row in QUANTITIES.iter().filter(|it| !it.name.is_empty()) {
            let _ = write!(text, "{:names$}", row.name);
            for program in programs {
                let _ = write!(text, "{:>column$}", cell(row, program));
            }
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

/// The name of a trace's file, without its folder.
pub(super) fn short(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".plt").unwrap_or(file).to_owned()
}

/// A value, with a mark at the end of a program that was stopped.
fn cell(row: &Quantity, program: &Program) -> String {
    let value = (row.value)(program).as_f64().unwrap_or_default();
    let is_cut = program.stopped && row.column == ENDED;
    written(row.unit, value) + if is_cut { "*" } else { "" }
}
