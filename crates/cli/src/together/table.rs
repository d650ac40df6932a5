//! A table for people: a row for each quantity and a column for each program.

use super::Outcome;
use crate::rows::shown;
use crate::size::Human;
use plimsoll_sim::together::Program;
use std::fmt::Write as _;

/// Columns of the names of quantities, and of each program.
const WIDTHS: (usize, usize) = (20, 12);
/// Programs beside each other; more follow below.
const BESIDE: usize = 5;

/// A quantity: its name, and how that of a program is written.
type Row = (&'static str, fn(&Program) -> String);

/// The quantities, in their order.
const ROWS: [Row; 20] = [
    ("weight", |it| it.weight.to_string()),
    ("priority", |it| it.priority.to_string()),
    ("began", |it| time(it.began)),
    ("ended", |it| end(it)),
    ("execution time", |it| time(it.outcome.execution)),
    ("waited for memory", |it| time(it.waited())),
    ("minor collections", |it| it.outcome.minor.to_string()),
    ("full collections", |it| it.outcome.full.to_string()),
    ("collection time", |it| time(it.outcome.paused)),
    ("mark/cons", |it| format!("{:.4}", it.outcome.mark_cons())),
    ("faults", |it| it.faults().to_string()),
    ("average in memory", |it| bytes(it.share.uses)),
    ("average heap", |it| bytes(it.share.heap)),
    ("average limit", |it| bytes(it.share.limit)),
    ("average ideal", |it| bytes(it.share.ideal)),
    ("average distance", |it| bytes(it.share.apart)),
    ("revocations", |it| it.revocations.batches.to_string()),
    ("met in time", |it| it.revocations.met.to_string()),
    ("longest to meet", |it| time(it.revocations.longest)),
    ("paged out", |it| bytes(it.revocations.paged_out)),
];

/// The table of one simulation.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let policy = outcome.policy.name();
    let (memory, ended) = (bytes(outcome.memory), time(outcome.ended));
    let _ = write!(text, "{policy} in {memory}, all over at {ended}");
    if outcome.ticks > 0 {
        let (ticks, most) = (outcome.ticks, bytes(outcome.most_granted));
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
        for (name, written) in ROWS {
            let _ = write!(text, "{name:names$}");
            for program in programs {
                let _ = write!(text, "{:>column$}", written(program));
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

fn end(program: &Program) -> String {
    let stopped = if program.stopped { "*" } else { "" };
    time(program.ended) + stopped
}

fn bytes(bytes: u64) -> String {
    Human(bytes).to_string()
}

fn time(nanoseconds: u64) -> String {
    crate::sim::time(nanoseconds as f64)
}
