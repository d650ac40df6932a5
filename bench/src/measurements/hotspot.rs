//! How a Java virtual machine follows a limit that changes, for each collector and version. It is steered
//! without a broker.
//!
//! The example `follow` of the crate `runtimes` does the steering and prints what it sees. This module runs
//! it for each collector and sums its output up.

use crate::harness::ground::Ground;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, sibling};
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results};
use crate::report::row::or_nan;
use crate::report::statistics::spread;
use crate::runner::Runner;
use crate::{Error, Result};
use plimsoll_testbed::children::{end, end_with_us};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The most memory that the program could get, MiB.
const BUDGET: f64 = 1500.0;
/// Limits (MiB), and the seconds that each of them lasts.
const STEPS: [(f64, f64); 3] = [(300.0, 4.0), (800.0, 6.0), (300.0, 5.0)];
/// Distance from the limit, as a fraction of the budget, at which the limit counts as reached.
const NEAR: f64 = 0.03;
/// Seconds after the start of a step from which its memory should be at the limit.
const SETTLED: f64 = 2.0;
/// Megabytes of live data, megabytes allocated per second, percent of the allocations that replace live data.
const CHURN: [&str; 3] = ["100", "300", "2"];
const VERSIONS: [u32; 4] = [11, 17, 21, 25];
pub(super) const COLLECTORS: [&str; 5] = ["G1", "Serial", "Z", "Shenandoah", "Parallel"];
/// Modes that a flag chooses. ZGC of JDK 25 has no other.
const MODES: [Jvm; 2] = [
    Jvm {
        version: 21,
        collector: "Z generational",
    },
    Jvm {
        version: 25,
        collector: "Shenandoah generational",
    },
];

/// The outcome of one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Step {
    /// Seconds until the memory was near the limit for the first time; infinite if it never was.
    #[serde(deserialize_with = "or_nan")]
    reached: f64,
    /// Median of the memory from the time on at which it should be at the limit, MiB.
    median: f64,
}

/// The measurement `hotspot`.
pub(super) struct Hotspot;

impl Measurement for Hotspot {
    fn about(&self) -> About {
        About {
            name: "hotspot",
            question: "How soon and how well does Java follow a limit, by collector?",
            asks: &[],
            minutes: 55,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        // Where nothing can be paged out, a part of the limit is kept for native memory, and the heap stays
        // below the limit by as much.
        let ground = runner.ground()?;
        let classes = Classes::of("crates/runtimes/tests/java/Churn.java")?;
        let ran = runner
            .experiment(variants())
            .wanted()
            .by_group()
            .run(|(jvm, bare), _| once(&ground, classes.folder(), *jvm, *bare))?;
        let mut results = empty(runner);
        for variant in &ran {
            results.rows.push(row(&variant.name, &variant.outcomes));
        }
        Ok(results)
    }
}

fn empty(runner: &Runner) -> Results {
    let results = runner.results(
        "A Java program steered to 300 MiB for 4 s, 800 MiB for 6 s and 300 MiB for 5 s, by collector.",
        "100 MiB alive, 300 MB/s allocated, 2 % of it to replace live data, budget 1500 MiB, with swap \
         behind it. In: the time until its memory was within 3 % of the budget (45 MiB) of the limit for the \
         first time, `not` where it never was in half of the runs; then the median of its memory from 2 s \
         after the change on.",
    );
    results.columns(&[
        ("collector", ""),
        ("300: in", "s"),
        ("then", "MiB"),
        ("300 to 800: in", "s"),
        ("then", "MiB"),
        ("800 to 300: in", "s"),
        ("then", "MiB"),
    ])
}

/// The variants: name, machine, and whether the machine is run without added flags, as in an adopted
/// program.
fn variants() -> Vec<(String, (Jvm, bool))> {
    let all = || jvms(&COLLECTORS).chain(MODES);
    let flagged = all().map(|jvm| (jvm.name(), (jvm, false)));
    let bare = all().map(|jvm| (format!("{}, no start flags", jvm.name()), (jvm, true)));
    flagged.chain(bare).collect()
}

/// Every version with each of these collectors.
pub(super) fn jvms(collectors: &[&'static str]) -> impl Iterator<Item = Jvm> {
    collectors
        .iter()
        .flat_map(|&collector| VERSIONS.map(|version| Jvm { version, collector }))
}

fn row(name: &str, runs: &[[Step; 3]]) -> Vec<Cell> {
    let mut cells = vec![Cell::from(name)];
    for step in 0..STEPS.len() {
        let median = |of: fn(&Step) -> f64| {
            spread(&runs.iter().map(|run| of(&run[step])).collect::<Vec<_>>()).median
        };
        let reached = median(|s| s.reached);
        cells.push(if reached.is_finite() {
            reached.into()
        } else {
            "not".into()
        });
        cells.push(median(|s| s.median).round().into());
    }
    cells
}

fn once(ground: &Ground, classes: &Path, jvm: Jvm, bare: bool) -> Result<[Step; 3]> {
    let mut command = Command::new(sibling("examples/follow"));
    command.args(bare.then_some("--bare"));
    command.args(["--budget", &BUDGET.to_string()]);
    command.args(STEPS.map(|(limit, seconds)| format!("{limit}@{seconds}")));
    command.args(["--", &jvm.java()]).args(jvm.choice());
    command
        .arg("-cp")
        .arg(classes)
        .arg("Churn")
        .args(CHURN)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    end_with_us(&mut command);
    ground.enter(&mut command)?;
    let mut child = command.spawn().map_err(Error::start(&command))?;
    let output = child.stdout.take().into_iter();
    let lines = output.flat_map(|output| BufReader::new(output).lines().map_while(io::Result::ok));
    let seen: Vec<[f64; 3]> = lines.filter_map(|line| numbers(&line)).collect();
    end(&mut child, Duration::from_secs(5));
    steps(&seen).ok_or_else(|| Error::program(jvm.name(), "it ended before its time"))
}

/// Seconds, limit (MiB) and memory (MiB) from a line, whose other values are not needed here.
fn numbers(line: &str) -> Option<[f64; 3]> {
    let mut values = line.split(',').map(str::parse);
    let mut next = || values.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// Cuts the samples where the limit changes. `None` if a step is missing or too short.
fn steps(seen: &[[f64; 3]]) -> Option<[Step; 3]> {
    let pieces: Vec<&[[f64; 3]]> = seen.chunk_by(|a, b| a[1] == b[1]).collect();
    let pieces: [_; 3] = pieces.try_into().ok()?;
    let begin = |piece: &[[f64; 3]]| piece[0][0];
    let whole = |(piece, (_, seconds)): (&&[[f64; 3]], (f64, f64))| {
        piece[piece.len() - 1][0] - begin(piece) >= seconds - 1.0
    };
    if !pieces.iter().zip(STEPS).all(whole) {
        return None;
    }
    Some(pieces.map(|piece| {
        let after = |line: &[f64; 3]| line[0] - begin(piece);
        let near = |line: &&[f64; 3]| (line[2] - line[1]).abs() <= BUDGET * NEAR;
        let late = piece.iter().filter(|line| after(line) >= SETTLED);
        Step {
            reached: piece.iter().find(near).map_or(f64::INFINITY, after),
            median: spread(&late.map(|line| line[2]).collect::<Vec<_>>()).median,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_cut_where_the_limit_changes() {
        let mut seen = Vec::new();
        let mut time = 0.0;
        for (limit, seconds) in STEPS {
            for tenth in 0..(seconds * 10.0) as u32 {
                let uses = if tenth < 10 { 550.0 } else { limit - 10.0 };
                seen.push([time, limit, uses]);
                time += 0.1;
            }
        }
        let found = steps(&seen).expect("three steps");
        assert_eq!(found.map(|s| s.median), [290.0, 790.0, 290.0]);
        assert!(found.iter().all(|s| (s.reached - 1.0).abs() < 0.01));
        // If the program ended early, there is no result.
        assert_eq!(steps(&seen[..seen.len() - 20]), None);
    }

    #[test]
    fn more_than_half_of_the_runs_must_arrive() {
        let step = |reached| Step {
            reached,
            median: 300.0,
        };
        let runs = [1.0, f64::INFINITY, f64::INFINITY].map(|r| [step(r); 3]);
        assert!(matches!(&row("x", &runs)[1], Cell::Text(text) if text == "not"));
    }
}
