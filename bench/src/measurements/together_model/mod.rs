//! Walfield's evaluation in the model of several programs under one broker: Table 2 with Figures 1 and 2, and
//! Figure 3; and schedulers of threads under policies for heaps. Nothing is measured: the same code always
//! gives the same figures, on any machine.

mod schedulers;

use crate::Result;
use crate::measurement::{About, Measurement};
use crate::report::plot::Plot;
use crate::report::results::Results;
use crate::runner::Runner;
use plimsoll_picture::chart::{Kind, Series};
use plimsoll_sim::together::setups::{self, ITERATIONS, Scheduler};
use plimsoll_sim::together::{Outcome, Point, Policy, Program};
use plimsoll_unit::{Bytes, MIB, SECOND};

const COLLECTIONS: &str =
    "the adaptive heap collects at most a hundredth as often as by its own rule";
const BESIDE: &str =
    "beside the hog the adaptive heap takes at most 1.1 times as long, and pages nothing";
const FIXED: &str =
    "beside the hog the fixed heap takes at least 1.5 times as long as the adaptive one";
const PARTS: &str =
    "three programs: within 50 MiB of their parts by weight, 10 s after each arrival";

/// The rows of Table 2: names, and collections, percent in collections and seconds as the paper has them.
type Row = (&'static str, Scheduler, bool, &'static str);
const ROWS: [Row; 8] = [
    ("adaptive", ADAPTIVE, false, "134; 3.6 %; 284.8 s"),
    ("adaptive", ADAPTIVE, true, "223; 4.4 %; 303.9 s"),
    (
        "own rule",
        Scheduler::Default,
        false,
        "43881; 53.9 %; 389.0 s",
    ),
    (
        "own rule",
        Scheduler::Default,
        true,
        "43881; 53.6 %; 400.3 s",
    ),
    (
        "fixed",
        Scheduler::Fixed,
        false,
        "119; 8.0 %; 228.0 s (Linux)",
    ),
    (
        "fixed",
        Scheduler::Fixed,
        true,
        "119; 12.6 %; 388.2 s (Linux)",
    ),
    ("Isla Vista", ISLA_VISTA, false, "-"),
    ("Isla Vista", ISLA_VISTA, true, "-"),
];
const ADAPTIVE: Scheduler = Scheduler::Adaptive(Policy::Weights);
const ISLA_VISTA: Scheduler = Scheduler::Adaptive(Policy::IslaVista);

/// `together-model`.
pub(super) struct TogetherModel;

impl Measurement for TogetherModel {
    fn about(&self) -> About {
        About {
            name: "together-model",
            question: "Walfield's evaluation in the model of several programs under the broker: \
                       the same shape?",
            asks: &[COLLECTIONS, BESIDE, FIXED, PARTS],
            minutes: 4,
            only: false,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let mut results = runner
            .results(
                "The benchmark of section 5.1 with and without its memory hog, and two made-up programs of \
                 many threads in one memory: collections, the part of the time in them with what they waited \
                 for memory, time, blocks read back.",
                "A model, not a measurement: it gives the same figures on every machine. The two programs \
                 (hsqldb, and specjbb2000 shortened by 300) have 1.8 times the sum of their largest live \
                 sizes, GenMC, the paper's quanta and a processor each.",
            )
            .columns(&[
                ("program", ""),
                ("heap", ""),
                ("threads", ""),
                ("hog", ""),
                ("collections", ""),
                ("in collections", "%"),
                ("time", "s"),
                ("faults", ""),
                ("the paper", ""),
            ]);
        results.repetitions = 1;
        let mut all = Vec::new();
        for (name, scheduler, hog, paper) in ROWS {
            runner.progress(name).tell(format_args!("hog: {hog}"));
            let outcome = setups::alone(scheduler, hog, ITERATIONS)?;
            let hog = if hog { "yes" } else { "no" };
            row(
                &mut results,
                "benchmark",
                (name, "one"),
                hog,
                &outcome.programs[0],
                paper,
            );
            all.push(outcome);
        }
        judge_alone(&all, &mut results);
        runner.plot("", &progress(&all))?;
        runner.plot("hog", &memory_beside_hog(&all[1]))?;
        runner
            .progress("three")
            .tell(format_args!("weights 10, 40, 20"));
        let three = setups::three(Policy::Weights, ITERATIONS)?;
        judge_three(&three, &mut results);
        runner.plot("three", &memory_of_three(&three))?;
        schedulers::rows(&mut results, runner)?;
        Ok(results)
    }
}

/// Adds what came of a program, by what sizes its heap and how its threads are scheduled.
fn row(
    results: &mut Results,
    name: &str,
    (heap, threads): (&str, &str),
    hog: &str,
    one: &Program,
    paper: &str,
) {
    let time = seconds(one.ended);
    results.row([
        name.into(),
        heap.into(),
        threads.into(),
        hog.into(),
        one.outcome.collections().into(),
        (seconds(one.outcome.paused) / time * 100.0).into(),
        time.into(),
        one.faults().into(),
        paper.into(),
    ]);
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

fn judge_alone(all: &[Outcome], results: &mut Results) {
    let one = |row: usize| &all[row].programs[0];
    let (adaptive, own) = (one(0).outcome.collections(), one(2).outcome.collections());
    results.target(
        COLLECTIONS,
        format!("{adaptive} of {own}"),
        adaptive * 100 <= own,
    );
    let time = |row: usize| seconds(one(row).ended);
    let (longer, faults) = (time(1) / time(0), one(1).faults());
    results.target(
        BESIDE,
        format!("{longer:.2} times, {faults} blocks read back"),
        longer <= 1.1 && faults == 0,
    );
    let fixed = time(5) / time(1);
    results.target(FIXED, format!("{fixed:.2} times"), fixed >= 1.5);
}

/// From 10 s after an arrival or an end until the next one: how far a program was from its part at most.
fn judge_three(three: &Outcome, results: &mut Results) {
    let changes = three.programs.iter().flat_map(|it| [it.began, it.ended]);
    let changes: Vec<u64> = changes.collect();
    let settled = |point: &&Point| {
        changes
            .iter()
            .all(|&at| point.at < at || point.at >= at + 10 * SECOND)
    };
    let points = three.programs.iter().flat_map(|it| &it.points);
    let apart = points.filter(settled).map(|it| it.uses.abs_diff(it.ideal));
    let apart = apart.max().unwrap_or(u64::MAX) as f64 / MIB as f64;
    results.target(PARTS, format!("{apart:.0} MiB at most"), apart <= 50.0);
}

/// A value of a program over time.
fn line(name: &str, colour: usize, kind: Kind, it: &Program, value: fn(&Point) -> f64) -> Series {
    Series {
        name: name.to_owned(),
        points: it
            .points
            .iter()
            .map(|point| (seconds(point.at), value(point)))
            .collect(),
        colour,
        kind,
        ..Series::default()
    }
}

fn uses(point: &Point) -> f64 {
    point.uses as f64 / MIB as f64
}

fn available(point: &Point) -> f64 {
    point.available as f64 / MIB as f64
}

/// Time over iterations, all of which allocate the same. So each line ends at the right, where its name is.
fn progress(all: &[Outcome]) -> Plot {
    let reached = |point: &Point| {
        (
            setups::iterations_of(Bytes(point.allocated)),
            seconds(point.at),
        )
    };
    let lines = [
        (0, "adaptive", 0, Kind::Dashed),
        (1, "adaptive, hog", 0, Kind::Line),
        (4, "fixed", 1, Kind::Dashed),
        (5, "fixed, hog", 1, Kind::Line),
    ];
    Plot {
        title: "When the benchmark has made its iterations, with and without a hog (model)"
            .to_owned(),
        note: "Dashed: without the hog, which begins after 45 s and is gone after 299 s".to_owned(),
        unit: "seconds".to_owned(),
        across: "iterations".to_owned(),
        series: lines
            .iter()
            .map(|&(row, name, colour, kind)| Series {
                name: name.to_owned(),
                points: all[row].programs[0].points.iter().map(reached).collect(),
                colour,
                kind,
                ..Series::default()
            })
            .collect(),
        ..Plot::default()
    }
}

fn memory_beside_hog(outcome: &Outcome) -> Plot {
    let hog = outcome.hogs.iter();
    let hog = Series {
        name: "hog".to_owned(),
        points: hog
            .map(|&(at, held)| (seconds(at), held as f64 / MIB as f64))
            .collect(),
        colour: 6,
        kind: Kind::Area,
        ..Series::default()
    };
    let it = &outcome.programs[0];
    Plot {
        title: "Memory of the benchmark beside a hog (model)".to_owned(),
        note: "Dashed: available to it".to_owned(),
        unit: "MiB".to_owned(),
        series: vec![
            hog,
            line("benchmark", 0, Kind::Line, it, uses),
            line("", 0, Kind::Dashed, it, available),
        ],
        ..Plot::default()
    }
}

fn each(three: &Outcome, kind: Kind, named: bool, value: fn(&Point) -> f64) -> Vec<Series> {
    let programs = three.programs.iter().enumerate();
    let name = |it: &Program| {
        if named {
            it.name.clone()
        } else {
            String::new()
        }
    };
    programs
        .map(|(index, it)| line(&name(it), index, kind, it, value))
        .collect()
}

fn memory_of_three(three: &Outcome) -> Plot {
    let mut series = each(three, Kind::Line, true, uses);
    let ideal = |point: &Point| point.ideal as f64 / MIB as f64;
    series.extend(each(three, Kind::Dashed, false, ideal));
    Plot {
        title: "Memory of three programs with the weights 10, 40 and 20 (model)".to_owned(),
        note: "Dashed: their parts by weight".to_owned(),
        unit: "MiB".to_owned(),
        series,
        ..Plot::default()
    }
}
