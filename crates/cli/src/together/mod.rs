//! `plimsoll together`: several traces in one memory, under the broker or a heap policy.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `table` | a table for people, of 80 columns |
//! | `plot` | memory and work over time, as SVG and HTML |
//!
//! The work is that of [`plimsoll_sim::together`].

mod plot;
mod table;

use crate::args::Together;
use crate::args::sim::HeapChoice;
use crate::args::together::of;
use crate::error::CliError;
use crate::output::Output;
use crate::{json, print, printed, say};
use plimsoll_policy::phases::Quanta;
use plimsoll_sim::threads::{self, Settings, Survey, Traced};
use plimsoll_sim::together::{Entrant, Outcome, Policy, Setup, simulate};
use plimsoll_trace::Trace;
use std::path::PathBuf;

/// A trace that was read once.
struct Known {
    trace: Trace,
    survey: Survey,
}

/// Does what is asked for.
///
/// # Errors
/// When a trace cannot be read, what is asked for makes no sense, or a program fails.
pub fn run(args: &Together) -> Result<u8, CliError> {
    if let Some(fault) = args.fault() {
        return Err(CliError::Usage(fault));
    }
    let known = read(&args.traces)?;
    let mut all = Vec::new();
    for &policy in &args.policy {
        let setup = setup(args, policy.into(), &known);
        warn(&setup);
        let opened = known.iter();
        let mut programs: Vec<Traced> = opened
            .map(|it| Traced::new(&it.trace, &it.survey, args.instructions))
            .collect();
        let mut programs: Vec<&mut dyn threads::Program> = programs
            .iter_mut()
            .map(|it| it as &mut dyn threads::Program)
            .collect();
        let outcome = simulate(&setup, &mut programs)?;
        if !args.json {
            print(&table::text(&outcome))?;
        }
        all.push(outcome);
    }
    if let Some(path) = &args.plot {
        Output::replace(path, &plot::file(&all, path)?)?;
    }
    match args.json {
        true => printed(json::write(&all, true, &mut std::io::stdout().lock())),
        false => Ok(0),
    }
}

/// Opens the traces, and reads each once.
fn read(paths: &[PathBuf]) -> Result<Vec<Known>, CliError> {
    let opened = paths.iter().map(|path| {
        let trace = crate::sim::open(path)?;
        let survey = Survey::of(&trace)?;
        Ok(Known { trace, survey })
    });
    opened.collect()
}

/// Says what is likely not meant.
fn warn(setup: &Setup) {
    let live: u64 = setup.entrants.iter().map(|it| it.largest_live).sum();
    if live > setup.memory {
        say(format_args!(
            "warning: the programs have up to {live} bytes alive together, more than the memory of {} bytes",
            setup.memory
        ));
    }
}

fn setup(args: &Together, policy: Policy, known: &[Known]) -> Setup {
    let entrants = known.iter().enumerate();
    let entrants = entrants.map(|(index, it)| entrant(args, policy, index, it));
    Setup {
        memory: args.memory,
        policy,
        costs: args.paging.into(),
        reach: args.reach,
        entrants: entrants.collect(),
        hogs: args.hog.clone(),
    }
}

fn entrant(args: &Together, policy: Policy, index: usize, known: &Known) -> Entrant {
    let live = known.survey.largest_live;
    let times = |times: f64| (live as f64 * times).ceil() as u64;
    let heap = match of(&args.heap, index) {
        Some(HeapChoice::Times(factor)) => times(factor),
        Some(HeapChoice::Bytes(bytes)) => bytes,
        None if policy == Policy::Fixed => times(3.0),
        None => args.memory,
    };
    let rule = of(&args.scheduler, index).unwrap_or(args.scheduler[0]);
    let collector = of(&args.collector, index).unwrap_or(args.collector[0]);
    Entrant {
        name: known.trace.name().to_string(),
        weight: of(&args.weight, index).unwrap_or_default(),
        priority: of(&args.priority, index).unwrap_or_default(),
        start: of(&args.start, index).unwrap_or_default(),
        stop: of(&args.stop, index).and_then(|end| end.0),
        settings: Settings {
            processors: args.processors as usize,
            quanta: Quanta {
                time: args.quantum,
                ..Quanta::PAPER
            },
            ..Settings::new(rule.into(), collector.into(), heap)
        },
        largest_live: live,
    }
}
