//! The paper's Table 2 for a program on libgc: the default schedule, a fixed one and the adaptive
//! one, with and without a hog.

use super::Options;
use crate::harness::ground::Ground;
use crate::harness::programs::{fixed_libgc, gcbench, hog_that_leaves};
use crate::harness::runner::run;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::report::results::{Results, folder};
use crate::report::statistics::spread;
use std::collections::BTreeMap;

/// What the program and the hog share, bytes.
const BUDGET: u64 = 1500 << 20;
/// What the fixed schedule is told that it has: nearly all of it, as in the paper.
const FIXED: u64 = 1350 << 20;
const ITERATIONS: u32 = 600;
const HOG_START: f64 = 2.0;
const HOLD: f64 = 5.0;
const RATE: u64 = 200_000_000;
/// A run that takes longer is given up, seconds.
const LONGEST: f64 = 240.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Schedule {
    Adaptive,
    Default,
    Fixed,
}

#[derive(Default)]
struct Outcome {
    collections: Vec<f64>,
    gc_seconds: Vec<f64>,
    seconds: Vec<f64>,
    faults: Vec<f64>,
    unfinished: usize,
}

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let ground = Ground::new("libgc")?;
    let variants = [
        ("adaptive", Schedule::Adaptive, false),
        ("adaptive, hog", Schedule::Adaptive, true),
        ("default", Schedule::Default, false),
        ("default, hog", Schedule::Default, true),
        ("fixed", Schedule::Fixed, false),
        ("fixed, hog", Schedule::Fixed, true),
    ];
    let mut outcomes: Vec<Outcome> = variants.iter().map(|_| Outcome::default()).collect();
    for repetition in 1..=options.repeat {
        for ((name, schedule, with_hog), outcome) in variants.iter().zip(&mut outcomes) {
            let scenario = scenario(*schedule, *with_hog);
            let conditions = match schedule {
                Schedule::Adaptive => Conditions::Broker,
                _ => Conditions::Bare,
            };
            let label = format!("libgc-adaptive, {name}, {repetition} of {}", options.repeat);
            let trace = run(&ground, &scenario, conditions, &label)?;
            if repetition == 1 && name == &"adaptive, hog" {
                let file = folder().join("libgc-adaptive.svg");
                super::plot(
                    "GCBench on libgc under the broker, with a hog",
                    &scenario,
                    &trace,
                )
                .save(&file)?;
            }
            outcome.add(&trace);
        }
    }
    let names = variants.each_ref().map(|(name, ..)| *name);
    report(&names, &outcomes, options.repeat)
        .save()
        .map_err(|e| e.to_string())
}

fn report(names: &[&str], outcomes: &[Outcome], repeat: usize) -> Results {
    let mut results = Results::new(
        "libgc-adaptive",
        "GCBench on Debian's libgc 8.2.2 in 1500 MB: collections, their time, the whole time.",
        "600 iterations. The hog begins at 2 s, takes and locks half of the memory at 200 MB/s, holds it \
         5 s, gives it back at the same \
         rate. Fixed: a heap of 1350 MB whatever happens. In Walfield's Table 2 the adaptive schedule \
         had 134 collections and 3.6 % of the time \
         (hog: 223, 4.4 %), the default 43,881 and 53.9 %; a fixed size took 1.70 times as long with the \
         hog as without.",
        repeat,
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
    let median = |values: &Vec<f64>| spread(values).median;
    let base = median(&outcomes[0].seconds).max(1e-9);
    let share = |o: &Outcome| median(&o.gc_seconds) / median(&o.seconds).max(1e-9) * 100.0;
    for (name, o) in names.iter().zip(outcomes) {
        results.row([
            (*name).into(),
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
    // A run that did not end says nothing for us.
    let ended = outcomes.iter().all(|o| o.unfinished == 0);
    let fewer = median(&default.collections) / median(&adaptive.collections).max(1.0);
    results.target(
        "adaptive: fewer collections and a smaller share than the default",
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
        "with the hog: adaptive loses less than a fixed size (paper: 1.07 against 1.70)",
        format!("{slower:.2} against {fixed_slower:.2}"),
        ended && slower < fixed_slower,
    );
    results
}

impl Outcome {
    fn add(&mut self, trace: &Trace) {
        let done = trace
            .endings
            .first()
            .and_then(|e| e.output.iter().rev().find(|line| line.contains("\"done\"")));
        let Some(value) =
            done.and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        else {
            self.unfinished += 1;
            return;
        };
        let number = |key: &str| {
            value
                .get(key)
                .and_then(serde_json::Value::as_f64)
                .unwrap_or(0.0)
        };
        self.collections.push(number("collections"));
        self.gc_seconds.push(number("gc_time"));
        self.seconds.push(number("time"));
        self.faults.push(number("major_faults"));
    }
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
