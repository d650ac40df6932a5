//! Writing a trace, in memory that does not grow with the number of events.

use crate::block::{Codec, HEAD, Head, Kind, MAX_CONTENT};
use crate::codec::{Columns, Position};
use crate::error::{At, EventFault, TraceError};
use crate::event::{Event, MAX_THREADS, ThreadId};
use crate::header::Header;
use crate::index::{self, Entry, Totals};
use crate::names::{self, Named};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// The most bytes that a stream collects before they become a block. 400 threads take 13 MiB then.
const BLOCK: usize = 32 << 10;
/// The most bytes that one event adds: two tags' worth of columns, and a number in each.
const EVENT: usize = 64;
const _: () = assert!(BLOCK + EVENT + 256 <= MAX_CONTENT);
/// How hard zstd works, 1 to 19. Level 1 is fast enough for a recorder, and 3 makes files a few percent
/// smaller.
pub const USUAL_LEVEL: i32 = 3;

/// Writes a trace: events of any threads in any order, those of one thread in theirs.
///
/// 1. [`Writer::create`], 2. [`Writer::name`] and [`Writer::push`] in any order, 3. [`Writer::finish`]. A
///    trace that is not finished can be read up to its last whole block.
#[derive(Debug)]
pub struct Writer<W: Write> {
    trace: Arc<str>,
    into: W,
    /// Whether raw events are taken.
    raw: bool,
    /// Bytes written so far.
    written: u64,
    streams: Vec<Stream>,
    by_thread: HashMap<ThreadId, usize>,
    /// The stream of the last event, which the next one most often has, too.
    current: usize,
    names: Vec<u8>,
    names_count: u32,
    index: Vec<Entry>,
    packer: Packer,
}

/// Compresses the content of a block.
struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    content: Vec<u8>,
    stored: Vec<u8>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Stream {
    thread: ThreadId,
    columns: Columns,
    /// Where the block that is collected begins.
    begin: Position,
    /// Where the stream stands.
    at: Position,
    ended: bool,
}

impl Writer<BufWriter<File>> {
    /// Creates a file, or replaces it.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the file cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(TraceError::io(&name.as_str().into()))?;
        Writer::new(BufWriter::with_capacity(1 << 18, file), &name, header)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to anything; `name` is what errors call it.
    ///
    /// # Errors
    /// [`TraceError::Io`] if it cannot be written.
    pub fn new(into: W, name: &str, header: &Header) -> Result<Self, TraceError> {
        let trace: Arc<str> = name.into();
        let compressor = zstd::bulk::Compressor::new(USUAL_LEVEL);
        let mut writer = Writer {
            into,
            raw: header.raw,
            written: 0,
            streams: Vec::new(),
            by_thread: HashMap::new(),
            current: 0,
            names: Vec::new(),
            names_count: 0,
            index: Vec::new(),
            packer: Packer {
                compressor: compressor.map_err(TraceError::io(&trace))?,
                content: Vec::with_capacity(BLOCK + EVENT + 256),
                stored: Vec::new(),
            },
            trace,
        };
        writer.write(&header.to_bytes())?;
        Ok(writer)
    }

    /// Sets how hard zstd works, 1 to 19 ([`USUAL_LEVEL`] otherwise).
    ///
    /// # Errors
    /// [`TraceError::Io`] if there is no such level.
    pub fn level(&mut self, level: i32) -> Result<(), TraceError> {
        let set = self.packer.compressor.set_compression_level(level);
        set.map_err(TraceError::io(&self.trace))
    }

    /// Gives something a name. Names longer than [`names::MAX_NAME`] are cut.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the trace cannot be written.
    pub fn name(&mut self, what: Named, number: u64, name: &str) -> Result<(), TraceError> {
        names::put(&mut self.names, what, number, name);
        self.names_count += 1;
        if self.names.len() > BLOCK {
            return self.flush_names();
        }
        Ok(())
    }

    /// Appends an event to the stream of a thread.
    ///
    /// # Errors
    /// [`TraceError::Event`] if the event cannot be there, and then the trace is as it was before;
    /// [`TraceError::TooMany`] threads; [`TraceError::Io`] if the trace cannot be written.
    #[inline]
    pub fn push(&mut self, thread: ThreadId, event: &Event) -> Result<(), TraceError> {
        let index = match self.streams.get(self.current) {
            Some(stream) if stream.thread == thread => self.current,
            _ => self.find(thread)?,
        };
        self.current = index;
        let stream = &mut self.streams[index];
        if stream.ended || (event.is_raw() && !self.raw) {
            return Err(self.refused(index, event));
        }
        let after = match stream.at.after(event) {
            Ok(after) => after,
            Err(why) => return Err(fault(&self.trace, stream, why)),
        };
        stream.columns.put(event, &stream.at);
        stream.at = after;
        stream.ended = *event == Event::End;
        // The length is looked at rarely, because it is the sum of many.
        if after.event & 63 == 0 && stream.columns.length() >= BLOCK - 64 * EVENT || stream.ended {
            self.flush(index)?;
        }
        Ok(())
    }

    /// Where the stream of a thread stands.
    pub fn position(&self, thread: ThreadId) -> Position {
        let stream = self
            .by_thread
            .get(&thread)
            .map(|index| &self.streams[*index]);
        stream.map_or_else(Position::default, |stream| stream.at)
    }

    /// Notes the most bytes of objects that lived at one time in the recorded order, for those that ask the
    /// index.
    pub fn largest_live(&mut self, bytes: u64) {
        self.index.push(Entry::LargestLive(bytes));
    }

    /// Writes all that is collected, also blocks that are not full. If the writer is killed afterwards, the
    /// trace can be read up to here.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the trace cannot be written.
    pub fn sync(&mut self) -> Result<(), TraceError> {
        for index in 0..self.streams.len() {
            self.flush(index)?;
        }
        self.flush_names()?;
        self.into.flush().map_err(TraceError::io(&self.trace))
    }

    /// Writes what is left, and the index.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the trace cannot be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        for index in 0..self.streams.len() {
            self.flush(index)?;
        }
        self.flush_names()?;
        for stream in &self.streams {
            let totals = Totals {
                events: stream.at.event,
                objects: stream.at.objects,
                allocated: stream.at.allocated,
                time: stream.at.time,
                ended: stream.ended,
            };
            self.index.push(Entry::Stream(stream.thread, totals));
        }
        let begin = self.written;
        let entries = std::mem::take(&mut self.index);
        let (mut last, mut count) = (0, 0);
        for entry in &entries {
            index::put(&mut self.packer.content, &mut last, entry);
            count += 1;
            if self.packer.content.len() > BLOCK {
                self.block(Kind::Index, ThreadId(0), count, &Position::default())?;
                (last, count) = (0, 0);
            }
        }
        self.block(Kind::Index, ThreadId(0), count, &Position::default())?;
        self.write(&index::end(begin))?;
        self.into.flush().map_err(TraceError::io(&self.trace))?;
        Ok(self.into)
    }

    fn find(&mut self, thread: ThreadId) -> Result<usize, TraceError> {
        if let Some(index) = self.by_thread.get(&thread) {
            return Ok(*index);
        }
        if self.streams.len() >= MAX_THREADS {
            return Err(TraceError::TooMany {
                trace: self.trace.clone(),
                most: MAX_THREADS as u64,
                what: "threads",
            });
        }
        self.by_thread.insert(thread, self.streams.len());
        self.streams.push(Stream {
            thread,
            columns: Columns::default(),
            begin: Position::default(),
            at: Position::default(),
            ended: false,
        });
        Ok(self.streams.len() - 1)
    }

    #[cold]
    fn refused(&self, index: usize, event: &Event) -> TraceError {
        let stream = &self.streams[index];
        let why = if stream.ended {
            EventFault::AfterEnd
        } else {
            debug_assert!(event.is_raw());
            EventFault::Raw
        };
        fault(&self.trace, stream, why)
    }

    fn flush(&mut self, index: usize) -> Result<(), TraceError> {
        self.flush_names()?;
        let stream = &mut self.streams[index];
        let count = stream.at.event - stream.begin.event;
        if count == 0 {
            return Ok(());
        }
        stream.columns.pack(&mut self.packer.content);
        let (thread, begin) = (stream.thread, stream.begin);
        stream.at.monitor = 0;
        stream.begin = stream.at;
        self.block(Kind::Events, thread, count as u32, &begin)
    }

    fn flush_names(&mut self) -> Result<(), TraceError> {
        if self.names_count == 0 {
            return Ok(());
        }
        self.packer.content.append(&mut self.names);
        let count = std::mem::take(&mut self.names_count);
        self.block(Kind::Names, ThreadId(0), count, &Position::default())
    }

    /// Writes the packer's content as a block, and empties it.
    fn block(
        &mut self,
        kind: Kind,
        thread: ThreadId,
        count: u32,
        begin: &Position,
    ) -> Result<(), TraceError> {
        let Packer {
            compressor,
            content,
            stored,
        } = &mut self.packer;
        stored.clear();
        stored.reserve(zstd::zstd_safe::compress_bound(content.len()));
        let compressed = compressor.compress_to_buffer(content.as_slice(), stored);
        compressed.map_err(TraceError::io(&self.trace))?;
        let codec = if stored.len() < content.len() {
            Codec::Zstd
        } else {
            std::mem::swap(stored, content);
            Codec::Plain
        };
        let length = match codec {
            Codec::Zstd => content.len(),
            Codec::Plain => stored.len(),
        };
        let head = Head {
            kind,
            codec,
            thread,
            count,
            stored: stored.len() as u32,
            content: length as u32,
            event: begin.event,
            allocated: begin.allocated,
            time: begin.time,
            object: begin.object,
            stamp: begin.stamp,
            sum: crc32fast::hash(stored),
        };
        content.clear();
        if kind != Kind::Index {
            self.index.push(Entry::Block {
                kind,
                thread,
                offset: self.written,
            });
        }
        let wrote = self.into.write_all(&head.to_bytes());
        let wrote = wrote.and_then(|()| self.into.write_all(&self.packer.stored));
        wrote.map_err(TraceError::io(&self.trace))?;
        self.written += (HEAD + self.packer.stored.len()) as u64;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.into
            .write_all(bytes)
            .map_err(TraceError::io(&self.trace))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

#[cold]
fn fault(trace: &Arc<str>, stream: &Stream, why: EventFault) -> TraceError {
    let at = At {
        trace: trace.clone(),
        block: None,
        thread: stream.thread,
        event: stream.at.event,
    };
    TraceError::Event {
        at: Box::new(at),
        why,
    }
}
