//! `plimsoll trace -o FILE -- java …`: runs a Java program with the recorder in it, then computes when
//! objects
//! died.
//!
//! While the program runs, its threads write raw traces into a folder beside the output. The folder goes when
//! the trace is complete; when something fails it stays, and `plimsoll trace deaths` makes a trace of it.

use crate::args::trace::Record;
use crate::error::CliError;
use crate::output::Output;
use crate::run::{child, plainly};
use crate::say;
use crate::size::Human;
use plimsoll_kernel::clock::{children_cpu_ns, now_ns};
use plimsoll_runtimes::hotspot::tracing;
use plimsoll_trace::merlin::groups;
use plimsoll_trace::merlin::whole::{self, Found};
use plimsoll_trace::{Deaths, Ending, Trace, TraceError, merge};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Bytes of the recorder's report, which are taken before the disk can be full.
const REPORT: usize = 4096;
/// The file in the folder of a recording that the recorder writes at the end.
const REPORT_FILE: &str = "report";
/// What the report and the facts of a trace call the bytes that the machine counted as allocated.
const COUNTED: &str = "bytes-by-machine";

/// Records a program. Returns its status.
///
/// # Errors
/// When it is no Java program that can be recorded, or the trace cannot be written.
pub(super) fn run(args: &Record) -> Result<u8, CliError> {
    let (Some(output), [program, rest @ ..]) = (&args.output, args.program.as_slice()) else {
        return Err(CliError::Usage(
            "say what to record and where to: plimsoll trace -o FILE -- java …".into(),
        ));
    };
    let real = launcher(program)?;
    let own = std::env::current_exe().map_err(CliError::system("our own path"))?;
    let folder = Folder::make(output)?;
    let identity = identity()?;
    let mode = if args.sampled { "sampled" } else { "exact" };
    let mut told = OsString::from(format!("{mode}:{identity:032x}:"));
    told.push(&folder.path);
    let flags = tracing::arguments(&real, &own, &told)
        .map_err(|refusal| CliError::Usage(refusal.to_string()))?;
    let mut argv = vec![program.clone()];
    argv.extend(flags);
    if args.sampled {
        argv.extend(tracing::SHORT_YOUNG.map(OsString::from));
    }
    argv.extend_from_slice(rest);
    let (begin, before) = (now_ns(), children_cpu_ns());
    let status = plainly(argv)?;
    let ran = [now_ns() - begin, children_cpu_ns().saturating_sub(before)];
    match finish(args, output, &folder, (status, ran)) {
        Ok(()) => {
            folder.remove();
            Ok(status)
        }
        Err(error) => {
            if folder.traces().is_ok_and(|traces| !traces.is_empty()) {
                let left = folder.path.display();
                say(format_args!(
                    "what was recorded is left in {left}: `plimsoll trace deaths {left} -o FILE` makes a \
                     trace of it"
                ));
                folder.keep();
            }
            Err(error)
        }
    }
}

/// The launcher that a name means, without links.
fn launcher(program: &OsStr) -> Result<PathBuf, CliError> {
    let found = child::find(Path::new(program));
    let found = found.ok_or_else(|| CliError::ProgramNotFound {
        program: program.to_string_lossy().into_owned(),
    })?;
    found.canonicalize().map_err(CliError::path(&found))
}

/// A number that no other recording has.
fn identity() -> Result<u128, CliError> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(CliError::system("random numbers"))?;
    Ok(u128::from_le_bytes(bytes))
}

/// The folder of a recording. It is removed when this is dropped, unless it is kept.
struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    fn make(output: &Path) -> Result<Folder, CliError> {
        let mut name = output.as_os_str().to_owned();
        name.push(".recording");
        let path = std::path::absolute(PathBuf::from(name)).map_err(CliError::path(output))?;
        fs::create_dir(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => CliError::Usage(format!(
                "{0} is there already: a recording into {1} is under way, or was left; remove it, or make a \
                 trace of it (`plimsoll trace deaths {0} -o FILE`)",
                path.display(),
                output.display()
            )),
            _ => CliError::path(&path)(source),
        })?;
        let folder = Folder { path, kept: false };
        let report = folder.path.join(REPORT_FILE);
        fs::write(&report, [b' '; REPORT]).map_err(CliError::path(&report))?;
        Ok(folder)
    }

    fn keep(mut self) {
        self.kept = true;
    }

    fn remove(self) {}

    fn traces(&self) -> Result<Vec<Trace>, CliError> {
        traces_in(&self.path)
    }

    /// What the recorder told at its end, by key. Empty if it did not get there.
    fn report(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.path.join(REPORT_FILE)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let told = lines.filter(|(key, _)| !key.is_empty());
        told.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

/// The traces in the folder of a recording.
pub(super) fn traces_in(folder: &Path) -> Result<Vec<Trace>, CliError> {
    let entries = fs::read_dir(folder).map_err(CliError::path(folder))?;
    let is_trace = |path: &PathBuf| path.extension() == Some(OsStr::new("trace"));
    let paths = entries.flatten().map(|it| it.path()).filter(is_trace);
    let mut traces = Vec::new();
    for path in paths {
        match Trace::open(&path) {
            Ok(trace) => traces.push(trace),
            // The thread had just begun when the machine was killed or the disk was full.
            Err(TraceError::Head { .. } | TraceError::Foreign { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    traces.sort_by_key(|trace| trace.streams().keys().next().copied());
    Ok(traces)
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // Whoever wonders about the folder sees what is in it.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes the trace of what was recorded. Of the program its status is given, and how long it ran: nanoseconds
/// of time, and of processors.
fn finish(
    args: &Record,
    output: &Path,
    folder: &Folder,
    (status, ran): (u8, [u64; 2]),
) -> Result<(), CliError> {
    let traces = folder.traces()?;
    let report = folder.report();
    if traces.is_empty() {
        let why = report
            .get("failed")
            .map_or("the machine did not get so far", String::as_str);
        return Err(CliError::Usage(format!("nothing was recorded: {why}")));
    }
    let cut = traces
        .iter()
        .filter(|trace| *trace.ending() != Ending::Whole)
        .count();
    if !report.contains_key("ended") {
        say(format_args!(
            "warning: the Java virtual machine ended before the recorder could (status {status}): what \
            it had \
             written is kept, up to about a second before"
        ));
    } else if let Some(why) = report.get("failed") {
        say(format_args!("warning: the recording is not whole: {why}"));
    } else if cut > 0 {
        say(format_args!(
            "warning: {cut} threads are not recorded to their ends"
        ));
    }
    let facts = facts(args, status, &report);
    if args.raw {
        let out = Output::create(output)?;
        let out = merge::merge(&traces, out, &output.display().to_string())?;
        return out.complete();
    }
    let begin = now_ns();
    let found = deaths(&traces, &facts, output)?;
    summary(output, &found, &report);
    let [time, processor, deaths] =
        [ran[0], ran[1], now_ns() - begin].map(|time| time as f64 / 1e9);
    say(format_args!(
        "the program took {time:.2} s ({processor:.2} s of processors), and finding deaths took \
         {deaths:.2} s more"
    ));
    Ok(())
}

fn facts(args: &Record, status: u8, report: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let words = args.program.iter().map(|word| word.to_string_lossy());
    let program: Vec<_> = words.collect();
    let counted = report.get_key_value(COUNTED);
    let counted = counted.map(|(key, value)| (key.clone(), value.clone()));
    let mut facts = BTreeMap::from([
        ("program".to_owned(), program.join(" ")),
        (
            "recorder".to_owned(),
            format!("plimsoll {}", env!("CARGO_PKG_VERSION")),
        ),
        ("status".to_owned(), status.to_string()),
    ]);
    facts.extend(counted);
    facts
}

/// Makes one trace with deaths of raw ones of one recording.
///
/// # Errors
/// Those of reading and of writing; the raw traces stay.
pub(super) fn deaths(
    traces: &[Trace],
    facts: &BTreeMap<String, String>,
    output: &Path,
) -> Result<Found, CliError> {
    let mut name = output.as_os_str().to_owned();
    name.push(".raw");
    let merged = PathBuf::from(name);
    let scratch = Scratch(merged.clone());
    let one = match traces {
        [one] => one.clone(),
        _ => {
            let file = File::create(&merged).map_err(CliError::path(&merged))?;
            let file = std::io::BufWriter::new(file);
            merge::merge(traces, file, &merged.display().to_string())?;
            Trace::open(&merged)?
        }
    };
    let name = output.display().to_string();
    if one.header().deaths == Deaths::AtCollections {
        let (out, found) = groups::write(&one, facts, Output::create(output)?, &name)?;
        drop(scratch);
        out.complete()?;
        return Ok(found);
    }
    if !one.header().raw {
        return Err(CliError::Usage(format!(
            "{} is no raw trace: it has no reference stores",
            one.name()
        )));
    }
    let out = Output::create(output)?;
    let (out, found) = whole::write(
        &one,
        facts,
        table(output)?,
        out,
        &output.display().to_string(),
    )?;
    drop(scratch);
    out.complete()?;
    Ok(found)
}

/// A file that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may not have been needed.
        let _ = fs::remove_file(&self.0);
    }
}

/// A file without a name, on the disk on which the output is.
fn table(output: &Path) -> Result<File, CliError> {
    let mut name = output.as_os_str().to_owned();
    name.push(".table");
    let path = PathBuf::from(name);
    let options = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .to_owned();
    let file = options.open(&path).map_err(CliError::path(&path))?;
    fs::remove_file(&path).map_err(CliError::path(&path))?;
    Ok(file)
}

/// Tells what was seen, and what the machine says.
fn summary(output: &Path, found: &Found, report: &BTreeMap<String, String>) {
    let number = |key: &str| report.get(key).and_then(|value| value.parse::<u64>().ok());
    say(format_args!(
        "{}: {} objects, {} bytes ({}), of which at most {} lived at one time; {} died",
        output.display(),
        found.objects,
        found.bytes,
        Human(found.bytes),
        Human(found.largest_live),
        found.deaths
    ));
    if let Some(machine) = number(COUNTED) {
        let apart = found.bytes as f64 / machine.max(1) as f64 * 100.0 - 100.0;
        say(format_args!(
            "the Java virtual machine counts {machine} bytes allocated meanwhile: {apart:+.3} %"
        ));
    }
    if let (Some(objects @ 1..), Some(bytes)) = (number("objects-before"), number("bytes-before")) {
        say(format_args!(
            "not in the trace: {objects} objects ({}) that were there before the program's first line",
            Human(bytes)
        ));
    }
    let doubles = number("doubles").unwrap_or(0) + found.doubles;
    if doubles > 0 {
        say(format_args!(
            "warning: {doubles} objects got numbers that others had"
        ));
    }
    if let Some(unchanged @ 1..) = number("unchanged") {
        say(format_args!(
            "{unchanged} classes or methods could not be changed: what they store and lock is not seen"
        ));
    }
    if found.waits > 0 {
        say(format_args!(
            "left out: {} waits in monitors of threads that did not end meanwhile",
            found.waits
        ));
    }
    if found.monitors > 0 {
        say(format_args!(
            "left out: {} events of monitors that the thread did not hold (virtual threads move)",
            found.monitors
        ));
    }
}
