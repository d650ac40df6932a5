//! Opening a trace, and reading its streams, each at its own pace.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `load` | whole blocks, checked and decompressed |
//! | [`stream`] | the events of a thread |

mod load;
pub mod stream;

pub use stream::Stream;

use crate::block::{HEAD, Kind};
use crate::error::{BlockFault, TraceError};
use crate::event::{MAX_THREADS, ThreadId};
use crate::header::{FIXED, Header, MAX_FACTS};
use crate::index::{self, END, Entry, Totals};
use crate::names::{self, Names};
use load::{Loader, Opener, read_head};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The most bytes of names that are read: 4 Mi names of 16 bytes. A few names may be spread over many blocks.
const MAX_NAMES: usize = 64 << 20;

/// Where a trace's bytes are. Several streams read at the same time.
pub trait Source: Send + Sync {
    /// Bytes that there are.
    ///
    /// # Errors
    /// The system's error.
    fn length(&self) -> io::Result<u64>;

    /// Reads all of `into` from `offset` on.
    ///
    /// # Errors
    /// The system's error; `UnexpectedEof` if there are fewer bytes.
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let found = from.and_then(|from| self.get(from..from.checked_add(into.len())?));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Tells of each reading how many bytes it was.
struct Watched<W> {
    source: Arc<dyn Source>,
    watch: W,
}

impl<W: Fn(u64) + Send + Sync> Source for Watched<W> {
    fn length(&self) -> io::Result<u64> {
        self.source.length()
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.source.read(into, offset)?;
        (self.watch)(into.len() as u64);
        Ok(())
    }
}

/// How a trace ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its index: all of it is there.
    Whole,
    /// Without one: its writer was stopped, or it is still being written, or its end was cut off. The part
    /// before this byte is read.
    Cut {
        /// Where the first thing begins that is no whole block, bytes.
        offset: u64,
        /// The fault of the bytes there.
        why: BlockFault,
    },
}

/// A stream of a trace.
#[derive(Clone, Debug, Default)]
pub struct StreamInfo {
    /// Where its blocks begin, bytes, in the order of its events.
    blocks: Vec<u64>,
    /// Its sums, where the trace has its index.
    pub totals: Option<Totals>,
}

/// The sum of Fowler, Noll and Vo: 64 bits, variant 1a.
struct Fnv {
    value: u64,
}

impl Fnv {
    fn new() -> Fnv {
        Fnv {
            value: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.value = (self.value ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// A trace that is open.
#[derive(Clone)]
pub struct Trace {
    name: Arc<str>,
    source: Arc<dyn Source>,
    header: Header,
    streams: BTreeMap<ThreadId, StreamInfo>,
    names: Vec<u64>,
    largest_live: Option<u64>,
    ending: Ending,
    opener: Arc<Mutex<Opener>>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens a file.
    ///
    /// # Errors
    /// [`TraceError::Io`]; [`TraceError::Foreign`], [`TraceError::Newer`] or [`TraceError::Head`] if it is no
    /// trace that this version reads; [`TraceError::TooMany`]. A trace that is cut or whose index is
    /// damaged is opened all the same: [`Trace::ending`] shows that.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(TraceError::io(&name.as_str().into()))?;
        Trace::from_source(Arc::new(file), &name)
    }

    /// Opens what is anywhere; `name` is what errors call it.
    ///
    /// # Errors
    /// Those of [`Trace::open`].
    pub fn from_source(source: Arc<dyn Source>, name: &str) -> Result<Trace, TraceError> {
        let name: Arc<str> = name.into();
        let length = source.length().map_err(TraceError::io(&name))?;
        let mut head = vec![0; length.min((FIXED + MAX_FACTS) as u64) as usize];
        source.read(&mut head, 0).map_err(TraceError::io(&name))?;
        let (header, begin) = Header::from_bytes(&head, &name)?;
        let opener = Opener::new().map_err(TraceError::io(&name))?;
        let mut trace = Trace {
            name,
            source,
            header,
            streams: BTreeMap::new(),
            names: Vec::new(),
            largest_live: None,
            ending: Ending::Whole,
            opener: Arc::new(Mutex::new(opener)),
        };
        match trace.index_begins(length)? {
            Some(index) => trace.open_whole(begin as u64, index, length)?,
            None => trace.look_for_blocks(begin as u64, length)?,
        }
        Ok(trace)
    }

    /// The same trace, which calls `watch` with the bytes of each reading, so that a person can be shown how
    /// far its user is.
    #[must_use]
    pub fn watched(&self, watch: impl Fn(u64) + Send + Sync + 'static) -> Trace {
        let source = Arc::clone(&self.source);
        Trace {
            source: Arc::new(Watched { source, watch }),
            ..self.clone()
        }
    }

    /// Bytes of the whole trace.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn length(&self) -> Result<u64, TraceError> {
        self.source.length().map_err(TraceError::io(&self.name))
    }

    /// Its description.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its name in errors.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How it ends.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Its streams, by thread.
    pub fn streams(&self) -> &BTreeMap<ThreadId, StreamInfo> {
        &self.streams
    }

    /// The most bytes of objects that lived at one time in the recorded order, if its writer has noted that.
    pub fn largest_live(&self) -> Option<u64> {
        self.largest_live
    }

    /// A number that tells this trace from others: of its header, and of the heads of its blocks, which have
    /// the checksums of all that is in them. Reads no more than these.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn fingerprint(&self) -> Result<u64, TraceError> {
        let mut sum = Fnv::new();
        sum.add(&self.header.to_bytes());
        let blocks = self.streams.values().flat_map(|info| &info.blocks);
        let mut head = [0; HEAD];
        for &offset in blocks.chain(&self.names) {
            let read = self.source.read(&mut head, offset);
            read.map_err(TraceError::io(&self.name))?;
            sum.add(&head);
        }
        Ok(sum.value)
    }

    /// Its names.
    ///
    /// # Errors
    /// [`TraceError::Io`]; [`TraceError::Block`] if a block of names is damaged; [`TraceError::TooMany`].
    pub fn names(&self) -> Result<Names, TraceError> {
        let mut names = Names::new();
        let mut loader = Loader::new(self)?;
        let mut bytes = 0;
        for &offset in &self.names {
            let (_, content) = loader.load(offset, Kind::Names)?;
            bytes += content.len();
            if bytes > MAX_NAMES {
                return Err(self.too_many(MAX_NAMES, "bytes of names"));
            }
            names::take(&content, &mut names).map_err(|why| self.block_fault(offset, why))?;
            loader.spare = content;
        }
        Ok(names)
    }

    /// Reads the stream of a thread from its beginning.
    ///
    /// # Errors
    /// [`TraceError::NoThread`], [`TraceError::Io`].
    pub fn stream(&self, thread: ThreadId) -> Result<Stream, TraceError> {
        let info = self
            .streams
            .get(&thread)
            .ok_or_else(|| TraceError::NoThread {
                trace: self.name.clone(),
                thread,
            })?;
        let blocks = info.blocks.clone().into_iter();
        Ok(Stream::new(
            Loader::new(self)?,
            thread,
            self.header.raw,
            blocks,
        ))
    }

    /// The threads in the order of their blocks in the file, each as often as it has blocks there.
    pub fn threads_by_block(&self) -> Vec<ThreadId> {
        let mut all: Vec<(u64, ThreadId)> = Vec::new();
        for (thread, info) in &self.streams {
            all.extend(info.blocks.iter().map(|offset| (*offset, *thread)));
        }
        all.sort_unstable();
        all.into_iter().map(|(_, thread)| thread).collect()
    }

    fn index_begins(&self, length: u64) -> Result<Option<u64>, TraceError> {
        let Some(offset) = length.checked_sub(END as u64) else {
            return Ok(None);
        };
        let mut mark = [0; END];
        let read = self.source.read(&mut mark, offset);
        read.map_err(TraceError::io(&self.name))?;
        Ok(index::begins(&mark).filter(|begin| *begin <= offset))
    }

    /// Reads the index, or looks for the blocks if the index is damaged.
    fn open_whole(&mut self, begin: u64, index: u64, length: u64) -> Result<(), TraceError> {
        match self.read_index(index, length - END as u64) {
            Err(TraceError::Block { offset, why, .. }) => {
                self.streams.clear();
                self.names.clear();
                self.largest_live = None;
                self.look_for_blocks(begin, index)?;
                if self.ending
                    == (Ending::Cut {
                        offset: index,
                        why: BlockFault::Cut,
                    })
                {
                    self.ending = Ending::Cut { offset, why };
                }
                Ok(())
            }
            other => other,
        }
    }

    fn read_index(&mut self, begin: u64, end: u64) -> Result<(), TraceError> {
        let mut loader = Loader::new(self)?;
        let mut offset = begin;
        // Where the next block may begin at the earliest: so there are no more than the file has room for.
        let mut next = 0;
        while offset < end {
            let (head, content) = loader.load(offset, Kind::Index)?;
            let mut entries = Vec::new();
            let taken = index::take(&content, |entry| entries.push(entry));
            taken.map_err(|why| self.block_fault(offset, why))?;
            for entry in entries {
                if let Entry::Block { offset: at, .. } = entry {
                    if at < next || at >= begin {
                        return Err(self.block_fault(offset, BlockFault::Number));
                    }
                    next = at + HEAD as u64;
                }
                self.learn(entry)?;
            }
            loader.spare = content;
            offset += head.whole();
        }
        Ok(())
    }

    fn learn(&mut self, entry: Entry) -> Result<(), TraceError> {
        match entry {
            Entry::Block {
                kind: Kind::Names,
                offset,
                ..
            } => self.names.push(offset),
            Entry::Block { thread, offset, .. } => self.info(thread)?.blocks.push(offset),
            Entry::Stream(thread, totals) => self.info(thread)?.totals = Some(totals),
            Entry::LargestLive(bytes) => self.largest_live = Some(bytes),
        }
        Ok(())
    }

    fn info(&mut self, thread: ThreadId) -> Result<&mut StreamInfo, TraceError> {
        if self.streams.len() >= MAX_THREADS && !self.streams.contains_key(&thread) {
            return Err(self.too_many(MAX_THREADS, "threads"));
        }
        Ok(self.streams.entry(thread).or_default())
    }

    /// Goes from block to block until something is no whole block, or to `length`.
    fn look_for_blocks(&mut self, mut offset: u64, length: u64) -> Result<(), TraceError> {
        loop {
            let head = match read_head(&*self.source, &self.name, offset, length) {
                Ok(head) => head,
                Err(TraceError::Block { why, .. }) => {
                    self.ending = Ending::Cut { offset, why };
                    return Ok(());
                }
                Err(other) => return Err(other),
            };
            match head.kind {
                Kind::Events | Kind::Names => self.learn(Entry::Block {
                    kind: head.kind,
                    thread: head.thread,
                    offset,
                })?,
                Kind::Index | Kind::PassedOver => {}
            }
            offset += head.whole();
        }
    }

    fn too_many(&self, most: usize, what: &'static str) -> TraceError {
        TraceError::TooMany {
            trace: self.name.clone(),
            most: most as u64,
            what,
        }
    }

    fn block_fault(&self, offset: u64, why: BlockFault) -> TraceError {
        TraceError::Block {
            trace: self.name.clone(),
            offset,
            why,
        }
    }
}
