//! Programs on a small virtual machine with MMTk, under each of its plans, with six kinds of heap, with and
//! without memory pressure.
//!
//! | module | is |
//! |---|---|
//! | `report` | the table and the pictures |
//! | `targets` | what is asked for |

mod report;
mod targets;

use crate::Result;
use crate::harness::best_heap::Search;
use crate::harness::broker::Broker;
use crate::harness::ground::Ground;
use crate::harness::job::{self, Conditions, Ending, Job, Outcome};
use crate::harness::programs::sibling;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::runner::Runner;
use serde::{Deserialize, Serialize};
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
/// Fixed heaps among which the best is looked for, MiB: from little more than what lives in the programs
/// to the largest. Those above the memory are there for plans that keep a part of their heap free to copy
/// into.
const SIZES: [u64; 9] = [48, 64, 80, 96, 112, 128, 144, 176, MOST];
/// Seconds that a run takes besides the program, at most: its start, and two collections at its end.
const BESIDE: f64 = 2.0;
/// Memory under pressure, bytes: two thirds of that heap.
const ROOM: u64 = 152 << 20;
/// Swap behind it, bytes.
const SWAP: u64 = 512 << 20;
/// A run is given up after this many seconds: more than ten times what it takes without pressure.
const LONGEST: f64 = 12.0;

/// A kind of heap: its name, the argument of the machine before the largest size, and whether it follows a
/// broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heap {
    name: &'static str,
    argument: &'static str,
    broker: bool,
}

/// The places of the heaps in [`HEAPS`].
const FIXED: usize = 0;
const BEST: usize = 1;
const MEM_BALANCER: usize = 2;
const ISLA_VISTA: usize = 3;
const BROKER: usize = 5;
const HEAPS: [Heap; 6] = [
    Heap::by("fixed", "fixed:"),
    Heap::by("best fixed", "fixed:"),
    Heap::by("MemBalancer", "dynamic:8m,"),
    Heap::by("Isla Vista", "isla-vista:"),
    Heap::by("as printed", "printed:"),
    Heap {
        broker: true,
        ..Heap::by("Isla Vista, broker", "isla-vista:")
    },
];

impl Heap {
    const fn by(name: &'static str, argument: &'static str) -> Heap {
        Heap {
            name,
            argument,
            broker: false,
        }
    }
}

/// The programs: names, and arguments of the machine. Each takes about a second without pressure: all
/// runs together are to take less than a hundred minutes.
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
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    /// In the order of [`HEAPS`].
    runs: Vec<Outcome>,
    /// Size of the best fixed heap, MiB.
    best: u64,
}

impl Measurement for Mmtk {
    fn about(&self) -> About {
        About {
            name: "mmtk",
            question: "What does Isla Vista do for the heap of a runtime on MMTk, under each plan, with and \
                       without pressure?",
            asks: &targets::CLAIMS,
            minutes: 75,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), SWAP)?;
        let experiment = runner.experiment(cases()).wanted().by_group();
        let ran = experiment.run(|case, turn| {
            let best = best_fixed(&ground, *case, runner)?;
            run_case(&ground, *case, best, &turn.progress)
        })?;
        report::draw(&ran, runner)?;
        Ok(report::table(&ran, runner))
    }
}

impl Case {
    /// Without commas, which part the names that `--only` takes.
    fn name(self) -> String {
        let memory = if self.pressure {
            "under pressure"
        } else {
            "without pressure"
        };
        format!("{} {} {memory}", PROGRAMS[self.program].0, self.plan)
    }
}

fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for program in 0..PROGRAMS.len() {
        for plan in PLANS {
            for pressure in [false, true] {
                let case = Case {
                    program,
                    plan,
                    pressure,
                };
                cases.push((case.name(), case));
            }
        }
    }
    cases
}

/// The size of the best fixed heap of a case, MiB. Without pressure that is the largest one: no other is
/// collected as rarely. So it is where no size is found with which all runs finish.
fn best_fixed(ground: &Ground, case: Case, runner: &Runner) -> Result<u64> {
    if !case.pressure {
        return Ok(MOST);
    }
    runner.known(&format!("{} best fixed heap", case.name()), |progress| {
        let search = Search {
            sizes: &SIZES,
            longest: LONGEST,
            beside: BESIDE,
        };
        let found = search.best(|size, longest| {
            let progress = progress.part(&format!("{size} MiB"));
            let run = run(ground, case, HEAPS[BEST], (size, longest), &progress)?;
            Ok((run.ending == Ending::Finished).then(|| report::seconds(&run)))
        })?;
        Ok(found.unwrap_or(MOST))
    })
}

/// Runs a case with each heap in turn. `best`: the size of the best fixed heap, MiB.
fn run_case(ground: &Ground, case: Case, best: u64, progress: &Progress) -> Result<Row> {
    let heaps = HEAPS.into_iter().enumerate();
    let runs = heaps.map(|(place, heap)| {
        let size = if place == BEST { best } else { MOST };
        let progress = progress.part(heap.name);
        run(ground, case, heap, (size, LONGEST), &progress)
    });
    let runs = runs.collect::<Result<Vec<_>>>()?;
    Ok(Row { runs, best })
}

/// Runs a case with one heap, whose largest size (MiB) is given, and gives up after `longest` seconds.
fn run(
    ground: &Ground,
    case: Case,
    heap: Heap,
    (size, longest): (u64, f64),
    progress: &Progress,
) -> Result<Outcome> {
    let conditions = Conditions {
        limit: case.pressure.then_some(ROOM),
        longest,
        ..Conditions::default()
    };
    ground.limit(conditions.limit)?;
    let domain = case.pressure.then(|| ground.cgroup());
    let broker = heap
        .broker
        .then(|| Broker::start(ground.folder(), domain))
        .transpose()?;
    let job = job(heap, size, case, broker.as_ref());
    let outcomes = job::run(ground, &[job], &conditions, progress)?;
    let outcome = outcomes.into_iter().next();
    outcome.ok_or_else(|| crate::Error::program(progress.label(), "it was not run"))
}

fn job(heap: Heap, size: u64, case: Case, broker: Option<&Broker>) -> Job {
    let mut command = vec![
        sibling("plimsoll-bench-vm").display().to_string(),
        "--plan".to_owned(),
        case.plan.to_owned(),
        "--heap".to_owned(),
        format!("{}{size}m", heap.argument),
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
        let heaps = HEAPS.map(|heap| job(heap, 224, case, None).command[4].clone());
        let wanted = [
            "fixed:224m",
            "fixed:224m",
            "dynamic:8m,224m",
            "isla-vista:224m",
            "printed:224m",
            "isla-vista:224m",
        ];
        assert_eq!(heaps, wanted);
        assert_eq!(HEAPS[BROKER].name, "Isla Vista, broker");
        assert!(cases().iter().all(|(name, _)| !name.contains(',')));
        assert_eq!(cases().len(), PLANS.len() * PROGRAMS.len() * 2);
    }
}
