//! The table of `pin`, its targets and its pictures.

use super::fleet::{Outcome, RATE, SECONDS, SETTLE};
use super::holder::{BUDGET, WINDOW, Way};
use super::server_software::{DOCUMENTS, HEAP, JVM, KEPT, YOUNG};
use super::slow_disk::READS;
use super::traffic::readahead;
use super::{JUDGED, LIMIT, OTHERS, SERVERS, SWAPPINESS, What};
use crate::Result;
use crate::report::plot::Plot;
use crate::report::results::{Results, Table, number};
use crate::report::stacked_bars::Breakdown;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use plimsoll_picture::chart::{Kind, Series};
use plimsoll_unit::{float::KIB, float::MIB};

const TRAFFIC: &str =
    "most servers: disk traffic a request at most one fifth of that without pinning";
const THROUGHPUT: &str = "most servers: at least 2 times the throughput without pinning";
const COST: &str = "without pressure: throughput within 1 % of that without pinning";
const VMTOUCH: &str = "more throughput than with vmtouch, for at most half of its locked bytes";
const EXECUTABLES: &str =
    "more throughput than with all executables, for at most half of their locked bytes";
/// The claims.
pub(super) const CLAIMS: [&str; 5] = [TRAFFIC, THROUGHPUT, COST, VMTOUCH, EXECUTABLES];

/// Throughputs closer than this part are not told apart.
const SAME: f64 = 0.01;

type Ran = [Variant<What, Outcome>];

/// Medians of the runs of a variant.
#[derive(Clone, Copy, Debug, Default)]
struct Medians {
    throughput: f64,
    /// ms.
    median: f64,
    p99: f64,
    /// KiB a request.
    files: f64,
    swap: f64,
    /// A request.
    major_faults: f64,
    refault_file: f64,
    refault_anon: f64,
    /// MiB.
    locked: f64,
    footprint: f64,
    /// Percent.
    waiting: f64,
}

impl Medians {
    fn of(outcomes: &[Outcome]) -> Medians {
        let median = |of: &dyn Fn(&Outcome) -> f64| {
            spread(&outcomes.iter().map(of).collect::<Vec<_>>()).median
        };
        let each = |of: fn(&Outcome) -> f64| median(&|o| of(o) / o.answers.max(1.0));
        Medians {
            throughput: median(&|o| o.throughput),
            median: median(&|o| o.median * 1e3),
            p99: median(&|o| o.p99 * 1e3),
            files: each(|o| o.traffic.files) / KIB,
            swap: each(|o| o.traffic.swap) / KIB,
            major_faults: each(|o| o.traffic.major_faults),
            refault_file: each(|o| o.traffic.refault_file),
            refault_anon: each(|o| o.traffic.refault_anon),
            locked: median(&|o| o.locked) / MIB,
            footprint: median(&|o| o.footprint) / MIB,
            waiting: median(&|o| o.traffic.waiting),
        }
    }

    fn traffic(&self) -> f64 {
        self.files + self.swap
    }
}

/// The medians of a variant; `None` if it was left out.
fn find(ran: &Ran, servers: usize, swappiness: u64, way: Way) -> Option<Medians> {
    let wanted = What {
        servers,
        swappiness,
        way,
        slow: false,
    };
    let variant = ran.iter().find(|variant| variant.what == wanted)?;
    let done = variant.outcomes.iter().all(|o| o.skipped.is_empty());
    done.then(|| Medians::of(&variant.outcomes))
}

fn method() -> String {
    let ahead = readahead().map_or("an unknown size".to_owned(), |bytes| {
        format!("{} KiB", bytes >> 10)
    });
    format!(
        "Open Liberty 24.0.0.9 on JDK {} ({}, {HEAP} MB of heap, {YOUNG} MB of it young, {KEPT} MB live \
         for good) with a page that asks a Lucene index of {DOCUMENTS} documents, mapped from a file, for \
         four words. {RATE} requests a second, spread over the servers, are due at fixed times, whatever \
         the answers; latency counts from then. Limit {} MiB for the servers and what pins for them \
         together, swap behind it, the disk's readahead {ahead}. The servers of a round are started once; \
         variants take turns in being first. Each settles for {SETTLE} s and is measured for {SECONDS} s. \
         plimsoll pin: at most {BUDGET} MiB, a window of {WINDOW} s. vmtouch: all pages of the files that \
         plimsoll pin held in part. All executables: as prelockd, all pages of files that are mapped as \
         executable. Files: bytes read less bytes swapped in; swap: in and out. Disk wait: processor time \
         that was idle with a read outstanding. Slow disk: at most {READS} reads a second for servers and \
         holder together, also from swap. plimsoll pin --dry-run only looks.",
        JVM.version,
        JVM.collector,
        LIMIT >> 20,
    )
}

/// Table and targets.
pub(super) fn report(ran: &Ran, runner: &Runner) -> Results {
    let title =
        "Servers in 1 GiB, more and more of them: traffic and throughput by what keeps file pages.";
    let mut results = runner.results(title, &method()).columns(&[
        ("servers, pages kept by", ""),
        ("throughput", "1/s"),
        ("p50", "ms"),
        ("p99", "ms"),
        ("files", "KiB/request"),
        ("swap", "KiB/request"),
        ("major faults", "1/request"),
        ("refaults of files", "pages/request"),
        ("refaults of anonymous memory", "pages/request"),
        ("locked", "MiB"),
        ("memory and swap", "MiB"),
        ("disk wait", "%"),
        ("killed, failed", ""),
    ]);
    for variant in ran {
        let skipped = variant.outcomes.iter().find(|o| !o.skipped.is_empty());
        if let Some(outcome) = skipped {
            let mut cells = vec![variant.name.as_str().into()];
            cells.push(format!("not measured: {}", outcome.skipped).into());
            cells.resize(results.columns.len(), "".into());
            results.rows.push(cells);
            continue;
        }
        let m = Medians::of(&variant.outcomes);
        let killed: usize = variant.outcomes.iter().map(|o| o.killed).sum();
        let failed: f64 = variant.outcomes.iter().map(|o| o.failed).sum();
        results.row([
            variant.name.as_str().into(),
            m.throughput.into(),
            m.median.into(),
            m.p99.into(),
            m.files.into(),
            m.swap.into(),
            m.major_faults.into(),
            m.refault_file.into(),
            m.refault_anon.into(),
            m.locked.into(),
            m.footprint.round().into(),
            m.waiting.into(),
            format!("{killed}, {failed:.0}").into(),
        ]);
    }
    results.tables = vec![each(ran)];
    judge(&mut results, ran);
    results
}

/// The traffic of each run, in the order of the runs.
fn each(ran: &Ran) -> Table {
    let columns = [
        ("servers, pages kept by", ""),
        ("files", "KiB/request"),
        ("swap", "KiB/request"),
    ];
    let mut table = Table::new("Traffic of each run:", &columns);
    for variant in ran {
        let done = || variant.outcomes.iter().filter(|o| o.skipped.is_empty());
        let listed = |of: fn(&Outcome) -> f64| -> String {
            let all = done().map(|o| number(of(o) / o.answers.max(1.0) / KIB));
            all.collect::<Vec<_>>().join(", ")
        };
        let (files, swap) = (listed(|o| o.traffic.files), listed(|o| o.traffic.swap));
        table.rows.push(vec![
            variant.name.as_str().into(),
            files.into(),
            swap.into(),
        ]);
    }
    table
}

fn judge(results: &mut Results, ran: &Ran) {
    let [least, .., most] = JUDGED;
    let at = |servers, way| find(ran, servers, SWAPPINESS, way);
    if let (Some(plain), Some(pin)) = (at(most, Way::Plain), at(most, Way::Pin)) {
        let (ours, theirs) = (pin.traffic(), plain.traffic());
        let measured = format!(
            "{ours:.0} against {theirs:.0} KiB ({:.2})",
            ours / theirs.max(1e-9)
        );
        results.target(TRAFFIC, measured, ours <= 0.2 * theirs);
        let (ours, theirs) = (pin.throughput, plain.throughput);
        let measured = format!(
            "{ours:.0} against {theirs:.0} a second ({:.2})",
            ours / theirs.max(1e-9)
        );
        results.target(THROUGHPUT, measured, ours >= 2.0 * theirs);
    }
    if let (Some(plain), Some(pin)) = (at(least, Way::Plain), at(least, Way::Pin)) {
        let ratio = pin.throughput / plain.throughput.max(1e-9);
        let measured = format!(
            "{ratio:.3}; p50 {:.1} against {:.1} ms",
            pin.median, plain.median
        );
        results.target(COST, measured, ratio >= 0.99);
    }
    for (claim, way) in [(VMTOUCH, Way::Vmtouch), (EXECUTABLES, Way::Executables)] {
        let (Some(pin), Some(rival)) = (at(most, Way::Pin), at(most, way)) else {
            continue;
        };
        let measured = format!(
            "{:.0} against {:.0} a second, {:.0} against {:.0} MiB",
            pin.throughput, rival.throughput, pin.locked, rival.locked
        );
        let few = pin.locked <= 0.5 * rival.locked;
        let ratio = pin.throughput / rival.throughput.max(1e-9);
        // Where all requests are answered, both have the throughput of the load.
        let same = (ratio - 1.0).abs() < SAME;
        let met = (!same || !few).then_some(few && ratio > 1.0);
        results.target(claim, measured, met);
    }
}

/// Draws what was measured, as far as enough of it was.
///
/// # Errors
/// When a picture cannot be drawn or written.
pub(super) fn pictures(ran: &Ran, runner: &Runner) -> Result<()> {
    let servers = |way, value: fn(&Medians) -> f64| by_servers(ran, way, value);
    let ways = |value: fn(&Medians) -> f64| -> Vec<Series> {
        let lines = Way::ALL.iter().enumerate();
        let lines = lines.map(|(colour, way)| line(way.name(), colour, servers(*way, value)));
        lines.filter(|series| series.points.len() > 1).collect()
    };
    let plot = |title: &str, unit: &str, series: Vec<Series>| Plot {
        title: title.to_owned(),
        unit: unit.to_owned(),
        across: "servers in 1 GiB".to_owned(),
        series,
        ..Plot::default()
    };
    let throughput = plot("Throughput", "answers a second", ways(|m| m.throughput));
    let p99 = plot("Response time, p99", "ms", ways(|m| m.p99));
    draw(runner, "throughput", &throughput)?;
    draw(runner, "p99", &p99)?;
    let stacked = |way| {
        let all = servers(way, |m| m.traffic());
        let files = servers(way, |m| m.files);
        let area = |name: &str, colour, points| Series {
            kind: Kind::Area,
            ..line(name, colour, points)
        };
        vec![area("swap", 1, all), area("files", 0, files)]
    };
    let [plain, pin] = [Way::Plain, Way::Pin].map(stacked);
    let points = [&plain, &pin]
        .into_iter()
        .flatten()
        .flat_map(|series| &series.points);
    let top = points.map(|point| point.1).fold(0.0, f64::max);
    for (part, title, series) in [
        ("traffic-plain", "Disk traffic without pinning", plain),
        ("traffic-pin", "Disk traffic with plimsoll pin", pin),
    ] {
        let mut traffic = plot(title, "KiB a request", series);
        traffic.top = top;
        draw(runner, part, &traffic)?;
    }
    swappiness(ran, runner)?;
    breakdown(ran, runner)
}

fn draw(runner: &Runner, part: &str, plot: &Plot) -> Result<()> {
    if plot.series.iter().any(|series| series.points.len() > 1) {
        runner.plot(part, plot)
    } else {
        Ok(())
    }
}

fn line(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        points,
        colour,
        ..Series::default()
    }
}

fn by_servers(ran: &Ran, way: Way, value: fn(&Medians) -> f64) -> Vec<(f64, f64)> {
    let found = SERVERS.iter().filter_map(|&servers| {
        let medians = find(ran, servers, SWAPPINESS, way)?;
        Some((servers as f64, value(&medians)))
    });
    found.collect()
}

fn swappiness(ran: &Ran, runner: &Runner) -> Result<()> {
    let [.., most] = JUDGED;
    let mut values = [OTHERS.as_slice(), &[SWAPPINESS]].concat();
    values.sort_unstable();
    let points = |way| -> Vec<(f64, f64)> {
        let found = values
            .iter()
            .filter_map(|&value| Some((value as f64, find(ran, most, value, way)?.throughput)));
        found.collect()
    };
    let lines = [Way::Plain, Way::Pin];
    let lines = lines.iter().enumerate();
    let plot = Plot {
        title: format!("Throughput of {most} servers by swappiness"),
        unit: "answers a second".to_owned(),
        across: "swappiness".to_owned(),
        series: lines
            .map(|(colour, way)| line(way.name(), colour, points(*way)))
            .collect(),
        ..Plot::default()
    };
    draw(runner, "swappiness", &plot)
}

/// The paper's Figures 6 and 8.
fn breakdown(ran: &Ran, runner: &Runner) -> Result<()> {
    let mut bars = Vec::new();
    for variant in ran
        .iter()
        .filter(|variant| variant.what.swappiness == SWAPPINESS && !variant.what.slow)
    {
        let areas = variant.outcomes.iter().find(|o| !o.areas.is_empty());
        if let Some(outcome) = areas {
            let (servers, way) = (variant.what.servers, variant.what.way.name());
            bars.push((format!("{servers}\n{way}"), outcome.areas.clone()));
        }
    }
    if bars.is_empty() {
        return Ok(());
    }
    runner.breakdown(
        "breakdown",
        &Breakdown {
            title: "Memory of the servers by area".to_owned(),
            across: "servers".to_owned(),
            limit: LIMIT,
            bars,
            ..Breakdown::default()
        },
    )
}
