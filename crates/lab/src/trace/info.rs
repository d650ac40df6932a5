//! The origin and the contents of a trace, as text and as JSON.

use super::machine_counts::{self, Counted};
use crate::error::LabError;
use plimsoll_cli::json;
use plimsoll_cli::rows::shown;
use plimsoll_cli::size::Human;
use plimsoll_trace::check::Report;
use plimsoll_trace::order::Filed;
use plimsoll_trace::{Deaths, Ending, Event, Named, Names, ThreadId, TimeUnit, Totals, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The longest fact that is shown, characters.
const LONGEST: usize = 200;

/// The JSON contract of `plimsoll trace info --json`. Fields may be added; none is removed.
#[derive(Debug, Serialize)]
pub(super) struct Info {
    trace: String,
    /// The format's version.
    format: u16,
    /// Whether the trace has its index at the end.
    whole: bool,
    /// Where it is cut, bytes, and why.
    cut: Option<Cut>,
    identity: String,
    facts: BTreeMap<String, String>,
    /// `ns` or `instructions`.
    unit: &'static str,
    /// `exact`, `at-collections` or `unknown`.
    deaths: &'static str,
    raw: bool,
    events: u64,
    objects: u64,
    /// Bytes allocated.
    bytes: u64,
    /// Processor time of all threads, in the unit.
    time: u64,
    /// Bytes, or null if the writer did not note it.
    largest_live: Option<u64>,
    threads: Vec<Thread>,
}

#[derive(Debug, Serialize)]
struct Cut {
    offset: u64,
    why: String,
}

#[derive(Debug, Serialize)]
struct Thread {
    thread: u32,
    name: Option<String>,
    events: u64,
    objects: u64,
    bytes: u64,
    time: u64,
    ended: bool,
}

impl Info {
    /// Takes the sums from the index; without one, reads the whole trace.
    pub(super) fn of(trace: &Trace) -> Result<Info, LabError> {
        let header = trace.header();
        let names = trace.names()?;
        let totals = totals(trace)?;
        let sum = |of: fn(&Totals) -> u64| totals.values().map(of).fold(0, u64::saturating_add);
        Ok(Info {
            trace: trace.name().to_string(),
            format: plimsoll_trace::header::VERSION,
            whole: *trace.ending() == Ending::Whole,
            cut: match trace.ending() {
                Ending::Whole => None,
                Ending::Cut { offset, why } => Some(Cut {
                    offset: *offset,
                    why: why.to_string(),
                }),
            },
            identity: header
                .identity
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            facts: header.facts.clone(),
            unit: match header.unit {
                TimeUnit::Nanoseconds => "ns",
                TimeUnit::Instructions => "instructions",
            },
            deaths: match header.deaths {
                Deaths::Exact => "exact",
                Deaths::AtCollections => "at-collections",
                Deaths::Unknown => "unknown",
            },
            raw: header.raw,
            events: sum(|it| it.events),
            objects: sum(|it| it.objects),
            bytes: sum(|it| it.allocated),
            time: sum(|it| it.time),
            largest_live: trace.largest_live(),
            threads: threads(&totals, &names),
        })
    }

    pub(super) fn to_string(&self, with_threads: bool) -> String {
        let mut text = format!("{}: format {}", shown(&self.trace, LONGEST), self.format);
        match &self.cut {
            None => text.push_str(", whole\n"),
            Some(cut) => {
                let _ = writeln!(text, ", cut at byte {} ({})", cut.offset, cut.why);
            }
        }
        if !self.facts.is_empty() {
            text.push_str("its writer says:\n");
        }
        for (key, value) in &self.facts {
            let _ = writeln!(
                text,
                "  {:<18} {}",
                shown(key, LONGEST),
                shown(&meaning(key, value), LONGEST)
            );
        }
        if !self.facts.is_empty() {
            text.push_str("it has:\n");
        }
        let raw = if self.raw { ", raw" } else { "" };
        let _ = writeln!(text, "{:<13} {}{raw}", "deaths", self.deaths);
        let _ = writeln!(text, "{:<13} {}", "threads", self.threads.len());
        let _ = writeln!(text, "{:<13} {}", "events", self.events);
        let _ = writeln!(text, "{:<13} {}", "objects", self.objects);
        let _ = writeln!(
            text,
            "{:<13} {} ({})",
            "allocated",
            self.bytes,
            Human(self.bytes)
        );
        let _ = match self.largest_live {
            Some(bytes) => writeln!(text, "{:<13} {bytes} ({})", "largest live", Human(bytes)),
            None => writeln!(
                text,
                "{:<13} not noted: `plimsoll trace verify` finds it",
                "largest live"
            ),
        };
        let _ = writeln!(text, "{:<13} {}", "computing", self.time(self.time));
        if with_threads {
            let _ = writeln!(
                text,
                "{:>7} {:>12} {:>12} {:>7} {:>14}  NAME",
                "THREAD", "EVENTS", "OBJECTS", "BYTES", "TIME"
            );
            for it in &self.threads {
                let _ = writeln!(
                    text,
                    "{:>7} {:>12} {:>12} {:>7} {:>14}  {}{}",
                    it.thread,
                    it.events,
                    it.objects,
                    Human(it.bytes).to_string(),
                    self.time(it.time),
                    shown(it.name.as_deref().unwrap_or("-"), LONGEST),
                    if it.ended { "" } else { " (does not end)" },
                );
            }
        }
        text
    }

    fn time(&self, time: u64) -> String {
        match self.unit {
            "ns" => format!("{:.3} s", time as f64 / 1e9),
            unit => format!("{time} {unit}"),
        }
    }
}

/// The value of a fact with its unit. A fact that the recorder does not write stays as it is.
fn meaning(key: &str, value: &str) -> String {
    let Ok(number) = value.parse::<u64>() else {
        return value.to_owned();
    };
    match key {
        "time" | "processor-time" => format!("{:.3} s", number as f64 / 1e9),
        machine_counts::FACT | "bytes-before" => format!("{number} bytes ({})", Human(number)),
        "objects-before" => format!("{number} objects before the program's first line"),
        "doubles" => format!("{number} objects got numbers that others had"),
        "unchanged" => format!("{number} classes and methods could not be rewritten"),
        "collections" => format!("{number} pauses of the collector"),
        "status" => format!("{number} (of the program's end)"),
        _ => value.to_owned(),
    }
}

fn threads(totals: &BTreeMap<ThreadId, Totals>, names: &Names) -> Vec<Thread> {
    let row = |(thread, it): (&ThreadId, &Totals)| Thread {
        thread: thread.0,
        name: names.get(&(Named::Thread, thread.0.into())).cloned(),
        events: it.events,
        objects: it.objects,
        bytes: it.allocated,
        time: it.time,
        ended: it.ended,
    };
    totals.iter().map(row).collect()
}

/// The sums of all streams.
fn totals(trace: &Trace) -> Result<BTreeMap<ThreadId, Totals>, LabError> {
    let noted = trace
        .streams()
        .iter()
        .map(|(thread, info)| Some((*thread, info.totals?)));
    if let Some(totals) = noted.collect::<Option<BTreeMap<ThreadId, Totals>>>() {
        return Ok(totals);
    }
    let mut totals: BTreeMap<ThreadId, Totals> = BTreeMap::new();
    for next in Filed::new(trace) {
        let (thread, event) = next?;
        let it = totals.entry(thread).or_default();
        it.events += 1;
        match event {
            Event::Alloc { size, .. } => {
                it.objects += 1;
                it.allocated = it.allocated.saturating_add(size);
            }
            Event::Compute { time } => it.time = it.time.saturating_add(time),
            Event::End => it.ended = true,
            _ => {}
        }
    }
    Ok(totals)
}

/// The JSON contract of `plimsoll trace verify --json`.
#[derive(Debug, Serialize)]
struct Verified {
    faults: u64,
    /// The first of them.
    messages: Vec<String>,
    objects: u64,
    bytes: u64,
    largest_live: Option<u64>,
    immortal_objects: u64,
    immortal_bytes: u64,
    largest_object: u64,
    very_large_objects: u64,
    early_deaths: u64,
    /// Bytes that the machine counted as allocated, or null.
    bytes_by_machine: Option<u64>,
    /// Findings that are no faults, but cast doubt on the trace.
    warnings: Vec<String>,
}

fn sums(report: &Report) -> (u64, u64) {
    let sum = |of: fn(&Totals) -> u64| report.streams.values().map(of).fold(0, u64::saturating_add);
    (sum(|it| it.objects), sum(|it| it.allocated))
}

pub(super) fn report_json(trace: &Trace, report: &Report) -> String {
    let (objects, bytes) = sums(report);
    let counted = Counted::in_trace(bytes, trace.header());
    json::pretty(&Verified {
        faults: report.faults_count,
        messages: report.faults.iter().map(ToString::to_string).collect(),
        objects,
        bytes,
        largest_live: report.largest_live,
        immortal_objects: report.immortal.0,
        immortal_bytes: report.immortal.1,
        largest_object: report.largest_object,
        very_large_objects: report.very_large,
        early_deaths: report.early_deaths,
        bytes_by_machine: counted.map(Counted::machine),
        warnings: counted.and_then(Counted::warning).into_iter().collect(),
    })
}

pub(super) fn report_text(trace: &Trace, report: &Report) -> String {
    let mut text = String::new();
    for fault in &report.faults {
        let _ = writeln!(text, "{}", shown(&fault.to_string(), 4 * LONGEST));
    }
    let more = report.faults_count - report.faults.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    let (objects, bytes) = sums(report);
    let name = shown(trace.name(), LONGEST);
    let verdict = match report.faults_count {
        0 => "makes sense".to_owned(),
        1 => "1 fault".to_owned(),
        count => format!("{count} faults"),
    };
    let threads = report.streams.len();
    let _ = writeln!(
        text,
        "{name}: {verdict}; {threads} threads, {objects} objects, {} allocated",
        Human(bytes)
    );
    if let Some(warning) = Counted::in_trace(bytes, trace.header()).and_then(Counted::warning) {
        let _ = writeln!(text, "warning: {warning}");
    }
    let _ = match report.largest_live {
        Some(bytes) => writeln!(text, "largest live size {bytes} bytes ({})", Human(bytes)),
        None => writeln!(
            text,
            "largest live size unknown: without a stamp at the beginning of every stream, the recorded \
             order is not known"
        ),
    };
    let (objects, bytes) = report.immortal;
    let _ = writeln!(text, "without a death: {objects} objects, {}", Human(bytes));
    if report.very_large > 0 {
        let (count, largest) = (report.very_large, Human(report.largest_object));
        let _ = writeln!(
            text,
            "very large: {count} objects of a gigabyte or more, the largest {largest}"
        );
    }
    if report.early_deaths > 0 {
        let count = report.early_deaths;
        let _ = writeln!(
            text,
            "{count} objects die in streams that come before those that allocate them"
        );
    }
    text
}
