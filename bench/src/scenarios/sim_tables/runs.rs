//! The simulations of a program, made by `plimsoll`.

use super::programs::{Program, Source};
use super::recorded::Recorded;
use crate::harness::programs::sibling;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_testbed::children::end_with_us;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Quanta of RR and LARF, nanoseconds: the paper's, and one that has the relation to a phase of allocation
/// that its text tells.
pub(super) const QUANTA: [u64; 2] = [1_140_000, 10_000];
/// The schedulers, in the order of the paper.
pub(super) const SCHEDULERS: [&str; 3] = ["RR", "LARF", "MQRR"];

/// The simulations of a program.
pub(super) struct Runs {
    runs: Vec<Value>,
    /// Of a recorded program: how much more bytes are in the trace than the virtual machine counted, percent.
    pub(super) apart: Option<f64>,
    /// The largest live size under round robin, in recorded ones: the unit of heaps. Threads that fall behind
    /// the recorded order keep longer what others drop, under any scheduler. 1 for made-up programs.
    live: f64,
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
        let live = match program.is_recorded() {
            true => live(&simulate(&path, "rr", "1.14ms", "markcompact", AMPLE)?),
            false => 1.0,
        };
        let mut runs = Vec::new();
        for (collectors, heaps) in [
            ("genmc", &[1.5, 3.0][..]),
            ("markcompact,semispace,gencopy", &[3.0]),
        ] {
            let heaps = heaps.iter().map(|heap| format!("{:.6}", heap * live));
            let heaps = heaps.collect::<Vec<_>>().join(",");
            runs.extend(simulate(
                &path,
                "rr,larf,mqrr",
                "1.14ms,10us",
                collectors,
                &heaps,
            )?);
        }
        Ok(Runs { runs, apart, live })
    }

    /// A number of an outcome under RR, LARF and MQRR; `None` where a simulation has no outcome.
    pub(super) fn three(
        &self,
        collector: &str,
        heap: f64,
        quantum: u64,
        field: &str,
    ) -> [Option<f64>; 3] {
        SCHEDULERS.map(|scheduler| {
            let run = self.runs.iter().find(|run| {
                let times = |name: &str| run[name].as_f64().unwrap_or_default();
                let ratio = times("heap") / times("recorded_largest_live") / self.live;
                let own = run["quantum"].as_u64();
                run["scheduler"] == scheduler
                    && run["collector"] == collector
                    && (ratio - heap).abs() < 0.01
                    && own.is_none_or(|own| own == quantum)
            })?;
            run["outcome"][field].as_f64()
        })
    }

    /// What the trace has of the columns of Table 1: objects (millions), bytes (MB), largest live size (MB),
    /// threads.
    pub(super) fn size(&self) -> [Option<f64>; 4] {
        let run = self.runs.iter().find(|run| run["outcome"].is_object());
        let number = |name: &str| run?["outcome"][name].as_f64();
        let live = run.and_then(|run| run["recorded_largest_live"].as_f64());
        let mb = |bytes: f64| bytes / super::super::MIB;
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

/// Simulates a trace in all ways that these lists make.
fn simulate(
    path: &Path,
    schedulers: &str,
    quanta: &str,
    collectors: &str,
    heaps: &str,
) -> Result<Vec<Value>> {
    let mut command = Command::new(sibling("plimsoll"));
    command.arg("sim").arg(path).args(["-s", schedulers]);
    command.args(["-q", quanta, "--json", "--heap", heaps, "-c", collectors]);
    let text = output(&mut command, &[0, 1])?;
    serde_json::from_str(&text).map_err(|error| Error::program("plimsoll sim", error.to_string()))
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

/// What a command prints, if it ends with one of these statuses.
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
    use super::*;
    use serde_json::json;

    #[test]
    fn heaps_of_recorded_programs_are_in_what_lives_under_round_robin() {
        let run = json!({
            "scheduler": "RR", "collector": "GenMC", "quantum": 1_140_000, "heap": 6_000,
            "recorded_largest_live": 1_000, "outcome": {"largest_live": 2_000, "minor": 7},
        });
        assert_eq!(live(std::slice::from_ref(&run)), 2.0);
        let failed = json!({"recorded_largest_live": 1_000, "outcome": null});
        assert_eq!(live(&[failed]), 1.0);
        let runs = Runs {
            runs: vec![run],
            apart: None,
            live: 2.0,
        };
        let minor = runs.three("GenMC", 3.0, 1_140_000, "minor");
        assert_eq!(minor, [Some(7.0), None, None]);
        assert_eq!(runs.three("GenMC", 6.0, 1_140_000, "minor"), [None; 3]);
    }
}
