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
}

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
        let mut runs = Vec::new();
        for (collectors, heaps) in [("genmc", "1.5,3"), ("markcompact,semispace,gencopy", "3")] {
            let mut command = Command::new(sibling("plimsoll"));
            command.arg("sim").arg(&path).args(["-s", "rr,larf,mqrr"]);
            command.args([
                "-q",
                "1.14ms,10us",
                "--json",
                "--heap",
                heaps,
                "-c",
                collectors,
            ]);
            let text = output(&mut command, &[0, 1])?;
            let list: Vec<Value> = serde_json::from_str(&text)
                .map_err(|error| Error::program("plimsoll sim", error.to_string()))?;
            runs.extend(list);
        }
        Ok(Runs { runs, apart })
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
                let ratio = times("heap") / times("recorded_largest_live");
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
