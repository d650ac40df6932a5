//! A page with pictures of the outcomes: what the paper has in its Figures 3 to 7 and Tables 2 to 4. Pure
//! functions from runs to text; [`plimsoll_picture`] writes SVG and HTML.
//!
//! | module | is |
//! |---|---|
//! | `data` | runs by program, collector, heap and scheduler |
//! | `bars` | bars by program or collector, values or changes |
//! | `boxes` | box plots of the pauses of threads |
//! | `lines` | a quantity by the size of the heap |
//! | `legend` | how the schedulers look |
//! | `figures` | all numbers, as a table |

mod bars;
mod boxes;
mod data;
mod figures;
mod legend;
mod lines;

use super::run::Run;
use bars::{Panel, bars};
use boxes::boxes;
use data::{Data, Group};
use lines::lines;
use plimsoll_picture::page::document;
use plimsoll_picture::scale;
use plimsoll_picture::svg::{escape, shortened};
use std::fmt::Write as _;

/// Most programs with pictures of their own, and most sentences about what has no outcome.
const MOST_PROGRAMS: usize = 40;
const MOST_NOTES: usize = 50;

/// Figure 3.
const COLLECTING: [Panel; 3] = [
    Panel::values("mark_cons"),
    Panel::values("average_pause_heaps"),
    Panel::values("greatest_pause_heaps"),
];

/// Tables 2 and 3.
const COUNTS: [Panel; 4] = [
    Panel::changes("minor_collections"),
    Panel::changes("full_collections"),
    Panel::changes("contentions"),
    Panel::changes("switches"),
];

/// Figures 5 to 7, Table 4.
const TIMES: [Panel; 3] = [
    Panel::changes("paused_ns"),
    Panel::changes("execution_ns"),
    Panel::changes("turnaround_ns"),
];

/// By the size of the heap.
const BY_HEAP: [Panel; 4] = [
    Panel::values("mark_cons"),
    Panel::changes("paused_ns"),
    Panel::changes("execution_ns"),
    Panel::changes("turnaround_ns"),
];

/// The page.
pub(super) fn page(runs: &[Run]) -> String {
    let data = Data::of(runs);
    let title = format!("Threads and collections: {}", data.programs.join(", "));
    let mut text = format!("<h1>{}</h1>\n", escape(&shortened(&title, 120)));
    let _ = writeln!(text, "<p>{}</p>", escape(&summary(runs, &data)));
    for collector in data.by_importance() {
        by_program(&mut text, &data, collector);
    }
    for program in 0..data.programs.len().min(MOST_PROGRAMS) {
        one_program(&mut text, &data, program);
    }
    notes(&mut text, runs);
    text += &figures::table(runs);
    document(&title, "", None, &text)
}

fn summary(runs: &[Run], data: &Data) -> String {
    let base = data.schedulers.first().map_or("", String::as_str);
    let mut text = format!("{} simulations", runs.len());
    if data.schedulers.len() > 1 {
        let _ = write!(text, "; changes are those against {base}");
    }
    if let Some(first) = runs.first() {
        let costs = first.cell.costs;
        let [copied, marked, contention, switch] = [
            costs.copied_byte,
            costs.marked_byte,
            costs.contention,
            costs.switch,
        ]
        .map(|cost| cost as f64 / 1000.0);
        let _ = write!(
            text,
            ". Processors: {}. A collection costs {copied} ns for each byte that it copies and {marked} ns \
             for each that it marks, a contention {contention} ns, a switch {switch} ns.",
            first.cell.processors
        );
    }
    text
}

/// All programs under a collector.
fn by_program(text: &mut String, data: &Data, collector: usize) {
    let groups = data.by_program(collector);
    if groups.is_empty() {
        return;
    }
    let name = escape(&data.collectors[collector]);
    let _ = writeln!(text, "<section>\n<h2>{name}: mark/cons and pauses</h2>");
    let _ = writeln!(
        text,
        "<p class=\"faint\">{}</p>",
        escape(&heaps_of(data, collector))
    );
    *text += &bars(
        &groups,
        &data.schedulers,
        &COLLECTING,
        "Mark/cons and pauses by program",
    );
    let _ = writeln!(text, "<h2>{name}: pauses of each thread</h2>");
    *text += &boxes(&groups, &data.schedulers);
    let _ = writeln!(
        text,
        "<h2>{name}: collections, contentions and switches</h2>"
    );
    *text += &bars(
        &groups,
        &data.schedulers,
        &COUNTS,
        "Collections, contentions and switches by program",
    );
    let _ = writeln!(text, "<h2>{name}: time</h2>");
    *text += &bars(
        &groups,
        &data.schedulers,
        &TIMES,
        "Collection, execution and turnaround time by program",
    );
    text.push_str("</section>\n");
}

/// Which heaps are shown where one has to be chosen.
fn heaps_of(data: &Data, collector: usize) -> String {
    let all = (0..data.programs.len()).filter_map(|it| data.typical_heap(it, collector));
    let times = |heap: u64| scale::number(heap as f64 / 100.0);
    match (all.clone().min(), all.max()) {
        (Some(least), Some(most)) if least < most => format!(
            "Heaps of {} to {} times the largest live size of each program.",
            times(least),
            times(most)
        ),
        (Some(heap), _) => format!(
            "A heap of {} times the largest live size of each program.",
            times(heap)
        ),
        _ => String::new(),
    }
}

/// The pictures of a program that has more than one heap or one collector in the sweep.
fn one_program(text: &mut String, data: &Data, program: usize) {
    let name = escape(&shortened(&data.programs[program], 60));
    let collectors = data.by_importance();
    if collectors.len() > 1 {
        let groups = data.by_collector(program);
        let _ = writeln!(text, "<section>\n<h2>{name}: by collector</h2>");
        *text += &bars(&groups, &data.schedulers, &TIMES, "Times by collector");
        text.push_str("</section>\n");
    }
    for collector in collectors {
        let heaps = data.heaps(program, collector);
        if heaps.len() < 2 {
            continue;
        }
        let groups: Vec<Group> = (heaps.iter())
            .map(|heap| data.group(program, collector, *heap, String::new()))
            .collect();
        let collector = escape(&data.collectors[collector]);
        let _ = writeln!(
            text,
            "<section>\n<h2>{name}: {collector} by the size of the heap</h2>"
        );
        *text += &lines(&heaps, &groups, &data.schedulers, &BY_HEAP);
        text.push_str("</section>\n");
    }
}

/// Why some have no outcome.
fn notes(text: &mut String, runs: &[Run]) {
    let failed: Vec<&Run> = runs.iter().filter(|run| run.error.is_some()).collect();
    if failed.is_empty() {
        return;
    }
    text.push_str("<h2>Without an outcome</h2>\n<ul>\n");
    for run in failed.iter().take(MOST_NOTES) {
        let error = run.error.as_deref().unwrap_or_default();
        let cell = &run.cell;
        let (trace, scheduler, collector) = (&cell.trace, &cell.scheduler, &cell.collector);
        let heap = plimsoll_cli::size::Human(cell.heap);
        let note = format!("{trace}, {scheduler}, {collector}, heap {heap}: {error}");
        let _ = writeln!(text, "<li>{}</li>", escape(&shortened(&note, 600)));
    }
    if failed.len() > MOST_NOTES {
        let _ = writeln!(text, "<li>and {} more</li>", failed.len() - MOST_NOTES);
    }
    text.push_str("</ul>\n");
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
