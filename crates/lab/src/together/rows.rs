//! Simulations as comma-separated values: a line for each program under each policy. Times are nanoseconds,
//! sizes are bytes.

use super::quantities::QUANTITIES;
use crate::sim::csv_table;
use plimsoll_sim::together::{Outcome, Program};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes the names and the programs.
///
/// # Errors
/// Those of the writer.
pub(super) fn write(all: &[Outcome], out: &mut dyn Write) -> io::Result<()> {
    let of = |one: &Outcome, it: &Program| -> Vec<Value> {
        let about = [json!(one.policy.name()), json!(one.memory), json!(it.name)];
        let values = QUANTITIES.iter().map(|quantity| (quantity.value)(it));
        about.into_iter().chain(values).collect()
    };
    let rows = all
        .iter()
        .flat_map(|one| one.programs.iter().map(move |it| of(one, it)));
    let about = ["policy", "memory_bytes", "trace"];
    let names = QUANTITIES.iter().map(|quantity| quantity.column);
    csv_table(about.into_iter().chain(names), rows, out)
}
