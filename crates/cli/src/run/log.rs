//! Our own messages: on standard error, prefixed `plimsoll:`, only warnings unless more is asked
//! for (`-v`, `PLIMSOLL_LOG=debug`).

use crate::error::CliError;
use plimsoll_kernel::environment::variable;
use plimsoll_wire::checks::is_printable;
use std::fmt;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts the log. `path`: a file to use instead of standard error, which gets all messages.
///
/// # Errors
/// When the file cannot be opened.
pub fn start(verbose: bool, path: Option<&Path>) -> Result<(), CliError> {
    let file = path.filter(|path| path.as_os_str() != "-");
    let asked = variable("PLIMSOLL_LOG");
    let level = match asked.and_then(|level| level.to_str()?.parse().ok()) {
        Some(level) => level,
        None if verbose || file.is_some() => Level::INFO,
        None => Level::WARN,
    };
    let builder = tracing_subscriber::fmt()
        // Do not panic if standard error is closed.
        .log_internal_errors(false)
        .with_max_level(level)
        .event_format(Prefixed);
    // A second start in one process (tests) keeps the first log.
    let _ = match file {
        None => builder.with_writer(std::io::stderr).try_init(),
        Some(path) => {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            let file = opened.map_err(CliError::path(path))?;
            builder.with_writer(Mutex::new(file)).try_init()
        }
    };
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
        let clean = line.0.replace(|c: char| !is_printable(c), " ");
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
