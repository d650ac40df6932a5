//! What each of our collector's means is worth: without summaries, and without page order either.

use super::pressed::{Experiment, Level, Pressure, Series, steady_pause};
use super::stage::{Runs, ratio, target};
use crate::harness::libgc::{Collector, Workload};
use crate::report::results::Results;
use crate::scenarios::Options;

const COLLECTORS: [Collector; 3] = [
    Collector::only("resizing"),
    Collector::only("order"),
    Collector::only("bookmarks"),
];

const LIMITS: [Pressure; 2] = [Pressure::Limit(60), Pressure::Limit(50)];

fn experiments() -> Vec<Experiment> {
    vec![
        Experiment::new(Workload::largelive(200, 20_000_000, 1), &LIMITS).plotted("largelive"),
        Experiment::new(Workload::bintree(19, 1), &LIMITS[..1]),
        Experiment::new(Workload::guile(1_000_000, 40_000), &LIMITS[..1]),
        Experiment::new(
            Workload::largelive(50, 70_000_000, 1),
            &[Pressure::Growing(50)],
        )
        .named("growing pressure")
        .plotted("growing"),
    ]
}

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started, or went wrong.
pub fn measure(options: &Options) -> Result<(), String> {
    let mut series = Series::new("libgc-ablation", &COLLECTORS, experiments());
    series.run(options)?;
    report(&series, options.repeat)
        .save()
        .map_err(|e| e.to_string())
}

/// The steady pauses, or the time, with one set of means relative to another.
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

fn report(series: &Series, repeat: usize) -> Results {
    let mut results = series.table(
        "Our collector with parts of it turned off, in too little memory.",
        "As `libgc-pressure`. Resizing: when memory is short what is free is given back, but collections \
         read what is in swap as if it were present. Order: they read it in page order, \
         each time. Bookmarks: they read it once, and rely on summaries from then on; this is what \
         programs get. (`PLIMSOLL_GC_MEANS`; collections of young objects, which need the \
         tracking of writes, are off throughout.)",
        repeat,
    );
    let levels = series.experiments.iter().flat_map(Experiment::pressed);
    let runs = || levels.clone().map(|level| &level.runs[2]);
    let all: usize = runs().map(|runs| runs.0.len()).sum();
    let finished: usize = runs().map(Runs::finished).sum();
    results.target(
        "with bookmarks every run finishes",
        format!("{finished} of {all}"),
        finished == all,
    );
    for (claim, which, base, pauses) in [
        (
            "page order: steady pauses no longer than with resizing",
            1,
            0,
            true,
        ),
        (
            "bookmarks: steady pauses no longer than with page order",
            2,
            1,
            true,
        ),
        ("bookmarks: no more time than with resizing", 2, 0, false),
    ] {
        let figures = series.figures(|_, level| relative(level, which, base, pauses));
        target(&mut results, claim, &figures, 1.0);
    }
    results
}
