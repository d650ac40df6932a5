//! How much the measuring of shared memory costs programs, directly: the same programs run in alternating
//! windows, with the broker running or stopped.
//!
//! Separate runs differ by more than the cost, because of memory placement and other programs. So
//! windows are compared only with their neighbours. Even these differ by more, so this is a check of the
//! bound only; `clears` resolves the cost.

use super::readings::{Busy, Told};
use super::rows::note_cost;
use crate::Result;
use crate::harness::broker::Broker;
use crate::harness::interrupt;
use crate::harness::processor::processor_ns;
use crate::progress::Progress as Shown;
use crate::report::results::Results;
use crate::report::row::or_nan;
use crate::report::statistics::{median_interval, quantile};
use crate::runner::Runner;
use plimsoll_kernel::clock;
use serde::{Deserialize, Serialize};
use std::path::Path;
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
/// Half of the interval that would resolve the target, percentage points.
const FINE: f64 = 0.1;

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

/// Adds the rows to the results of `sharing`. Returns what they say, for the target.
pub(super) fn measure(
    folder: &Path,
    runner: &Runner,
    results: &mut Results,
) -> Result<Option<String>> {
    let ran = runner
        .experiment([("cost", ())])
        .wanted()
        .run(|(), turn| run(folder, &turn.progress))?;
    let windows = ran.into_iter().flat_map(|variant| variant.outcomes);
    let windows: Vec<Window> = windows.flatten().collect();
    Ok((!windows.is_empty()).then(|| report(&windows, results)))
}

fn report(windows: &[Window], results: &mut Results) -> String {
    let processor = differences(windows, |w| w.processor_seconds / w.rounds);
    let wall = differences(windows, |w| w.seconds / w.rounds);
    let who = format!("{} pairs of windows", processor.len());
    for (case, values) in [
        ("cost: processor time of a touch", &processor),
        ("cost: time of a touch", &wall),
    ] {
        note_cost(results, case, &who, quantile(values, 0.5), interval(values));
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
    note_cost(
        results,
        "the broker, of one core",
        "",
        broker,
        String::new(),
    );
    let faults = [true, false].map(|with| mean(with, |w| w.minor_faults));
    let needed = needed(&processor).map_or("?".to_owned(), |pairs| pairs.to_string());
    format!(
        "directly {:.2} % ({}), which {needed} pairs of windows would narrow to 0.1 % on either side; by the \
         clock {:.2} % ({}); minor faults a second {:.1}, without {:.1}",
        quantile(&processor, 0.5),
        interval(&processor),
        quantile(&wall, 0.5),
        interval(&wall),
        faults[0],
        faults[1]
    )
}

/// How many pairs would make half of the interval of the median [`FINE`]: it becomes narrower with the square
/// root of their number.
fn needed(values: &[f64]) -> Option<u64> {
    let (low, high) = median_interval(values)?;
    let factor = (high - low) / 2.0 / FINE;
    Some((values.len() as f64 * factor * factor).ceil() as u64)
}

fn interval(values: &[f64]) -> String {
    median_interval(values).map_or("?".to_owned(), |(low, high)| {
        format!("{low:.2} to {high:.2}")
    })
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

fn run(folder: &Path, progress: &Shown) -> Result<Vec<Window>> {
    let broker = Broker::start(folder, None)?;
    let busy = Busy::start(folder)?;
    let _owners = busy.register(&broker)?;
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
    let told = busy.end()?;
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

/// Work of the programs between two bounds. A bound is a time and the broker's processor time then, both in
/// ns.
fn window(told: &Told, from: (u64, u64), to: (u64, u64), with_broker: bool) -> Window {
    let within = (from.0, to.0);
    Window {
        with_broker,
        rounds: told.grown(within, |p| p.rounds),
        seconds: (to.0 - from.0) as f64 / 1e9,
        processor_seconds: told.grown(within, |p| p.processor_ns) / 1e9,
        minor_faults: told.grown(within, |p| p.minor_faults),
        broker_seconds: to.1.saturating_sub(from.1) as f64 / 1e9,
    }
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
    fn four_times_the_pairs_halve_the_interval() {
        let values: Vec<f64> = (0..100).map(|index| f64::from(index) / 100.0).collect();
        let (low, high) = median_interval(&values).expect("enough values");
        let half: f64 = (high - low) / 2.0;
        let wanted = (100.0 * (half / FINE).powi(2)).ceil() as u64;
        assert_eq!((needed(&values), needed(&[])), (Some(wanted), None));
    }
}
