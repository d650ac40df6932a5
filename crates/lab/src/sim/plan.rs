//! The plan of simulations: each trace with each heap, collector, scheduler and quantum.

use super::constants::costs;
use super::counted_reader::Counted;
use super::run::{Cell, Run, Turns};
use crate::args::sim::HeapChoice;
use crate::args::{Model, Sim};
use crate::error::LabError;
use plimsoll_cli::output::say;
use plimsoll_policy::phases::{Quanta, Rule, Ties};
use plimsoll_sim::threads::heap::{Algorithm, NewRatio};
use plimsoll_sim::threads::{Costs, Settings, SimError, Survey, Traced, simulate};
use plimsoll_trace::{Deaths, Ending, Trace, TraceError};
use plimsoll_unit::{Bytes, Nanos};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// The most simulations of one command.
const MOST: usize = 100_000;

/// A trace that is simulated.
struct Subject {
    trace: Trace,
    /// Events, if the trace has them counted; 1 otherwise.
    events: u64,
    /// Made when it is first needed, because all of the trace is read for it.
    survey: OnceLock<Result<Survey, TraceError>>,
}

impl Subject {
    fn open(path: &Path) -> Result<Subject, LabError> {
        let trace = open(path)?;
        let events = events(&trace).max(1);
        Ok(Subject {
            trace,
            events,
            survey: OnceLock::new(),
        })
    }

    fn survey(&self) -> Result<&Survey, String> {
        let survey = self.survey.get_or_init(|| Survey::of(&self.trace));
        survey.as_ref().map_err(TraceError::to_string)
    }

    /// The largest live size in the recorded order, bytes.
    fn largest_live(&self) -> Result<u64, String> {
        match self.trace.largest_live() {
            Some(bytes) => Ok(bytes),
            None => self.survey().map(|survey| survey.largest_live),
        }
    }
}

/// A simulation that was asked for.
struct Planned {
    subject: usize,
    settings: Settings,
    cell: Cell,
}

/// All simulations that were asked for, in the order in which they are shown.
pub(super) struct Plan {
    subjects: Vec<Subject>,
    planned: Vec<Planned>,
    instructions: f64,
}

impl Plan {
    /// Opens the traces.
    ///
    /// # Errors
    /// When one cannot be opened, or when it are too many.
    pub(super) fn of(args: &Sim) -> Result<Plan, LabError> {
        let mut plan = Plan {
            subjects: Vec::new(),
            planned: Vec::new(),
            instructions: args.model.instructions,
        };
        let costs = costs(&args.model)?;
        for path in &args.traces {
            let subject = Subject::open(path)?;
            let live = subject.largest_live().map_err(LabError::Simulation)?;
            let fingerprint = format!("{:016x}", subject.trace.fingerprint()?);
            for heap in distinct(&args.heap) {
                for (collector, new_ratio) in collectors(args) {
                    for (rule, quanta, ties) in schedulers(args) {
                        let settings = Settings {
                            rule,
                            quanta,
                            ties,
                            collector,
                            new_ratio,
                            heap: bytes(heap, live),
                            ..settings(&args.model, costs)
                        };
                        let instructions = args.model.instructions;
                        let trace = &subject.trace;
                        plan.add(
                            settings,
                            cell(trace, &fingerprint, live, &settings, instructions),
                        )?;
                    }
                }
            }
            plan.subjects.push(subject);
        }
        Ok(plan)
    }

    fn add(&mut self, settings: Settings, cell: Cell) -> Result<(), LabError> {
        if self.planned.len() >= MOST {
            let why = format!("more than {MOST} simulations: ask for them in parts");
            return Err(LabError::usage(why));
        }
        self.planned.push(Planned {
            subject: self.subjects.len(),
            settings,
            cell,
        });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.planned.len()
    }

    /// The settings of the simulation of this number.
    pub(super) fn cell(&self, index: usize) -> &Cell {
        &self.planned[index].cell
    }

    /// Where the table ends that begins with this one: its simulations differ in their schedulers only.
    pub(super) fn end_of_table(&self, first: usize) -> Option<usize> {
        let begin = self.planned.get(first)?;
        let same = |other: &&Planned| {
            let (one, other_cell) = (&begin.cell, &other.cell);
            begin.subject == other.subject
                && one.heap == other_cell.heap
                && one.collector == other_cell.collector
                && one.new_ratio == other_cell.new_ratio
        };
        Some(first + self.planned[first..].iter().take_while(same).count())
    }

    /// How long it takes, as a number of events.
    pub(super) fn events(&self, index: usize) -> u64 {
        self.subjects[self.planned[index].subject].events
    }

    /// Simulates it. Its events are counted in `read` as they are read.
    pub(super) fn run(&self, index: usize, read: &AtomicU64) -> Run {
        let Planned {
            subject,
            settings,
            cell,
        } = &self.planned[index];
        let subject = &self.subjects[*subject];
        // A trace that was cut does not tell how many events it has: these are then not counted.
        let unheard = AtomicU64::new(0);
        let read = if subject.events > 1 { read } else { &unheard };
        let result = match subject.survey() {
            Ok(survey) => {
                let program = Traced::new(&subject.trace, survey, self.instructions);
                simulate(&mut Counted::new(program, read), settings)
            }
            Err(why) => Err(SimError::Read(why.into())),
        };
        Run::new(cell.clone(), result)
    }
}

/// The number of events of a trace, as far as its index tells.
pub(crate) fn events(trace: &Trace) -> u64 {
    let totals = trace.streams().values().filter_map(|info| info.totals);
    totals.map(|it| it.events).fold(0, u64::saturating_add)
}

/// Opens a trace, and warns of what makes its simulation less exact.
///
/// # Errors
/// It cannot be read, or nobody has found yet when its objects die.
pub(crate) fn open(path: &Path) -> Result<Trace, LabError> {
    let is_output = |kind: &str| path.extension().is_some_and(|it| it == kind);
    let kind = ["csv", "html", "svg", "json", "parquet"]
        .into_iter()
        .find(|it| is_output(it));
    if let Some(kind) = kind.filter(|_| !path.exists()) {
        let name = path.display();
        return Err(LabError::usage(match kind {
            "csv" => format!("there is no trace {name}; to write that file, say --csv={name}"),
            "json" => format!(
                "there is no trace {name}; --json prints to standard output: --json > {name}"
            ),
            _ => format!("there is no trace {name}; a file to write comes after its flag (--help)"),
        }));
    }
    let trace = crate::trace::opened(path)?;
    let name = trace.name();
    if trace.header().raw {
        return Err(LabError::usage(format!(
            "{name} is a raw trace, which does not tell when objects die: `plimsoll trace deaths {name} -o \
             FILE` finds that out"
        )));
    }
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

/// The values of a list, each once.
fn distinct<T: Copy + PartialEq>(list: &[T]) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for item in list {
        if !once.contains(item) {
            once.push(*item);
        }
    }
    once
}

/// The collectors, each with each division of its heap.
fn collectors(args: &Sim) -> Vec<(Algorithm, NewRatio)> {
    let ratios = distinct(&args.model.new_ratio);
    let mut all = Vec::new();
    for collector in distinct(&args.collector) {
        let collector = Algorithm::from(collector);
        let count = if collector.has_generations() {
            ratios.len()
        } else {
            1
        };
        all.extend(ratios[..count].iter().map(|ratio| (collector, *ratio)));
    }
    all
}

/// The schedulers, each with each of its quanta and ways with ties.
fn schedulers(args: &Sim) -> Vec<(Rule, Quanta, Ties)> {
    let model = &args.model;
    let (times, sizes) = (distinct(&model.quantum), distinct(&model.memory_quantum));
    let ties = distinct(&model.ties).into_iter().map(Ties::from);
    let ties = ties.collect::<Vec<_>>();
    let quanta = |time, bytes| Quanta {
        time,
        bytes,
        most: Nanos(model.time_bound),
    };
    let mut all = Vec::new();
    for scheduler in distinct(&args.scheduler) {
        let rule = Rule::from(scheduler);
        let sizes = if rule == Rule::Mqrr {
            &sizes[..]
        } else {
            &sizes[..1]
        };
        let times = if rule == Rule::Mqrr {
            &times[..1]
        } else {
            &times[..]
        };
        let ties = if rule == Rule::Larf {
            &ties[..]
        } else {
            &ties[..1]
        };
        for ties in ties {
            let quanta = times
                .iter()
                .flat_map(|time| sizes.iter().map(|size| quanta(Nanos(*time), Bytes(*size))));
            all.extend(quanta.map(|quanta| (rule, quanta, *ties)));
        }
    }
    all
}

/// The size of a heap.
fn bytes(heap: HeapChoice, largest_live: u64) -> Bytes {
    match heap {
        HeapChoice::Times(times) => Bytes((largest_live as f64 * times).ceil() as u64),
        HeapChoice::Bytes(bytes) => Bytes(bytes),
    }
}

/// The settings that are no lists.
pub(crate) fn settings(model: &Model, costs: Costs) -> Settings {
    Settings {
        processors: model.processors as usize,
        patience: model.patience,
        priorities: model.priorities,
        costs,
        ..Settings::new(Rule::RoundRobin, Algorithm::GenMc, Bytes::ZERO)
    }
}

fn cell(
    trace: &Trace,
    fingerprint: &str,
    live: u64,
    settings: &Settings,
    instructions: f64,
) -> Cell {
    Cell {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: trace.name().to_string(),
        fingerprint: fingerprint.to_owned(),
        scheduler: settings.rule.name().to_owned(),
        collector: settings.collector.name().to_owned(),
        heap: settings.heap.0,
        new_ratio: (settings.collector.has_generations()).then(|| settings.new_ratio.times()),
        recorded_largest_live: live,
        processors: settings.processors,
        turns: Turns::of(settings),
        patience: settings.patience,
        priorities: settings.priorities,
        instructions,
        costs: settings.costs,
    }
}
