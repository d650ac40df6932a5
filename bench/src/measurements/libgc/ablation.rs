//! The worth of each means of our collector: it runs without summaries, then without page order too.

use super::limited_memory::{Level, Pressed, Pressure, Series, steady_pause};
use super::run_workloads::{Runs, ratio, target};
use crate::Result;
use crate::harness::libgc::{Collector, Workload};
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::Runner;

const COLLECTORS: [Collector; 3] = [
    Collector::only("resizing"),
    Collector::only("order"),
    Collector::only("bookmarks"),
];

const LIMITS: [Pressure; 2] = [Pressure::Limit(60), Pressure::Limit(50)];

fn workloads() -> Vec<Pressed> {
    vec![
        Pressed::new(Workload::largelive(200, 20_000_000, 1), &LIMITS).plotted("largelive"),
        Pressed::new(Workload::bintree(19, 1), &LIMITS[..1]),
        Pressed::new(Workload::guile(1_000_000, 40_000), &LIMITS[..1]),
        Pressed::new(
            Workload::largelive(50, 70_000_000, 1),
            &[Pressure::Growing(50)],
        )
        .named("growing pressure")
        .plotted("growing"),
    ]
}

const FINISH: &str = "with bookmarks every run finishes";
const ORDER: &str = "page order: steady pauses no longer than with resizing";
const BOOKMARKS: &str = "bookmarks: steady pauses no longer than with page order";
const TIME: &str = "bookmarks: no more time than with resizing";

/// The measurement `libgc-ablation`.
pub(crate) struct Ablation;

impl Measurement for Ablation {
    fn about(&self) -> About {
        About {
            name: "libgc-ablation",
            question: "What are page order and summaries worth?",
            asks: &[FINISH, ORDER, BOOKMARKS, TIME],
            minutes: 60,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let mut series = Series::new(&COLLECTORS, workloads());
        series.run(runner)?;
        Ok(report(&series, runner))
    }
}

/// The steady pauses (or the time) with one set of means, divided by those with another.
fn relative(level: &Level, which: usize, base: usize, pauses: bool) -> Option<f64> {
    let median = |index: usize| {
        level.runs[index].median(|run| {
            if pauses {
                steady_pause(run)
            } else {
                run.seconds
            }
        })
    };
    ratio(median(which), median(base))
}

fn report(series: &Series, runner: &Runner) -> Results {
    let mut results = series.table(
        "Our collector with parts of it turned off, in too little memory.",
        "As `libgc-pressure`. Resizing: when memory is short what is free is given back, but collections \
         read what is in swap as if it were present. Order: they read it in page order, \
         each time. Bookmarks: they read it once, and rely on summaries from then on; this is what \
         programs get. (`PLIMSOLL_GC_MEANS`; collections of young objects, which need the \
         tracking of writes, are off throughout.)",
        runner,
    );
    let levels = series.pressed.iter().flat_map(Pressed::pressed);
    let runs = || levels.clone().map(|level| &level.runs[2]);
    let all: usize = runs().map(|runs| runs.0.len()).sum();
    let finished: usize = runs().map(Runs::finished).sum();
    results.target(FINISH, format!("{finished} of {all}"), finished == all);
    for (claim, which, base, pauses) in [
        (ORDER, 1, 0, true),
        (BOOKMARKS, 2, 1, true),
        (TIME, 2, 0, false),
    ] {
        let figures = series.figures(|_, level| relative(level, which, base, pauses));
        target(&mut results, claim, &figures, 1.0);
    }
    results
}
