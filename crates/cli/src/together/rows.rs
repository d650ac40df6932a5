//! Simulations as comma-separated values: a line for each program under each policy. Times are nanoseconds,
//! sizes are bytes.

use super::Outcome;
use crate::sim::csv_table;
use plimsoll_sim::together::Program;
use serde_json::{Value, json};
use std::io::{self, Write};

/// A column: its name, and the value of a program.
type Column = (&'static str, fn(&Outcome, &Program) -> Value);

/// The columns, in their order. Some may be added at the end; none is removed.
const COLUMNS: [Column; 25] = [
    ("policy", |all, _| json!(all.policy.name())),
    ("memory_bytes", |all, _| json!(all.memory)),
    ("trace", |_, it| json!(it.name)),
    ("weight", |_, it| json!(it.weight)),
    ("priority", |_, it| json!(it.priority)),
    ("began_ns", |_, it| json!(it.began)),
    ("ended_ns", |_, it| json!(it.ended)),
    ("stopped", |_, it| json!(it.stopped)),
    ("execution_ns", |_, it| json!(it.outcome.execution)),
    ("waited_ns", |_, it| json!(it.waited())),
    ("minor", |_, it| json!(it.outcome.minor)),
    ("full", |_, it| json!(it.outcome.full)),
    ("paused_ns", |_, it| json!(it.outcome.paused)),
    ("mark_cons", |_, it| json!(it.outcome.mark_cons())),
    ("allocated_bytes", |_, it| json!(it.outcome.allocated)),
    ("faults", |_, it| json!(it.faults())),
    ("uses_bytes", |_, it| json!(it.share.uses)),
    ("heap_bytes", |_, it| json!(it.share.heap)),
    ("limit_bytes", |_, it| json!(it.share.limit)),
    ("ideal_bytes", |_, it| json!(it.share.ideal)),
    ("apart_bytes", |_, it| json!(it.share.apart)),
    ("revocations", |_, it| json!(it.revocations.batches)),
    ("met", |_, it| json!(it.revocations.met)),
    ("longest_ns", |_, it| json!(it.revocations.longest)),
    ("paged_out_bytes", |_, it| json!(it.revocations.paged_out)),
];

/// Writes the names and the programs.
///
/// # Errors
/// Those of the writer.
pub(super) fn write(all: &[Outcome], out: &mut dyn Write) -> io::Result<()> {
    let of = |one: &Outcome, it: &Program| COLUMNS.iter().map(|column| column.1(one, it)).collect();
    let rows = all
        .iter()
        .flat_map(|one| one.programs.iter().map(move |it| of(one, it)));
    csv_table(COLUMNS.map(|column| column.0), rows, out)
}
