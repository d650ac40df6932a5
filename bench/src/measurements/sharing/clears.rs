//! How much the measuring of shared memory costs programs, by counts: how often the broker clears their
//! reference bits, times the processor time that a clear costs them.
//!
//! The broker clears so rarely that the cost is less than the noise of any comparison with a broker that is
//! stopped (see `cost`). So the harness itself clears, by the same functions, a hundred times as often. A
//! clear costs the program the same each time, provided that it has touched all pages since the one
//! before: each of its first touches after it walks the page table, and sets the bit again. Two doses show
//! whether that holds.

use super::readings::{Busy, Told};
use super::rows::note_cost;
use super::sharers::BLOCK;
use crate::Result;
use crate::harness::broker::Broker;
use crate::harness::interrupt;
use crate::harness::processor::writes_of;
use crate::progress::Progress as Shown;
use crate::report::results::Results;
use crate::report::row::or_nan;
use crate::report::statistics::{median_interval, quantile, spread};
use crate::runner::Runner;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced::{clear, segments};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The broker's thread that clears. It writes nothing else, so its calls of `write` are the clears.
const THREAD: &str = "plimsoll-sense";
/// How long the broker's clears are counted, after it knows which programs share memory.
const COUNTED: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_secs(15);
/// Length of a window, and what of it at both ends is not counted: neighbours have other doses, and counters
/// are interpolated.
const WINDOW: Duration = Duration::from_millis(300);
const MARGIN: Duration = Duration::from_millis(30);
/// Time between clearing and reading: a program touches each page many times within it.
const WAIT: Duration = Duration::from_millis(8);
/// Most areas of a process that are looked at, as the broker does.
const SEGMENTS: usize = 64;
/// The doses: the rest between reading and the next clear; no clear at all.
const DOSES: [Option<Duration>; 3] = [None, Some(Duration::from_millis(20)), Some(Duration::ZERO)];
const NONE: usize = 0;
/// All orders of three windows, so that each dose stands equally often at each place.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
    [1, 0, 2],
    [0, 2, 1],
];
/// Blocks of a repetition: each has a window of every dose. Ten times all orders.
const BLOCKS: usize = 60;
/// The target in percent: Walfield's figure.
const ASKED: f64 = 0.23;
/// The part of the block that must be touched again after a clear: otherwise the next one costs less.
const TOUCHED: f64 = 0.9;
/// Doses agree if the cost of a clear by the one is within this factor of that by the other.
const AGREE: f64 = 1.5;

pub(super) const CHEAP: &str = "cost to the programs at most 0.23 %";

/// One window, of all programs together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Window {
    /// How often each program's bits were cleared.
    clears: f64,
    #[serde(deserialize_with = "or_nan")]
    rounds: f64,
    #[serde(deserialize_with = "or_nan")]
    processor_seconds: f64,
}

/// One repetition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Counted {
    programs: usize,
    /// How often a second the broker clears the bits of each program.
    clears: f64,
    /// The part of the block that was touched between a clear and the reading after it, on average.
    touched: f64,
    /// A window of each dose.
    blocks: Vec<[Window; 3]>,
}

/// Adds the rows, and the target with what the direct comparison found beside it.
pub(super) fn measure(
    folder: &Path,
    runner: &Runner,
    results: &mut Results,
    direct: Option<&str>,
) -> Result<()> {
    let ran = runner
        .experiment([("cost of a clear", ())])
        .wanted()
        .run(|(), turn| run(folder, &turn.progress))?;
    let all: Vec<Counted> = ran.into_iter().flat_map(|one| one.outcomes).collect();
    if !all.is_empty() {
        report(&all, results, direct);
    }
    Ok(())
}

fn report(all: &[Counted], results: &mut Results, direct: Option<&str>) {
    let rate = spread(&all.iter().map(|one| one.clears).collect::<Vec<_>>()).median;
    let touched = spread(&all.iter().map(|one| one.touched).collect::<Vec<_>>()).min;
    let costs = [1, 2].map(|dose| costs(all, dose));
    let percent = |seconds: f64| seconds * rate * 100.0;
    for (name, costs) in ["few clears", "many clears"].into_iter().zip(&costs) {
        let interval = median_interval(costs).map_or("?".to_owned(), |(low, high)| {
            format!("{:.3} to {:.3}", percent(low), percent(high))
        });
        let who = format!(
            "{rate:.2} a second and program, {:.0} µs each",
            quantile(costs, 0.5) * 1e6
        );
        note_cost(
            results,
            &format!("cost by counted clears: {name}"),
            &who,
            percent(quantile(costs, 0.5)),
            interval,
        );
    }
    let [few, many] = &costs;
    let interval = median_interval(many).map(|(low, high)| (percent(low), percent(high)));
    let proportional = agree(few, many);
    let is_whole = touched >= TOUCHED;
    let measured = match interval {
        Some((low, high)) => format!(
            "{:.3} %, 95 %: {low:.3} to {high:.3} % ({rate:.2} clears a second; {touched:.2} of the block \
             touched after each; {} with fewer clears){}",
            percent(quantile(many, 0.5)),
            if proportional { "the same" } else { "another" },
            direct.map_or(String::new(), |direct| format!("; {direct}")),
        ),
        None => "too few windows".to_owned(),
    };
    results.target(
        CHEAP,
        measured,
        verdict(interval).filter(|_| proportional && is_whole),
    );
}

/// Whether the cost of a clear is the same by both doses, as far as their intervals tell.
fn agree(few: &[f64], many: &[f64]) -> bool {
    let (few, many) = (median_interval(few), median_interval(many));
    few.zip(many)
        .is_some_and(|((low, high), (least, most))| low <= most * AGREE && least <= high * AGREE)
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

/// Processor seconds that a clear costs a program: one value for each block.
fn costs(all: &[Counted], dose: usize) -> Vec<f64> {
    let cost = |programs: usize, block: &[Window; 3]| {
        let per_round = |window: &Window| window.processor_seconds / window.rounds;
        let with = &block[dose];
        let more = (per_round(with) - per_round(&block[NONE])) * with.rounds;
        let cost = more / (with.clears * programs as f64);
        cost.is_finite().then_some(cost)
    };
    let each = all.iter().flat_map(|one| {
        let blocks = one.blocks.iter();
        blocks.filter_map(|block| cost(one.programs, block))
    });
    each.collect()
}

fn run(folder: &Path, progress: &Shown) -> Result<Counted> {
    let busy = Busy::start(folder)?;
    let programs = busy.pids().len();
    let clears = {
        let broker = Broker::start(folder, None)?;
        let _owners = busy.register(&broker)?;
        rest(SETTLE)?;
        progress.tell(format_args!("counting clears"));
        let (begun, before) = (clock::now(), writes_of(broker.pid(), THREAD));
        rest(COUNTED)?;
        let seconds = (clock::now() - begun).0 as f64 / 1e9;
        let writes = writes_of(broker.pid(), THREAD).saturating_sub(before);
        writes as f64 / programs as f64 / seconds
    };
    let processes = busy.pids().into_iter();
    let processes = processes.map(|pid| Process::open(pid as i32));
    let processes = processes.collect::<plimsoll_kernel::Result<Vec<_>>>()?;
    let (mut touched, mut bounds) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        progress.tell(format_args!("windows {} of {}", 3 * block, 3 * BLOCKS));
        for dose in ORDERS[block % ORDERS.len()] {
            bounds.push((dose, one(&processes, DOSES[dose], &mut touched)?));
        }
    }
    let told = busy.end()?;
    Ok(Counted {
        programs,
        clears,
        touched: touched.iter().sum::<f64>() / touched.len().max(1) as f64,
        blocks: bounds.chunks(3).map(|three| block(&told, three)).collect(),
    })
}

/// Begin and end of a window without its margins, and the times of the clears in it, ns.
type Bounds = ((u64, u64), Vec<u64>);

/// Clears for the length of a window, or rests.
fn one(processes: &[Process], dose: Option<Duration>, touched: &mut Vec<f64>) -> Result<Bounds> {
    interrupt::check()?;
    let begun = clock::now().0;
    let mut times = Vec::new();
    let passed = || Duration::from_nanos(clock::now().0 - begun);
    while let Some(left) = WINDOW.checked_sub(passed()) {
        let Some(between) = dose else {
            std::thread::sleep(left);
            continue;
        };
        times.push(clock::now().0);
        for process in processes {
            clear(process)?;
        }
        std::thread::sleep(WAIT);
        for process in processes {
            let segments = segments(process, SEGMENTS)?.memory;
            let referenced: u64 = segments.iter().map(|segment| segment.referenced.0).sum();
            touched.push(referenced as f64 / BLOCK as f64);
        }
        std::thread::sleep(between);
    }
    let margin = MARGIN.as_nanos() as u64;
    let within = (begun + margin, clock::now().0 - margin);
    times.retain(|time| (within.0..within.1).contains(time));
    Ok((within, times))
}

/// The windows of a block, by dose.
fn block(told: &Told, three: &[(usize, Bounds)]) -> [Window; 3] {
    let mut windows = [Window::default(); 3];
    for (dose, (within, times)) in three {
        windows[*dose] = Window {
            clears: times.len() as f64,
            rounds: told.grown(*within, |p| p.rounds),
            processor_seconds: told.grown(*within, |p| p.processor_ns) / 1e9,
        };
    }
    windows
}

fn rest(time: Duration) -> Result<()> {
    interrupt::check()?;
    std::thread::sleep(time);
    interrupt::check()
}

#[cfg(test)]
mod tests {
    use super::super::rows::COLUMNS;
    use super::*;

    /// Repetitions in which a clear costs a program so many seconds with few clears and with many.
    fn counted(few: f64, many: f64) -> Counted {
        let window = |clears: f64, cost: f64| Window {
            clears,
            rounds: 1000.0,
            processor_seconds: 0.5 + clears * 2.0 * cost,
        };
        Counted {
            programs: 2,
            clears: 0.5,
            touched: 1.0,
            blocks: vec![[window(0.0, 0.0), window(5.0, few), window(20.0, many)]; 10],
        }
    }

    fn judged(counted: Counted) -> (String, Option<bool>) {
        let mut results = Results::new("sharing", "", "", 1).columns(&COLUMNS);
        report(&[counted], &mut results, Some("directly 9 %"));
        assert_eq!(results.rows.len(), 2);
        let target = results.targets.remove(0);
        (target.measured, target.met)
    }

    #[test]
    fn a_clear_costs_what_a_window_with_it_takes_more() {
        let all = [counted(0.002, 0.001)];
        for (dose, cost) in [(1, 0.002), (2, 0.001)] {
            let found = costs(&all, dose);
            assert_eq!(found.len(), 10);
            assert!(
                found.iter().all(|one| (one - cost).abs() < 1e-9),
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_cost_is_that_of_a_clear_times_the_brokers_clears() {
        let (told, met) = judged(counted(0.001, 0.001));
        assert!(
            told.starts_with("0.050 %, 95 %: 0.050 to 0.050 %"),
            "{told}"
        );
        assert!(told.ends_with("; directly 9 %"), "{told}");
        assert_eq!(met, Some(true));
        assert_eq!(judged(counted(0.006, 0.006)).1, Some(false));
        // Where the cost is not proportional, more clears tell nothing of few.
        assert_eq!(judged(counted(0.01, 0.001)).1, None);
        let idle = Counted {
            touched: 0.5,
            ..counted(0.001, 0.001)
        };
        assert_eq!(
            judged(idle).1,
            None,
            "a clear would cost more of busy programs"
        );
    }

    #[test]
    fn an_interval_on_both_sides_decides_nothing() {
        assert_eq!(verdict(Some((-0.1, 0.2))), Some(true));
        assert_eq!(verdict(Some((0.3, 0.4))), Some(false));
        assert_eq!(verdict(Some((0.1, 0.4))), None);
        assert_eq!(verdict(None), None);
    }

    #[test]
    fn each_dose_stands_equally_often_at_each_place() {
        for place in 0..3 {
            for dose in 0..DOSES.len() {
                let there = ORDERS.iter().filter(|order| order[place] == dose);
                assert_eq!(there.count(), 2);
            }
        }
        assert_eq!(BLOCKS % ORDERS.len(), 0);
    }
}
