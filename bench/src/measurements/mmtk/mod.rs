//! Programs on a small virtual machine with MMTk, under each of its plans, with four kinds of heap, with and
//! without memory pressure.
//!
//! | module | is |
//! |---|---|
//! | `report` | the table and the pictures |
//! | `targets` | what is asked for |

mod report;
mod targets;

use crate::Result;
use crate::harness::broker::Broker;
use crate::harness::ground::Ground;
use crate::harness::job::{self, Conditions, Job, Outcome};
use crate::harness::programs::sibling;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::runner::Runner;
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
/// A run is given up after this many seconds: more than ten times what it takes without pressure.
const LONGEST: f64 = 12.0;

/// A kind of heap: its name, the argument of the machine, and whether it follows a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heap {
    name: &'static str,
    argument: &'static str,
    broker: bool,
}

/// The place of the fixed heap in [`HEAPS`].
const FIXED: usize = 0;
/// The places of the others in it.
const MEM_BALANCER: usize = 1;
const ISLA_VISTA: usize = 2;
const BROKER: usize = 3;
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

/// The programs: names, and arguments of the machine. Each takes about a second without pressure: all
/// runs together are to take three quarters of an hour at most.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("GCBench", &["gcbench", "16", "4"]),
    ("Large live set", &["live", "40m", "600000"]),
];

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
            asks: &targets::CLAIMS,
            minutes: 40,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), SWAP)?;
        let ran = runner
            .experiment(cases())
            .wanted()
            .run(|case, turn| run_case(&ground, *case, &turn.progress))?;
        report::draw(&ran, runner)?;
        Ok(report::table(&ran, runner))
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
