//! `plimsoll sim`: the threads of traces under schedulers and collectors.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `table` | a table for people, of 80 columns |
//!
//! The work is that of [`plimsoll_sim::threads`].

mod table;

pub(crate) use table::time;

use crate::args::Sim;
use crate::args::sim::HeapChoice;
use crate::error::{CliError, FAILED};
use crate::{json, print, printed, say};
use plimsoll_policy::phases::Quanta;
use plimsoll_sim::threads::{Costs, Outcome, Settings, SimError, Survey, Traced, simulate};
use plimsoll_trace::{Deaths, Ending, Trace};
use serde::Serialize;
use std::path::Path;

/// One simulation. The JSON contract of `plimsoll sim --json`, which prints a list of these: fields may be
/// added, and none is removed. Times are nanoseconds and sizes bytes.
#[derive(Debug, Serialize)]
struct Run {
    trace: String,
    scheduler: &'static str,
    collector: &'static str,
    /// Size of the heap, and of the largest live size in the recorded order.
    heap: u64,
    recorded_largest_live: u64,
    processors: usize,
    quantum: u64,
    memory_quantum: u64,
    time_bound: u64,
    patience: u32,
    priorities: bool,
    /// Picoseconds.
    costs: [u64; 3],
    mark_cons: Option<f64>,
    /// Work of a collection, as a part of the heap.
    average_pause: Option<f64>,
    greatest_pause: Option<f64>,
    outcome: Option<Outcome>,
    /// Why there is no outcome.
    error: Option<String>,
}

impl Run {
    fn new(
        trace: &Trace,
        survey: &Survey,
        settings: &Settings,
        result: Result<Outcome, SimError>,
    ) -> Run {
        let (outcome, error) = match result {
            Ok(outcome) => (Some(outcome), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let costs = settings.costs;
        Run {
            trace: trace.name().to_string(),
            scheduler: settings.rule.name(),
            collector: settings.collector.name(),
            heap: settings.heap,
            recorded_largest_live: survey.largest_live,
            processors: settings.processors,
            quantum: settings.quanta.time,
            memory_quantum: settings.quanta.bytes,
            time_bound: settings.quanta.most,
            patience: settings.patience,
            priorities: settings.priorities,
            costs: [costs.collected_byte, costs.contention, costs.switch],
            mark_cons: outcome.as_ref().map(Outcome::mark_cons),
            average_pause: outcome.as_ref().map(Outcome::average_pause),
            greatest_pause: outcome.as_ref().map(Outcome::greatest_pause),
            outcome,
            error,
        }
    }
}

/// Does what is asked for.
///
/// # Errors
/// When a trace cannot be read. That a simulation has no outcome is told in its place.
pub fn run(args: &Sim) -> Result<u8, CliError> {
    let mut all = Vec::new();
    let mut failed = false;
    for path in &args.traces {
        let trace = open(path)?;
        let survey = Survey::of(&trace)?;
        for &heap in &args.heap {
            for &collector in &args.collector {
                let runs: Vec<Run> = args
                    .scheduler
                    .iter()
                    .map(|&scheduler| {
                        let settings = Settings {
                            rule: scheduler.into(),
                            collector: collector.into(),
                            ..settings(args, bytes(heap, &survey))
                        };
                        let mut program = Traced::new(&trace, &survey, args.instructions);
                        let result = simulate(&mut program, &settings);
                        Run::new(&trace, &survey, &settings, result)
                    })
                    .collect();
                failed |= runs.iter().any(|run| run.error.is_some());
                if !args.json {
                    print(&table::text(&runs))?;
                }
                all.extend(runs);
            }
        }
    }
    if args.json {
        printed(json::write(&all, true, &mut std::io::stdout().lock()))?;
    }
    Ok(if failed { FAILED } else { 0 })
}

/// Opens a trace, and warns of what makes its simulation less exact.
pub(crate) fn open(path: &Path) -> Result<Trace, CliError> {
    let trace = Trace::open(path)?;
    let name = trace.name();
    if let Ending::Cut { offset, why } = trace.ending() {
        say(format_args!(
            "warning: {name} is cut at byte {offset} ({why}); what stands before is simulated"
        ));
    }
    match trace.header().deaths {
        Deaths::Exact => {}
        Deaths::AtCollections => say(format_args!(
            "warning: in {name} objects die only where a collection found them, so they live too long here"
        )),
        Deaths::Unknown => say(format_args!(
            "warning: {name} does not tell when objects die, so all of them live to the end here"
        )),
    }
    Ok(trace)
}

/// The size of a heap, bytes.
fn bytes(heap: HeapChoice, survey: &Survey) -> u64 {
    match heap {
        HeapChoice::Times(times) => (survey.largest_live as f64 * times).ceil() as u64,
        HeapChoice::Bytes(bytes) => bytes,
    }
}

/// What is the same for all schedulers and collectors.
fn settings(args: &Sim, heap: u64) -> Settings {
    Settings {
        processors: args.processors as usize,
        rule: args.scheduler[0].into(),
        quanta: Quanta {
            time: args.quantum,
            bytes: args.memory_quantum,
            most: args.time_bound,
        },
        patience: args.patience,
        priorities: args.priorities,
        collector: args.collector[0].into(),
        heap,
        costs: Costs {
            collected_byte: args.gc_cost,
            contention: args.contention_cost,
            switch: args.switch_cost,
        },
    }
}
