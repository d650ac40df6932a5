//! The simulations of a program, made by `plimsoll`.

use super::programs::{Program, Source};
use super::recorded::Recorded;
use super::simulation_cache::Kept;
use crate::harness::programs::sibling;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_testbed::children::end_with_us;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Quanta of RR and LARF, nanoseconds: the paper's, and one that has the relation to a phase of allocation
/// that its text tells.
pub(super) const QUANTA: [u64; 2] = [1_140_000, 10_000];
/// The schedulers: in the order of the paper, with LARF in both ways with ties.
pub(super) const SCHEDULERS: [(&str, Option<&str>); 4] = [
    ("RR", None),
    ("LARF", Some("newest")),
    ("LARF", Some("oldest")),
    ("MQRR", None),
];
/// The collectors beside GenMC. The paper shows one LARF and one quantum of them, and no numbers.
const OTHERS: &str = "markcompact,semispace,gencopy,genms,g1";
/// The heaps of Tables 2 and 3 and of all figures, and of Table 4, in largest live sizes.
const HEAPS: [f64; 2] = [3.0, 1.5];

/// By a size: a value under each of [`SCHEDULERS`].
pub(super) type Sweep = Vec<(f64, [Option<f64>; SCHEDULERS.len()])>;

/// Fields that are kept of a simulation, and of its outcome: more than tables show is a megabyte.
const KEPT: [&str; 9] = [
    "scheduler",
    "ties",
    "collector",
    "heap",
    "recorded_largest_live",
    "quantum",
    "mark_cons",
    "average_pause",
    "greatest_pause",
];
const KEPT_OF_OUTCOME: [&str; 16] = [
    "minor",
    "full",
    "contentions",
    "switches",
    "paused",
    "execution",
    "turnaround",
    "thread_pauses",
    "allocated",
    "freed",
    "live",
    "garbage",
    "threads",
    "events",
    "objects",
    "computed",
];

/// The simulations of a program.
#[derive(Serialize, Deserialize)]
pub(super) struct Runs {
    runs: Vec<Value>,
    /// How much more bytes are in the trace of a recorded program than the virtual machine counted, percent.
    pub(super) apart: Option<f64>,
    /// The largest live size under round robin, in recorded ones: the unit of heaps. Threads that fall behind
    /// the recorded order keep longer what others drop, under any scheduler. 1 for made-up programs.
    live: f64,
    /// Makes further ones, until the trace is gone.
    #[serde(skip)]
    sims: Option<Sims>,
}

/// Makes simulations of a trace.
struct Sims {
    program: &'static str,
    trace: PathBuf,
    kept: Kept,
}

/// A heap that is large enough to learn the largest live size, in recorded ones.
const AMPLE: &str = "12";

impl Runs {
    /// Makes or takes the trace of a program, and simulates it: under GenMC with the heaps of Tables 2 to 4,
    /// under the other collectors with that of Figures 6 and 7.
    ///
    /// # Errors
    /// When `plimsoll` cannot be started, or has no outcomes to print.
    pub(super) fn of(
        program: &Program,
        folder: &Path,
        is_slice: bool,
        progress: &Progress,
    ) -> Result<Runs> {
        let Recorded { path, apart } = trace(program, folder, is_slice, progress)?;
        progress.tell(format_args!("{}", program.name));
        let sims = Sims {
            program: program.name,
            kept: Kept::of(&path)?,
            trace: path,
        };
        let live = if program.is_recorded() {
            live(&sims.make(&["-s", "rr", "-c", "markcompact", "--heap", AMPLE])?)
        } else {
            1.0
        };
        let quanta = if program.has_long_phases {
            "1.14ms"
        } else {
            "1.14ms,10us"
        };
        let mut runs = Vec::new();
        for (heap, collectors, quanta, ties) in [
            (HEAPS[0], "genmc", quanta, "newest,oldest"),
            (HEAPS[1], "genmc", quanta, "newest,oldest"),
            (HEAPS[0], OTHERS, "1.14ms", "newest"),
        ] {
            let heap = format!("{:.6}", heap * live);
            let of = ["-c", collectors, "--heap", &heap, "-q", quanta];
            let all = sims.make(&[&of[..], &["--ties", ties]].concat())?;
            runs.extend(all.iter().map(kept));
        }
        Ok(Runs {
            runs,
            apart,
            live,
            sims: Some(sims),
        })
    }

    /// A number under each of [`SCHEDULERS`]; `None` where a simulation has no outcome. `field` is a path of
    /// names.
    pub(super) fn each(
        &self,
        collector: &str,
        heap: f64,
        quantum: u64,
        field: &str,
    ) -> [Option<f64>; 4] {
        SCHEDULERS.map(|(scheduler, ties)| {
            let run = self.runs.iter().find(|run| {
                let times = |name: &str| run[name].as_f64().unwrap_or_default();
                let ratio = times("heap") / times("recorded_largest_live") / self.live;
                let own = run["quantum"].as_u64();
                run["scheduler"] == scheduler
                    && run["ties"].as_str() == ties
                    && run["collector"] == collector
                    && (ratio - heap).abs() < 0.01
                    && own.is_none_or(|own| own == quantum)
            })?;
            run.pointer(&format!("/{field}"))?.as_f64()
        })
    }

    /// Mark/cons under GenMC with a short quantum, for each of these heaps (in largest live sizes) with each
    /// of these ratios of the mature space to the nursery; by that of both of which there are several.
    ///
    /// # Errors
    /// When `plimsoll` cannot be started, or has no outcomes to print.
    pub(super) fn sweep(&self, heaps: &[f64], ratios: &[f64]) -> Result<Sweep> {
        let list = |numbers: &[f64], unit: f64| {
            let numbers = numbers.iter().map(|it| format!("{:.6}", it * unit));
            numbers.collect::<Vec<_>>().join(",")
        };
        let (heap, ratio) = (list(heaps, self.live), list(ratios, 1.0));
        let of = ["--heap", &heap, "--new-ratio", &ratio];
        let ways = ["-q", "10us", "--ties", "newest,oldest"];
        let sims = self.sims.as_ref();
        let gone = || Error::program("plimsoll sim", "its trace is gone");
        let runs = sims.ok_or_else(gone)?.make(&[of, ways].concat())?;
        let points = runs.chunks(SCHEDULERS.len()).enumerate();
        let at = if heaps.len() > 1 { heaps } else { ratios };
        let value = |run: &Value| run["mark_cons"].as_f64();
        let of = |chunk: &[Value]| std::array::from_fn(|which| chunk.get(which).and_then(value));
        Ok(points
            .filter_map(|(index, chunk)| Some((*at.get(index)?, of(chunk))))
            .collect())
    }

    /// Simulations with an outcome, and what is wrong with them, if anything: what is allocated is freed,
    /// live or garbage; and each scheduler lets the same threads do the same. That each of them ends and
    /// releases its monitors is a condition for an outcome.
    pub(super) fn conserved(&self) -> (usize, Vec<String>) {
        let done: Vec<&Value> = self
            .runs
            .iter()
            .filter(|it| it["outcome"].is_object())
            .collect();
        let mut faults = Vec::new();
        for run in &done {
            let number = |name: &str| run["outcome"][name].as_u64();
            let parts = ["freed", "live", "garbage"].map(number);
            let sum = parts.into_iter().try_fold(0, |sum, part| Some(sum + part?));
            let mut fault = |what: &str| {
                let name = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
                let (scheduler, collector) = (name("scheduler"), name("collector"));
                faults.push(format!("{what}, {scheduler}, {collector}"));
            };
            if sum.is_none() || sum != number("allocated") {
                fault("bytes");
            }
            for what in ["threads", "events", "objects", "allocated", "computed"] {
                if number(what) != done[0]["outcome"][what].as_u64() {
                    fault(what);
                }
            }
        }
        (done.len(), faults)
    }

    /// The trace's numbers for the columns of Table 1: objects (millions), bytes (MB), largest live size
    /// (MB), threads.
    pub(super) fn size(&self) -> [Option<f64>; 4] {
        let run = self.runs.iter().find(|run| run["outcome"].is_object());
        let number = |name: &str| run?["outcome"][name].as_f64();
        let live = run.and_then(|run| run["recorded_largest_live"].as_f64());
        let mb = |bytes: f64| bytes / plimsoll_unit::float::MIB;
        [
            number("objects").map(|count| count / 1e6),
            number("allocated").map(mb),
            live.map(mb),
            number("threads"),
        ]
    }

    /// The largest live size of a recorded program under round robin, MB.
    pub(super) fn largest_live(&self) -> Option<f64> {
        let recorded = self.size()[2]?;
        Some(recorded * self.live)
    }
}

impl Sims {
    /// The simulations that `plimsoll sim` makes with these arguments. Those that it made before, it does not
    /// make again.
    fn make(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let mut command = Command::new(sibling("plimsoll"));
        command.arg("sim").arg(&self.trace).arg("--json");
        command.args(&arguments);
        if let Some(file) = self.kept.file(self.program, &arguments) {
            command.arg("-o").arg(file);
        }
        let text = output(&mut command, &[0, 1])?;
        let program = "plimsoll sim";
        serde_json::from_str(&text).map_err(|source| Error::Output { program, source })
    }
}

/// The fields of a simulation that are kept.
fn kept(run: &Value) -> Value {
    let some = |of: &Value, names: &[&str]| -> Value {
        let named = names.iter().filter(|name| !of[**name].is_null());
        named
            .map(|name| ((*name).to_owned(), of[*name].clone()))
            .collect()
    };
    let mut kept = some(run, &KEPT);
    kept["outcome"] = if run["outcome"].is_object() {
        some(&run["outcome"], &KEPT_OF_OUTCOME)
    } else {
        Value::Null
    };
    kept
}

/// The largest live size of a simulation, in recorded ones; 1 if it has no outcome.
fn live(runs: &[Value]) -> f64 {
    let run = runs.first();
    let number = |value: &Value| value.as_f64().filter(|value| *value > 0.0);
    let ours = run.and_then(|run| number(&run["outcome"]["largest_live"]));
    let recorded = run.and_then(|run| number(&run["recorded_largest_live"]));
    match (ours, recorded) {
        (Some(ours), Some(recorded)) => ours / recorded,
        _ => 1.0,
    }
}

/// By what programs are divided for `--slice`: all but threads and working sets.
const SLICE: &str = "30";

/// The trace of a program.
fn trace(
    program: &Program,
    folder: &Path,
    is_slice: bool,
    progress: &Progress,
) -> Result<Recorded> {
    match program.source {
        Source::MadeUp { name, shorten } => {
            let path = folder.join(format!("{name}.plt"));
            let mut command = Command::new(sibling("plimsoll"));
            let shorten = shorten.to_string();
            command.args(["trace", "synth", name, "--shorten", &shorten]);
            if is_slice {
                command.args(["--scale", SLICE]);
            }
            output(command.arg("-o").arg(&path), &[0])?;
            Ok(Recorded { path, apart: None })
        }
        Source::Recorded(what) => what.of(program.name, is_slice, progress),
    }
}

/// The output of a command, if it ends with one of these statuses.
fn output(command: &mut Command, statuses: &[i32]) -> Result<String> {
    end_with_us(command);
    let out = command.output().map_err(Error::start(command))?;
    match out.status.code() {
        Some(status) if statuses.contains(&status) => {
            Ok(String::from_utf8_lossy(&out.stdout).into_owned())
        }
        _ => {
            let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            Err(Error::program(
                "plimsoll",
                format!("{}: {said}", out.status),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::paper::ENTRIES;
    use super::*;
    use serde_json::json;

    fn outcome() -> Value {
        json!({
            "largest_live": 2_000, "minor": 7, "allocated": 60, "freed": 30, "live": 20, "garbage": 10,
            "threads": 3, "events": 9, "objects": 5, "computed": 11,
        })
    }

    fn runs(runs: Vec<Value>) -> Runs {
        Runs {
            runs,
            apart: None,
            live: 2.0,
            sims: None,
        }
    }

    #[test]
    fn heaps_of_recorded_programs_are_in_what_lives_under_round_robin() {
        let run = json!({
            "scheduler": "RR", "collector": "GenMC", "quantum": 1_140_000, "heap": 6_000,
            "recorded_largest_live": 1_000, "outcome": outcome(),
        });
        assert_eq!(live(std::slice::from_ref(&run)), 2.0);
        let failed = json!({"recorded_largest_live": 1_000, "outcome": null});
        assert_eq!(live(&[failed]), 1.0);
        let runs = runs(vec![run]);
        let minor = runs.each("GenMC", 3.0, 1_140_000, "outcome/minor");
        assert_eq!(minor, [Some(7.0), None, None, None]);
        assert_eq!(
            runs.each("GenMC", 6.0, 1_140_000, "outcome/minor"),
            [None; 4]
        );
    }

    #[test]
    fn what_tables_show_of_a_simulation_is_kept() {
        let run = json!({"scheduler": "RR", "heap": 3.5, "else": 1, "outcome": outcome()});
        let less = kept(&run);
        assert_eq!((&less["heap"], less.get("else")), (&json!(3.5), None));
        let fields = ENTRIES.iter().map(|entry| entry.field);
        for field in fields.filter_map(|field| field.strip_prefix("outcome/")) {
            let field = field.split('/').next().unwrap_or_default();
            assert!(KEPT_OF_OUTCOME.contains(&field), "{field}");
        }
        assert_eq!(runs(vec![less]).conserved(), (1, vec![]));
        assert!(kept(&json!({"outcome": null}))["outcome"].is_null());
    }

    #[test]
    fn both_ways_with_ties_are_told_apart() {
        let larf = |ties: &str, minor: u32| {
            json!({
                "scheduler": "LARF", "ties": ties, "collector": "GenMC", "quantum": 10_000, "heap": 6_000,
                "recorded_largest_live": 1_000, "outcome": {"minor": minor},
            })
        };
        let runs = runs(vec![larf("oldest", 3), larf("newest", 4)]);
        let minor = runs.each("GenMC", 3.0, 10_000, "outcome/minor");
        assert_eq!(minor, [None, Some(4.0), Some(3.0), None]);
    }

    #[test]
    fn what_is_not_conserved_is_told() {
        let with = |name: &str, value: u64| {
            let mut run = json!({"scheduler": "RR", "collector": "G1", "outcome": outcome()});
            run["outcome"][name] = value.into();
            run
        };
        let good = || with("threads", 3);
        assert_eq!(
            runs(vec![good(), json!({"outcome": null})]).conserved(),
            (1, vec![])
        );
        for (name, fault) in [("freed", "bytes, RR, G1"), ("events", "events, RR, G1")] {
            let found = runs(vec![good(), with(name, 8)]).conserved();
            assert_eq!(found, (2, vec![fault.to_owned()]));
        }
    }
}
