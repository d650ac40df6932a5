//! `plimsoll trace -o FILE -- java …`: runs a Java program with the recorder in it, then computes when
//! objects died.
//!
//! While the program runs, its threads write raw traces into a folder beside the output. The folder goes when
//! the trace is complete; when something fails it stays, and `plimsoll trace deaths` makes a trace of it.
//! The facts about the recording are in files in there, and later in the trace.

use super::machine_counts::{self, Counted};
use super::passes::{self, Passes};
use crate::args::trace::Record;
use crate::error::LabError;
use plimsoll_cli::error::CliError;
use plimsoll_cli::output::Output;
use plimsoll_cli::output::say;
use plimsoll_cli::run::{child, plainly};
use plimsoll_cli::size::Human;
use plimsoll_kernel::clock;
use plimsoll_kernel::descriptors;
use plimsoll_runtimes::hotspot::tracing;
use plimsoll_trace::merlin::add_deaths::{self, Found};
use plimsoll_trace::merlin::groups;
use plimsoll_trace::{Deaths, Ending, Trace, TraceError, merge};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes that are reserved for the file of facts, so that it can be written even when the disk is full.
const KNOWN: usize = 4096;
/// The file in the folder of a recording that the recorder writes at the end.
const REPORT_FILE: &str = "report";
/// The file in there that we write.
const FACTS_FILE: &str = "facts";
/// The facts that tell how long the program ran, and how much time of processors it used, nanoseconds.
const TIMES: [&str; 2] = ["time", "processor-time"];
/// Fewer collections than this tell little of when objects died.
const FEW: u64 = 10;
/// Keys of the report that do not become facts: whether it got to its end, why not, and what the trace itself
/// tells.
const PASSING: [&str; 4] = ["ended", "failed", "objects", "bytes"];

/// Facts about a recording beside its events, by key.
pub(super) type Known = BTreeMap<String, String>;

/// Records a program. Returns its status.
///
/// # Errors
/// When it is no Java program that can be recorded, or the trace cannot be written.
pub(super) fn run(args: &Record) -> Result<u8, LabError> {
    let (Some(output), [program, rest @ ..]) = (&args.output, args.program.as_slice()) else {
        return Err(LabError::usage(
            "say what to record and where to: plimsoll trace -o FILE -- java …",
        ));
    };
    let real = launcher(program)?;
    let own = std::env::current_exe().map_err(LabError::system("our own path"))?;
    let folder = Folder::make(output)?;
    let identity = identity()?;
    let mode = if args.sampled { "sampled" } else { "exact" };
    let mut told = OsString::from(format!("{mode}:{identity:032x}:"));
    told.push(&folder.path);
    let flags = tracing::arguments(&real, &own, &told, args.sampled)
        .map_err(|refusal| LabError::usage(refusal.to_string()))?;
    let mut argv = vec![program.clone()];
    argv.extend(flags);
    argv.extend_from_slice(rest);
    let mut facts = facts(args);
    folder.tell(&facts);
    let (begin, before) = (clock::now().0, clock::children_cpu().0);
    let status = plainly(argv)?;
    let ran = [
        clock::now().0 - begin,
        clock::children_cpu().0.saturating_sub(before),
    ];
    facts.extend(
        TIMES
            .into_iter()
            .zip(ran)
            .map(|(key, time)| (key.into(), time.to_string())),
    );
    facts.insert("status".into(), status.to_string());
    folder.tell(&facts);
    match finish(args, output, &folder) {
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
fn launcher(program: &OsStr) -> Result<PathBuf, LabError> {
    let found = child::find(Path::new(program));
    let found = found.ok_or_else(|| CliError::ProgramNotFound {
        program: program.to_string_lossy().into_owned(),
    })?;
    found.canonicalize().map_err(LabError::path(&found))
}

/// A number that no other recording has.
fn identity() -> Result<u128, LabError> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(LabError::system("random numbers"))?;
    Ok(u128::from_le_bytes(bytes))
}

/// The folder of a recording. It is removed when this is dropped, unless it is kept.
struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    fn make(output: &Path) -> Result<Folder, LabError> {
        let mut name = output.as_os_str().to_owned();
        name.push(".recording");
        let path = std::path::absolute(PathBuf::from(name)).map_err(LabError::path(output))?;
        fs::create_dir(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => LabError::usage(format!(
                "{0} is there already: a recording into {1} is under way, or was left; remove it, or make a \
                 trace of it (`plimsoll trace deaths {0} -o FILE`)",
                path.display(),
                output.display()
            )),
            _ => LabError::path(&path)(source),
        })?;
        let folder = Folder { path, kept: false };
        for name in [REPORT_FILE, FACTS_FILE] {
            let path = folder.path.join(name);
            fs::write(&path, [b' '; KNOWN]).map_err(LabError::path(&path))?;
        }
        Ok(folder)
    }

    /// Writes what is known. If it is longer than what was taken and the disk is full, the end is missing.
    fn tell(&self, facts: &Known) {
        let mut lines: Vec<String> = facts
            .iter()
            .map(|(key, value)| format!("{key} {}\n", value.replace('\n', " ")))
            .collect();
        // The command of the program is the longest.
        lines.sort_by_key(String::len);
        let file = File::options().write(true).open(self.path.join(FACTS_FILE));
        let _ = file.and_then(|mut file| file.write_all(lines.concat().as_bytes()));
    }

    fn keep(mut self) {
        self.kept = true;
    }

    fn remove(self) {}

    fn traces(&self) -> Result<Vec<Trace>, LabError> {
        traces_in(&self.path)
    }
}

/// The facts in the files of a recording's folder. The recorder's file may be empty, if it did not get to
/// its end.
pub(super) fn known_in(folder: &Path) -> Known {
    let mut known = Known::new();
    for name in [REPORT_FILE, FACTS_FILE] {
        let text = fs::read(folder.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let told = lines.filter(|(key, _)| !key.is_empty());
        known.extend(told.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    known
}

/// The traces in the folder of a recording: one of each thread, all of them open. The program has ended, so
/// it does not inherit the limit of open files that we raise for them.
pub(super) fn traces_in(folder: &Path) -> Result<Vec<Trace>, LabError> {
    allow_many_files();
    let entries = fs::read_dir(folder).map_err(LabError::path(folder))?;
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

/// Allows as many open files as we may have: traces stay open while they are merged.
pub(super) fn allow_many_files() {
    // If it cannot be raised, too many files are refused where they are opened, with the file's name.
    let _ = descriptors::raise_limit();
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // A folder that stays does no harm: people see what is in it.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes the trace of what was recorded.
fn finish(args: &Record, output: &Path, folder: &Folder) -> Result<(), LabError> {
    let traces = folder.traces()?;
    let known = known_in(&folder.path);
    if traces.is_empty() {
        let why = known
            .get("failed")
            .map_or("the machine did not get so far", String::as_str);
        return Err(LabError::usage(format!("nothing was recorded: {why}")));
    }
    if args.raw {
        warn_of_what_is_missing(&traces, &known);
        let out = Output::create(output)?;
        let out = merge::merge_with(&traces, &kept(&known), out, &output.display().to_string())?;
        out.complete()?;
        let raw = output.display();
        say(format_args!(
            "{raw}: a raw trace, as asked for: `plimsoll trace deaths {raw} -o FILE` computes when objects \
             died"
        ));
        return Ok(());
    }
    from_folder(&traces, &known, output)
}

/// As [`complete`], for the traces in the folder of a recording.
///
/// # Errors
/// As [`deaths`].
pub(super) fn from_folder(traces: &[Trace], known: &Known, output: &Path) -> Result<(), LabError> {
    warn_of_what_is_missing(traces, known);
    complete(traces, known, output)
}

/// Makes one trace with deaths, and tells what is known of the recording.
///
/// # Errors
/// As [`deaths`].
pub(super) fn complete(traces: &[Trace], known: &Known, output: &Path) -> Result<(), LabError> {
    let begin = clock::now().0;
    let found = deaths(traces, &kept(known), output)?;
    summary(output, &found, known);
    let time = |key: &str| known.get(key).and_then(|time| time.parse::<u64>().ok());
    if let [Some(time), Some(processor)] = TIMES.map(time) {
        let [time, processor, deaths] =
            [time, processor, clock::now().0 - begin].map(|time| time as f64 / 1e9);
        say(format_args!(
            "the program took {time:.2} s ({processor:.2} s of processors), and finding deaths took \
             {deaths:.2} s more"
        ));
    }
    Ok(())
}

fn warn_of_what_is_missing(traces: &[Trace], known: &Known) {
    let cut = traces
        .iter()
        .filter(|trace| *trace.ending() != Ending::Whole)
        .count();
    if !known.contains_key("ended") {
        let status = known.get("status").map_or("unknown", String::as_str);
        say(format_args!(
            "warning: the Java virtual machine ended before the recorder could (status {status}): what \
             it had written is kept, up to about a second before"
        ));
    } else if let Some(why) = known.get("failed") {
        say(format_args!("warning: the recording is not whole: {why}"));
    } else if cut > 0 {
        say(format_args!(
            "warning: {cut} threads are not recorded to their ends"
        ));
    }
}

/// The facts that the trace gets.
fn kept(known: &Known) -> Known {
    let mut kept = known.clone();
    kept.retain(|key, _| !PASSING.contains(&key.as_str()));
    kept
}

/// The facts that are known before the program runs.
fn facts(args: &Record) -> Known {
    let words = args.program.iter().map(|word| word.to_string_lossy());
    let program: Vec<_> = words.collect();
    let recorder = format!("plimsoll {}", env!("CARGO_PKG_VERSION"));
    Known::from([
        ("program".to_owned(), program.join(" ")),
        ("recorder".to_owned(), recorder),
    ])
}

/// Merges the raw traces of one recording into one trace with deaths.
///
/// # Errors
/// Those of reading and of writing; the raw traces stay.
fn deaths(traces: &[Trace], facts: &Known, output: &Path) -> Result<Found, LabError> {
    let mut name = output.as_os_str().to_owned();
    name.push(".raw");
    let merged = PathBuf::from(name);
    let scratch = Scratch(merged.clone());
    let shown = Passes::new();
    let one = match traces {
        [one] => one.clone(),
        _ => {
            let file = File::create(&merged).map_err(LabError::path(&merged))?;
            let file = std::io::BufWriter::new(file);
            let traces = passes::begin(&shown, "joining threads", traces, 1)?;
            merge::merge(&traces, file, &merged.display().to_string())?;
            Trace::open(&merged)?
        }
    };
    let one = passes::begin(&shown, "finding deaths", &[one], 2)?.remove(0);
    let found = deaths_in(&one, facts, output);
    passes::clear(&shown);
    drop(scratch);
    found
}

/// As [`deaths`], of one raw trace.
fn deaths_in(one: &Trace, facts: &Known, output: &Path) -> Result<Found, LabError> {
    let name = output.display().to_string();
    if one.header().deaths == Deaths::AtCollections {
        let (out, found) = groups::write(one, facts, Output::create(output)?, &name)?;
        out.complete()?;
        return Ok(found);
    }
    if !one.header().raw {
        return Err(LabError::usage(format!(
            "{} is no raw trace: it has no reference stores",
            one.name()
        )));
    }
    let out = Output::create(output)?;
    let (out, found) = add_deaths::write(one, facts, table(output)?, out, &name)?;
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
fn table(output: &Path) -> Result<File, LabError> {
    let mut name = output.as_os_str().to_owned();
    name.push(".table");
    let path = PathBuf::from(name);
    let options = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .to_owned();
    let file = options.open(&path).map_err(LabError::path(&path))?;
    fs::remove_file(&path).map_err(LabError::path(&path))?;
    Ok(file)
}

/// Tells what was seen, and what the machine says.
fn summary(output: &Path, found: &Found, known: &Known) {
    let number = |key: &str| known.get(key).and_then(|value| value.parse::<u64>().ok());
    say(format_args!(
        "{}: {} objects, {} bytes ({}), of which at most {} lived at one time; {} died",
        output.display(),
        found.objects,
        found.bytes,
        Human(found.bytes),
        Human(found.largest_live),
        found.deaths
    ));
    let counted = known.get(machine_counts::FACT).map(String::as_str);
    if let Some(counted) = Counted::of(found.bytes, counted) {
        say(format_args!("{counted}"));
        if let Some(warning) = counted.warning() {
            say(format_args!("warning: {warning}"));
        }
    }
    if let (Some(objects @ 1..), Some(bytes)) = (number("objects-before"), number("bytes-before")) {
        say(format_args!(
            "not in the trace: {objects} objects ({}) that were there before the program's first line",
            Human(bytes)
        ));
    }
    if let Some(few @ ..FEW) = number("collections") {
        say(format_args!(
            "warning: {few} collections looked for dead objects: when objects died is known roughly (without \
             --sampled it is known exactly)"
        ));
    }
    if number("own-cycles").is_some() {
        say(format_args!(
            "warning: this collector does not collect young objects often, nor once more at the end: an \
             object counts as alive until one of its cycles finds it dead (Serial, Parallel and G1 tell more)"
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
            "left out: {} times that a thread used a monitor and was not seen to enter it (it entered before \
             the recording began, or as a virtual thread, which moves)",
            found.monitors
        ));
    }
}
