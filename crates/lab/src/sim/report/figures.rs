//! All numbers of a report, as a table: a row for each simulation.

use super::super::run::Run;
use super::super::table::{names, written};
use super::data::stem;
use plimsoll_cli::size::Human;
use plimsoll_picture::svg::{escape, shortened};
use plimsoll_sim::threads::Quantity;
use std::fmt::Write as _;

/// Most rows.
const MOST: usize = 2000;

/// The quantities of the table, in its order.
const FIGURES: [&Quantity; 22] = [
    Quantity::of("threads"),
    Quantity::of("objects"),
    Quantity::of("allocated_bytes"),
    Quantity::of("largest_live_bytes"),
    Quantity::of("minor_collections"),
    Quantity::of("mixed_collections"),
    Quantity::of("full_collections"),
    Quantity::of("mark_cons"),
    Quantity::of("average_pause_heaps"),
    Quantity::of("greatest_pause_heaps"),
    Quantity::of("greatest_pause_ns"),
    Quantity::of("thread_pause_least_ns_per_byte"),
    Quantity::of("thread_pause_lower_ns_per_byte"),
    Quantity::of("thread_pause_median_ns_per_byte"),
    Quantity::of("thread_pause_upper_ns_per_byte"),
    Quantity::of("thread_pause_greatest_ns_per_byte"),
    Quantity::of("paused_ns"),
    Quantity::of("contentions"),
    Quantity::of("switches"),
    Quantity::of("execution_ns"),
    Quantity::of("turnaround_ns"),
    Quantity::of("longest_wait_ns"),
];

/// The table, and a sentence if it has not all.
pub(super) fn table(runs: &[Run]) -> String {
    let mut text = "<h2>All numbers</h2>\n<div class=\"wide\"><table>\n<tr><th>program</th>\
                    <th>collector</th><th>heap</th><th>scheduler</th>"
        .to_owned();
    for figure in FIGURES {
        let _ = write!(text, "<th>{}</th>", escape(&figure.label()));
    }
    text.push_str("</tr>\n");
    let shown: Vec<&Run> = runs.iter().take(MOST).collect();
    for (run, name) in shown.iter().zip(names(&shown)) {
        row(&mut text, run, &name);
    }
    text.push_str("</table></div>\n");
    if runs.len() > MOST {
        let left = runs.len() - MOST;
        let _ = writeln!(
            text,
            "<p>{left} more are in the file that is made with --output.</p>"
        );
    }
    text
}

fn row(text: &mut String, run: &Run, scheduler: &str) {
    let cell = &run.cell;
    let _ = write!(
        text,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
        escape(&shortened(&stem(&cell.trace), 40)),
        escape(&cell.collector),
        Human(cell.heap),
        escape(scheduler)
    );
    for figure in FIGURES {
        let value = run.outcome.as_ref().map(figure.value);
        let value = value.map_or("–".to_owned(), |value| written(figure.unit, value));
        let _ = write!(text, "<td>{}</td>", escape(&value));
    }
    text.push_str("</tr>\n");
}
