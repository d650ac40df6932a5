//! Isla Vista's Figure 3 and Tables 2 and 3 for HotSpot: Java programs at a tight and at a large maximum
//! heap, with memory short and with enough, by their own rule and steered by stalls. No broker runs.

pub(super) mod dynamic;
mod programs;

use crate::Result;
use crate::harness::ground::Ground;
use crate::harness::java::{Classes, read_ahead};
use crate::harness::job::{self, Conditions, Ending, Job, Outcome};
use crate::harness::programs::{Jvm, sibling};
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::{Cell, Results};
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use programs::{ALL, Program};
use std::path::Path;
use std::time::Duration;

const RATIO: &str =
    "under pressure at the largest heap, default / Isla Vista: at least 3.7 (geometric mean)";
const COSTS: &str = "Isla Vista under pressure: at most 1.5 times the default without pressure";
const FREE: &str = "without pressure: within 2 % of the default";

/// Swap behind the cgroup, bytes: more than the largest heap takes beyond the least limit.
const SWAP: u64 = 1 << 30;
/// Seconds after which a run is stopped. It counts as taking that long.
const LONGEST: f64 = 300.0;
/// The same in a slice: a run by the default under pressure is as long as this, or is killed before.
const LONGEST_OF_SLICE: f64 = 90.0;
/// How long the runs of a slice may take.
const SLICE: Duration = Duration::from_secs(55 * 60);
const COLLECTORS: [&str; 3] = ["Serial", "Parallel", "G1"];
const VERSIONS: [u32; 2] = [17, 25];

/// One way to run one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    program: Program,
    jvm: Jvm,
    /// Maximum heap, MiB.
    heap: u64,
    /// Whether memory is short.
    short: bool,
    /// Whether it is steered.
    ours: bool,
}

impl Case {
    fn name(self) -> String {
        let memory = if self.short { "short" } else { "enough" };
        let rule = if self.ours { "isla-vista" } else { "default" };
        let (program, jvm) = (self.program.name, self.jvm.name());
        // Without commas, which part the names that `--only` takes.
        format!("{program} {jvm} {} MiB {memory} {rule}", self.heap)
    }

    fn is_largest(self) -> bool {
        self.heap == self.program.heaps[1]
    }

    /// Whether it is in the representative part: all programs and heaps, but two collectors of one JDK.
    fn is_in_slice(self) -> bool {
        self.jvm.version == 17 && self.jvm.collector != "Parallel"
    }

    /// The same under other conditions.
    fn like(self, short: bool, ours: bool) -> Case {
        Case {
            short,
            ours,
            ..self
        }
    }
}

/// The measurement `isla-vista`.
pub(super) struct IslaVista;

impl Measurement for IslaVista {
    fn about(&self) -> About {
        About {
            name: "isla-vista",
            question: "What does a Java heap that follows its stalls save under pressure?",
            asks: &[RATIO, COSTS, FREE],
            minutes: 600,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), SWAP)?;
        let classes = Classes::of("bench/programs/Graph.java")?;
        read_ahead(jvms())?;
        let cases = cases().filter(|case| !runner.slice() || case.is_in_slice());
        let named = cases.map(|case| (case.name(), case));
        let mut experiment = runner.experiment(named).wanted();
        let longest = match runner.slice() {
            true => {
                experiment = experiment.within(SLICE);
                LONGEST_OF_SLICE
            }
            false => LONGEST,
        };
        let ran =
            experiment.run(|case, turn| once(*case, longest, &ground, &classes, &turn.progress))?;
        Ok(report(&ran, longest, runner))
    }
}

fn jvms() -> impl Iterator<Item = Jvm> {
    COLLECTORS
        .into_iter()
        .flat_map(|collector| VERSIONS.map(|version| Jvm { version, collector }))
}

/// All cases. Those that are compared follow each other, so that they run at about the same time.
fn cases() -> impl Iterator<Item = Case> {
    let heaps = ALL
        .into_iter()
        .flat_map(|program| program.heaps.map(|heap| (program, heap)));
    let machines = heaps.flat_map(|heap| jvms().map(move |jvm| (heap, jvm)));
    machines.flat_map(|((program, heap), jvm)| {
        let conditions = [(false, false), (false, true), (true, false), (true, true)];
        conditions.map(|(short, ours)| Case {
            program,
            jvm,
            heap,
            short,
            ours,
        })
    })
}

/// One run, which is stopped after `longest` seconds.
fn once(
    case: Case,
    longest: f64,
    ground: &Ground,
    classes: &Classes,
    progress: &Progress,
) -> Result<Run> {
    let log = ground.folder().join("gc.log");
    let _ = std::fs::remove_file(&log);
    let (classes, folder) = (classes.folder(), ground.folder());
    let java = case
        .program
        .command(case.jvm, case.heap, &log, classes, folder);
    let job = Job {
        command: match case.ours {
            true => steered(java),
            false => java,
        },
        env: [nobody(folder)].into(),
        ..Job::default()
    };
    let conditions = Conditions {
        limit: case.short.then_some(case.program.limit << 20),
        longest,
        ..Conditions::default()
    };
    let outcomes = job::run(ground, &[job], &conditions, progress)?;
    let pauses = pauses(&std::fs::read_to_string(&log).unwrap_or_default());
    let outcome = outcomes.into_iter().next();
    Ok(outcome.map_or_else(Run::default, |outcome| Run::of(&outcome, longest, &pauses)))
}

/// A Java program under Isla Vista.
fn steered(java: Vec<String>) -> Vec<String> {
    let plimsoll = sibling("plimsoll").display().to_string();
    let words = ["run", "--policy", "isla-vista", "--"].map(str::to_owned);
    [plimsoll].into_iter().chain(words).chain(java).collect()
}

/// The variable by which it finds no broker, so that the policy stands alone.
fn nobody(folder: &Path) -> (String, String) {
    let socket = folder.join("nobody").join("broker.sock");
    ("PLIMSOLL_SOCKET".to_owned(), socket.display().to_string())
}

/// The outcome of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Whether it ended by itself, with success.
    finished: bool,
    /// Seconds.
    seconds: f64,
    /// Pauses of collections, and the longest and the sum of them in milliseconds.
    pauses: f64,
    longest: f64,
    paused: f64,
    /// Major faults.
    faults: f64,
}

impl Run {
    fn of(outcome: &Outcome, longest: f64, pauses: &[f64]) -> Run {
        let finished = outcome.ending == Ending::Finished;
        Run {
            finished,
            // What was stopped or killed is not better than what took as long as it could.
            seconds: if finished { outcome.seconds } else { longest },
            pauses: pauses.len() as f64,
            longest: pauses.iter().copied().fold(0.0, f64::max),
            paused: pauses.iter().sum(),
            faults: outcome.faults as f64,
        }
    }
}

/// The lengths of the pauses that a machine logged (`-Xlog:gc`), milliseconds.
fn pauses(log: &str) -> Vec<f64> {
    let length = |line: &str| {
        let (_, rest) = line.split_once(" Pause ")?;
        let last = rest.split_whitespace().last()?;
        last.strip_suffix("ms")?.parse().ok()
    };
    log.lines().filter_map(length).collect()
}

/// How it was measured.
fn method(ran: &[Variant<Case, Run>], longest: f64, runner: &Runner) -> String {
    let mut method = format!(
        "No broker. `short`: in a cgroup whose limit holds what lives but not the heap that the program \
         would take, with swap behind it; `enough`: without a limit. A run that was killed, failed, or \
         took {longest:.0} s counts as {longest:.0} s. Pauses by the machine's own log."
    );
    if runner.slice() {
        let left_out = cases().filter(|case| case.is_in_slice() && runner.wants(&case.name()));
        let left_out = left_out.count().saturating_sub(ran.len());
        method.push_str(&format!(
            " A slice: Serial and G1 of JDK 17 only, and as many of the {} rounds that were asked for as \
             fit into {} minutes, {left_out} rows left out.",
            runner.repeat(),
            SLICE.as_secs() / 60,
        ));
    }
    method
}

fn report(ran: &[Variant<Case, Run>], longest: f64, runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Java programs by their own rule and steered by their allocation stalls.",
            &method(ran, longest, runner),
        )
        .columns(&[
            ("program", ""),
            ("time", "s"),
            ("pauses", ""),
            ("in pauses", "s"),
            ("longest pause", "ms"),
            ("major faults", ""),
            ("unfinished", ""),
        ]);
    // In a slice, rounds may be left out.
    results.repetitions = ran.iter().map(|one| one.outcomes.len()).min().unwrap_or(0);
    for variant in ran {
        let median = |of: fn(&Run) -> f64| {
            spread(&variant.outcomes.iter().map(of).collect::<Vec<_>>()).median
        };
        let unfinished = variant.outcomes.iter().filter(|run| !run.finished).count();
        results.row([
            Cell::from(variant.name.as_str()),
            median(|run| run.seconds).into(),
            median(|run| run.pauses).into(),
            (median(|run| run.paused) / 1e3).into(),
            median(|run| run.longest).into(),
            median(|run| run.faults).into(),
            (unfinished as f64).into(),
        ]);
    }
    targets(&mut results, ran);
    results
}

fn targets(results: &mut Results, ran: &[Variant<Case, Run>]) {
    let time = |case: Case| {
        let found = ran.iter().find(|variant| variant.what == case)?;
        let times: Vec<f64> = found.outcomes.iter().map(|run| run.seconds).collect();
        Some(spread(&times).median.max(1e-9))
    };
    // Pairs of cases whose times are compared, among the largest heaps or all of them.
    let ratios = |largest: bool, of: &dyn Fn(Case) -> (Case, Case)| {
        let cases = ran.iter().map(|variant| variant.what);
        let cases = cases.filter(|case| !case.short && !case.ours);
        let cases = cases.filter(|case| !largest || case.is_largest());
        let ratio = |case| {
            let (above, below) = of(case);
            Some(time(above)? / time(below)?)
        };
        cases.filter_map(ratio).collect::<Vec<f64>>()
    };
    let saved = ratios(true, &|case| {
        (case.like(true, false), case.like(true, true))
    });
    judge(results, RATIO, mean(&saved), |mean| mean >= 3.7);
    let costs = ratios(true, &|case| (case.like(true, true), case));
    judge(results, COSTS, most(&costs), |most| most <= 1.5);
    let free = ratios(false, &|case| (case.like(false, true), case));
    judge(results, FREE, mean(&free), |mean| mean <= 1.02);
}

fn judge(results: &mut Results, claim: &str, value: Option<f64>, met: fn(f64) -> bool) {
    let told = value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
    results.target(claim, told, value.map(met));
}

/// The geometric mean; `None` of nothing.
fn mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_own_name_and_its_pair() {
        let all: Vec<Case> = cases().collect();
        let names: std::collections::BTreeSet<String> =
            all.iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), all.len());
        for case in &all {
            assert!(all.contains(&case.like(!case.short, !case.ours)));
        }
    }

    #[test]
    fn a_slice_has_all_programs_both_heaps_and_their_pairs() {
        let slice: Vec<Case> = cases().filter(|case| case.is_in_slice()).collect();
        assert_eq!(slice.len(), ALL.len() * 2 * 2 * 4);
        for program in ALL {
            for heap in program.heaps {
                let of = |case: &&Case| case.program == program && case.heap == heap;
                assert_eq!(
                    slice.iter().filter(of).count(),
                    8,
                    "{} {heap}",
                    program.name
                );
            }
        }
        for case in &slice {
            assert!(slice.contains(&case.like(!case.short, !case.ours)));
        }
    }

    #[test]
    fn pauses_are_read_off_the_log() {
        let log = "[1.2s][info][gc] GC(3) Pause Young (Normal) (Evacuation) 180M->145M(443M) 119.175ms\n\
                   [1.3s][info][gc] GC(4) Concurrent Mark Cycle 51.2ms\n\
                   [1.4s][info][gc] GC(5) Pause Full (System.gc()) 9M->1M(8M) 2.5ms\nPause\n";
        assert_eq!(pauses(log), [119.175, 2.5]);
    }

    #[test]
    fn the_mean_is_that_of_ratios() {
        assert_eq!(mean(&[]), None);
        assert!((mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(most(&[1.0, 3.0, 2.0]), Some(3.0));
    }
}
