//! Memory that several principals map. Is it charged by use? What does measuring it cost? Can a
//! principal ride free?
//!
//! As in the paper's sections 3.3 and 5.4, three programs touch the pages of one block at different rates.
//!
//! | module | is |
//! |---|---|
//! | `sharers` | the programs |
//! | `readings` | their counters at any time |
//! | `clears` | the cost by counts: clears, times what one costs |
//! | `cost` | the cost directly, by time |
//! | `rows` | columns and rows of the table |

mod clears;
mod cost;
mod readings;
mod rows;
mod sharers;

use crate::Result;
use crate::harness::broker::{Broker, find};
use crate::harness::folder::Folder;
use crate::harness::interrupt;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use plimsoll_kernel::process::Process;
use rows::COLUMNS;
use sharers::{BLOCK, Sharers, register};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait before the accounting is read, because it averages over that time.
const SETTLE: Duration = Duration::from_secs(60);
const LOOKS: u32 = 100;
/// Touches per page and second; and for touches in bursts, the milliseconds of a burst and of the rest after
/// it.
type Pace = (f64, Option<(u32, u32)>);

/// The cases with steady rates: their names, and the paces of the three programs.
const STEADY: [(&str, [Pace; 3]); 2] = [
    ("rates 1 : 2 : 4", steady([1.0, 2.0, 4.0])),
    ("rates 0.5 : 1 : 5", steady([0.5, 1.0, 5.0])),
];
const RIDER: &str = "rider";
const RIDING: [Pace; 3] = [(1.0, None), (1.0, None), (4.0, Some((500, 1500)))];

const fn steady([first, second, third]: [f64; 3]) -> [Pace; 3] {
    [(first, None), (second, None), (third, None)]
}

const TRUE: &str = "estimated shares within 0.02 of the true ones";
const FREE: &str =
    "nobody rides free by timing its accesses: the rider pays at least half of its part";

/// The measurement `sharing`.
pub(super) struct Sharing;

impl Measurement for Sharing {
    fn about(&self) -> About {
        About {
            name: "sharing",
            question: "How true is the accounting of shared memory, and what does it cost?",
            asks: &[TRUE, FREE, clears::CHEAP],
            minutes: 47,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("sharing")?;
        let ran = runner
            .experiment(STEADY.into_iter().chain([(RIDER, RIDING)]))
            .wanted()
            .run(|programs, turn| parts(folder.path(), programs, &turn.progress))?;
        let mut results = runner.results(TITLE, METHOD).columns(&COLUMNS);
        let (riding, steady): (Vec<_>, Vec<_>) = ran.iter().partition(|v| v.name == RIDER);
        note_steady(&steady, &mut results);
        riding.iter().for_each(|one| note_rider(one, &mut results));
        let direct = cost::measure(folder.path(), runner, &mut results)?;
        clears::measure(folder.path(), runner, &mut results, direct.as_deref())?;
        Ok(results)
    }
}

/// A case: the paces of its programs, and for each run the fraction of the block that each of them was
/// charged.
type Charged = Variant<[Pace; 3], [f64; 3]>;

const TITLE: &str =
    "A block of 32 MiB that three principals map, charged by how often each touches it.";
const METHOD: &str = "\
     Poisson touches of random pages at the given rates per page and second; the part that each is \
     charged is averaged over 100 looks after 60 s. The rider touches in bursts, half a second in every \
     two, as often as its neighbours on average. Cost: other programs, one for each processor, touch as \
     fast as they can. By counted clears: how often the broker clears their reference bits (the calls of \
     `write` of its thread in 60 s), times the processor time that a clear costs a program. That is measured \
     without a broker: the harness clears and reads as the broker does, about thirty and about seventy times \
     a second, in windows of 0.3 s, each compared with one without clears in the same three, in all orders. \
     Directly: windows of 1 s, with the broker going or stopped in balanced order; percent more time for a \
     touch than in the window beside it. Medians of all pairs and their 95 % intervals (sign test).";
/// Adds the rows of programs that touch at steady rates.
fn note_steady(cases: &[&Charged], results: &mut Results) {
    let mut worst: Option<f64> = None;
    for case in cases {
        let total: f64 = case.what.iter().map(|(rate, _)| rate).sum();
        for (index, (rate, _)) in case.what.iter().enumerate() {
            let (truth, part) = (rate / total, middle(&case.outcomes, index));
            let farthest = case
                .outcomes
                .iter()
                .map(|parts| (parts[index] - truth).abs());
            worst = farthest.fold(worst, |worst, far| Some(worst.map_or(far, |w| w.max(far))));
            note(results, &case.name, &format!("{}", index + 1), truth, part);
        }
    }
    if let Some(worst) = worst {
        let measured = format!("{worst:.3} in the worst run");
        results.target(TRUE, measured, worst <= 0.02);
    }
}

/// Adds a row: the fraction of the block that a program ought to be charged, and the fraction that it was
/// charged.
fn note(results: &mut Results, case: &str, program: &str, truth: f64, part: f64) {
    results.row([
        case.into(),
        program.into(),
        truth.into(),
        part.into(),
        (part - truth).abs().into(),
        "".into(),
        "".into(),
    ]);
}

/// Adds the rows of a program that touches in bursts, to be seldom noticed.
fn note_rider(case: &Charged, results: &mut Results) {
    const TRUTH: f64 = 1.0 / 3.0;
    for (index, program) in ["steady", "steady", "the rider"].into_iter().enumerate() {
        let part = middle(&case.outcomes, index);
        note(
            results,
            "a rider, on average as often",
            program,
            TRUTH,
            part,
        );
    }
    let parts = case.outcomes.iter().map(|parts| parts[2]);
    let rider = parts.fold(f64::MAX, f64::min);
    let measured = format!("{rider:.3} of 0.333 in the worst run");
    results.target(FREE, measured, rider >= TRUTH / 2.0);
}

/// The median over all repetitions.
fn middle(all: &[[f64; 3]], index: usize) -> f64 {
    spread(&all.iter().map(|parts| parts[index]).collect::<Vec<_>>()).median
}

/// The arguments for a pace.
fn paced((rate, burst): &Pace) -> Vec<String> {
    let mut arguments = vec!["--rate".to_owned(), rate.to_string()];
    if let Some((on, off)) = burst {
        arguments.extend(["--on", &on.to_string(), "--off", &off.to_string()].map(str::to_owned));
    }
    // The output of these programs is not read.
    arguments.extend(["--report", "60000"].map(str::to_owned));
    arguments
}

/// The fraction of the block that each program is charged, on average over time.
fn parts(folder: &Path, programs: &[Pace; 3], progress: &Progress) -> Result<[f64; 3]> {
    let broker = Broker::start(folder, None)?;
    let sharers = Sharers::start(folder, &programs.each_ref().map(paced))?;
    let _owners = register(&broker, &sharers)?;
    let mut control = broker.connect()?;
    let start = Instant::now();
    while start.elapsed() < SETTLE {
        let (now, all) = (start.elapsed().as_secs(), SETTLE.as_secs());
        progress.tell(format_args!("{now} of {all} s"));
        std::thread::sleep(Duration::from_secs(1));
        interrupt::check()?;
    }
    let mut sums = [0.0; 3];
    for _ in 0..LOOKS {
        let listing = control.list()?;
        for (index, (sum, child)) in sums.iter_mut().zip(&sharers.children).enumerate() {
            let own = Process::open(child.id() as i32)
                .and_then(|p| p.memory())
                .map_or(0, |m| m.anon.0);
            let uses = find(&listing, &format!("sharer-{index}")).map_or(0, |p| p.uses);
            *sum += uses.saturating_sub(own) as f64;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    // Divided by the block rather than by the sum: charges that do not add up to the block must show.
    Ok(sums.map(|sum| sum / (f64::from(LOOKS) * BLOCK as f64)))
}
