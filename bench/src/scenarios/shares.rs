//! Do programs use their weighted shares, and how soon after a change?
//!
//! Three programs of one kind with weights 10, 40 and 20 come one after another; then one changes
//! its weight, one leaves (paper 5.2, Figure 3). Thirty programs with three weights do the same at
//! once.

use super::{JVMS, Options};
use crate::harness::ground::Ground;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, Work, gcbench, gcbench_java, guile, lucene};
use crate::harness::runner::run;
use crate::harness::scenario::{Change, Conditions, Program, Scenario};
use crate::harness::trace::{Sample, Trace};
use crate::report::results::{Cell, Results, folder};
use crate::report::statistics::{quantile, spread};
use std::path::Path;

/// What the programs share, bytes.
const BUDGET: u64 = 1500 << 20;
/// Allowed distance from the ideal share, as a part of the budget (paper: 50 MB of 1.6 GB).
const TOLERANCE: f64 = 0.03;
/// Allowed time to get there, seconds.
const SOON: f64 = 2.0;
/// The column of `bench-hotspot` that tells after how many seconds memory was back when the limit fell.
const LOWERED_IN: usize = 5;
/// Java programs build trees as fast as they can.
const LIVE: Work = Work {
    live: 24,
    pace: 0,
    buffer: 0,
    burst: None,
};
/// For collectors that run beside the program: buffers, at a pace at which a fixed heap of the
/// smallest share, 200 MB, keeps up. Three programs that build all the trees they can leave two
/// processors no time for collections.
const LIVE_BESIDE: Work = Work {
    live: 6,
    pace: 400,
    buffer: 4096,
    burst: None,
};
/// Time between two changes, seconds.
const PHASE: f64 = 10.0;

/// Programs of one kind under the same changes.
struct Variant {
    name: String,
    /// Whether the target is for them: they can fill what they are given in time, and are steered
    /// well enough to be asked.
    asked: bool,
    /// Its collector runs beside it: how far it fills its share is up to its own pace and its
    /// collector's, so what it gives back is judged by itself too.
    beside: bool,
    /// Seconds that they are given after a change.
    soon: f64,
    scenario: Scenario,
}

/// What one run came to.
#[derive(Debug, Default)]
struct Outcome {
    /// Largest distance of a program from its ideal share `SOON` after each change, parts of the budget.
    at_two_seconds: Vec<f64>,
    /// The same of programs above their share while another is below its own.
    over: Vec<f64>,
    /// The same of programs below their share.
    under: Vec<f64>,
    /// Distances of all samples from `SOON` after a change to the next one.
    settled: Vec<f64>,
    /// Seconds until all programs stayed within the tolerance, for each change.
    settle: Vec<f64>,
    major_faults: u64,
    used: f64,
}

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let ground = Ground::new("shares")?;
    let mut results = Results::new(
        "shares",
        "How far programs are from their weighted share of 1500 MB, and how soon they are there.",
        "Three programs of a kind (weights 10, 40, 20) start 10 s apart; then the first changes its \
         weight to 40, then the second \
         leaves. Distance: the largest |uses - ideal| of the programs, in percent of the budget that the \
         broker shares out; resident \
         memory read from outside ten times a second. Over: how much the one farthest above its ideal \
         share uses too much, while another is below its own; under: how much \
         the one farthest below lacks; both in time after a change: 2 s, for ZGC and Shenandoah 1 s more \
         than \
         they need to return memory (bench-hotspot). Settled: all samples from then to the next change. \
         The programs are the paper's benchmark, GCBench in our writing, which fills what it is given at \
         1 to 3 GB/s: \
         in C on libgc, in Java with 100 MB live; for ZGC and Shenandoah with 25 MB live and buffers of \
         4 KiB instead of trees, 400 MB/s at the most: three programs that build all the trees they can \
         leave two processors no time for \
         collectors that run beside them, and with a fixed heap of their share they stall at every \
         cycle; for comparison Java with 10 MB live, Lucene's benchmark and a Guile program, which \
         allocate more slowly than they would have to.",
        options.repeat,
    )
    .columns(&[
        ("programs", ""),
        ("distance in time after a change, median", "%"),
        ("worst", "%"),
        ("settled distance, median", "%"),
        ("p95", "%"),
        ("time to within 3 %, median", "s"),
        ("worst", "s"),
        ("over, median", "%"),
        ("worst", "%"),
        ("under, median", "%"),
        ("worst", "%"),
        ("budget in use", "%"),
        ("major faults", ""),
    ]);
    let classes = Classes::of("bench/programs/GcBench.java")?;
    let hotspot = Results::read(&folder().join("hotspot.json"))?;
    let mut variants = variants(classes.folder(), &hotspot);
    variants.retain(|variant| options.wants(&variant.name));
    let mut outcomes: Vec<Vec<Outcome>> = variants.iter().map(|_| Vec::new()).collect();
    for repetition in 1..=options.repeat {
        for (variant, outcomes) in variants.iter().zip(&mut outcomes) {
            let (name, scenario) = (&variant.name, &variant.scenario);
            let label = format!("shares, {name}, {repetition} of {}", options.repeat);
            let trace = run(&ground, scenario, Conditions::Broker, &label)?;
            if repetition == 1 {
                draw(variant, &trace)?;
            }
            outcomes.push(judge(variant, &trace));
        }
    }
    for (variant, outcomes) in variants.iter().zip(&outcomes) {
        note(&mut results, variant, outcomes);
    }
    results.save().map_err(|e| e.to_string())
}

fn draw(variant: &Variant, trace: &Trace) -> Result<(), String> {
    let name = &variant.name;
    let file = name.to_lowercase().replace(',', "").replace(' ', "-");
    let title = format!("Weighted shares: {name}");
    super::plot(&title, &variant.scenario, trace).save(&folder().join(format!("shares-{file}.svg")))
}

fn note(results: &mut Results, variant: &Variant, outcomes: &[Outcome]) {
    let name = variant.name.as_str();
    let all = |pick: fn(&Outcome) -> &Vec<f64>| {
        outcomes
            .iter()
            .flat_map(pick)
            .copied()
            .collect::<Vec<f64>>()
    };
    let (soon, settled, settle) = (
        all(|o| &o.at_two_seconds),
        all(|o| &o.settled),
        all(|o| &o.settle),
    );
    let (over, under) = (all(|o| &o.over), all(|o| &o.under));
    let percent = |value: f64| value * 100.0;
    results.row([
        name.into(),
        percent(spread(&soon).median).into(),
        percent(spread(&soon).max).into(),
        percent(spread(&settled).median).into(),
        percent(quantile(&settled, 0.95)).into(),
        spread(&settle).median.into(),
        spread(&settle).max.into(),
        percent(spread(&over).median).into(),
        percent(spread(&over).max).into(),
        percent(spread(&under).median).into(),
        percent(spread(&under).max).into(),
        percent(spread(&outcomes.iter().map(|o| o.used).collect::<Vec<_>>()).median).into(),
        outcomes
            .iter()
            .map(|o| o.major_faults)
            .max()
            .unwrap_or(0)
            .into(),
    ]);
    if !variant.asked {
        return;
    }
    let soon_after = format!("{:.1} s after every change", variant.soon);
    let mut target = |what: String, distances: &[f64]| {
        let spread = spread(distances);
        let (median, worst) = (percent(spread.median), percent(spread.max));
        let measured = format!("median {median:.1} %, worst {worst:.1} %");
        results.target(&what, measured, spread.max <= TOLERANCE);
    };
    target(
        format!("{name}: within 3 % of the budget {soon_after}"),
        &soon,
    );
    if variant.beside {
        target(
            format!("{name}: at most 3 % above its share, {soon_after}, while another lacks"),
            &over,
        );
    }
}

fn judge(variant: &Variant, trace: &Trace) -> Outcome {
    let Variant { scenario, soon, .. } = variant;
    let mut outcome = Outcome::default();
    let points = scenario.turning_points();
    let mut used = Vec::new();
    for (index, (at, _)) in points.iter().enumerate() {
        let next = points.get(index + 1).map_or(scenario.seconds, |p| p.0);
        let mut settled_since = None;
        for sample in trace.between(*at, next) {
            let distance = Distances::of(scenario, sample).farthest();
            if distance > TOLERANCE {
                settled_since = None;
            } else if settled_since.is_none() {
                settled_since = Some(sample.at);
            }
            if sample.at >= at + soon {
                outcome.settled.push(distance);
                let sum: u64 = sample.programs.iter().map(|p| p.uses).sum();
                used.push(sum as f64 / sample.budget.max(1) as f64);
            }
        }
        if let Some(sample) = trace.at(at + soon) {
            let distances = Distances::of(scenario, sample);
            outcome.at_two_seconds.push(distances.farthest());
            outcome.over.push(distances.over());
            outcome.under.push(distances.under);
        }
        outcome
            .settle
            .push(settled_since.map_or(next - at, |since| since - at));
    }
    outcome.used = spread(&used).median;
    outcome.major_faults = (0..scenario.programs.len())
        .map(|i| trace.count(i, |p| p.major_faults))
        .sum();
    outcome
}

/// How far the running programs are from their ideal shares at most, in parts of the budget.
#[derive(Clone, Copy, Debug, Default)]
struct Distances {
    above: f64,
    under: f64,
}

impl Distances {
    fn of(scenario: &Scenario, sample: &Sample) -> Self {
        let budget = sample.budget.max(1) as f64;
        let mut distances = Distances::default();
        for (program, seen) in scenario.programs.iter().zip(&sample.programs) {
            let ideal = scenario.ideal(&program.name, sample.at);
            if ideal > 0.0 {
                let excess = seen.uses as f64 / budget - ideal;
                distances.above = distances.above.max(excess);
                distances.under = distances.under.max(-excess);
            }
        }
        distances
    }

    fn farthest(self) -> f64 {
        self.above.max(self.under)
    }

    /// What is above counts only while somebody is below: all of these programs use what they are given.
    fn over(self) -> f64 {
        if self.under > 0.0 { self.above } else { 0.0 }
    }
}

/// The paper's benchmark, which fills what it is given at 1 to 3 GB/s; and programs that need
/// longer for that.
fn variants(classes: &Path, hotspot: &Results) -> Vec<Variant> {
    let plain = |name: String, scenario| Variant {
        name,
        asked: false,
        beside: false,
        soon: SOON,
        scenario,
    };
    let asked = |name: &str, scenario| Variant {
        asked: true,
        ..plain(name.to_owned(), scenario)
    };
    let mut variants: Vec<Variant> = JVMS
        .iter()
        .map(|jvm| Variant {
            asked: jvm.collector != "Parallel",
            beside: runs_beside(*jvm),
            soon: soon(*jvm, hotspot),
            ..plain(jvm.name(), three(|| java(*jvm, classes)))
        })
        .collect();
    let libgc = || gcbench(u32::MAX);
    variants.push(asked("libgc", three(libgc)));
    variants.push(asked("thirty libgc", thirty(libgc)));
    let little = || gcbench_java(JVMS[0], None, classes, Work { live: 1, ..LIVE });
    variants.push(plain(
        format!("{}, 10 MB live", JVMS[0].name()),
        three(little),
    ));
    for jvm in [JVMS[0], JVMS[3]] {
        let lucene = || lucene(jvm, None, "bench/programs/lucene/share.alg");
        variants.push(plain(format!("{}, Lucene", jvm.name()), three(lucene)));
    }
    variants.push(plain("Guile".to_owned(), three(|| guile(40))));
    variants
}

fn java(jvm: Jvm, classes: &Path) -> Vec<String> {
    let work = if runs_beside(jvm) { LIVE_BESIDE } else { LIVE };
    gcbench_java(jvm, None, classes, work)
}

/// Seconds that programs on this JVM are given after a change: for collectors that return memory
/// beside the program, 1 s more than they took for that in `bench-hotspot`, where they did.
fn soon(jvm: Jvm, hotspot: &Results) -> f64 {
    if !runs_beside(jvm) {
        return SOON;
    }
    let name = jvm.name();
    let row = hotspot
        .rows
        .iter()
        .find(|row| matches!(row.first(), Some(Cell::Text(of)) if *of == name));
    match row.and_then(|row| row.get(LOWERED_IN)) {
        Some(Cell::Number(seconds)) => SOON.max(seconds + 1.0),
        _ => SOON,
    }
}

/// Whether the collector runs beside the program.
fn runs_beside(jvm: Jvm) -> bool {
    matches!(jvm.collector, "Z" | "Shenandoah")
}

fn three(command: impl Fn() -> Vec<String>) -> Scenario {
    let program = |name: &str, weight, start, stop| Program {
        name: name.to_owned(),
        weight,
        start,
        stop,
        command: command(),
        ..Program::default()
    };
    Scenario {
        budget: BUDGET,
        seconds: 5.0 * PHASE,
        programs: vec![
            program("ten", 10, 0.0, None),
            program("forty", 40, PHASE, Some(4.0 * PHASE)),
            program("twenty", 20, 2.0 * PHASE, None),
        ],
        changes: vec![Change {
            at: 3.0 * PHASE,
            name: "ten".to_owned(),
            weight: 40,
        }],
        ..Scenario::default()
    }
}

fn thirty(command: impl Fn() -> Vec<String>) -> Scenario {
    let program = |index: usize| Program {
        name: format!("p{index:02}"),
        weight: [10, 40, 20][index % 3],
        start: if index < 20 { 0.0 } else { PHASE },
        stop: (index % 10 == 9).then_some(2.0 * PHASE),
        command: command(),
        ..Program::default()
    };
    Scenario {
        budget: BUDGET,
        seconds: 3.0 * PHASE,
        programs: (0..30).map(program).collect(),
        ..Scenario::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::trace::Seen;

    #[test]
    fn over_and_under_are_told_apart() {
        let scenario = three(Vec::new);
        let at = |uses: [u64; 3]| {
            let seen = |uses| Seen {
                uses,
                ..Seen::default()
            };
            let sample = Sample {
                at: 2.5 * PHASE,
                programs: uses.map(seen).into(),
                budget: 7000,
                ..Sample::default()
            };
            Distances::of(&scenario, &sample)
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // Ideal: 1000, 4000, 2000. The third is on its way up.
        let growing = at([1000, 4700, 600]);
        assert!(close(growing.over(), 0.1) && close(growing.under, 0.2));
        assert!(close(growing.farthest(), 0.2));
        // Nobody lacks anything.
        let generous = at([1700, 4000, 2000]);
        assert!(close(generous.over(), 0.0) && close(generous.farthest(), 0.1));
    }

    #[test]
    fn collectors_that_run_beside_get_the_time_they_were_measured_to_take() {
        let [parallel, z, shenandoah] = ["Parallel", "Z", "Shenandoah"].map(|collector| Jvm {
            collector,
            version: 17,
        });
        let mut hotspot = Results::new("hotspot", "", "", 5);
        hotspot.rows.push(row(z, 4.6.into()));
        hotspot.rows.push(row(shenandoah, "not".into()));
        hotspot.rows.push(row(parallel, 9.0.into()));
        assert_eq!(soon(z, &hotspot), 4.6 + 1.0);
        assert_eq!(soon(shenandoah, &hotspot), SOON);
        assert_eq!(soon(parallel, &hotspot), SOON);
    }

    fn row(jvm: Jvm, lowered_in: Cell) -> Vec<Cell> {
        let mut row = vec![Cell::from(0.0); LOWERED_IN + 2];
        row[0] = jvm.name().into();
        row[LOWERED_IN] = lowered_in;
        row
    }
}
