//! Programs on a small virtual machine with MMTk, under each of its plans, with four kinds of heap, with and
//! without memory pressure.

use super::libgc::stage::{Runs, cell, ratio};
use crate::Result;
use crate::harness::broker::Broker;
use crate::harness::ground::Ground;
use crate::harness::job::{self, Conditions, Ending, Job, Outcome};
use crate::harness::programs::sibling;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::runner::{Runner, Variant};
use serde_json::Value;
use std::collections::BTreeMap;

/// The plans that collect, without PageProtect, which takes a mapping for each object.
const PLANS: [&str; 9] = [
    "Immix",
    "StickyImmix",
    "GenImmix",
    "GenCopy",
    "SemiSpace",
    "MarkSweep",
    "MarkCompact",
    "ConcurrentImmix",
    "Compressor",
];
/// Largest heap, MiB: what a fixed heap has, and what the others may grow to.
const MOST: u64 = 224;
/// Memory under pressure, bytes: two thirds of that heap.
const ROOM: u64 = 152 << 20;
/// Swap behind it, bytes.
const SWAP: u64 = 512 << 20;
/// A run is given up after this many seconds.
const LONGEST: f64 = 120.0;
/// Bytes of a mebibyte.
const MIB: f64 = (1u64 << 20) as f64;

/// A kind of heap: its name, the argument of the machine, and whether it follows a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heap {
    name: &'static str,
    argument: &'static str,
    broker: bool,
}

/// The place of the fixed heap in [`HEAPS`].
const FIXED: usize = 0;
/// The place of Isla Vista without a broker in it.
const ISLA_VISTA: usize = 2;
const HEAPS: [Heap; 4] = [
    Heap {
        name: "fixed",
        argument: "fixed",
        broker: false,
    },
    Heap {
        name: "MemBalancer",
        argument: "dynamic:8m,",
        broker: false,
    },
    Heap {
        name: "Isla Vista",
        argument: "isla-vista",
        broker: false,
    },
    Heap {
        name: "Isla Vista, broker",
        argument: "isla-vista",
        broker: true,
    },
];

/// The programs: names, and arguments of the machine.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("GCBench", &["gcbench", "16", "10"]),
    ("large live set", &["live", "40m", "2000000"]),
];

const CALM: &str = "no pressure: Isla Vista at most 1.02 of a fixed heap's time, geometric mean";
const PRESSED: &str = "pressure: Isla Vista takes less time than a fixed heap, geometric mean";

/// The measurement `mmtk`.
pub(super) struct Mmtk;

/// A program under a plan, and whether memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    program: usize,
    plan: &'static str,
    pressure: bool,
}

/// One run of a case with each heap.
type Row = [Outcome; HEAPS.len()];

impl Measurement for Mmtk {
    fn about(&self) -> About {
        About {
            name: "mmtk",
            question: "What does Isla Vista do for the heap of a runtime on MMTk, under each plan, with and \
                       without pressure?",
            asks: &[CALM, PRESSED],
            minutes: 90,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), SWAP)?;
        let ran = runner
            .experiment(cases())
            .wanted()
            .run(|case, turn| run_case(&ground, *case, &turn.progress))?;
        Ok(report(&ran, runner))
    }
}

fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for (program, (name, _)) in PROGRAMS.iter().enumerate() {
        for plan in PLANS {
            for pressure in [false, true] {
                let case = Case {
                    program,
                    plan,
                    pressure,
                };
                let how = if pressure { "pressure" } else { "no pressure" };
                cases.push((format!("{name}, {plan}, {how}"), case));
            }
        }
    }
    cases
}

/// Runs a case with each heap in turn.
fn run_case(ground: &Ground, case: Case, progress: &Progress) -> Result<Row> {
    let conditions = Conditions {
        limit: case.pressure.then_some(ROOM),
        longest: LONGEST,
        ..Conditions::default()
    };
    let run = |heap: Heap| {
        let progress = progress.part(heap.name);
        ground.limit(conditions.limit)?;
        let domain = case.pressure.then(|| ground.cgroup());
        let broker = heap
            .broker
            .then(|| Broker::start(ground.folder(), domain))
            .transpose()?;
        let job = job(heap, case, broker.as_ref());
        let outcomes = job::run(ground, &[job], &conditions, &progress)?;
        let outcome = outcomes.into_iter().next();
        outcome.ok_or_else(|| crate::Error::program(progress.label(), "it was not run"))
    };
    let [a, b, c, d] = HEAPS.map(run);
    Ok([a?, b?, c?, d?])
}

fn job(heap: Heap, case: Case, broker: Option<&Broker>) -> Job {
    let separator = if heap.argument.ends_with(',') {
        ""
    } else {
        ":"
    };
    let mut command = vec![
        sibling("plimsoll-bench-vm").display().to_string(),
        "--plan".to_owned(),
        case.plan.to_owned(),
        "--heap".to_owned(),
        format!("{}{separator}{MOST}m", heap.argument),
    ];
    command.extend(heap.broker.then(|| "--broker".to_owned()));
    let (_, program) = PROGRAMS[case.program];
    command.extend(program.iter().map(|word| (*word).to_owned()));
    let socket = broker.map(|broker| broker.socket().path().display().to_string());
    let socket = socket.map(|path| ("PLIMSOLL_SOCKET".to_owned(), path));
    Job {
        command,
        env: socket.into_iter().collect::<BTreeMap<_, _>>(),
        ..Job::default()
    }
}

/// A number at a path of what the machine told, as [`Value::pointer`] takes it.
fn told(run: &Outcome, path: &str) -> f64 {
    let told: Option<Value> = serde_json::from_str(&run.said).ok();
    let number = told.as_ref().and_then(|told| told.pointer(path)?.as_f64());
    number.unwrap_or(0.0)
}

/// Seconds of the program itself, without the machine's start.
fn seconds(run: &Outcome) -> f64 {
    told(run, "/seconds")
}

fn report(ran: &[Variant<Case, Row>], runner: &Runner) -> Results {
    let mut results = runner.results(
        "Programs on a small virtual machine with MMTk 0.33: four kinds of heap under each plan.",
        "Two threads of the program, two of the collector. GCBench: trees of depth 16, 10 rounds a thread. \
         Large live set: 40 MiB of records, 2 million replaced at random. Heaps: fixed, 224 MiB; MMTk's \
         dynamic heap (MemBalancer), 8 to 224 MiB; Isla Vista up to 224 MiB; the same, with a broker for the \
         group. Pressure: a group of 152 MiB, with swap. Peak: most resident. After: resident when \
         everything is dead and two full collections are over; memory is given back when it is short. \
         Time: of the program; a run over 120 s is ended. Relative: of the fixed heap without pressure.",
    )
    .columns(&[
        ("program", ""),
        ("plan", ""),
        ("pressure", ""),
        ("heap", ""),
        ("ended", ""),
        ("time", "s"),
        ("relative", ""),
        ("pauses", ""),
        ("major faults", ""),
        ("peak", "MiB"),
        ("after", "MiB"),
    ]);
    for variant in ran {
        let case = variant.what;
        let calm = Case {
            pressure: false,
            ..case
        };
        let base = ran.iter().find(|other| other.what == calm);
        let base = base.and_then(|base| runs(base, FIXED).median(seconds));
        for (index, heap) in HEAPS.iter().enumerate() {
            let runs = runs(variant, index);
            let time = runs.median(seconds);
            results.row([
                PROGRAMS[case.program].0.into(),
                case.plan.into(),
                if case.pressure { "yes" } else { "no" }.into(),
                heap.name.into(),
                runs.ended().into(),
                cell(time),
                cell(ratio(time, base)),
                cell(runs.median(|run| told(run, "/pauses"))),
                cell(runs.median(|run| run.faults as f64)),
                cell(runs.median(|run| run.resident as f64 / MIB)),
                cell(runs.median(|run| told(run, "/after") / MIB)),
            ]);
        }
    }
    judge(&mut results, ran, CALM, false, 1.02);
    judge(&mut results, ran, PRESSED, true, 1.0);
    results
}

/// The runs of a variant with one heap.
fn runs(variant: &Variant<Case, Row>, heap: usize) -> Runs {
    Runs(
        variant
            .outcomes
            .iter()
            .map(|row| row[heap].clone())
            .collect(),
    )
}

/// Compares Isla Vista with the fixed heap. A run that was ended counts with its time until then, if it
/// is the fixed heap's; with Isla Vista, all must have finished.
fn judge(
    results: &mut Results,
    ran: &[Variant<Case, Row>],
    claim: &str,
    pressure: bool,
    most: f64,
) {
    let mut ratios = Vec::new();
    let mut finished = true;
    for variant in ran
        .iter()
        .filter(|variant| variant.what.pressure == pressure)
    {
        let (fixed, ours) = (runs(variant, FIXED), runs(variant, ISLA_VISTA));
        finished &= ours.all_finished();
        let base = match fixed.0.iter().all(|run| run.ending == Ending::Finished) {
            true => fixed.median(seconds),
            false => Some(fixed.least_seconds()),
        };
        ratios.extend(ratio(ours.median(seconds), base));
    }
    if ratios.is_empty() {
        return results.target(claim, "nothing to compare".to_owned(), None);
    }
    let logs = ratios.iter().map(|ratio| ratio.max(1e-9).ln()).sum::<f64>();
    let mean = (logs / ratios.len() as f64).exp();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let measured = format!("{mean:.2}; at most {worst:.2}");
    results.target(claim, measured, finished && mean <= most);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heap_has_its_command() {
        let case = Case {
            program: 0,
            plan: "Immix",
            pressure: true,
        };
        let heaps = HEAPS.map(|heap| job(heap, case, None).command[4].clone());
        let wanted = [
            "fixed:224m",
            "dynamic:8m,224m",
            "isla-vista:224m",
            "isla-vista:224m",
        ];
        assert_eq!(heaps, wanted);
        assert_eq!(cases().len(), PLANS.len() * PROGRAMS.len() * 2);
    }
}
