//! `plimsoll sim calibrate`: what the constants of the cost formula are on this machine.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `graph` | a heap of objects, and collectors at work on it |
//! | `switches` | threads that hand a token to each other |

mod graph;
mod switches;

use super::constants::{Constants, NAMES};
use crate::args::sim::Calibrate;
use crate::error::LabError;
use graph::Graph;
use plimsoll_cli::progress::Line;
use plimsoll_cli::{
    json,
    output::{print, printed},
};
use plimsoll_kernel::clock;
use plimsoll_sim::threads::Costs;
use serde::Serialize;
use std::fmt::Write as _;

/// A constant. The JSON contract of `plimsoll sim calibrate --json`; fields may be added.
#[derive(Debug, Serialize)]
struct Constant {
    name: &'static str,
    /// Nanoseconds, as all below.
    median: f64,
    least: f64,
    greatest: f64,
    /// The paper's value.
    paper: f64,
    /// The value of each repetition.
    values: Vec<f64>,
}

impl Constant {
    fn new(name: &'static str, values: Vec<f64>, paper: f64) -> Constant {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        Constant {
            name,
            median: (at(last / 2) + at(last.div_ceil(2))) / 2.0,
            least: at(0),
            greatest: at(last),
            paper,
            values,
        }
    }
}

/// All of what `--json` prints.
#[derive(Debug, Serialize)]
struct Document {
    repetitions: u32,
    /// Live size and size of the heap that was collected, bytes.
    live: u64,
    heap: u64,
    constants: Vec<Constant>,
}

/// Measures, prints, and writes the file if one is asked for.
///
/// # Errors
/// The kernel refuses what is measured, or the file cannot be written.
pub(super) fn run(args: &Calibrate) -> Result<u8, LabError> {
    let document = measure(args)?;
    if let Some(path) = &args.output {
        let medians = Constants::of(|name| {
            let found = document.constants.iter().find(|it| it.name == name);
            found.map_or(0.0, |it| it.median)
        });
        medians.write(path)?;
    }
    Ok(if args.json {
        printed(json::write(&document, true, &mut std::io::stdout().lock()))?
    } else {
        print(&text(&document))?
    })
}

fn measure(args: &Calibrate) -> Result<Document, LabError> {
    let mut line = Line::new(false);
    line.show(|| "a heap is made, to collect it".to_owned());
    let graph = Graph::new(args.live);
    let mut room = graph.room();
    let mut found: [Vec<f64>; NAMES.len()] = Default::default();
    for repetition in 0..args.repeat {
        line.show(|| format!("repetition {} of {}", repetition + 1, args.repeat));
        for (values, value) in found.iter_mut().zip(once(&graph, &mut room)?) {
            values.push(value);
        }
    }
    line.clear();
    let paper = Constants::from(Costs::PAPER);
    let constants = NAMES.iter().zip(found);
    Ok(Document {
        repetitions: args.repeat,
        live: graph.live,
        heap: graph.bytes(),
        constants: constants
            .map(|(name, values)| Constant::new(name, values, paper.get(name)))
            .collect(),
    })
}

/// One value of each constant, in the order of [`NAMES`].
fn once(graph: &Graph, room: &mut [u64]) -> Result<[f64; NAMES.len()], LabError> {
    let copied = each_byte(&mut graph.clone(), |graph| graph.copy(room));
    let mut marked = graph.clone();
    let mark = each_byte(&mut marked, Graph::mark);
    let compacted = each_byte(&mut marked.clone(), Graph::compact);
    let swept = each_byte(&mut marked, Graph::sweep);
    let [switch, contention] = switches::measure()?;
    Ok([copied, mark, compacted, swept, contention, switch])
}

/// Nanoseconds of processor time for each byte that `work` says it has handled.
fn each_byte(graph: &mut Graph, work: impl FnOnce(&mut Graph) -> u64) -> f64 {
    let before = clock::thread_cpu().0;
    let bytes = work(graph);
    (clock::thread_cpu().0 - before) as f64 / bytes.max(1) as f64
}

fn text(document: &Document) -> String {
    let mut text = format!(
        "{:<18}{:>12}{:>12}{:>12}{:>12}\n",
        "nanoseconds", "median", "least", "greatest", "paper"
    );
    for it in &document.constants {
        let name = it.name.replace('_', " ");
        let _ = write!(text, "{name:<18}");
        for value in [it.median, it.least, it.greatest, it.paper] {
            let _ = match value {
                ..100.0 => write!(text, "{value:>12.3}"),
                _ => write!(text, "{value:>12.0}"),
            };
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\n{} repetitions; a heap with {} live of {}",
        document.repetitions,
        plimsoll_cli::size::Human(document.live),
        plimsoll_cli::size::Human(document.heap)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_two() {
        let of = |values: &[f64]| Constant::new("x", values.to_vec(), 1.0);
        let it = of(&[4.0, 1.0, 3.0, 9.0]);
        assert_eq!((it.median, it.least, it.greatest), (3.5, 1.0, 9.0));
        assert_eq!(of(&[5.0]).median, 5.0);
    }
}
