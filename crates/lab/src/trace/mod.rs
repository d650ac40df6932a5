//! `plimsoll trace`: looks at traces, checks, converts, merges and makes them up.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `machine_counts` | what the machine counted, beside what a trace has |
//! | `info` | what a trace is of, and what is found in it, as text and as JSON |
//! | `passes` | how far a search for deaths is, on a terminal |
//! | `record` | a Java program recorded |
//!
//! The work is that of [`plimsoll_trace`].

mod info;
mod machine_counts;
mod passes;
mod record;

use crate::args::trace::{
    Command, ComputeDeaths, Convert, Form as Target, Head, Info, Merge, Synth, Trace as Asked,
    Verify,
};
use crate::error::LabError;
use plimsoll_cli::error::FAILED;
use plimsoll_cli::output::Output;
use plimsoll_cli::{
    json,
    output::{print, printed, say},
};
use plimsoll_trace::order::{Filed, Recorded};
use plimsoll_trace::synth::{self, table};
use plimsoll_trace::text::{self, Form};
use plimsoll_trace::{Ending, Event, Header, ThreadId, Trace, TraceError, Writer, check, merge};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of a buffer for a file of text.
const BUFFER: usize = 256 << 10;

/// Does what is asked for.
///
/// # Errors
/// When a trace cannot be read or written.
pub fn run(asked: &Asked) -> Result<u8, LabError> {
    let Some(command) = &asked.command else {
        return record::run(&asked.record);
    };
    match command {
        Command::Info(args) => show_info(args),
        Command::Verify(args) => verify(args),
        Command::Head(args) => head(args),
        Command::Convert(args) => convert(args),
        Command::Merge(args) => merge(args),
        Command::Deaths(args) => deaths(args),
        Command::Synth(args) => synth(args),
    }
}

/// Opens a trace. For the folder of a recording, the error says how to make a trace of it.
///
/// # Errors
/// It cannot be read, or is no trace.
pub(crate) fn opened(path: &Path) -> Result<Trace, LabError> {
    if path.is_dir() {
        let path = path.display();
        return Err(LabError::usage(format!(
            "{path} is a folder: if a recording left it, `plimsoll trace deaths {path} -o FILE` makes a \
             trace of it"
        )));
    }
    Ok(Trace::open(path)?)
}

/// Opens a trace, and warns if it is not whole.
fn open(path: &Path) -> Result<Trace, LabError> {
    let trace = opened(path)?;
    if let Ending::Cut { offset, why } = trace.ending() {
        let name = trace.name();
        say(format_args!(
            "warning: {name} is cut at byte {offset} ({why}); what stands before is read"
        ));
    }
    Ok(trace)
}

/// Opens traces that stay open beside each other.
fn open_all(paths: &[PathBuf]) -> Result<Vec<Trace>, LabError> {
    record::allow_many_files();
    paths.iter().map(|path| open(path)).collect()
}

fn show_info(args: &Info) -> Result<u8, LabError> {
    let trace = opened(&args.trace)?;
    let info = info::Info::of(&trace)?;
    if args.json {
        return Ok(printed(json::write(&info, true, &mut io::stdout().lock()))?);
    }
    Ok(print(&info.to_string(args.threads))?)
}

fn verify(args: &Verify) -> Result<u8, LabError> {
    let trace = opened(&args.trace)?;
    let report = check::check(&trace)?;
    if args.json {
        print(&info::report_json(&trace, &report))?;
    } else {
        print(&info::report_text(&trace, &report))?;
    }
    Ok(if report.faults_count == 0 { 0 } else { FAILED })
}

fn head(args: &Head) -> Result<u8, LabError> {
    let trace = open(&args.trace)?;
    let (skip, most) = (args.skip, args.events);
    let limit = |events: &mut dyn Iterator<Item = Result<(ThreadId, Event), TraceError>>| {
        let mut out = BufWriter::new(io::stdout().lock());
        let from = usize::try_from(skip).unwrap_or(usize::MAX);
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        let mut wrote = Ok(());
        for next in events.skip(from).take(count) {
            let (thread, event) = next?;
            wrote = text::line(thread, &event, Form::Text, &mut out);
            if wrote.is_err() {
                break;
            }
        }
        Ok::<u8, LabError>(printed(wrote.and_then(|()| out.flush()))?)
    };
    match args.thread {
        Some(number) => {
            let thread = ThreadId(number);
            limit(
                &mut trace
                    .stream(thread)?
                    .map(|event| event.map(|event| (thread, event))),
            )
        }
        None => limit(&mut Recorded::new(&trace)?),
    }
}

fn convert(args: &Convert) -> Result<u8, LabError> {
    let name = args.from.display().to_string();
    let mut input: Box<dyn BufRead> = if args.from.as_os_str() == "-" {
        Box::new(BufReader::with_capacity(BUFFER, io::stdin()))
    } else {
        let file = File::open(&args.from).map_err(LabError::path(&args.from))?;
        Box::new(BufReader::with_capacity(BUFFER, file))
    };
    let start = input.fill_buf().map_err(LabError::path(&args.from))?;
    let is_trace = start.starts_with(&plimsoll_trace::header::MAGIC);
    match (is_trace, args.to) {
        (true, Some(Target::Trace)) => again(&open(&args.from)?, args),
        (true, form) => {
            let form = match form {
                Some(Target::Csv) => Form::Csv,
                _ => Form::Text,
            };
            lines(&open(&args.from)?, form, args.place())
        }
        (false, None | Some(Target::Trace)) => {
            let header = Header {
                raw: args.raw,
                ..Header::default()
            };
            let out = Output::create(needed(args.place())?)?;
            let out = text::read(&mut *input, &name, &header, out)?;
            out.complete()?;
            Ok(0)
        }
        (false, Some(_)) => Err(unreadable(input, &name)),
    }
}

/// Why what is no trace cannot become text: the error of opening it says what it is.
fn unreadable(mut input: Box<dyn BufRead>, name: &str) -> LabError {
    let mut start = Vec::new();
    let read = input.by_ref().take(64).read_to_end(&mut start);
    match read.map(|_| Trace::from_source(std::sync::Arc::new(start), name)) {
        Ok(Err(error)) => error.into(),
        _ => LabError::usage(format!(
            "{name} is no trace, so it can only become one: leave --to away"
        )),
    }
}

fn needed(output: Option<&Path>) -> Result<&Path, LabError> {
    output.ok_or_else(|| LabError::usage("a trace is not for terminals: give its file with -o"))
}

fn lines(trace: &Trace, form: Form, output: Option<&Path>) -> Result<u8, LabError> {
    match output {
        Some(path) => {
            let mut out = Output::create(path)?;
            text::write(trace, form, &mut out, &path.display().to_string())?;
            out.complete()?;
            Ok(0)
        }
        None => {
            let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            match text::write(trace, form, &mut out, "standard output") {
                Err(TraceError::Io { source, .. }) => Ok(printed(Err(source))?),
                other => Ok(other.map(|()| 0)?),
            }
        }
    }
}

/// Writes a trace again, such as with another level of compression.
fn again(trace: &Trace, args: &Convert) -> Result<u8, LabError> {
    let path = needed(args.place())?;
    let out = Output::create(path)?;
    let mut writer = Writer::new(out, &path.display().to_string(), trace.header())?;
    if let Some(level) = args.level {
        writer.level(level)?;
    }
    for ((what, number), name) in &trace.names()? {
        writer.name(*what, *number, name)?;
    }
    for next in Filed::new(trace) {
        let (thread, event) = next?;
        writer.push(thread, &event)?;
    }
    if let Some(bytes) = trace.largest_live() {
        writer.largest_live(bytes);
    }
    writer.finish()?.complete()?;
    Ok(0)
}

fn merge(args: &Merge) -> Result<u8, LabError> {
    let opened = open_all(&args.traces)?;
    let out = Output::create(&args.output)?;
    let out = merge::merge(&opened, out, &args.output.display().to_string())?;
    out.complete()?;
    Ok(0)
}

fn deaths(args: &ComputeDeaths) -> Result<u8, LabError> {
    if let [folder] = args.traces.as_slice()
        && folder.is_dir()
    {
        let (traces, known) = (record::traces_in(folder)?, record::known_in(folder));
        if traces.is_empty() {
            return Err(LabError::usage(format!(
                "{} has no traces: nothing was recorded there",
                folder.display()
            )));
        }
        return record::from_folder(&traces, &known, &args.output).map(|()| 0);
    }
    let opened = open_all(&args.traces)?;
    let mut known = record::Known::new();
    for trace in &opened {
        known.extend(trace.header().facts.clone());
    }
    record::complete(&opened, &known, &args.output).map(|()| 0)
}

fn synth(args: &Synth) -> Result<u8, LabError> {
    let program = table::find(&args.program);
    let program =
        program.ok_or_else(|| LabError::usage(format!("no program is called {}", args.program)))?;
    let options = synth::Options {
        scale: args.scale,
        shorten: args.shorten,
        seed: args.seed,
    };
    let out = Output::create(&args.output)?;
    let out = synth::write(program, &options, out, &args.output.display().to_string())?;
    out.complete()?;
    Ok(0)
}
