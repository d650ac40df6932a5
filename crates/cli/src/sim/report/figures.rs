//! All numbers of a report, as a table: a row for each simulation.

use super::super::run::Run;
use super::super::table::{names, number, ratio, time};
use super::data::stem;
use crate::size::Human;
use plimsoll_picture::svg::{escape, shortened};
use plimsoll_sim::threads::Outcome;
use std::fmt::Write as _;

/// Most rows.
const MOST: usize = 2000;

/// Heads, and what stands below them.
type Figure = (&'static str, fn(&Outcome) -> String);
const FIGURES: [Figure; 22] = [
    ("threads", |it| number(it.threads as f64)),
    ("objects", |it| number(it.objects as f64)),
    ("allocated", |it| Human(it.allocated).to_string()),
    ("largest live", |it| Human(it.largest_live).to_string()),
    ("minor", |it| number(it.minor as f64)),
    ("mixed", |it| number(it.mixed as f64)),
    ("full", |it| number(it.full as f64)),
    ("mark/cons", |it| ratio(it.mark_cons())),
    ("average pause", |it| ratio(it.average_pause())),
    ("greatest pause", |it| ratio(it.greatest_pause())),
    ("longest pause", |it| time(it.greatest_pause as f64)),
    ("pause a thread, ns/B: least", |it| {
        ratio(it.thread_pauses.least)
    }),
    ("a quarter", |it| ratio(it.thread_pauses.lower)),
    ("median", |it| ratio(it.thread_pauses.median)),
    ("three quarters", |it| ratio(it.thread_pauses.upper)),
    ("greatest", |it| ratio(it.thread_pauses.greatest)),
    ("collecting", |it| time(it.paused as f64)),
    ("contentions", |it| number(it.contentions as f64)),
    ("switches", |it| number(it.switches as f64)),
    ("execution", |it| time(it.execution as f64)),
    ("turnaround", |it| time(it.turnaround as f64)),
    ("longest wait", |it| time(it.longest_wait_time as f64)),
];

/// The table, and a sentence if it has not all.
pub(super) fn table(runs: &[Run]) -> String {
    let mut text = "<h2>All numbers</h2>\n<div class=\"wide\"><table>\n<tr><th>program</th>\
                    <th>collector</th><th>heap</th><th>scheduler</th>"
        .to_owned();
    for (head, _) in FIGURES {
        let _ = write!(text, "<th>{head}</th>");
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
    for (_, value) in FIGURES {
        let value = run.outcome.as_ref().map_or("–".to_owned(), value);
        let _ = write!(text, "<td>{}</td>", escape(&value));
    }
    text.push_str("</tr>\n");
}
