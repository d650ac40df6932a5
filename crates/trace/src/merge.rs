//! One trace of several files of the same recording, such as one of each thread.

use crate::error::TraceError;
use crate::event::ThreadId;
use crate::names::Names;
use crate::order::Filed;
use crate::reader::Trace;
use crate::writer::Writer;
use std::collections::BTreeMap;
use std::io::Write;

/// Writes the streams of all traces into one, whose header is that of the first with the facts of all.
///
/// # Errors
/// [`TraceError::Merge`] if the traces are not of one recording, or two have a stream of the same thread or
/// different names for the same thing; those of reading and of writing.
pub fn merge<W: Write>(traces: &[Trace], into: W, name: &str) -> Result<W, TraceError> {
    merge_with(traces, &BTreeMap::new(), into, name)
}

/// As [`merge`], with facts more.
///
/// # Errors
/// As [`merge`].
pub fn merge_with<W: Write>(
    traces: &[Trace],
    facts: &BTreeMap<String, String>,
    into: W,
    name: &str,
) -> Result<W, TraceError> {
    let mut header = traces
        .first()
        .map(|it| it.header().clone())
        .unwrap_or_default();
    for trace in traces {
        let facts = trace.header().facts.iter();
        for (key, value) in facts {
            header
                .facts
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }
    header.facts.extend(facts.clone());
    let mut writer = Writer::new(into, name, &header)?;
    let names = agree(traces)?;
    for ((what, number), name) in &names {
        writer.name(*what, *number, name)?;
    }
    for trace in traces {
        for next in Filed::new(trace) {
            let (thread, event) = next?;
            writer.push(thread, &event)?;
        }
    }
    if let [only] = traces
        && let Some(bytes) = only.largest_live()
    {
        writer.largest_live(bytes);
    }
    writer.finish()
}

/// All names, once it is sure that the traces fit together.
fn agree(traces: &[Trace]) -> Result<Names, TraceError> {
    let mut all = Names::new();
    let Some(first) = traces.first() else {
        return Ok(all);
    };
    let mut owners: BTreeMap<ThreadId, &Trace> = BTreeMap::new();
    for trace in traces {
        let apart = |other: &Trace, why: String| TraceError::Merge {
            first: other.name().clone(),
            second: trace.name().clone(),
            why,
        };
        let (mine, theirs) = (trace.header(), first.header());
        if mine.identity != theirs.identity {
            return Err(apart(first, "they are of different recordings".into()));
        }
        if (mine.unit, mine.deaths, mine.raw) != (theirs.unit, theirs.deaths, theirs.raw) {
            return Err(apart(
                first,
                "they differ in their unit of time, in their deaths or in being raw".into(),
            ));
        }
        for thread in trace.streams().keys() {
            if let Some(other) = owners.insert(*thread, trace) {
                return Err(apart(
                    other,
                    format!("both have a stream of thread {thread}"),
                ));
            }
        }
        for (key, name) in trace.names()? {
            if let Some(other) = all.get(&key).filter(|other| **other != name) {
                let (what, number) = (key.0.word(), key.1);
                return Err(apart(
                    first,
                    format!("{what} {number} is `{other}` in one and `{name}` in another"),
                ));
            }
            all.insert(key, name);
        }
    }
    Ok(all)
}
