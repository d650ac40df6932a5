//! Cost of a reading of the stall signal by each tier, and whether the tiers agree, while a program is
//! pressed and left alone by turns.

use crate::harness::ground::Ground;
use crate::harness::interrupt;
use crate::harness::programs::sibling;
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results};
use crate::report::statistics::spread;
use crate::runner::{Runner, Turn, Variant};
use crate::{Error, Result};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::stalls::{Stalled, Stalls, Tier};
use plimsoll_testbed::Child;
use plimsoll_testbed::children::signal;
use plimsoll_unit::MIB;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes that the program touches over and over, and its limit while it is pressed.
const BYTES: &str = "96M";
const LIMIT: u64 = 48 * MIB;
/// The longest wait for the program to hold its memory, and for the kernel to take some of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Phases of an experiment, pressed and left alone by turns, and intervals in each.
const PHASES: usize = 6;
const INTERVALS: usize = 25;
/// Length of an interval, as of a collection.
const INTERVAL: Duration = Duration::from_millis(40);
/// Readings in a row whose mean is taken, how many such means, and how often a tier is opened.
const READS: u32 = 200;
const MEANS: usize = 15;
const OPENINGS: usize = 15;

const COUNT: &str = "tracepoints count what delay accounting counts, within 1 %";
const TIME: &str = "timed tracepoints take as long as delay accounting says, within 2 %";
const SAME: &str =
    "tracepoints see stalls in the intervals in which delay accounting does, in 95 % of them";
const CHEAP: &str = "every read takes at most 10 µs";

/// `stall-signal`.
pub(super) struct StallSignal;

/// One tier in one run.
#[derive(Clone, Debug)]
struct Seen {
    tier: Tier,
    /// Why it does not work; empty if it does.
    declined: String,
    /// Microseconds of a reading, and of opening.
    read: f64,
    open: f64,
    /// The stalls of each interval.
    within: Vec<Stalled>,
}

/// Figures of one tier in one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Said {
    /// Why it does not work; empty if it does.
    declined: String,
    /// Read, opening, count, time, agreement, correlation.
    figures: [f64; 6],
}

impl Said {
    fn of(seen: &Seen, exact: &Seen) -> Said {
        let pairs = || seen.within.iter().zip(&exact.within);
        let same = pairs().filter(|(a, b)| a.any() == b.any()).count();
        let time = |within: &[Stalled]| within.iter().map(|s| s.time.0 as f64).collect::<Vec<_>>();
        let own = if seen.tier.times() {
            time(&seen.within)
        } else {
            seen.within.iter().map(|s| s.count as f64).collect()
        };
        Said {
            declined: seen.declined.clone(),
            figures: [
                seen.read,
                seen.open,
                seen.within.iter().map(|s| s.count as f64).sum(),
                time(&seen.within).iter().sum::<f64>() / 1e6,
                100.0 * same as f64 / seen.within.len().max(1) as f64,
                correlation(&own, &time(&exact.within)),
            ],
        }
    }
}

impl Measurement for StallSignal {
    fn about(&self) -> About {
        About {
            name: "stall-signal",
            question: "What does a reading of the stall signal cost, and do its tiers agree?",
            asks: &[COUNT, TIME, SAME, CHEAP],
            minutes: 2,
            only: false,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), 256 * MIB)?;
        let ran = runner
            .experiment([("all tiers", ())])
            .run(|(), turn| once(&ground, turn))?;
        Ok(report(&ran, runner))
    }
}

/// A group of version 2 for the program, so that it has a pressure of its own beside a memory controller of
/// version 1. Under version 2 its group has one anyway.
#[derive(Debug)]
struct Unified(Option<PathBuf>);

impl Unified {
    fn around(child: &Child, ground: &Ground) -> Unified {
        let top = PathBuf::from("/sys/fs/cgroup/unified");
        let name = ground.cgroup().dir().file_name().unwrap_or_default();
        let dir = top.join(name);
        let enter = || std::fs::write(dir.join("cgroup.procs"), child.pid().to_string());
        // Where it cannot be made, the table says that there is no pressure of the own group.
        let made = std::fs::create_dir(&dir).and_then(|()| enter()).is_ok();
        Unified(made.then_some(dir))
    }
}

impl Drop for Unified {
    fn drop(&mut self) {
        let Some(dir) = &self.0 else { return };
        let end = Instant::now() + PATIENCE;
        // The kernel takes a moment to let an ended program go.
        while std::fs::remove_dir(dir).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn once(ground: &Ground, turn: &Turn<'_>) -> Result<Vec<Said>> {
    ground.limit(None)?;
    let program = sibling("plimsoll-misbehave");
    let name = program.display().to_string();
    let arguments = ["touch", "--bytes", BYTES, "--every", "1"];
    let started = Child::start_in(&program, &arguments, Some(ground.cgroup()));
    let failed = |source| Error::Start {
        program: name.clone(),
        source,
    };
    let mut child = started.map_err(failed)?;
    // Declared before the program is given to the loop below, and dropped after it.
    let unified = Unified::around(&child, ground);
    let outcome = child
        .until(PATIENCE, |progress| progress.holding)
        .map_err(failed)
        .and_then(|_| measure(&child, ground, turn));
    drop(child);
    drop(unified);
    outcome
}

fn measure(child: &Child, ground: &Ground, turn: &Turn<'_>) -> Result<Vec<Said>> {
    turn.progress.tell(format_args!("cost"));
    let mut all = Vec::new();
    for tier in Tier::ALL {
        all.push(open(tier, child.pid())?);
    }
    for phase in 0..PHASES {
        let pressed = phase % 2 == 1;
        turn.progress
            .tell(format_args!("phase {} of {PHASES}", phase + 1));
        // While it stands still, no stall ends between the readings of two tiers.
        stop(child)?;
        set(ground, pressed.then_some(LIMIT))?;
        let mut before = read(&mut all)?;
        signal(child.pid() as u32, Signal::CONT);
        for interval in 1..=INTERVALS {
            interrupt::check()?;
            std::thread::sleep(INTERVAL);
            if interval == INTERVALS {
                stop(child)?;
            }
            let after = read(&mut all)?;
            for ((seen, _), (after, before)) in all.iter_mut().zip(after.iter().zip(before)) {
                seen.within.push(after.since(before));
            }
            before = after;
        }
    }
    signal(child.pid() as u32, Signal::CONT);
    ground.limit(None)?;
    let said = all.iter().map(|(seen, _)| Said::of(seen, &all[0].0));
    Ok(said.collect())
}

/// Stops the program, which has one thread, and waits until it stands still.
fn stop(child: &Child) -> Result<()> {
    signal(child.pid() as u32, Signal::STOP);
    let process = Process::open(child.pid())?;
    while process.stat()?.state != b'T' {
        interrupt::check()?;
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Opens a tier, and measures what that and a reading cost.
fn open(tier: Tier, pid: i32) -> Result<(Seen, Option<Stalls>)> {
    let mut seen = Seen {
        tier,
        declined: String::new(),
        read: 0.0,
        open: 0.0,
        within: Vec::new(),
    };
    let mut took = Vec::new();
    let mut opened = None;
    for _ in 0..OPENINGS {
        let process = Process::open(pid)?;
        let begin = Instant::now();
        let stalls = Stalls::among(process, &[tier, Tier::MajorFaults])?;
        took.push(begin.elapsed().as_secs_f64() * 1e6);
        opened = Some(stalls);
    }
    seen.open = spread(&took).median;
    let Some(mut stalls) = opened.filter(|stalls| stalls.tier() == tier) else {
        let process = Process::open(pid)?;
        let stalls = Stalls::among(process, &[tier, Tier::MajorFaults])?;
        seen.declined = stalls.declined().iter().map(|d| d.1.to_string()).collect();
        return Ok((seen, None));
    };
    let mut means = Vec::new();
    for _ in 0..MEANS {
        let begin = Instant::now();
        for _ in 0..READS {
            stalls.read()?;
        }
        means.push(begin.elapsed().as_secs_f64() * 1e6 / f64::from(READS));
    }
    seen.read = spread(&means).median;
    Ok((seen, Some(stalls)))
}

/// One after the other; what a tier that does not work would read is 0.
fn read(all: &mut [(Seen, Option<Stalls>)]) -> Result<Vec<Stalled>> {
    let read = |(_, stalls): &mut (Seen, Option<Stalls>)| match stalls {
        Some(stalls) => Ok(stalls.read()?),
        None => Ok(Stalled::default()),
    };
    all.iter_mut().map(read).collect()
}

/// Sets the limit. The kernel refuses while the program reads its pages back faster than they go.
fn set(ground: &Ground, limit: Option<u64>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        interrupt::check()?;
        match ground.limit(limit) {
            Err(Error::Kernel(e)) if e.is_busy() && Instant::now() < end => {}
            other => return other,
        }
    }
}

const TITLE: &str = "The stall signal of one program by each tier.";
const METHOD: &str = "\
    A program touches 96 MiB over and over; its group has no limit and one of 48 MiB by turns, three \
    times each, 25 intervals of 40 ms in each phase. All tiers are read at both ends of every interval, one \
    after the other; at the ends of a phase the program stands still meanwhile. Agreement: intervals in \
    which a tier sees a stall just when delay accounting does. Correlation: of what the intervals had, time \
    with time, or count with time for tiers that take none. A read is the mean of 200 in a row while the \
    program is not pressed, of another process than the reader's.";
const COLUMNS: [(&str, &str); 7] = [
    ("tier", ""),
    ("a read", "µs"),
    ("opening", "µs"),
    ("count", ""),
    ("time", "ms"),
    ("agreement", "%"),
    ("correlation", ""),
];

/// Pearson's; 0 where one of the two never changes.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let product = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| of(a - mean_a, b - mean_b)).sum()
    };
    let spread = (product(&|a, _| a * a) * product(&|_, b| b * b)).sqrt();
    if spread > 0.0 {
        product(&|a, b| a * b) / spread
    } else {
        0.0
    }
}

fn report(ran: &[Variant<(), Vec<Said>>], runner: &Runner) -> Results {
    let mut results = runner.results(TITLE, METHOD).columns(&COLUMNS);
    let runs = &ran[0].outcomes;
    let median = |tier: usize, figure: usize| {
        let values: Vec<f64> = runs.iter().map(|run| run[tier].figures[figure]).collect();
        spread(&values).median
    };
    let dash = || Cell::from("-");
    for (index, tier) in Tier::ALL.into_iter().enumerate() {
        let declined = runs
            .iter()
            .find_map(|run| Some(&run[index].declined).filter(|d| !d.is_empty()));
        if let Some(why) = declined {
            let name = format!("{}: {why}", tier.name());
            results.row([name.into(), dash(), dash(), dash(), dash(), dash(), dash()]);
            continue;
        }
        results.row([
            tier.name().into(),
            median(index, 0).into(),
            median(index, 1).into(),
            if tier.counts() {
                median(index, 2).into()
            } else {
                dash()
            },
            if tier.times() {
                median(index, 3).into()
            } else {
                dash()
            },
            median(index, 4).into(),
            median(index, 5).into(),
        ]);
    }
    judge(&mut results, runs);
    results
}

fn judge(results: &mut Results, runs: &[Vec<Said>]) {
    let works = |tier: usize| runs.iter().all(|run| run[tier].declined.is_empty());
    let exact: Vec<usize> = [1, 2]
        .into_iter()
        .filter(|&tier| works(0) && works(tier))
        .collect();
    let apart = |tiers: &[usize], figure: usize| {
        let differences = runs.iter().flat_map(|run| {
            let base = run[0].figures[figure].max(1e-9);
            let tiers = tiers.iter();
            tiers.map(move |&tier| 100.0 * (run[tier].figures[figure] / base - 1.0).abs())
        });
        differences.fold(0.0, f64::max)
    };
    let told = |met: bool, any: bool| any.then_some(met);
    let count = apart(&exact, 2);
    results.target(
        COUNT,
        format!("{count:.2} %"),
        told(count <= 1.0, !exact.is_empty()),
    );
    let timed: Vec<usize> = exact.iter().copied().filter(|&tier| tier == 1).collect();
    let time = apart(&timed, 3);
    results.target(
        TIME,
        format!("{time:.2} %"),
        told(time <= 2.0, !timed.is_empty()),
    );
    let least = runs
        .iter()
        .flat_map(|run| exact.iter().map(|&tier| run[tier].figures[4]));
    let least = least.fold(100.0, f64::min);
    results.target(
        SAME,
        format!("{least:.1} % of the intervals agree at least"),
        told(least >= 95.0, !exact.is_empty()),
    );
    let slowest = runs
        .iter()
        .flatten()
        .map(|said| said.figures[0])
        .fold(0.0, f64::max);
    results.target(CHEAP, format!("{slowest:.1} µs"), slowest <= 10.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_told() {
        assert!((correlation(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]) - 1.0).abs() < 1e-9);
        assert!((correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-9);
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
        assert_eq!(correlation(&[], &[]), 0.0);
    }
}
