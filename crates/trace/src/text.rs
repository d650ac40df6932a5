//! Traces as lines that a person reads and writes, and as CSV.
//!
//! ```text
//! trace 1
//! unit ns
//! fact program lusearch
//! name class 5 java.lang.String
//! 0 alloc object=17 size=24 class=5
//! 0 death object=17
//! 0 end
//! ```

use crate::error::TraceError;
use crate::event::{Event, ThreadId, TimeUnit};
use crate::fields::{FIELDS, Given, fields};
use crate::header::{Deaths, Header, MAX_FACTS};
use crate::names::{MAX_NAME, Named, Names};
use crate::order::Filed;
use crate::reader::Trace;
use crate::writer::Writer;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

/// The first line of a trace in text.
const FIRST: &str = "trace 1";
/// The most bytes of a line: all facts or a name, with every character escaped, and what stands before it.
const MAX_LINE: u64 = 10 * (MAX_FACTS + MAX_NAME) as u64 + 128;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people; nothing is lost.
    Text,
    /// Comma-separated values, a column for each field; without the head of the trace and without names.
    Csv,
}

/// Writes a trace as lines, its streams piece by piece in the order in which the file has their blocks.
///
/// # Errors
/// Those of reading the trace; [`TraceError::Io`] of `out`, which is called `name`.
pub fn write(trace: &Trace, form: Form, out: &mut dyn Write, name: &str) -> Result<(), TraceError> {
    let name: Arc<str> = name.into();
    let io = || TraceError::io(&name);
    match form {
        Form::Text => {
            write_header(trace.header(), out).map_err(io())?;
            write_names(&trace.names()?, out).map_err(io())?;
        }
        Form::Csv => writeln!(out, "thread,event,{}", FIELDS.join(",")).map_err(io())?,
    }
    for next in Filed::new(trace) {
        let (thread, event) = next?;
        line(thread, &event, form, out).map_err(io())?;
    }
    out.flush().map_err(io())
}

/// Writes one event as a line.
///
/// # Errors
/// Those of `out`.
pub fn line(thread: ThreadId, event: &Event, form: Form, out: &mut dyn Write) -> io::Result<()> {
    match form {
        Form::Text => {
            write!(out, "{thread} {}", event.name())?;
            for (name, value) in fields(event) {
                write!(out, " {name}={value}")?;
            }
        }
        Form::Csv => {
            write!(out, "{thread},{}", event.name())?;
            for field in FIELDS {
                match fields(event).find(|(name, _)| *name == field) {
                    Some((_, value)) => write!(out, ",{value}")?,
                    None => write!(out, ",")?,
                }
            }
        }
    }
    writeln!(out)
}

fn write_header(header: &Header, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{FIRST}")?;
    let unit = match header.unit {
        TimeUnit::Nanoseconds => "ns",
        TimeUnit::Instructions => "instructions",
    };
    let deaths = match header.deaths {
        Deaths::Exact => "exact",
        Deaths::AtCollections => "at-collections",
        Deaths::Unknown => "unknown",
    };
    writeln!(out, "unit {unit}\ndeaths {deaths}")?;
    if header.raw {
        writeln!(out, "raw")?;
    }
    let identity: String = header
        .identity
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    writeln!(out, "identity {identity}")?;
    for (key, value) in &header.facts {
        writeln!(out, "fact {} {}", escape(key), escape(value))?;
    }
    Ok(())
}

fn write_names(names: &Names, out: &mut dyn Write) -> io::Result<()> {
    for ((what, number), name) in names {
        writeln!(out, "name {} {number} {}", what.word(), escape(name))?;
    }
    Ok(())
}

/// Spaces, the escape itself, and what is neither letter nor sign of ASCII, so that a word is one word, a
/// line is one line, and nothing reaches a terminal that steers it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            ' ' => escaped.push_str("\\s"),
            c if !c.is_ascii_graphic() && !c.is_alphanumeric() => {
                escaped.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let wrong = || format!("`{text}` has a wrong escape; there are \\\\, \\s and \\u{{…}}");
        rest = if let Some(rest) = after.strip_prefix('\\') {
            plain.push('\\');
            rest
        } else if let Some(rest) = after.strip_prefix('s') {
            plain.push(' ');
            rest
        } else {
            let (hex, rest) = after
                .strip_prefix("u{")
                .and_then(|it| it.split_once('}'))
                .ok_or_else(wrong)?;
            let code = u32::from_str_radix(hex, 16).map_err(|_| wrong())?;
            plain.push(char::from_u32(code).ok_or_else(wrong)?);
            rest
        };
    }
    plain.push_str(rest);
    Ok(plain)
}

/// Makes a trace of lines. Which form they have, the first line says. CSV has no head: it gets `header`.
///
/// # Errors
/// [`TraceError::Text`] with the line that is wrong; [`TraceError::Io`].
pub fn read<W: Write>(
    from: &mut dyn BufRead,
    name: &str,
    header: &Header,
    into: W,
) -> Result<W, TraceError> {
    let mut lines = Lines {
        from,
        trace: name.into(),
        line: String::new(),
        number: 0,
    };
    let first = lines.next()?.unwrap_or_default().to_owned();
    let mut reading = Reading::new(into);
    match first.as_str() {
        FIRST => {
            while let Some(line) = lines.next()? {
                let taken = reading.take(line);
                taken.map_err(|why| lines.wrong(why))?;
            }
        }
        csv if csv.starts_with("thread,event,") => {
            reading.header = header.clone();
            let columns: Vec<&str> = csv.split(',').skip(2).collect();
            while let Some(line) = lines.next()? {
                let taken = reading.take_csv(line, &columns);
                taken.map_err(|why| lines.wrong(why))?;
            }
        }
        _ => {
            let hint =
                format!("a trace in text begins with `{FIRST}`, one in CSV with `thread,event,`");
            return Err(lines.wrong(hint));
        }
    }
    let finished = reading.finish();
    finished.map_err(|why| lines.wrong(why))
}

struct Lines<'a> {
    from: &'a mut dyn BufRead,
    trace: Arc<str>,
    line: String,
    number: u64,
}

impl Lines<'_> {
    /// The next line that is neither empty nor a comment.
    fn next(&mut self) -> Result<Option<&str>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut limited = io::Read::take(&mut *self.from, MAX_LINE);
            let read = limited.read_line(&mut self.line);
            let read = read.map_err(|source| match source.kind() {
                io::ErrorKind::InvalidData => self.wrong("it is no UTF-8".into()),
                _ => TraceError::io(&self.trace)(source),
            })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == MAX_LINE {
                return Err(self.wrong(format!("it is longer than {MAX_LINE} bytes")));
            }
            if !self.line.trim().is_empty() && !self.line.starts_with('#') {
                return Ok(Some(self.line.trim_end()));
            }
        }
    }

    fn wrong(&self, why: String) -> TraceError {
        TraceError::Text {
            trace: self.trace.clone(),
            line: self.number,
            why,
        }
    }
}

/// A trace that is being made of lines: its head is collected until the first event or name comes.
struct Reading<W: Write> {
    header: Header,
    into: Option<W>,
    writer: Option<Writer<W>>,
}

impl<W: Write> Reading<W> {
    fn new(into: W) -> Self {
        Reading {
            header: Header::default(),
            into: Some(into),
            writer: None,
        }
    }

    fn writer(&mut self) -> Result<&mut Writer<W>, String> {
        if let Some(into) = self.into.take() {
            let writer = Writer::new(into, "the trace", &self.header);
            self.writer = Some(writer.map_err(|error| error.to_string())?);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| "the trace could not be begun".into())
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        if first.starts_with(|c: char| c.is_ascii_digit()) {
            let thread = thread(first)?;
            let name = words.next().ok_or("the event is missing")?;
            let mut given = Given::new();
            for word in words {
                let (field, value) = word
                    .split_once('=')
                    .ok_or_else(|| format!("`{word}` has no `=`"))?;
                given.take(field, value)?;
            }
            return self.push(thread, &given.event(name)?);
        }
        let second = words.next().unwrap_or_default();
        if first == "name" {
            let what = Named::ALL.into_iter().find(|what| what.word() == second);
            let what =
                what.ok_or_else(|| format!("nothing that is called `{second}` has a name"))?;
            let number = words.next().and_then(|it| it.parse().ok());
            let number = number.ok_or("the number of what is named is missing")?;
            let name = unescape(words.next().unwrap_or_default())?;
            let named = self.writer()?.name(what, number, &name);
            return named.map_err(|error| error.to_string());
        }
        if self.writer.is_some() {
            return Err(format!("`{first}` has to stand before names and events"));
        }
        self.head(first, second, words.next())
    }

    fn head(&mut self, first: &str, second: &str, third: Option<&str>) -> Result<(), String> {
        match (first, second) {
            ("unit", "ns") => self.header.unit = TimeUnit::Nanoseconds,
            ("unit", "instructions") => self.header.unit = TimeUnit::Instructions,
            ("deaths", "exact") => self.header.deaths = Deaths::Exact,
            ("deaths", "at-collections") => self.header.deaths = Deaths::AtCollections,
            ("deaths", "unknown") => self.header.deaths = Deaths::Unknown,
            ("raw", "") => self.header.raw = true,
            ("identity", hex) => {
                let wrong = || format!("`{hex}` is no identity: give 32 digits of base 16");
                let number = u128::from_str_radix(hex, 16).map_err(|_| wrong())?;
                self.header.identity = number.to_be_bytes();
            }
            ("fact", key) => {
                let value = unescape(third.unwrap_or_default())?;
                self.header.facts.insert(unescape(key)?, value);
            }
            _ => return Err(format!("`{first} {second}` means nothing here")),
        }
        Ok(())
    }

    fn take_csv(&mut self, line: &str, columns: &[&str]) -> Result<(), String> {
        let mut values = line.split(',');
        let thread = thread(values.next().unwrap_or_default())?;
        let name = values.next().ok_or("the event is missing")?;
        let mut given = Given::new();
        let mut columns = columns.iter();
        for value in values {
            let column = columns
                .next()
                .ok_or("it has more values than there are columns")?;
            if !value.is_empty() {
                given.take(column, value)?;
            }
        }
        let event = given.event(name)?;
        self.push(thread, &event)
    }

    fn push(&mut self, thread: ThreadId, event: &Event) -> Result<(), String> {
        self.writer()?
            .push(thread, event)
            .map_err(|error| match error {
                TraceError::Event { why, .. } => why.to_string(),
                other => other.to_string(),
            })
    }

    fn finish(mut self) -> Result<W, String> {
        self.writer()?;
        let writer = self.writer.ok_or("the trace could not be begun")?;
        writer.finish().map_err(|error| error.to_string())
    }
}

fn thread(text: &str) -> Result<ThreadId, String> {
    let number = text.parse();
    number
        .map(ThreadId)
        .map_err(|_| format!("`{text}` is no number of a thread"))
}
