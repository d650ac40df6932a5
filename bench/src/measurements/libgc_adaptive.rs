//! The paper's Table 2 for a program on libgc: collections by libgc's own schedule, by a fixed one and by the
//! adaptive one, each with and without a hog.

use crate::Result;
use crate::harness::memory_plot::memory_plot;
use crate::harness::programs::{fixed_libgc, gcbench, hog_that_leaves};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes that the program and the hog share.
const BUDGET: u64 = 1500 << 20;
/// Bytes of heap at which the fixed schedule collects: nearly the whole budget, as in the paper.
const FIXED: u64 = 1350 << 20;
const ITERATIONS: u32 = 600;
const HOG_START: f64 = 2.0;
const HOLD: f64 = 5.0;
const RATE: u64 = 200_000_000;
/// Seconds after which a run is given up.
const LONGEST: f64 = 240.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Schedule {
    Adaptive,
    Default,
    Fixed,
}

/// The outcomes of the runs of one variant.
#[derive(Default)]
struct Outcome {
    collections: Vec<f64>,
    gc_seconds: Vec<f64>,
    seconds: Vec<f64>,
    faults: Vec<f64>,
    unfinished: usize,
}

const FEWER: &str = "adaptive: fewer collections and a smaller share than the default";
const LOSES: &str =
    "with the hog: adaptive loses less than a fixed size (paper: 1.07 against 1.70)";

/// The measurement `libgc-adaptive`.
pub(super) struct LibgcAdaptive;

impl Measurement for LibgcAdaptive {
    fn about(&self) -> About {
        About {
            name: "libgc-adaptive",
            question: "Walfield's Table 2: the default schedule against the adaptive one, with and \
                       without a hog",
            asks: &[FEWER, LOSES],
            minutes: 30,
            only: false,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        // The schedule, and whether a hog runs beside the program.
        let variants = [
            ("adaptive", (Schedule::Adaptive, false)),
            ("adaptive, hog", (Schedule::Adaptive, true)),
            ("default", (Schedule::Default, false)),
            ("default, hog", (Schedule::Default, true)),
            ("fixed", (Schedule::Fixed, false)),
            ("fixed, hog", (Schedule::Fixed, true)),
        ];
        let ran = runner
            .experiment(variants)
            .run(|(schedule, with_hog), turn| {
                let scenario = scenario(*schedule, *with_hog);
                let conditions = match schedule {
                    Schedule::Adaptive => Conditions::Broker,
                    _ => Conditions::Bare,
                };
                let trace = play(&ground, &scenario, conditions, &turn.progress)?;
                if turn.first && *schedule == Schedule::Adaptive && *with_hog {
                    let title = "GCBench on libgc under the broker, with a hog";
                    runner.plot("", &memory_plot(title, &scenario, &trace))?;
                }
                Ok(last_words(&trace))
            })?;
        Ok(report(&ran, runner))
    }
}

fn report<V>(ran: &[Variant<V, Option<Value>>], runner: &Runner) -> Results {
    let mut results = runner.results(
        "GCBench on Debian's libgc 8.2.2 in 1500 MB: collections, their time, the whole time.",
        "600 iterations. The hog begins at 2 s, takes and locks half of the memory at 200 MB/s, holds it \
         5 s, gives it back at the same \
         rate. Fixed: a heap of 1350 MB whatever happens. In Walfield's Table 2 the adaptive schedule \
         had 134 collections and 3.6 % of the time \
         (hog: 223, 4.4 %), the default 43,881 and 53.9 %; a fixed size took 1.70 times as long with the \
         hog as without.",
    )
    .columns(&[
        ("schedule", ""),
        ("collections", ""),
        ("GC time", "s"),
        ("GC share", "%"),
        ("time", "s"),
        ("relative", ""),
        ("major faults", ""),
        ("unfinished", ""),
    ]);
    let outcomes: Vec<Outcome> = ran.iter().map(|v| Outcome::of(&v.outcomes)).collect();
    let median = |values: &Vec<f64>| spread(values).median;
    let base = median(&outcomes[0].seconds).max(1e-9);
    let share = |o: &Outcome| median(&o.gc_seconds) / median(&o.seconds).max(1e-9) * 100.0;
    for (variant, o) in ran.iter().zip(&outcomes) {
        results.row([
            variant.name.as_str().into(),
            median(&o.collections).into(),
            median(&o.gc_seconds).into(),
            share(o).into(),
            median(&o.seconds).into(),
            (median(&o.seconds) / base).into(),
            median(&o.faults).into(),
            (o.unfinished as f64).into(),
        ]);
    }
    let [adaptive, hogged, default, _, fixed, fixed_hogged] =
        [0, 1, 2, 3, 4, 5].map(|i| &outcomes[i]);
    // A run that did not finish must not count in our favour.
    let ended = outcomes.iter().all(|o| o.unfinished == 0);
    let fewer = median(&default.collections) / median(&adaptive.collections).max(1.0);
    results.target(
        FEWER,
        format!(
            "{fewer:.0} times fewer, {:.1} % against {:.1} %",
            share(adaptive),
            share(default)
        ),
        ended && fewer > 1.0 && share(adaptive) < share(default),
    );
    let slower = median(&hogged.seconds) / base;
    let fixed_slower = median(&fixed_hogged.seconds) / median(&fixed.seconds).max(1e-9);
    results.target(
        LOSES,
        format!("{slower:.2} against {fixed_slower:.2}"),
        ended && slower < fixed_slower,
    );
    results
}

impl Outcome {
    fn of(runs: &[Option<Value>]) -> Outcome {
        let each = |key: &str| {
            let told = runs.iter().flatten();
            told.map(|run| run.get(key).and_then(Value::as_f64).unwrap_or(0.0))
                .collect()
        };
        Outcome {
            collections: each("collections"),
            gc_seconds: each("gc_time"),
            seconds: each("time"),
            faults: each("major_faults"),
            unfinished: runs.iter().filter(|run| run.is_none()).count(),
        }
    }
}

/// The last line of the benchmark, which it prints when it is done; `None` if it did not finish.
fn last_words(trace: &Trace) -> Option<Value> {
    let output = &trace.endings.first()?.output;
    let done = output.iter().rev().find(|line| line.contains("\"done\""));
    serde_json::from_str(done?).ok()
}

fn scenario(schedule: Schedule, with_hog: bool) -> Scenario {
    let env = match schedule {
        Schedule::Fixed => fixed_libgc(FIXED),
        _ => BTreeMap::new(),
    };
    let mut programs = vec![Program {
        name: "gcbench".to_owned(),
        weight: 100,
        command: gcbench(ITERATIONS),
        env,
        ..Program::default()
    }];
    if with_hog {
        programs.push(Program {
            name: "hog".to_owned(),
            start: HOG_START,
            command: hog_that_leaves(BUDGET / 2, RATE, HOLD),
            outsider: true,
            ..Program::default()
        });
    }
    Scenario {
        budget: BUDGET,
        seconds: LONGEST,
        until_done: true,
        programs,
        ..Scenario::default()
    }
}
