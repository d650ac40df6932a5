//! `plimsoll together`: several traces in one memory, under the broker or a heap policy.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `quantities` | the quantities of a program |
//! | `table` | a table for people, of 80 columns |
//! | `rows` | comma-separated values |
//! | `plot` | memory and work over time, as SVG and HTML |
//!
//! The work is that of [`plimsoll_sim::together`].

mod plot;
mod quantities;
mod rows;
mod table;

use crate::args::Together;
use crate::args::sim::HeapChoice;
use crate::args::together::of;
use crate::error::LabError;
use crate::sim::{Counted, costs, events, settings, told};
use plimsoll_cli::progress::during;
use plimsoll_cli::{
    json,
    output::{self, print, printed, say},
};
use plimsoll_policy::phases::Quanta;
use plimsoll_sim::threads::{self, Costs, Settings, Survey, Traced};
use plimsoll_sim::together::{Entrant, Policy, Setup, simulate};
use plimsoll_trace::Trace;
use plimsoll_unit::{Bytes, Nanos};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A trace that was read once.
struct Known {
    trace: Trace,
    survey: Survey,
}

/// Does what is asked for.
///
/// # Errors
/// When a trace cannot be read, what is asked for makes no sense, or a program fails.
pub fn run(args: &Together) -> Result<u8, LabError> {
    if let Some(fault) = args.fault() {
        return Err(LabError::usage(fault));
    }
    let known = during(|| "reading the traces".to_owned(), || read(&args.traces))?;
    let costs = costs(&args.model)?;
    let has_tables =
        !args.outputs.json && args.outputs.csv.is_none() && args.outputs.html.is_none();
    if has_tables {
        print(&told(&costs))?;
    }
    let all_events: u64 = known.iter().map(|it| events(&it.trace)).sum();
    let mut all = Vec::new();
    for &policy in &args.policy {
        let setup = setup(args, policy.into(), costs, &known);
        warn(&setup);
        let read = AtomicU64::new(0);
        let mut programs: Vec<_> = known
            .iter()
            .map(|it| Traced::new(&it.trace, &it.survey, args.model.instructions))
            .map(|program| Counted::new(program, &read))
            .collect();
        let mut programs: Vec<&mut dyn threads::Program> = programs
            .iter_mut()
            .map(|it| it as &mut dyn threads::Program)
            .collect();
        let far = || {
            let part = read.load(Ordering::Relaxed) as f64 / all_events.max(1) as f64;
            let (name, number) = (setup.policy.name(), all.len() + 1);
            let of = args.policy.len();
            format!(
                "{name} ({number} of {of}): {:.0} % of the events",
                100.0 * part.min(1.0)
            )
        };
        let outcome = during(far, || simulate(&setup, &mut programs))?;
        if has_tables {
            print(&table::text(&outcome))?;
        }
        all.push(outcome);
    }
    if let Some(path) = &args.outputs.plot {
        output::put(path, &plot::file(&all, path))?;
    }
    if let Some(path) = &args.outputs.html {
        output::put(path, &plot::page(&all))?;
    }
    if let Some(path) = &args.outputs.csv {
        output::write(path, |out| rows::write(&all, out))?;
    }
    if args.outputs.json {
        printed(json::write(&all, true, &mut std::io::stdout().lock()))?;
    }
    Ok(0)
}

/// Opens the traces, and reads each once.
fn read(paths: &[PathBuf]) -> Result<Vec<Known>, LabError> {
    let opened = paths.iter().map(|path| {
        let trace = crate::sim::open(path)?;
        let survey = Survey::of(&trace)?;
        Ok(Known { trace, survey })
    });
    opened.collect()
}

/// Says what is likely not meant.
fn warn(setup: &Setup) {
    let live: Bytes = setup.entrants.iter().map(|it| it.largest_live).sum();
    if live > setup.memory {
        say(format_args!(
            "warning: the programs have up to {} bytes alive together, more than the memory of {} bytes",
            live.0, setup.memory.0
        ));
    }
}

fn setup(args: &Together, policy: Policy, costs: Costs, known: &[Known]) -> Setup {
    let entrants = known.iter().enumerate();
    let entrants = entrants.map(|(index, it)| entrant(args, policy, costs, index, it));
    Setup {
        memory: Bytes(args.memory),
        policy,
        costs: args.paging.into(),
        reach: args.reach,
        entrants: entrants.collect(),
        hogs: args.hog.clone(),
    }
}

/// The value for a program, of a list that is not empty and whose length was checked.
fn pick<T: Copy>(list: &[T], program: usize) -> T {
    of(list, program).unwrap_or(list[0])
}

fn entrant(args: &Together, policy: Policy, costs: Costs, index: usize, known: &Known) -> Entrant {
    let live = known.survey.largest_live;
    let times = |times: f64| Bytes((live as f64 * times).ceil() as u64);
    let heap = match of(&args.each.heap, index) {
        Some(HeapChoice::Times(factor)) => times(factor),
        Some(HeapChoice::Bytes(bytes)) => Bytes(bytes),
        None if policy == Policy::Fixed => times(3.0),
        None => Bytes(args.memory),
    };
    let model = &args.model;
    Entrant {
        name: known.trace.name().to_string(),
        weight: of(&args.each.weight, index).unwrap_or_default(),
        priority: of(&args.each.priority, index).unwrap_or_default(),
        start: Nanos(of(&args.each.start, index).unwrap_or_default()),
        stop: of(&args.each.stop, index).and_then(|end| end.0).map(Nanos),
        settings: Settings {
            rule: pick(&args.each.scheduler, index).into(),
            quanta: Quanta {
                time: Nanos(pick(&model.quantum, index)),
                bytes: Bytes(pick(&model.memory_quantum, index)),
                most: Nanos(model.time_bound),
            },
            ties: pick(&model.ties, index).into(),
            collector: pick(&args.each.collector, index).into(),
            heap,
            new_ratio: pick(&model.new_ratio, index),
            ..settings(model, costs)
        },
        largest_live: Bytes(live),
    }
}
