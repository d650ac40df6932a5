//! How much the measuring of shared memory costs programs. The same programs run in alternating
//! windows, with the broker running or stopped.
//!
//! Separate runs differ by more than the cost, because of memory placement and other programs. So
//! windows are compared only with their neighbours.

use super::{Sharers, register};
use crate::harness::broker::Broker;
use crate::harness::interrupt;
use crate::harness::processor::processor_ns;
use crate::progress::Progress as Shown;
use crate::report::results::Results;
use crate::report::row::or_nan;
use crate::report::statistics::{median_interval, quantile};
use crate::runner::Runner;
use crate::{Error, Result};
use plimsoll_kernel::clock;
use plimsoll_testbed::Progress;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ChildStdout;
use std::thread::JoinHandle;
use std::time::Duration;

/// Length of a window: some epochs of the broker, which take half a second each under such load
/// (docs/src/sharing.md).
const WINDOW: Duration = Duration::from_secs(1);
/// The windows of a block: the broker runs (true) or is stopped. Both kinds have the same average position in
/// a block, so that a drift over time cancels out.
const ORDER: [bool; 8] = [true, false, false, true, false, true, true, false];
/// Number of blocks in a repetition.
const BLOCKS: usize = 16;
/// How long to wait until the broker knows which programs share memory, and its epochs have reached their
/// length.
const SETTLE: Duration = Duration::from_secs(15);
/// Milliseconds between two lines of a program's output. Between them its counters are interpolated.
const REPORT: &str = "10";
/// The target in percent: Walfield's figure.
const ASKED: f64 = 0.23;

/// One window, of all programs together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Window {
    with_broker: bool,
    /// Number of times that the programs went over the whole block.
    #[serde(deserialize_with = "or_nan")]
    rounds: f64,
    seconds: f64,
    #[serde(deserialize_with = "or_nan")]
    processor_seconds: f64,
    #[serde(deserialize_with = "or_nan")]
    minor_faults: f64,
    /// Processor time of the broker, seconds.
    broker_seconds: f64,
}

pub(super) const CHEAP: &str = "cost to the programs at most 0.23 %";

/// Adds the rows and the target to the results of `sharing`.
pub(super) fn measure(folder: &Path, runner: &Runner, results: &mut Results) -> Result<()> {
    let ran = runner
        .experiment([("cost", ())])
        .wanted()
        .run(|(), turn| run(folder, &turn.progress))?;
    let windows = ran.into_iter().flat_map(|variant| variant.outcomes);
    let windows: Vec<Window> = windows.flatten().collect();
    if windows.is_empty() {
        return Ok(());
    }
    report(&windows, results);
    Ok(())
}

fn report(windows: &[Window], results: &mut Results) {
    let processor = differences(windows, |w| w.processor_seconds / w.rounds);
    let wall = differences(windows, |w| w.seconds / w.rounds);
    let who = format!("{} pairs of windows", processor.len());
    let mut row = |case: &str, who: &str, cost: f64, interval: String| {
        let none = || "".into();
        let (case, who) = (case.into(), who.into());
        results.row([
            case,
            who,
            none(),
            none(),
            none(),
            cost.into(),
            interval.into(),
        ]);
    };
    for (case, values) in [
        ("cost: processor time of a touch", &processor),
        ("cost: time of a touch", &wall),
    ] {
        row(case, &who, quantile(values, 0.5), interval(values));
    }
    let mean = |with_broker: bool, of: fn(&Window) -> f64| {
        let of: Vec<f64> = windows
            .iter()
            .filter(|w| w.with_broker == with_broker)
            .map(|w| of(w) / w.seconds)
            .collect();
        of.iter().sum::<f64>() / of.len().max(1) as f64
    };
    let broker = mean(true, |w| w.broker_seconds) * 100.0;
    row("the broker, of one core", "", broker, String::new());
    let faults = [true, false].map(|with| mean(with, |w| w.minor_faults));
    let measured = match median_interval(&processor) {
        Some((low, high)) => format!(
            "median {:.3} %, 95 %: {low:.3} to {high:.3} %; by the clock {:.2} % ({}); minor faults a \
             second {:.1}, without {:.1}",
            quantile(&processor, 0.5),
            quantile(&wall, 0.5),
            interval(&wall),
            faults[0],
            faults[1]
        ),
        None => "too few windows".to_owned(),
    };
    results.target(CHEAP, measured, verdict(median_interval(&processor)));
}

fn interval(values: &[f64]) -> String {
    median_interval(values).map_or("?".to_owned(), |(low, high)| {
        format!("{low:.2} to {high:.2}")
    })
}

/// Whether the target is met: only if the whole interval is on one side of it; otherwise `None`.
fn verdict(interval: Option<(f64, f64)>) -> Option<bool> {
    let (low, high) = interval?;
    match (high <= ASKED, low > ASKED) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// By how many percent `of` is higher while the broker runs: one value for each pair of windows that follow
/// each other.
fn differences(windows: &[Window], of: fn(&Window) -> f64) -> Vec<f64> {
    let percent = |pair: &[Window]| {
        let with = pair.iter().find(|w| w.with_broker)?;
        let without = pair.iter().find(|w| !w.with_broker)?;
        let percent = (of(with) / of(without) - 1.0) * 100.0;
        percent.is_finite().then_some(percent)
    };
    windows.chunks_exact(2).filter_map(percent).collect()
}

/// Runs programs that share a block and touch it as fast as they can: one for each processor, but at least
/// two and at most three.
fn run(folder: &Path, progress: &Shown) -> Result<Vec<Window>> {
    let count = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 3));
    let broker = Broker::start(folder, None)?;
    let arguments: Vec<Vec<String>> = (0..count)
        .map(|_| ["--unpaced", "--report", REPORT].map(str::to_owned).into())
        .collect();
    let mut sharers = Sharers::start(folder, &arguments)?;
    let readers: Vec<_> = sharers.outputs().into_iter().map(read).collect();
    let _owners = register(&broker, &sharers)?;
    wait(SETTLE)?;
    let mut bounds = vec![(clock::now().0, processor_ns(broker.pid()))];
    for block in 0..BLOCKS {
        for with_broker in ORDER {
            broker.pause(!with_broker);
            let (done, all) = (block * ORDER.len(), BLOCKS * ORDER.len());
            progress.tell(format_args!("windows {done} of {all}"));
            wait(WINDOW)?;
            bounds.push((clock::now().0, processor_ns(broker.pid())));
        }
    }
    broker.pause(false);
    // The programs print a last line and close their output, which ends the threads that read it.
    drop(sharers);
    let mut told = Vec::new();
    for reader in readers {
        let lines = reader.join();
        told.push(lines.map_err(|_| Error::Panicked("a reader of a program's output"))?);
    }
    let order = ORDER.iter().cycle();
    Ok(bounds
        .windows(2)
        .zip(order)
        .map(|(pair, with)| window(&told, pair[0], pair[1], *with))
        .collect())
}

fn wait(time: Duration) -> Result<()> {
    interrupt::check()?;
    std::thread::sleep(time);
    Ok(())
}

/// Reads all lines of a program, until it ends.
fn read(output: ChildStdout) -> JoinHandle<Vec<Progress>> {
    std::thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .map_while(io::Result::ok)
            .map(|line| Progress::parse(&line))
            .collect()
    })
}

/// Work of the programs between two bounds. A bound is a time and the broker's processor time then, both in
/// ns.
fn window(told: &[Vec<Progress>], from: (u64, u64), to: (u64, u64), with_broker: bool) -> Window {
    let sum = |counter: fn(&Progress) -> u64| -> f64 {
        let grown = |lines: &Vec<Progress>| at(lines, to.0, counter) - at(lines, from.0, counter);
        told.iter().map(grown).sum()
    };
    Window {
        with_broker,
        rounds: sum(|p| p.rounds),
        seconds: (to.0 - from.0) as f64 / 1e9,
        processor_seconds: sum(|p| p.processor_ns) / 1e9,
        minor_faults: sum(|p| p.minor_faults),
        broker_seconds: to.1.saturating_sub(from.1) as f64 / 1e9,
    }
}

/// The value of a counter at a time, interpolated between the lines before and after it.
fn at(lines: &[Progress], time: u64, counter: fn(&Progress) -> u64) -> f64 {
    let next = lines.partition_point(|line| line.time_ns < time);
    let (Some(before), Some(after)) = (
        next.checked_sub(1).and_then(|i| lines.get(i)),
        lines.get(next),
    ) else {
        return f64::NAN;
    };
    let part = (time - before.time_ns) as f64 / (after.time_ns - before.time_ns).max(1) as f64;
    let (low, high) = (counter(before) as f64, counter(after) as f64);
    low + (high - low) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_of(with_broker: bool, processor_seconds: f64) -> Window {
        Window {
            with_broker,
            rounds: 100.0,
            seconds: 1.0,
            processor_seconds,
            ..Window::default()
        }
    }

    #[test]
    fn both_kinds_of_windows_come_equally_early() {
        let places = |with: bool| -> usize {
            let of = ORDER.iter().enumerate().filter(|(_, w)| **w == with);
            of.map(|(place, _)| place).sum()
        };
        assert_eq!(places(true), places(false));
        assert!(ORDER.chunks(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_pair_is_compared_whichever_comes_first() {
        let windows = [
            window_of(true, 1.01),
            window_of(false, 1.0),
            window_of(false, 1.0),
            window_of(true, 1.01),
        ];
        let found = differences(&windows, |w| w.processor_seconds / w.rounds);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|d| (d - 1.0).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn counters_are_interpolated_and_unknown_outside() {
        let line = |time_ns, rounds| Progress {
            time_ns,
            rounds,
            ..Progress::default()
        };
        let lines = [line(10, 100), line(20, 200)];
        assert_eq!(at(&lines, 15, |p| p.rounds), 150.0);
        assert!(at(&lines, 5, |p| p.rounds).is_nan() && at(&lines, 25, |p| p.rounds).is_nan());
    }

    #[test]
    fn an_interval_on_both_sides_decides_nothing() {
        assert_eq!(verdict(Some((-0.1, 0.2))), Some(true));
        assert_eq!(verdict(Some((0.3, 0.4))), Some(false));
        assert_eq!(verdict(Some((0.1, 0.4))), None);
        assert_eq!(verdict(None), None);
    }
}
