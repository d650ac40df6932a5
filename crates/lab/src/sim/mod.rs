//! `plimsoll sim`: the threads of traces under schedulers and collectors.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `plan` | which simulations are asked for |
//! | `run` | one of them: what it is of, and what came of it |
//! | `sweep` | makes them, several at a time |
//! | `counted_reader` | a program that is being simulated, with how far it is |
//! | `store` | keeps them in a file, so that none is made twice |
//! | `table` | a table for people, of 80 columns |
//! | `report` | a page with pictures |
//! | `columns`, `csv`, `parquet` | a simulation as a row |
//! | `constants` | the file with what things cost |
//! | `calibrate` | measures what they cost here |
//!
//! The work is that of [`plimsoll_sim::threads`].

mod calibrate;
mod columns;
mod constants;
mod counted_reader;
mod csv;
mod parquet;
mod plan;
mod report;
mod run;
#[cfg(test)]
mod samples;
mod store;
mod sweep;
mod table;

pub(crate) use constants::{costs, told};
pub(crate) use counted_reader::Counted;
pub(crate) use csv::table as csv_table;
pub(crate) use plan::{events, open, settings};
pub(crate) use table::{time, written};

use crate::args::Sim;
use crate::args::sim::{Outputs, SimCommand};
use crate::error::LabError;
use plan::Plan;
use plimsoll_cli::error::FAILED;
use plimsoll_cli::{
    json,
    output::{self, print, printed, say},
};
use run::{Cell, Run, Status};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::Store;
use sweep::{Watcher, sweep};

/// Exit status when a signal has stopped a sweep, as of a program that Ctrl-C has ended.
const STOPPED: u8 = 130;

/// Does what is asked for.
///
/// # Errors
/// When a trace cannot be opened, or a file cannot be written. That a simulation has no outcome is told in
/// its place.
pub fn run(args: &Sim) -> Result<u8, LabError> {
    if let Some(SimCommand::Calibrate(args)) = &args.command {
        return calibrate::run(args);
    }
    let plan = Arc::new(Plan::of(args)?);
    let outputs = &args.outputs;
    if let Some(index) = outputs.cell {
        return one(&plan, index);
    }
    let (store, runs) = match &outputs.output {
        Some(path) => {
            let (store, runs) = Store::open(path, &plan)?;
            (Some(store), runs)
        }
        None => (None, vec![None; plan.len()]),
    };
    if outputs.plan {
        let planned = Planned::of(&plan, &store, &runs);
        let written = json::write(&planned, true, &mut std::io::stdout().lock());
        return Ok(printed(written)?);
    }
    Session::begin(plan, outputs, store, runs)?.run()
}

/// Makes one simulation, and prints it as a line of `FILE.cells`.
fn one(plan: &Plan, index: usize) -> Result<u8, LabError> {
    if index >= plan.len() {
        let why = format!("there is no cell {index}: the plan has {}", plan.len());
        return Err(LabError::usage(why));
    }
    let run = plan.run(index, &AtomicU64::new(0));
    match (run.status, &run.error) {
        (Status::Unread, Some(error)) => Err(LabError::Simulation(error.clone())),
        _ => Ok(print(&store::line(&run))?),
    }
}

/// The output of `plimsoll sim --plan`: a JSON contract, too.
#[derive(Serialize)]
struct Planned<'a> {
    /// Where the lines of simulations belong.
    cells_file: Option<&'a Path>,
    cells: Vec<PlannedCell<'a>>,
}

#[derive(Serialize)]
struct PlannedCell<'a> {
    /// For `--cell`.
    number: usize,
    /// Events of its trace: about how long it takes.
    events: u64,
    done: bool,
    #[serde(flatten)]
    cell: &'a Cell,
}

impl<'a> Planned<'a> {
    fn of(plan: &'a Plan, store: &'a Option<Store>, runs: &[Option<Run>]) -> Planned<'a> {
        let cell = |(number, run): (usize, &Option<Run>)| PlannedCell {
            number,
            events: plan.events(number),
            done: run.is_some(),
            cell: plan.cell(number),
        };
        Planned {
            cells_file: store.as_ref().map(Store::cells_path),
            cells: runs.iter().enumerate().map(cell).collect(),
        }
    }
}

/// A command while it simulates.
struct Session<'a> {
    plan: Arc<Plan>,
    outputs: &'a Outputs,
    store: Option<Store>,
    /// The simulations that are done, by their numbers in the plan.
    runs: Vec<Option<Run>>,
    /// How many of the first are in tables that were printed.
    shown: usize,
    /// Set by signals, where simulations are kept.
    stopped: Arc<AtomicBool>,
}

impl<'a> Session<'a> {
    fn begin(
        plan: Arc<Plan>,
        outputs: &'a Outputs,
        store: Option<Store>,
        runs: Vec<Option<Run>>,
    ) -> Result<Session<'a>, LabError> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP].iter().filter(|_| store.is_some()) {
            signal_hook::flag::register(*signal, Arc::clone(&stopped))
                .map_err(LabError::system("signals"))?;
        }
        Ok(Session {
            plan,
            outputs,
            store,
            runs,
            shown: 0,
            stopped,
        })
    }

    fn run(mut self) -> Result<u8, LabError> {
        let open = self
            .runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.is_none());
        let todo: Vec<usize> = open.map(|(index, _)| index).collect();
        let made = todo.len();
        self.show()?;
        let plan = Arc::clone(&self.plan);
        if !sweep(&plan, todo, self.jobs(), &mut self)? {
            return Ok(self.stop());
        }
        let runs: Vec<Run> = std::mem::take(&mut self.runs)
            .into_iter()
            .flatten()
            .collect();
        if let Some(store) = &mut self.store {
            store.finish(&runs)?;
        }
        self.print(&runs, made)?;
        let failed = runs.iter().any(|run| run.status != Status::Done);
        Ok(if failed { FAILED } else { 0 })
    }

    fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.outputs.jobs.map_or_else(processors, usize::from)
    }

    /// Whether tables are what is asked for.
    fn has_tables(&self) -> bool {
        let Outputs { json, csv, .. } = self.outputs;
        !json && csv.is_none() && self.store.is_none() && self.outputs.html.is_none()
    }

    /// Prints the tables that are complete.
    fn show(&mut self) -> Result<(), LabError> {
        while self.has_tables()
            && let Some(end) = self.plan.end_of_table(self.shown)
        {
            let runs: Option<Vec<&Run>> = self.runs[self.shown..end]
                .iter()
                .map(Option::as_ref)
                .collect();
            let Some(runs) = runs else { break };
            if self.shown == 0 {
                print(&constants::told(&runs[0].cell.costs))?;
            }
            print(&table::text(&runs))?;
            self.shown = end;
        }
        Ok(())
    }

    /// Prints or writes the other outputs that were asked for, beside tables and the file.
    fn print(&self, runs: &[Run], made: usize) -> Result<(), LabError> {
        if self.outputs.json {
            printed(json::write(&runs, true, &mut std::io::stdout().lock()))?;
        } else if let Some(path) = &self.outputs.csv {
            output::write(path, |out| csv::write(runs, out))?;
        } else if let Some(path) = &self.outputs.output {
            let without = runs.iter().filter(|run| run.status != Status::Done).count();
            let (path, all) = (path.display(), runs.len());
            print(&format!(
                "{path}: {all} simulations, {made} of them made now, {without} without an outcome\n"
            ))?;
            let mut why = String::new();
            table::failures(&mut why, runs);
            let _ = std::io::stderr().write_all(why.as_bytes());
        }
        if let Some(path) = &self.outputs.html {
            output::put(path, &report::page(runs))?;
        }
        Ok(())
    }

    fn stop(&self) -> u8 {
        let done = self.runs.iter().flatten().count();
        if let Some(store) = &self.store {
            let (all, path) = (self.plan.len(), store.cells_path().display());
            say(format_args!(
                "stopped: {done} of {all} simulations are kept in {path}; the same command makes the others"
            ));
        }
        STOPPED
    }
}

impl Watcher for Session<'_> {
    fn done(&mut self, index: usize, run: Run) -> Result<(), LabError> {
        if let Some(store) = &mut self.store
            && run.status != Status::Unread
        {
            store.add(&run)?;
        }
        self.runs[index] = Some(run);
        self.show()
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
