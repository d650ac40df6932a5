//! Effect of `plimsoll run --phases`, which orders threads by their allocation, on Java programs with more
//! threads than processors.

use crate::harness::folder::Folder;
use crate::harness::interrupt;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, cache, sibling};
use crate::measurement::{About, Measurement};
use crate::report::grouped_bars::GroupedBars;
use crate::report::results::{Cell, Results, number};
use crate::report::statistics::{median_interval, spread};
use crate::runner::{Runner, Variant};
use crate::{Error, Result};
use plimsoll_testbed::children::end_with_us;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// As users run it, a program may not lose more than this.
const HARMLESS: &str = "*: withdrawn by itself, at least 0.95 of the tasks";
const COLLECTS: &str = "*: under LARF or MQRR, collections take at most 0.9 of the time for a task";
const JVM: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};
/// Runs of each variant in a repetition, so that five repetitions are enough for intervals.
const PASSES: usize = 2;
/// By what the tasks of a run are divided for `--slice`.
const SLICE: u32 = 10;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Program {
    name: &'static str,
    class: &'static str,
    /// Nothing is claimed of a program that is made up.
    is_real: bool,
    /// Sizes of the heap and of its nursery, MiB.
    heap: [u32; 2],
    /// Its arguments, without the tasks.
    arguments: [&'static str; 3],
    /// Tasks of a run: those that end first do not count, and those after them do.
    tasks: [u32; 2],
}

/// A bank of 80 clients in a database; 24 threads that search; 24 threads with working sets of 2 MiB, which
/// fill a third of a heap together.
const PROGRAMS: [Program; 3] = [
    Program {
        name: "bank",
        class: "Bank",
        is_real: true,
        // Each task adds 8 KiB to the database.
        heap: [256, 24],
        arguments: ["80", "20", "1000"],
        tasks: [4_000, 16_000],
    },
    Program {
        name: "lucene",
        class: "Searches",
        is_real: true,
        heap: [96, 24],
        arguments: ["24", "20000", "200"],
        tasks: [600, 2_400],
    },
    Program {
        name: "phases (made up)",
        class: "Phases",
        is_real: false,
        heap: [160, 64],
        arguments: ["24", "2048", "100"],
        tasks: [200, 1_200],
    },
];

/// An order of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    name: &'static str,
    flags: &'static [&'static str],
}

/// The kernel's own order, which the others are compared with, is the first one.
const ORDERS: [Order; 6] = [
    Order {
        name: "the kernel's",
        flags: &[],
    },
    Order {
        name: "LARF",
        flags: &["--phases", "larf", "--phases-always"],
    },
    Order {
        name: "LARF by the idle policy",
        flags: &[
            "--phases",
            "larf",
            "--phases-always",
            "--phases-lever",
            "idle",
        ],
    },
    Order {
        name: "LARF by slices",
        flags: &[
            "--phases",
            "larf",
            "--phases-always",
            "--phases-lever",
            "slices",
        ],
    },
    Order {
        name: "MQRR",
        flags: &[
            "--phases",
            "mqrr",
            "--phases-always",
            "--phases-quantum",
            "2M",
        ],
    },
    Order {
        name: "LARF, withdrawn by itself",
        flags: &["--phases", "larf"],
    },
];

/// The orders of the made-up program, so that it takes less time.
const PLAIN: [&str; 3] = ["the kernel's", "LARF", "MQRR"];
/// The library of the bank.
const DATABASE: &str = "traced/h2-2.2.224.jar";

/// The report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Told {
    /// Tasks in a second.
    tasks: f64,
    /// Milliseconds of a task: the mean, and of the slowest hundredth.
    turnaround: f64,
    slowest: f64,
    /// How evenly tasks are spread over threads: 1 is evenly.
    fairness: f64,
    /// In a thousand tasks.
    collections: f64,
    /// Milliseconds of collections in a thousand tasks.
    collecting: f64,
}

/// The measurement `phases-live`.
pub(super) struct PhasesLive;

impl Measurement for PhasesLive {
    fn about(&self) -> About {
        About {
            name: "phases-live",
            question: "What does it do to Java programs to order their threads by what they allocate?",
            asks: &[HARMLESS, COLLECTS],
            minutes: 45,
            only: false,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("phases")?;
        let searches = Classes::with("bench/programs/lucene/Searches.java", &cache("lucene/*"))?;
        let bank = Classes::with("bench/programs/traced/Bank.java", &cache(DATABASE))?;
        let phases = Classes::of("bench/programs/Phases.java")?;
        let path = |program: &Program| match program.class {
            "Bank" => format!("{}:{}", bank.folder().display(), cache(DATABASE)),
            "Searches" => format!("{}:{}", searches.folder().display(), cache("lucene/*")),
            _ => phases.folder().display().to_string(),
        };
        let divisor = if runner.slice() { SLICE } else { 1 };
        let ran = runner
            .experiment(variants())
            .rotating(|(program, _)| program.name)
            .by_group()
            .run(|(program, order), turn| {
                let passes = if runner.slice() { 1 } else { PASSES };
                let mut told = Vec::new();
                for pass in 1..=passes {
                    interrupt::check()?;
                    turn.progress.tell(format_args!("{pass} of {passes}"));
                    told.push(once(
                        folder.path(),
                        &path(program),
                        program,
                        order,
                        divisor,
                    )?);
                }
                Ok(told)
            })?;
        runner.plot("", &bars(&ran).plot())?;
        Ok(report(&ran, runner))
    }
}

fn variants() -> Vec<(String, (Program, Order))> {
    let all = PROGRAMS
        .iter()
        .flat_map(|program| ORDERS.map(|order| (*program, order)));
    let pairs = all.filter(|(program, order)| program.is_real || PLAIN.contains(&order.name));
    let name = |(program, order): &(Program, Order)| format!("{}, {}", program.name, order.name);
    pairs.map(|pair| (name(&pair), pair)).collect()
}

fn once(folder: &Path, path: &str, program: &Program, order: &Order, divisor: u32) -> Result<Told> {
    let mut command = Command::new(sibling("plimsoll"));
    // No broker answers there, so the program is alone.
    command.env("PLIMSOLL_SOCKET", folder.join("no-broker"));
    command.args(["run", "--policy", "isla-vista", "--adapter", "none"]);
    command
        .args(order.flags)
        .args(["--", &JVM.java()])
        .args(JVM.choice());
    let [heap, nursery] = program.heap;
    let flags = [
        format!("-Xms{heap}m"),
        format!("-Xmx{heap}m"),
        format!("-Xmn{nursery}m"),
    ];
    command.args(flags).args(["-cp", path, program.class]);
    command
        .args(program.arguments)
        .args(program.tasks.map(|count| (count / divisor).to_string()));
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    end_with_us(&mut command);
    let output = command.output().map_err(Error::start(&command))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let told = said.lines().last().and_then(Told::read);
    told.filter(|_| output.status.success()).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        Error::program(
            program.class,
            format!("{}: {}", output.status, errors.trim()),
        )
    })
}

impl Told {
    /// From the last line of a program.
    fn read(line: &str) -> Option<Told> {
        let value = |name: &str| {
            let mut words = line.split_whitespace();
            words.find_map(|word| {
                word.strip_prefix(name)?
                    .strip_prefix('=')?
                    .parse::<f64>()
                    .ok()
            })
        };
        let tasks = value("tasks").filter(|&tasks| tasks > 0.0)?;
        Some(Told {
            tasks,
            turnaround: value("turnaround")?,
            slowest: value("slowest")?,
            fairness: value("fairness")?,
            collections: value("collections")?,
            collecting: value("collecting")? / tasks * 1000.0,
        })
    }
}

type Ran = Variant<(Program, Order), Vec<Told>>;

/// All runs of a variant, in order.
fn runs(variant: &Ran) -> Vec<Told> {
    variant.outcomes.iter().flatten().copied().collect()
}

/// A value of each run of a variant by that of the run beside it under the kernel's order.
fn ratios(variant: &Ran, ran: &[Ran], of: impl Fn(&Told) -> f64) -> Vec<f64> {
    let is_first = |other: &&Ran| other.what.0 == variant.what.0 && other.what.1 == ORDERS[0];
    let first = ran.iter().find(is_first).map(runs).unwrap_or_default();
    let pairs = runs(variant).into_iter().zip(first);
    let ratios = pairs.map(|(one, first)| of(&one) / of(&first));
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// A value of a run.
type Value = fn(&Told) -> f64;

/// The quantities that are compared: name, unit, and value.
const COMPARED: [(&str, &str, Value); 6] = [
    ("tasks", "1/s", |told| told.tasks),
    ("collections in 1000 tasks", "", |told| told.collections),
    ("collecting in 1000 tasks", "ms", |told| told.collecting),
    ("turnaround", "ms", |told| told.turnaround),
    ("slowest 1 %", "ms", |told| told.slowest),
    ("fairness", "", |told| told.fairness),
];

/// The names, and a value and its ratio of each that is compared.
const COLUMNS: usize = 2 + 2 * COMPARED.len();

/// A median of ratios with its interval, where there are enough of them.
fn shown(ratios: &[f64]) -> String {
    let median = number(spread(ratios).median);
    let interval = median_interval(ratios);
    let interval = interval.map(|(low, high)| format!(" ({} to {})", number(low), number(high)));
    format!("{median}{}", interval.unwrap_or_default())
}

fn report(ran: &[Ran], runner: &Runner) -> Results {
    let ratio = ("by the kernel's", "");
    let compared = COMPARED
        .iter()
        .flat_map(|&(name, unit, _)| [(name, unit), ratio]);
    let columns: Vec<_> = [("program", ""), ("order", "")]
        .into_iter()
        .chain(compared)
        .collect();
    let mut results = runner
        .results(
            "Java programs with 24 or 80 threads, in the kernel's order and ordered by what they allocate.",
            "JDK 17, Serial, a fixed heap, on all processors. `bank`: 80 clients of a database in \
             memory (H2); a task is 20 transfers. `lucene`: 24 threads; a task is a search in an index \
             in memory, whose best 200 documents are read. `phases` is made up, and nothing is claimed \
             of it: 24 threads; a task allocates 2 MiB, goes through them a hundred times, and drops \
             them. Each run does the same number of tasks. Runs of all orders take turns. Medians; in \
             parentheses the 95 % interval of the median of the ratios to the run beside it in the \
             kernel's order. Fairness: how evenly tasks are spread over threads (Jain), 1 is evenly. \
             Put back by nice levels if not said otherwise; not withdrawn, but for the last one.",
        )
        .columns(&columns);
    for variant in ran {
        let runs = runs(variant);
        let (program, order) = variant.what;
        let cells: [Cell; COLUMNS] = std::array::from_fn(|at| match (at, at % 2) {
            (0, _) => program.name.into(),
            (1, _) => order.name.into(),
            (_, 0) => {
                let value = COMPARED[at / 2 - 1].2;
                spread(&runs.iter().map(value).collect::<Vec<_>>())
                    .median
                    .into()
            }
            _ => shown(&ratios(variant, ran, COMPARED[at / 2 - 1].2))
                .as_str()
                .into(),
        });
        results.row(cells);
    }
    judge(ran, &mut results);
    results
}

/// Tasks in a second by those in the kernel's order: programs with their orders.
fn bars(ran: &[Ran]) -> GroupedBars {
    let group = |program: &Program| {
        let length = |order: &Order| {
            let found = ran.iter().find(|one| one.what == (*program, *order));
            let ratios = found.map(|one| ratios(one, ran, |told| told.tasks));
            let ratios = ratios.filter(|ratios| !ratios.is_empty());
            ratios.map_or(0.0, |ratios| spread(&ratios).median)
        };
        let lengths = ORDERS[1..].iter().map(length).collect();
        (program.name.to_owned(), lengths)
    };
    GroupedBars {
        title: "Java programs whose threads are ordered by what they allocate".to_owned(),
        note: "medians; 1 is the kernel's order; without a bar: not run".to_owned(),
        unit: "tasks, by the kernel's".to_owned(),
        across: "programs".to_owned(),
        names: ORDERS[1..].iter().map(|it| it.name.to_owned()).collect(),
        groups: PROGRAMS.iter().map(group).collect(),
        top: 1.2,
    }
}

fn judge(ran: &[Ran], results: &mut Results) {
    let last = ORDERS[ORDERS.len() - 1];
    for program in PROGRAMS.iter().filter(|program| program.is_real) {
        let of_it = || ran.iter().filter(|variant| variant.what.0 == *program);
        for variant in of_it().filter(|variant| variant.what.1 == last) {
            let ratios = ratios(variant, ran, |told| told.tasks);
            let claim = HARMLESS.replace('*', program.name);
            results.target(&claim, shown(&ratios), spread(&ratios).median >= 0.95);
        }
        let ordered = of_it().filter(|variant| ["LARF", "MQRR"].contains(&variant.what.1.name));
        let all = ordered.map(|variant| ratios(variant, ran, |told| told.collecting));
        let all = all.filter(|ratios| !ratios.is_empty());
        let median = |ratios: &Vec<f64>| spread(ratios).median;
        let best = all.min_by(|one, other| median(one).total_cmp(&median(other)));
        if let Some(best) = best {
            let claim = COLLECTS.replace('*', program.name);
            results.target(&claim, shown(&best), median(&best) <= 0.9);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let line =
            "tasks=50.0 turnaround=2.5 slowest=9 fairness=0.97 collections=60 collecting=13.5";
        let told = Told::read(line).unwrap();
        assert_eq!((told.tasks, told.collecting), (50.0, 270.0));
        for broken in ["", "tasks=0", "tasks=50", "tasks=x turnaround=2"] {
            assert_eq!(Told::read(broken), None);
        }
    }

    #[test]
    fn runs_are_compared_with_those_beside_them() {
        let told = |tasks| Told {
            tasks,
            ..Told::default()
        };
        let variant = |order: usize, tasks: &[f64]| Variant {
            name: String::new(),
            what: (PROGRAMS[0], ORDERS[order]),
            outcomes: tasks
                .iter()
                .map(|&tasks| vec![told(tasks)])
                .collect::<Vec<_>>(),
        };
        let ran = [variant(0, &[10.0, 20.0]), variant(1, &[11.0, 18.0])];
        assert_eq!(ratios(&ran[1], &ran, |told| told.tasks), [1.1, 0.9]);
        assert!(ratios(&ran[1], &ran, |told| told.slowest).is_empty());
        let bars = bars(&ran);
        assert_eq!(bars.groups[0].1, [1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
