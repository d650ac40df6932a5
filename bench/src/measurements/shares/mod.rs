//! Do programs use their weighted shares, and how soon after a change?
//!
//! Three programs of one kind with weights 10, 40 and 20 start one after another; then one changes its
//! weight, and one ends (paper, section 5.2, Figure 3). Another scenario does this with thirty programs, of
//! which several start and end at once.

mod outcome;

use crate::Result;
use crate::harness::java::Classes;
use crate::harness::memory_plot::memory_plot;
use crate::harness::play::play;
use crate::harness::programs::JVMS;
use crate::harness::programs::{Jvm, Service, Work, gcbench, gcbench_java, guile, lucene, service};
use crate::harness::scenario::{Change, Conditions, Program, Scenario};
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results, folder};
use crate::report::statistics::{quantile, spread};
use crate::runner::Runner;
use outcome::{Outcome, TOLERANCE};
use std::path::Path;

/// Bytes that the programs share.
const BUDGET: u64 = 1500 << 20;
/// Seconds that programs may take to reach their shares after a change.
const SOON: f64 = 2.0;
/// Index of the column of `bench-hotspot` that holds the seconds until memory had been returned after the
/// limit fell.
const LOWERED_IN: usize = 5;
/// Bytes that an iteration of GCBench allocates: seven depths, each as many bytes as a tree of 2^17 nodes.
const ITERATION: u64 = 7 * (32 << 17);
/// Bytes that a request of the service allocates.
const REQUEST: u64 = (RECORDS.replaced + RECORDS.besides) as u64;
/// Trees that all die young, built as fast as can be. On a fast processor a program of Java hardly gains from
/// more memory for them, and the broker lends it to others. For comparison.
const LIVE: Work = Work {
    live: 24,
    pace: 0,
    buffer: 0,
    burst: None,
};
/// Records of which a quarter of what is allocated replaces some: the old generation fills with garbage, so
/// each program gains from all that it has.
const RECORDS: Service = Service {
    live: 100,
    replaced: 20_000,
    besides: 60_000,
    turn: 0,
    place: (0, 1),
    quiet: 100,
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

/// A kind of programs. All kinds undergo the same changes.
struct Kind {
    /// Whether the target applies: they can fill their limit in time, and can be steered well.
    asked: bool,
    /// The collector is concurrent. How far the program fills its share depends on its own pace and
    /// the collector's, so what it gives back is also judged separately.
    beside: bool,
    /// Seconds that these programs may take to reach their shares after a change.
    soon: f64,
    /// Bytes that a unit of the program's work allocates.
    unit: u64,
    /// Our agent is loaded. Judged by the median and by nineteen of twenty changes, without those that
    /// such a program cannot follow.
    agent: bool,
    scenario: Scenario,
}

const NEAR: &str = "*: within 3 % of the budget * s after every change";
const OVER: &str = "*: at most 3 % above its share, * s after every change, while another lacks";
const OFTEN: &str =
    "*, agent: within 3 % of the budget * s after nineteen of twenty changes that it can follow";

/// The measurement `shares`.
pub(super) struct Shares;

impl Measurement for Shares {
    fn about(&self) -> About {
        About {
            name: "shares",
            question: "Do programs use their weighted shares, and how soon after arrivals, \
                       departures and weight changes?",
            asks: &[NEAR, OVER, OFTEN],
            minutes: 105,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let trees = Classes::of("bench/programs/GcBench.java")?;
        let services = Classes::of("bench/programs/Service.java")?;
        let classes =
            [trees.folder(), services.folder()].map(|folder| folder.display().to_string());
        let classes = classes.join(":");
        let hotspot = Results::read(&folder().join("hotspot.json"))?;
        let ran = runner
            .experiment(kinds(Path::new(&classes), &hotspot))
            .wanted()
            .by_group()
            .run(|kind, turn| {
                let trace = play(&ground, &kind.scenario, Conditions::Broker, &turn.progress)?;
                if turn.first {
                    let part = turn
                        .variant
                        .to_lowercase()
                        .replace(',', "")
                        .replace(' ', "-");
                    let title = format!("Weighted shares: {}", turn.variant);
                    runner.plot(&part, &memory_plot(&title, &kind.scenario, &trace))?;
                }
                Ok(Outcome::of(&kind.scenario, kind.soon, kind.unit, &trace))
            })?;
        let mut results = empty(runner);
        for variant in &ran {
            note(
                &mut results,
                &variant.name,
                &variant.what,
                &variant.outcomes,
            );
        }
        Ok(results)
    }
}

fn empty(runner: &Runner) -> Results {
    let results = runner.results(
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
         The programs are the paper's benchmark, GCBench in our writing: \
         in C on libgc; for ZGC and Shenandoah with 25 MB live and buffers of \
         4 KiB instead of trees, 400 MB/s at the most: three programs that build all the trees they can \
         leave two processors no time for \
         collectors that run beside them, and with a fixed heap of their share they stall at every \
         cycle; for the other collectors of Java a service with 100 MB of records, of which a quarter of \
         what it allocates replaces some, because the trees of GCBench all die young, and the broker \
         lends what a program hardly gains from. For comparison GCBench with 100 MB live \
         on G1, Lucene's benchmark and a Guile program; with the agent also with a heap of fixed size \
         (-Xms and -Xmx 1500 MiB), which shrinks only by what is given back. Agent: with `--agent \
         auto`; judged by the changes after which no program lacks more than the most that one of \
         the same run allocated in as much time.",
    );
    results.columns(&[
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
    ])
}

fn note(results: &mut Results, name: &str, kind: &Kind, outcomes: &[Outcome]) {
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
    if !kind.asked {
        return;
    }
    if kind.agent {
        return note_often(results, name, kind, outcomes);
    }
    let soon_after = format!("{:.1} s after every change", kind.soon);
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
    if kind.beside {
        target(
            format!("{name}: at most 3 % above its share, {soon_after}, while another lacks"),
            &over,
        );
    }
}

/// Judges programs with the agent by the changes that they can follow.
fn note_often(results: &mut Results, name: &str, kind: &Kind, outcomes: &[Outcome]) {
    let all: Vec<(f64, bool)> = outcomes.iter().flat_map(Outcome::judged).collect();
    let near: Vec<f64> = all
        .iter()
        .filter(|change| change.1)
        .map(|change| change.0)
        .collect();
    let (median, often) = (spread(&near).median, quantile(&near, 0.95));
    results.target(
        &format!(
            "{name}: within 3 % of the budget {:.1} s after nineteen of twenty changes that it can follow",
            kind.soon
        ),
        format!(
            "median {:.1} %, nineteen of twenty {:.1} %; {} of {} changes were too large to be followed",
            median * 100.0,
            often * 100.0,
            all.len() - near.len(),
            all.len()
        ),
        median.max(often) <= TOLERANCE,
    );
}

/// The kinds: the paper's benchmark, which fills its share at 1 to 3 GB/s, and programs that take longer.
fn kinds(classes: &Path, hotspot: &Results) -> Vec<(String, Kind)> {
    let plain = |scenario| Kind {
        asked: false,
        beside: false,
        soon: SOON,
        unit: ITERATION,
        agent: false,
        scenario,
    };
    let asked = |scenario| Kind {
        asked: true,
        ..plain(scenario)
    };
    let on_jvm = |jvm: &Jvm| Kind {
        asked: jvm.collector != "Parallel",
        beside: runs_beside(*jvm),
        soon: soon(*jvm, hotspot),
        unit: if runs_beside(*jvm) {
            ITERATION
        } else {
            REQUEST
        },
        ..plain(three(|| java(*jvm, classes)))
    };
    let mut kinds: Vec<(String, Kind)> = JVMS.iter().map(|jvm| (jvm.name(), on_jvm(jvm))).collect();
    for jvm in JVMS.iter().filter(|jvm| !runs_beside(**jvm)) {
        let mut kind = Kind {
            agent: true,
            unit: REQUEST,
            ..asked(three(|| java(*jvm, classes)))
        };
        for program in &mut kind.scenario.programs {
            program.agent = true;
        }
        kinds.push((format!("{}, agent", jvm.name()), kind));
    }
    for jvm in [JVMS[0], JVMS[2], JVMS[8]] {
        let sizes = [("-Xms", BUDGET), ("-Xmx", BUDGET)];
        let sizes = sizes.map(|(flag, bytes)| format!("{flag}{}m", bytes >> 20));
        let fixed = || service(jvm, &sizes, classes, &RECORDS);
        let mut kind = Kind {
            unit: REQUEST,
            ..plain(three(fixed))
        };
        for program in &mut kind.scenario.programs {
            program.agent = true;
        }
        kinds.push((format!("{}, fixed heap, agent", jvm.name()), kind));
    }
    let libgc = || gcbench(u32::MAX);
    kinds.push(("libgc".to_owned(), asked(three(libgc))));
    kinds.push(("thirty libgc".to_owned(), asked(thirty(libgc))));
    let trees = || gcbench_java(JVMS[0], None, classes, LIVE);
    let name = format!("{}, GCBench", JVMS[0].name());
    kinds.push((name, plain(three(trees))));
    for jvm in [JVMS[0], JVMS[3]] {
        let lucene = || lucene(jvm, None, "bench/programs/lucene/share.alg");
        kinds.push((format!("{}, Lucene", jvm.name()), plain(three(lucene))));
    }
    kinds.push(("Guile".to_owned(), plain(three(|| guile(40)))));
    kinds
}

fn java(jvm: Jvm, classes: &Path) -> Vec<String> {
    match runs_beside(jvm) {
        true => gcbench_java(jvm, None, classes, LIVE_BESIDE),
        false => service(jvm, &[], classes, &RECORDS),
    }
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

    #[test]
    fn every_kind_has_its_own_name_and_fixed_heaps_have_the_agent() {
        let kinds = kinds(Path::new("/classes"), &Results::new("hotspot", "", "", 5));
        let names: std::collections::BTreeSet<&String> =
            kinds.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), kinds.len());
        let fixed: Vec<&Kind> = kinds
            .iter()
            .filter(|(name, _)| name.contains("fixed heap"))
            .map(|(_, kind)| kind)
            .collect();
        assert_eq!(fixed.len(), 3);
        for program in fixed.iter().flat_map(|kind| &kind.scenario.programs) {
            assert!(program.agent && program.command.contains(&"-Xms1500m".to_owned()));
        }
    }

    fn row(jvm: Jvm, lowered_in: Cell) -> Vec<Cell> {
        let mut row = vec![Cell::from(0.0); LOWERED_IN + 2];
        row[0] = jvm.name().into();
        row[LOWERED_IN] = lowered_in;
        row
    }
}
