//! A raw trace made into one with deaths.

use super::last_use::LastUse;
use super::repair::Repair;
use super::{Merlin, Time, named};
use crate::error::TraceError;
use crate::event::{Event, ObjectId, ThreadId};
use crate::header::{Deaths, Header};
use crate::live::Live;
use crate::order::Recorded;
use crate::reader::Trace;
use crate::writer::Writer;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;

/// Events after which deaths are looked for, at least. That many are held: 10 MiB.
const WINDOW: usize = 1 << 18;

/// The priority of a thread that was given none.
const NORMAL_PRIORITY: u8 = 5;

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Events of the raw trace.
    pub events: u64,
    /// Objects allocated.
    pub objects: u64,
    /// Bytes allocated.
    pub bytes: u64,
    /// Objects that died.
    pub deaths: u64,
    /// The most bytes that lived at one time.
    pub largest_live: u64,
    /// Allocations of objects that lived already, left out.
    pub doubles: u64,
    /// Events of monitors that the thread did not hold, left out.
    pub monitors: u64,
    /// Waits in the monitor of a thread that were over before the thread ended, left out: they were no joins.
    pub waits: u64,
    /// Threads that did not end before the machine did.
    pub unended: u64,
}

/// Computes the deaths of a raw trace, and writes all but stores and uses. `table` is an empty file for what
/// does not fit into memory: 8 bytes an object. Memory is proportional to the objects that live at one time.
///
/// # Errors
/// Those of reading and of writing.
pub fn write<W: Write>(
    raw: &Trace,
    facts: &BTreeMap<String, String>,
    table: File,
    into: W,
    name: &str,
) -> Result<(W, Found), TraceError> {
    let mut last = LastUse::new(table, "the table of objects");
    let mut started = BTreeSet::new();
    for (time, next) in Recorded::new(raw)?.enumerate() {
        let (_, event) = next?;
        if let Event::Start { thread, .. } = event {
            started.insert(thread);
        }
        for object in named(&event) {
            last.set(object.0, time as Time)?;
        }
    }
    let writer = write_head(raw, Deaths::Exact, facts, into, name)?;
    let mut out = Out::new(raw, writer, started);
    let mut merlin = Merlin::default();
    let mut window: Vec<(ThreadId, Event)> = Vec::new();
    for next in Recorded::new(raw)? {
        let (thread, event) = next?;
        let mut last_time = 0;
        if let Event::Alloc { object, .. } = event {
            last_time = last.get(object.0)?;
        }
        if merlin.event(&event, |_| last_time) {
            window.push((thread, event));
        } else {
            out.found.doubles += 1;
            // The place in the window is the time.
            window.push((thread, Event::Compute { time: 0 }));
        }
        if window.len() >= WINDOW.max(merlin.objects()) {
            out.window(&mut window, merlin.now(), &merlin.collect())?;
        }
    }
    out.window(&mut window, merlin.now(), &merlin.collect())?;
    out.finish()
}

/// Begins the trace of a recording: its header with these deaths and further facts, and its names.
pub(super) fn write_head<W: Write>(
    raw: &Trace,
    deaths: Deaths,
    facts: &BTreeMap<String, String>,
    into: W,
    name: &str,
) -> Result<Writer<W>, TraceError> {
    let mut header = Header {
        raw: false,
        deaths,
        ..raw.header().clone()
    };
    header.facts.extend(facts.clone());
    let mut writer = Writer::new(into, name, &header)?;
    for ((what, number), name) in &raw.names()? {
        writer.name(*what, *number, name)?;
    }
    Ok(writer)
}

/// The trace that is being written.
pub(super) struct Out<'a, W: Write> {
    raw: &'a Trace,
    writer: Writer<W>,
    /// The thread of the last event.
    current: Option<ThreadId>,
    stamp: u64,
    /// Processor time that is not written yet.
    time: BTreeMap<ThreadId, u64>,
    live: Live,
    repair: Repair,
    found: Found,
}

impl<'a, W: Write> Out<'a, W> {
    /// Before the first event. `raw` shows which threads there are, and `started` which of them others start.
    pub(super) fn new(
        raw: &'a Trace,
        writer: Writer<W>,
        started: BTreeSet<ThreadId>,
    ) -> Out<'a, W> {
        Out {
            raw,
            writer,
            current: None,
            stamp: 0,
            time: BTreeMap::new(),
            live: Live::default(),
            repair: Repair::new(started),
            found: Found::default(),
        }
    }

    /// An object dies, because of what the thread did before.
    pub(super) fn dies(&mut self, thread: ThreadId, object: ObjectId) -> Result<(), TraceError> {
        self.live.dies(object.0);
        self.found.deaths += 1;
        self.put(thread, &Event::Death { object })
    }

    /// Writes the events of a window that ends now, each followed by the deaths after it.
    fn window(
        &mut self,
        events: &mut Vec<(ThreadId, Event)>,
        now: Time,
        deaths: &[(Time, ObjectId)],
    ) -> Result<(), TraceError> {
        let begin = now - events.len() as u64;
        let mut deaths = deaths.iter().peekable();
        for (index, (thread, event)) in events.drain(..).enumerate() {
            let time = begin + index as u64;
            self.event(thread, &event)?;
            while let Some((_, object)) = deaths.next_if(|(at, _)| *at <= time) {
                self.dies(thread, *object)?;
            }
            if event == Event::End {
                self.end(thread)?;
            }
        }
        Ok(())
    }

    /// An event that is no death, and may be left out.
    pub(super) fn event(&mut self, thread: ThreadId, event: &Event) -> Result<(), TraceError> {
        self.found.events += 1;
        match *event {
            // Deaths are those that are found; a raw trace that has some of its own is mistaken.
            Event::Stamp { .. } | Event::End | Event::Death { .. } => return Ok(()),
            Event::Compute { time } => {
                let sum = self.time.entry(thread).or_default();
                *sum = sum.saturating_add(time);
                return Ok(());
            }
            Event::Alloc { object, size, .. } => {
                self.live.born(object.0, size);
                self.found.objects += 1;
                self.found.bytes += size;
            }
            // A thread that did not get so far has no stream.
            Event::Start { thread: other, .. }
            | Event::Join { thread: other }
            | Event::Unpark { thread: other }
                if !self.raw.streams().contains_key(&other) =>
            {
                return Ok(());
            }
            Event::Join { thread: other } if !self.repair.has_ended(other) => {
                self.found.waits += 1;
                return Ok(());
            }
            _ if event.is_raw() => return Ok(()),
            _ => {}
        }
        if !self.repair.stands(thread, event) {
            return Ok(());
        }
        if let Event::Unpark { thread } = event {
            self.repair.unparks(*thread);
        }
        match event {
            Event::Wait { .. } | Event::Park { .. } | Event::Sleep { .. } => {
                self.resume(thread)?;
                self.repair.hold(thread, *event);
                Ok(())
            }
            _ => self.put(thread, event),
        }
    }

    fn put(&mut self, thread: ThreadId, event: &Event) -> Result<(), TraceError> {
        self.resume(thread)?;
        self.writer.push(thread, event)
    }

    /// Writes the events before the next one of a thread: its beginning, its last wait, and its processor
    /// time.
    fn resume(&mut self, thread: ThreadId) -> Result<(), TraceError> {
        if let Some(starter) = self.repair.begins(thread) {
            self.switch_to(starter)?;
            let priority = NORMAL_PRIORITY;
            self.writer
                .push(starter, &Event::Start { thread, priority })?;
        }
        self.switch_to(thread)?;
        for waited in self.repair.resumes(thread) {
            self.writer.push(thread, &waited)?;
        }
        if let Some(time) = self.time.remove(&thread) {
            self.writer.push(thread, &Event::Compute { time })?;
        }
        Ok(())
    }

    /// Records the following events after all that stand so far.
    fn switch_to(&mut self, thread: ThreadId) -> Result<(), TraceError> {
        if self.current == Some(thread) {
            return Ok(());
        }
        self.current = Some(thread);
        self.stamp += 1;
        self.writer
            .push(thread, &Event::Stamp { order: self.stamp })
    }

    /// A thread ends.
    pub(super) fn end(&mut self, thread: ThreadId) -> Result<(), TraceError> {
        for monitor in self.repair.release(thread) {
            self.put(thread, &Event::Exit { monitor })?;
        }
        self.put(thread, &Event::End)?;
        self.repair.ends(thread);
        Ok(())
    }

    /// Ends the threads that did not end, and the trace.
    pub(super) fn finish(mut self) -> Result<(W, Found), TraceError> {
        for thread in self.raw.streams().keys() {
            if !self.repair.has_ended(*thread) {
                self.found.unended += 1;
                // It waited when the machine ended, and nobody knows for what.
                self.repair.resumes(*thread);
                self.end(*thread)?;
            }
        }
        self.found.monitors = self.repair.left_out;
        self.found.largest_live = self.live.largest();
        self.writer.largest_live(self.found.largest_live);
        Ok((self.writer.finish()?, self.found))
    }
}
