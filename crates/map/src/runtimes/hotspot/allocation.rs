//! Bytes that each Java thread has allocated, read again and again while the threads run. The sum is that of
//! `ThreadMXBean.getThreadAllocatedBytes`: what the thread's retired buffers (TLABs) and large objects took
//! (`Thread::_allocated_bytes`), and the used part of its present buffer.
//!
//! The machine is not asked and does not stop, so what is read may be half changed: while a buffer is being
//! retired its bytes may be counted twice or not at all for a moment. A count never goes back, so a buffer
//! whose start changes while it is read does not count.

use super::{HotSpot, tables};
use crate::memory::ProcessMemory;
use crate::snapshot::Snapshot;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::process_vm::{Piece, copy_pieces};
use plimsoll_programs::Recognise;
use plimsoll_programs::hotspot::tables::{Place, Tables};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Most Java threads that are followed.
pub const MAX_FOLLOWED: usize = 4096;
/// The most bytes between two fields of one object that are read together.
const MAX_SPAN: u64 = 4096;
/// The largest buffer of a thread that is believed, bytes. Above it is no buffer.
const MAX_BUFFER: u64 = 4 << 30;
/// How long the list of mappings may take to be read.
const LIMIT: Duration = Duration::from_secs(5);

/// Why the allocation of a machine's threads cannot be read.
#[derive(Debug, Error)]
pub enum AllocationError {
    /// The process is none, or cannot be looked at.
    #[error(transparent)]
    Kernel(#[from] plimsoll_kernel::Error),
    /// It is no HotSpot.
    #[error("process {0} has no HotSpot JVM: only of its threads is known what they allocate")]
    NotHotSpot(i32),
    /// The tables are missing.
    #[error("what the threads of process {pid} allocate cannot be read: {why}")]
    Tables {
        /// The process.
        pid: i32,
        /// The reason.
        why: &'static str,
    },
    /// The tables lack a field.
    #[error(
        "what the threads of process {pid} allocate cannot be read: this JVM does not tell debuggers where \
         its {kind}::{name} is"
    )]
    Field {
        /// The process.
        pid: i32,
        /// A type of the machine.
        kind: &'static str,
        /// A field of that type.
        name: &'static str,
    },
}

/// A Java thread of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaThread {
    /// Its number in its own pid namespace (`gettid`).
    pub tid: i32,
    /// Bytes that it had allocated when it was read last; 0 before.
    pub bytes: u64,
    /// Address of its object in the machine.
    at: u64,
    /// Address of its part that belongs to the operating system.
    native: u64,
}

/// Where a machine keeps its list of Java threads.
#[derive(Clone, Copy, Debug)]
enum List {
    /// Since JDK 17: a table that is replaced when threads come or go.
    Table {
        /// Address of the pointer to the table.
        first: u64,
        length: u64,
        threads: u64,
    },
    /// In JDK 11: each thread has the address of the next one.
    Chain {
        /// Address of the pointer to the newest thread.
        first: u64,
        /// Address of their number, 32 bits.
        number: u64,
        next: u64,
    },
}

/// Addresses, and distances within objects, of what is read. All constant in a process's life.
#[derive(Clone, Copy, Debug)]
struct Places {
    list: List,
    native: u64,
    allocated: u64,
    buffer_start: u64,
    buffer_top: u64,
    /// In the part that belongs to the operating system.
    tid: u64,
    /// Address of the flag `UseTLAB`, a byte; `None` if the machine does not tell.
    buffers_flag: Option<u64>,
}

/// Values that tell whether threads came or went: then at least one is another. An address alone
/// does not tell that: it is given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Where the table, or the newest thread, is.
    first: u64,
    /// Number of threads.
    number: u64,
    /// The number of the newest thread; 0 while it has none.
    newest: i32,
}

/// The allocation of the threads of one machine.
#[derive(Debug)]
pub struct Allocation {
    process: Arc<Process>,
    places: Places,
    /// The list that was read; `None` before.
    seen: Option<Seen>,
    threads: Vec<JavaThread>,
    /// Whether threads have buffers. Without them JDK 11 leaves the fields of a buffer as the memory was
    /// before.
    has_buffers: bool,
    /// For [`Allocation::read`]: the bytes of each thread that is asked for.
    buffer: Vec<u8>,
}

impl Allocation {
    /// Finds the fields in a process that has a machine. Reads some megabytes of files, once.
    ///
    /// # Errors
    /// [`AllocationError`]. A machine that is just starting may have no tables yet.
    pub fn open(process: &Arc<Process>) -> Result<Allocation, AllocationError> {
        let pid = process.pid();
        let snapshot = Snapshot::unsized_of(process, LIMIT)?;
        if !HotSpot.runs(&snapshot.candidate()) {
            return Err(AllocationError::NotHotSpot(pid));
        }
        let memory = ProcessMemory::open(process)?;
        let tables =
            tables(&snapshot, &memory).map_err(|why| AllocationError::Tables { pid, why })?;
        Ok(Allocation {
            places: Places::of(&tables, pid)?,
            process: Arc::clone(process),
            seen: None,
            threads: Vec::new(),
            has_buffers: true,
            buffer: Vec::new(),
        })
    }

    /// The threads of the list as it was read last.
    pub fn threads(&self) -> &[JavaThread] {
        &self.threads
    }

    /// Whether threads came or went since the list was read. Reads a few words.
    ///
    /// # Errors
    /// As [`plimsoll_kernel::process_vm::copy_pieces`].
    pub fn is_changed(&self) -> plimsoll_kernel::Result<bool> {
        let seen = self.look()?;
        Ok(seen.is_some() && seen != self.seen)
    }

    /// Reads the list anew. A thread that was in it keeps its bytes. False if the list changed meanwhile, or
    /// is not there yet; it is as before then.
    ///
    /// # Errors
    /// As [`Allocation::is_changed`].
    pub fn list(&mut self) -> plimsoll_kernel::Result<bool> {
        let Some(seen) = self.look()? else {
            return Ok(false);
        };
        let objects = match self.places.list {
            List::Table { threads, .. } => self.table(seen, threads)?,
            List::Chain { next, .. } => self.chain(seen.first, next)?,
        };
        let Some(objects) = objects else {
            return Ok(false);
        };
        let mut found = Vec::with_capacity(objects.len());
        for at in objects {
            let Some((native, tid)) = self.number_of(at)? else {
                continue;
            };
            let new = JavaThread {
                tid,
                bytes: 0,
                at,
                native,
            };
            let same = |old: &&JavaThread| (old.tid, old.at, old.native) == (tid, at, native);
            found.push(*self.threads.iter().find(same).unwrap_or(&new));
        }
        // A list that was freed while it was read may have told anything.
        if self.look()? != Some(seen) {
            return Ok(false);
        }
        // Read with each list, because a machine that is just starting has not read its flags.
        let flag = match self.places.buffers_flag {
            Some(at) => self.number(at)?,
            None => None,
        };
        self.has_buffers = flag != Some([0]);
        self.threads = found;
        self.seen = Some(seen);
        Ok(true)
    }

    /// Reads what these threads have allocated, by their place in [`Allocation::threads`]. A thread that is
    /// not the same any more keeps its last count. Returns how many were read.
    ///
    /// The fields are in memory if the thread ran lately, because it uses them itself. Those of other
    /// threads might be in swap, and should not be asked for.
    ///
    /// # Errors
    /// As [`Allocation::is_changed`].
    pub fn read(&mut self, which: &[usize]) -> plimsoll_kernel::Result<usize> {
        let (low, span) = self.places.span();
        let size = span + size_of::<i32>() + size_of::<u64>();
        self.buffer.clear();
        self.buffer.resize(size * which.len(), 0);
        let mut pieces = Vec::with_capacity(3 * which.len());
        for (part, &index) in self.buffer.chunks_exact_mut(size).zip(which) {
            let Some(thread) = self.threads.get(index) else {
                continue;
            };
            let (fields, rest) = part.split_at_mut(span);
            let (tid, start) = rest.split_at_mut(size_of::<i32>());
            let start_at = thread.at.wrapping_add(self.places.buffer_start);
            pieces.push(Piece::new(thread.at.wrapping_add(low), fields));
            pieces.push(Piece::new(thread.native.wrapping_add(self.places.tid), tid));
            pieces.push(Piece::new(start_at, start));
        }
        // A number that was not copied stays 0, and no thread has the number 0.
        copy_pieces(&self.process, &mut pieces)?;
        drop(pieces);
        let mut read = 0;
        for (part, &index) in self.buffer.chunks_exact(size).zip(which) {
            let Some(thread) = self.threads.get_mut(index) else {
                continue;
            };
            let (fields, rest) = part.split_at(span);
            let (tid, start) = rest.split_at(size_of::<i32>());
            // With the start of one buffer and the top of another one the difference may be anything.
            let is_one = word_of(start, 0) == word_of(fields, self.places.buffer_start - low);
            let is_same = tid
                .try_into()
                .is_ok_and(|tid| i32::from_le_bytes(tid) == thread.tid)
                && word_of(fields, self.places.native - low) == thread.native;
            if is_same {
                if is_one || !self.has_buffers {
                    let bytes = self.places.bytes(fields, low, self.has_buffers);
                    thread.bytes = thread.bytes.max(bytes);
                }
                read += 1;
            }
        }
        Ok(read)
    }

    fn look(&self) -> plimsoll_kernel::Result<Option<Seen>> {
        let (first, number, newest) = match self.places.list {
            List::Table {
                first,
                length,
                threads,
            } => {
                let Some(at) = self.pointer(first)? else {
                    return Ok(None);
                };
                let number = self.half(at.wrapping_add(length))?;
                let number = u64::from(number.map_or(0, i32::unsigned_abs));
                let table = self.pointer(at.wrapping_add(threads))?;
                let last = table.zip(number.checked_sub(1));
                let newest = match last {
                    Some((table, last)) => self.pointer(table.wrapping_add(8 * last))?,
                    None => None,
                };
                (at, number, newest)
            }
            List::Chain { first, number, .. } => {
                let Some(at) = self.pointer(first)? else {
                    return Ok(None);
                };
                let number = self.half(number)?;
                (at, u64::from(number.map_or(0, i32::unsigned_abs)), Some(at))
            }
        };
        let newest = match newest {
            Some(at) => self.number_of(at)?.map_or(0, |(_, tid)| tid),
            None => 0,
        };
        Ok(Some(Seen {
            first,
            number,
            newest,
        }))
    }

    /// The native part of a thread, and its number; `None` while it has none.
    fn number_of(&self, at: u64) -> plimsoll_kernel::Result<Option<(u64, i32)>> {
        let Some(native) = self.pointer(at.wrapping_add(self.places.native))? else {
            return Ok(None);
        };
        let tid = self.half(native.wrapping_add(self.places.tid))?;
        Ok(tid.filter(|&tid| tid > 0).map(|tid| (native, tid)))
    }

    fn table(&self, seen: Seen, threads: u64) -> plimsoll_kernel::Result<Option<Vec<u64>>> {
        let Some(first) = self.word(seen.first.wrapping_add(threads))? else {
            return Ok(None);
        };
        let length = usize::try_from(seen.number).map_or(MAX_FOLLOWED, |n| n.min(MAX_FOLLOWED));
        let mut bytes = vec![0; 8 * length];
        let mut piece = [Piece::new(first, &mut bytes)];
        if copy_pieces(&self.process, &mut piece)? < 1 {
            return Ok(None);
        }
        let word = |bytes: &[u8]| word_of(bytes, 0);
        Ok(Some(bytes.chunks_exact(8).map(word).collect()))
    }

    fn chain(&self, first: u64, next: u64) -> plimsoll_kernel::Result<Option<Vec<u64>>> {
        let mut found = vec![first];
        while found.len() < MAX_FOLLOWED {
            let last = found[found.len() - 1];
            match self.word(last.wrapping_add(next))? {
                Some(0) => return Ok(Some(found)),
                Some(at) => found.push(at),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    fn pointer(&self, at: u64) -> plimsoll_kernel::Result<Option<u64>> {
        Ok(self.word(at)?.filter(|&to| to > 0))
    }

    fn word(&self, at: u64) -> plimsoll_kernel::Result<Option<u64>> {
        self.number(at).map(|bytes| bytes.map(u64::from_le_bytes))
    }

    fn half(&self, at: u64) -> plimsoll_kernel::Result<Option<i32>> {
        self.number(at).map(|bytes| bytes.map(i32::from_le_bytes))
    }

    fn number<const N: usize>(&self, at: u64) -> plimsoll_kernel::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        let mut piece = [Piece::new(at, &mut bytes)];
        let copied = copy_pieces(&self.process, &mut piece)?;
        Ok((copied == 1).then_some(bytes))
    }
}

impl Places {
    fn of(tables: &Tables, pid: i32) -> Result<Places, AllocationError> {
        let has = |kind: &str, name: &str| {
            let key = (kind.to_owned(), name.to_owned());
            tables.fields.get(&key).map(|field| field.place)
        };
        let place = |kind: &'static str, name: &'static str| {
            let missing = AllocationError::Field { pid, kind, name };
            has(kind, name).ok_or(missing)
        };
        let offset = |kind, name| match place(kind, name)? {
            Place::Offset(offset) if offset <= MAX_SPAN => Ok(offset),
            _ => Err(AllocationError::Field { pid, kind, name }),
        };
        let address = |kind, name| match place(kind, name)? {
            Place::Static(at) => Ok(at),
            Place::Offset(_) => Err(AllocationError::Field { pid, kind, name }),
        };
        let native = match has("JavaThread", "_osthread") {
            Some(_) => offset("JavaThread", "_osthread")?,
            None => offset("Thread", "_osthread")?,
        };
        let buffer = offset("Thread", "_tlab")?;
        let list = match has("ThreadsSMRSupport", "_java_thread_list") {
            Some(_) => List::Table {
                first: address("ThreadsSMRSupport", "_java_thread_list")?,
                length: offset("ThreadsList", "_length")?,
                threads: offset("ThreadsList", "_threads")?,
            },
            None => List::Chain {
                first: address("Threads", "_thread_list")?,
                number: address("Threads", "_number_of_threads")?,
                next: offset("JavaThread", "_next")?,
            },
        };
        Ok(Places {
            list,
            native,
            allocated: offset("Thread", "_allocated_bytes")?,
            buffer_start: buffer + offset("ThreadLocalAllocBuffer", "_start")?,
            buffer_top: buffer + offset("ThreadLocalAllocBuffer", "_top")?,
            tid: offset("OSThread", "_thread_id")?,
            buffers_flag: tables.flags.get("UseTLAB").copied(),
        })
    }

    /// The lowest distance of a field from the start of a thread's object, and the bytes from there to the
    /// end of the last field.
    fn span(&self) -> (u64, usize) {
        let fields = [
            self.native,
            self.allocated,
            self.buffer_start,
            self.buffer_top,
        ];
        let low = fields.iter().copied().min().unwrap_or(0);
        let high = fields.iter().copied().max().unwrap_or(0);
        (low, (high - low) as usize + 8)
    }

    /// Bytes that a thread has allocated, from the fields of its object from `low` on.
    fn bytes(&self, fields: &[u8], low: u64, has_buffer: bool) -> u64 {
        let field = |at: u64| word_of(fields, at - low);
        let start = field(self.buffer_start);
        let used = field(self.buffer_top).wrapping_sub(start);
        let is_buffer = has_buffer && start > 0 && used <= MAX_BUFFER;
        let used = if is_buffer { used } else { 0 };
        // A negative count is none.
        let allocated = field(self.allocated);
        let allocated = if allocated < 1 << 63 { allocated } else { 0 };
        allocated.saturating_add(used)
    }
}

/// The 64-bit word at a distance; 0 if it is not there.
fn word_of(bytes: &[u8], at: u64) -> u64 {
    let word = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..at + 8));
    let word = word.and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}
