//! Real programs, recorded by `plimsoll trace`. Their traces are kept in `bench/out/traces`, and made again
//! when what makes them is another one.

use super::record_servers::{Running, logged};
use super::simulation_cache::sources;
use crate::harness::folder::Folder;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, cache, sibling};
use crate::harness::servers::{Kafka, Liberty};
use crate::progress::Progress;
use crate::report::results::root;
use crate::runner::out;
use crate::{Error, Result};
use plimsoll_testbed::children::end_with_us;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// On which virtual machine all are recorded.
pub(super) const JVM: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};
/// Megabytes of its heap at most.
const HEAP: u32 = 512;
/// Sources that recordings depend on: the recorder, the code that computes deaths, the programs, and their
/// drivers.
const SOURCES: [&str; 8] = [
    "Cargo.lock",
    "agents/tracer",
    "bench/programs/traced",
    "bench/src/harness",
    "bench/src/measurements/sim_tables",
    "crates/lab/src/trace",
    "crates/runtimes/src/hotspot",
    "crates/trace/src",
];
/// The status of a program that SIGTERM ended.
const TERMINATED: i32 = 128 + 15;

/// The program to record. A `slice` of each is enough to see that it can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recording {
    /// A class of ours in `bench/programs/traced`, with its arguments and those of its slice.
    Ours {
        class: &'static str,
        arguments: &'static [&'static str],
        slice: &'static [&'static str],
    },
    /// Lucene's benchmark on an algorithm of `bench/programs/traced`.
    Lucene { algorithm: &'static str },
    /// A broker of Kafka, to which Kafka's own tools write this many records, and read them.
    Kafka { records: u32, slice: u32 },
    /// Open Liberty, which answers this many requests on each of some connections.
    Liberty { requests: u32, slice: u32 },
}

/// A recording, as the report needs it beside the simulations.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    /// The trace.
    pub(super) path: PathBuf,
    /// How much more bytes are in it than the virtual machine counted meanwhile, percent.
    pub(super) apart: Option<f64>,
}

impl Recording {
    /// The trace of a program, recorded now unless the same sources have done it.
    ///
    /// # Errors
    /// When something is missing, the program fails, or nothing is recorded.
    pub(super) fn of(self, name: &str, is_slice: bool, progress: &Progress) -> Result<Recorded> {
        let folder = out("traces");
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let suffix = if is_slice { "-slice" } else { "" };
        let path = folder.join(format!("{name}{suffix}.plt"));
        let made = path.with_extension("made");
        let key = sources(&SOURCES).map(|it| format!("{it} {JVM:?} {HEAP} {self:?}\n"));
        let is_known = key.is_some() && fs::read_to_string(&made).ok() == key;
        if !is_known || !path.exists() {
            progress.tell(format_args!("recording {name}"));
            let _ = fs::remove_file(&made);
            self.record(&path, is_slice)?;
            if let Some(key) = &key {
                fs::write(&made, key).map_err(Error::file("write", &made))?;
            }
        }
        let apart = apart(&path)?;
        Ok(Recorded { path, apart })
    }

    fn record(self, path: &Path, is_slice: bool) -> Result<()> {
        // Remains of a killed measurement.
        let mut left = path.as_os_str().to_owned();
        left.push(".recording");
        let _ = fs::remove_dir_all(&left);
        let folder = Folder::new("recorded")?;
        let traced = |name: &str| root().join("bench/programs/traced").join(name);
        match self {
            Recording::Ours {
                class,
                arguments,
                slice,
            } => {
                let libraries = cache("traced/h2-2.2.224.jar");
                let source = format!("bench/programs/traced/{class}.java");
                // Version 17 is the oldest that is recorded.
                let classes = Classes::for_version(JVM.version, &source, &libraries)?;
                let mut command = tracer(path);
                let path = format!("{}:{libraries}", classes.folder().display());
                command.args(["-cp", &path, class]);
                command.args(if is_slice { slice } else { arguments });
                to_its_end(command, folder.path())
            }
            Recording::Lucene { algorithm } => {
                let mut command = tracer(path);
                command.args(["-cp", &cache("lucene/*")]);
                command.arg("org.apache.lucene.benchmark.byTask.Benchmark");
                command.arg(traced(algorithm));
                to_its_end(command, folder.path())
            }
            Recording::Kafka { records, slice } => {
                let kafka = Kafka::prepare(folder.path())?;
                let mut command = tracer(path);
                command.args(kafka.arguments());
                let mut running = Running::start(command, folder.path())?;
                running.wait_for(|| kafka.is_there())?;
                kafka.load(if is_slice { slice } else { records })?;
                running.end(TERMINATED)
            }
            Recording::Liberty { requests, slice } => {
                let liberty = Liberty::prepare(folder.path())?;
                let mut command = tracer(path);
                command.args(liberty.arguments()).envs([liberty.variable()]);
                let mut running = Running::start(command, folder.path())?;
                running.wait_for(|| liberty.is_there())?;
                liberty.load(if is_slice { slice } else { requests })?;
                running.end(TERMINATED)
            }
        }
    }
}

/// The beginning of a command that records into a file.
fn tracer(path: &Path) -> Command {
    let mut command = Command::new(sibling("plimsoll"));
    command.args(["trace", "-o"]).arg(path).arg("--");
    command.arg(JVM.java()).args(JVM.choice());
    command.arg(format!("-Xmx{HEAP}m"));
    command
}

/// Runs a program that ends by itself, in a folder. Its output goes to a file, and into the error if it
/// fails.
fn to_its_end(mut command: Command, folder: &Path) -> Result<()> {
    let log = logged(&mut command, folder)?;
    let status = command.status().map_err(Error::start(&command))?;
    if status.success() {
        Ok(())
    } else {
        let said = fs::read_to_string(&log).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing").to_owned();
        Err(Error::program(
            "plimsoll trace",
            format!("{status}: {last}"),
        ))
    }
}

/// How much more bytes are in a trace than the virtual machine counted, percent.
fn apart(path: &Path) -> Result<Option<f64>> {
    let mut command = Command::new(sibling("plimsoll"));
    command.args(["trace", "info", "--json"]).arg(path);
    end_with_us(&mut command);
    let out = command.output().map_err(Error::start(&command))?;
    let info: Value = serde_json::from_slice(&out.stdout).map_err(|source| Error::Output {
        program: "plimsoll trace info",
        source,
    })?;
    let seen = info["bytes"].as_f64();
    let counted = info["facts"]["bytes-by-machine"].as_str();
    let counted = counted.and_then(|text| text.parse::<f64>().ok());
    Ok(seen
        .zip(counted.filter(|counted| *counted > 0.0))
        .map(|(seen, counted)| (seen / counted - 1.0) * 100.0))
}
