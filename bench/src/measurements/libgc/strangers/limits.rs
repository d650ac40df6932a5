//! Near the smallest memory limit in which a program runs, without swap: how much longer does it take?

use super::kinds::LIMITS;
use crate::Result;
use crate::harness::job::{Conditions, Ending, Outcome};
use crate::harness::libgc::{Collector, OURS, SYSTEM, Workload};
use crate::measurements::libgc::run_workloads::{Runs, Stage, cell, ratio};
use crate::progress::Progress;
use crate::report::plot::Plot;
use crate::report::results::{Results, Table, number};
use crate::runner::Runner;
use plimsoll_picture::chart::Series;
use plimsoll_unit::float::MIB;

const COLLECTORS: [Collector; 2] = [SYSTEM, OURS];
/// Limits, as multiples of the smallest one.
const MULTIPLES: [f64; 5] = [1.0, 1.1, 1.25, 1.5, 2.0];
/// The multiple that is judged.
const JUDGED: f64 = 1.1;
/// How many times the time without a limit it may take there.
const MOST: f64 = 4.0;
/// A run has this many times the time that it takes without a limit.
const PATIENCE: f64 = 20.0;
/// A run has these many seconds at least.
const LEAST: f64 = 10.0;
/// A limit in which the program cannot run, since more than this lives; bytes.
const TOO_SMALL: u64 = 40 << 20;
/// Bytes to which the smallest limit is searched.
const STEP: u64 = 1 << 20;

/// A limit of one collector.
#[derive(Clone, Copy)]
struct Point {
    collector: Collector,
    /// A multiple of the collector's smallest limit, and the bytes of that. `None`: no limit.
    limit: Option<(f64, u64)>,
}

/// Searches the smallest limits, and measures at multiples of them.
pub(super) fn measure(stage: &mut Stage, runner: &Runner, results: &mut Results) -> Result<()> {
    let name = "tight";
    let workload = Workload::stranger(name, None);
    let mut variants = Vec::new();
    for (place, collector) in COLLECTORS.into_iter().enumerate() {
        for multiple in [None].into_iter().chain(MULTIPLES.map(Some)) {
            let text = multiple.map_or("no limit".to_owned(), number);
            let name = format!("{name}, {}, {text}", collector.name);
            variants.push((name, (place, multiple)));
        }
    }
    let experiment = runner.experiment(variants).wanted_by(|_| name.to_owned());
    let ran = experiment.run(|&(place, multiple), turn| {
        let known = format!("{name}, smallest limits");
        let (least, longest) =
            runner.known(&known, |progress| search(stage, &workload, progress))?;
        let bytes = multiple.map(|multiple| (least[place] as f64 * multiple) as u64);
        let conditions = limited(bytes, longest);
        let collector = COLLECTORS[place];
        let outcome = stage.run(&workload, 1, collector, &conditions, &turn.progress)?;
        Ok((bytes, outcome))
    })?;
    if ran.is_empty() {
        results.target(LIMITS, "nothing to compare".to_owned(), None);
        return Ok(());
    }
    let ran: Vec<(Point, Runs)> = ran
        .into_iter()
        .map(|variant| {
            let (place, multiple) = variant.what;
            let (bytes, runs): (Vec<_>, Vec<_>) = variant.outcomes.into_iter().unzip();
            let point = Point {
                collector: COLLECTORS[place],
                limit: multiple.zip(bytes.into_iter().flatten().next()),
            };
            (point, Runs(runs))
        })
        .collect();
    results.tables.push(table(&ran));
    judge(&ran, results);
    runner.plot("limits", &picture(&ran))
}

/// The smallest limit of each of [`COLLECTORS`], and how many seconds a run may take.
fn search(stage: &mut Stage, workload: &Workload, progress: &Progress) -> Result<([u64; 2], f64)> {
    let (mut least, mut longest) = ([0; 2], 0.0);
    for (least, collector) in least.iter_mut().zip(COLLECTORS) {
        let free = stage.run_freely(workload, 1, collector, progress)?;
        longest = f64::max(longest, (free.seconds * PATIENCE).max(LEAST));
        *least = smallest(stage, workload, collector, longest, &free, progress)?;
    }
    Ok((least, longest))
}

fn limited(limit: Option<u64>, longest: f64) -> Conditions {
    Conditions {
        limit,
        longest,
        ..Conditions::default()
    }
}

/// The smallest limit in which two runs finish, bytes.
fn smallest(
    stage: &mut Stage,
    workload: &Workload,
    collector: Collector,
    longest: f64,
    free: &Outcome,
    progress: &Progress,
) -> Result<u64> {
    let mut runs = |bytes: u64| -> Result<bool> {
        let conditions = limited(Some(bytes), longest);
        for _ in 0..2 {
            let progress = progress.part(&format!("{} MiB", bytes >> 20));
            let outcome = stage.run(workload, 1, collector, &conditions, &progress)?;
            if outcome.ending != Ending::Finished {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let (mut below, mut found) = (TOO_SMALL, free.resident.next_multiple_of(STEP));
    while !runs(found)? {
        (below, found) = (found, found + found / 4);
    }
    while found - below > STEP {
        let middle = below + (found - below) / 2;
        if runs(middle)? {
            found = middle;
        } else {
            below = middle;
        }
    }
    Ok(found)
}

/// The runs without a limit of the same collector.
fn free(ran: &[(Point, Runs)], collector: Collector) -> Option<f64> {
    let mut all = ran.iter();
    let found = all.find(|(point, _)| point.collector == collector && point.limit.is_none());
    found.and_then(|(_, runs)| runs.median(|run| run.seconds))
}

fn table(ran: &[(Point, Runs)]) -> Table {
    let mut table = Table::new(
        "The program tight near the smallest memory limit in which it runs, without swap.",
        &[
            ("collector", ""),
            ("limit, of the smallest", ""),
            ("limit", "MiB"),
            ("ended", ""),
            ("time", "s"),
            ("of no limit", ""),
            ("processor", "s"),
            ("major faults", ""),
        ],
    );
    for (point, runs) in ran {
        let (multiple, bytes) = match point.limit {
            Some((multiple, bytes)) => (multiple.into(), (bytes as f64 / MIB).into()),
            None => ("none".into(), "-".into()),
        };
        let seconds = runs.median(|run| run.seconds);
        table.rows.push(vec![
            point.collector.name.into(),
            multiple,
            bytes,
            runs.ended().into(),
            cell(seconds),
            cell(ratio(seconds, free(ran, point.collector))),
            cell(runs.median(|run| run.usage.processor)),
            cell(runs.median(|run| run.faults as f64)),
        ]);
    }
    table
}

fn judge(ran: &[(Point, Runs)], results: &mut Results) {
    let mut all = ran.iter();
    let judged = all.find(|(point, _)| {
        point.collector == OURS && point.limit.is_some_and(|(multiple, _)| multiple == JUDGED)
    });
    let Some((_, runs)) = judged else { return };
    let times = ratio(Some(runs.least_seconds()), free(ran, OURS)).unwrap_or(f64::INFINITY);
    let measured = format!("{} times; {}", number(times), runs.ended());
    results.target(LIMITS, measured, runs.all_finished() && times <= MOST);
}

fn picture(ran: &[(Point, Runs)]) -> Plot {
    let line = |(colour, collector): (usize, Collector)| Series {
        name: collector.name.to_owned(),
        points: ran
            .iter()
            .filter(|(point, _)| point.collector == collector)
            .filter_map(|(point, runs)| {
                let (_, bytes) = point.limit?;
                Some((bytes as f64 / MIB, runs.median(|run| run.seconds)?))
            })
            .collect(),
        colour,
        ..Series::default()
    };
    Plot {
        title: "Near the smallest memory limit".to_owned(),
        note: "1, 1.1, 1.25, 1.5 and 2 times the smallest limit of each collector".to_owned(),
        unit: "seconds".to_owned(),
        across: "limit, MiB".to_owned(),
        series: COLLECTORS.into_iter().enumerate().map(line).collect(),
        ..Plot::default()
    }
}
