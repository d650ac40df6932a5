//! Too little memory: with which collectors programs finish, how soon, and how long their collections take.
//!
//! After section 5.3 of the bookmarking collector's paper: steady pressure, pressure that grows
//! (its Figures 4 to 6), and two programs at once (Figure 7).

use super::limited_memory::{Pressed, Pressure, Series, steady_faults, steady_pause};
use super::run_workloads::{ratio, target};
use crate::Result;
use crate::harness::libgc::{Collector, OURS, SYSTEM, Workload};
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::Runner;

const COLLECTORS: [Collector; 2] = [SYSTEM, OURS];

/// The limits.
const LIMITS: [Pressure; 2] = [Pressure::Limit(60), Pressure::Limit(50)];

fn workloads() -> Vec<Pressed> {
    let steady = |workload| Pressed::new(workload, &LIMITS);
    let mut all = vec![
        steady(Workload::largelive(200, 20_000_000, 1)).plotted("largelive"),
        steady(Workload::bintree(19, 1)),
        steady(Workload::gcbench(5, 1)),
        steady(Workload::guile(1_000_000, 40_000)),
    ];
    all.extend(Workload::nix(400_000, 500_000).map(steady));
    all.push(Pressed::new(Workload::largelive(100, 20_000_000, 1), &LIMITS[..1]).twice());
    all.push(
        Pressed::new(
            Workload::largelive(50, 70_000_000, 1),
            &[Pressure::Growing(50)],
        )
        .named("growing pressure")
        .plotted("growing"),
    );
    for workload in [
        Workload::largelive(40, 6_000_000, 1),
        Workload::bintree(17, 1),
    ] {
        let small = || Pressed::new(workload.clone(), &LIMITS[..1]).named("small");
        all.extend([small(), small().elsewhere()]);
    }
    all
}

const FINISH: &str = "every run finishes";
const TIME: &str = "time at most 0.25 of libgc's where that survives";
const FAULTS: &str = "at most 100 major faults in a steady collection";
const PAUSES: &str = "steady pauses at most 1.2 times those without a limit";

/// The measurement `libgc-pressure`.
pub(crate) struct LibgcPressure;

impl Measurement for LibgcPressure {
    fn about(&self) -> About {
        About {
            name: "libgc-pressure",
            question: "Our collector in the place of libgc, in too little memory: which runs finish, how \
                       soon, and what do collections cost?",
            asks: &[FINISH, TIME, FAULTS, PAUSES],
            minutes: 120,
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

fn report(series: &Series, runner: &Runner) -> Results {
    let mut results = series.table(
        "Our collector in the place of Debian's libgc 8.2.2, in too little memory, with swap behind it.",
        "The programs of `libgc`, smaller: largelive with 3.3 million objects that live and 20 million \
         cells, bintree of depth 19, Guile with 40,000 rounds, Nix with half of the garbage. Limits are \
         of the most that was \
         resident with libgc and no limit, in a run at the start. Two at once: two largelive with 1.6 \
         million objects and 20 million cells in one limit; their times, to the end of both. Growing \
         pressure: largelive with 0.8 million objects and 70 million \
         cells, and a process in the same cgroup that takes 1 MiB every 100 ms up to half of the memory, \
         and locks it. A run that takes more than 8 times as long as the first with libgc and no limit \
         is ended (took too long). \
         Small: 0.7 million objects and 6 million cells, depth 17. v2: the same in user-mode Linux with \
         one processor under cgroup version 2; that counts for no target but the first. \
         Figures are of runs that finished. Steady: the last third of the collections; their median pause.",
        runner,
    );
    let pairs = || {
        let levels = series.pressed.iter().flat_map(Pressed::pressed);
        levels.map(|level| (&level.runs[0], &level.runs[1]))
    };
    let (all, finished) = pairs().fold((0, 0), |(all, finished), (_, ours)| {
        (all + ours.0.len(), finished + ours.finished())
    });
    let (all_libgc, finished_libgc) = pairs().fold((0, 0), |(all, finished), (libgc, _)| {
        (all + libgc.0.len(), finished + libgc.finished())
    });
    results.target(
        FINISH,
        format!("{finished} of {all} (libgc: {finished_libgc} of {all_libgc})"),
        finished == all,
    );
    let time = series.figures(|_, level| {
        let (libgc, ours) = (&level.runs[0], &level.runs[1]);
        let survived = libgc.survived() && ours.all_finished();
        survived.then(|| ours.least_seconds() / libgc.least_seconds().max(1e-9))
    });
    target(&mut results, TIME, &time, 0.25);
    let faults = series.figures(|_, level| level.runs[1].median(steady_faults));
    target(&mut results, FAULTS, &faults, 100.0);
    let pauses = series.figures(|one, level| {
        ratio(
            level.runs[1].median(steady_pause),
            one.levels[0].runs[1].median(steady_pause),
        )
    });
    target(&mut results, PAUSES, &pauses, 1.2);
    results
}
