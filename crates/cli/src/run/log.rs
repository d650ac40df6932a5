//! Our own messages: on standard error, prefixed `plimsoll:`: warnings, and notices (`NOTICE`), unless more
//! (`-v`, `PLIMSOLL_LOG=debug`) or less (`-q`) is asked for.

use crate::error::CliError;
use crate::terminal_text::plainly;
use plimsoll_kernel::environment::variable;
use plimsoll_wire::checks::is_printable;
use std::fmt;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The target of events that say in one line what was done: that a program was adopted, how one ended.
pub(crate) const NOTICE: &str = "notice";

/// Tells people what was done. Nobody is told who asked for quiet, or chose a level that leaves it out.
macro_rules! notice {
    ($($what:tt)*) => { tracing::info!(target: crate::run::log::NOTICE, $($what)*) };
}
pub(crate) use notice;

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Only warnings.
    Quiet,
    /// Warnings and notices.
    #[default]
    Plain,
    /// Each step.
    Verbose,
}

impl Tone {
    /// The tone by the flags `-q` and `-v`.
    pub fn of(quiet: bool, verbose: bool) -> Tone {
        match (quiet, verbose) {
            (true, _) => Tone::Quiet,
            (false, true) => Tone::Verbose,
            (false, false) => Tone::Plain,
        }
    }
}

/// Starts the log. `path`: a file to use instead of standard error, which gets all messages.
///
/// # Errors
/// When the file cannot be opened.
pub fn start(tone: Tone, path: Option<&Path>) -> Result<(), CliError> {
    let file = path.filter(|path| path.as_os_str() != "-");
    let asked = variable("PLIMSOLL_LOG");
    let asked: Option<Level> = asked.and_then(|level| level.to_str()?.parse().ok());
    let all = Targets::new();
    let filter = match (asked, tone) {
        (Some(level), _) => all.with_default(level),
        (None, Tone::Verbose) => all.with_default(Level::INFO),
        (None, _) if file.is_some() => all.with_default(Level::INFO),
        (None, Tone::Quiet) => all.with_default(Level::WARN),
        (None, Tone::Plain) => all
            .with_default(Level::WARN)
            .with_target(NOTICE, Level::INFO),
    };
    let writer = match file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            BoxMakeWriter::new(Mutex::new(opened.map_err(CliError::path(path))?))
        }
    };
    let lines = tracing_subscriber::fmt::layer()
        // Do not panic if standard error is closed.
        .log_internal_errors(false)
        .event_format(Prefixed)
        .with_writer(writer);
    // A second start in one process (tests) keeps the first log.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
    Ok(())
}

/// `plimsoll: MESSAGE key=value`, one line an event.
struct Prefixed;

impl<S, N> FormatEvent<S, N> for Prefixed
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Line(String::new());
        event.record(&mut line);
        // Keep an event on one line, even if a file or a broker put line ends into it.
        let clean = plainly(&line.0).replace(|c: char| !is_printable(c), " ");
        writeln!(writer, "plimsoll: {}", clean.trim_end())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write as _;
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
