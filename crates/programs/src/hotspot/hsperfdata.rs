//! The file in which a Java virtual machine publishes its counters: `hsperfdata_<user>/<pid>` in its `/tmp`,
//! or a part of its own memory, where it makes no such file (`-XX:+PerfDisableSharedMem`, or no room there).
//!
//! The file is read with `pread` into a buffer and never mapped, so that a truncated file causes a
//! short read and no signal. Nothing in it is trusted: every offset and length is checked, and a
//! malformed file yields fewer counters, never a panic. Layout (version 2, written by `HotSpot` in
//! native byte order): magic `ca fe c0 c0`, byte order, major, minor, accessible; then used bytes,
//! overflow, time stamp, offset of the first entry, number of entries. Each entry has its length,
//! the offset of its name, the length of its vector (0 for a single value), its type, and the
//! offset of its value.

use crate::foreign_files;
use crate::hotspot::perf_memory::{self, MAGIC, Searched};
use plimsoll_kernel::descriptors::path_of;
use plimsoll_kernel::process::Handle as Process;
use plimsoll_kernel::smaps::each_mapping_of;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// Bytes of a file that are read at most. `HotSpot` makes it 32 KiB.
const MAX_FILE: usize = 1 << 20;
/// The most entries that are looked at. `HotSpot` has about 300.
const MAX_ENTRIES: usize = 8192;
/// The most names in a `/tmp` that are looked at.
const MAX_LISTING: usize = 65_536;
/// The longest name and the longest text that are kept, bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The name of each user's folder begins with this.
const FOLDER: &str = "hsperfdata_";

/// The counter that names the virtual machine.
const NAME: &str = "java.property.java.vm.name";

/// The names of counters that only the virtual machine has begin with this.
const OWN: &str = "sun.";

/// Bytes of the header.
const HEADER: usize = 32;

/// The error of [`Counters::parse`] for a file that its machine has not finished yet.
const UNFINISHED: &str = "not complete yet";

/// Why there are no counters.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The process has no such file.
    #[error(
        "process {pid} publishes no counters in its /tmp (started with -XX:-UsePerfData, or its /tmp is \
         hidden): \
         its heap keeps its size, unless its collector is ZGC or Shenandoah"
    )]
    Absent {
        /// Which process.
        pid: u32,
    },
    /// The file cannot be read.
    #[error("cannot read the counters of process {pid}: {source}")]
    Unreadable {
        /// Which process.
        pid: u32,
        /// Why.
        source: std::io::Error,
    },
    /// They are neither in a file nor found in the memory of the process.
    #[error(
        "process {pid} publishes no counters in its /tmp, and none were found in {pages} pages of its \
         memory{}: its heap keeps its size, unless its collector is ZGC or Shenandoah",
        if *cut { ", where the search took too long and ended" } else { "" }
    )]
    NotFound {
        /// Which process.
        pid: u32,
        /// Pages that were looked at.
        pages: u64,
        /// The search took longer than it may.
        cut: bool,
    },
    /// They are in the memory of the process, if anywhere, and that may not be read.
    #[error(
        "process {pid} keeps its counters in its own memory (-XX:+PerfDisableSharedMem), which may not be \
         read: {source}; its heap keeps its size, unless its collector is ZGC or Shenandoah"
    )]
    Hidden {
        /// Which process.
        pid: u32,
        /// Why.
        source: std::io::Error,
    },
    /// The process whose memory has them ended, or became another program.
    #[error("process {pid} has ended, and its counters with it")]
    Gone {
        /// Which process.
        pid: u32,
    },
    /// The machine is still starting.
    #[error("the Java virtual machine {pid} is still starting: its counters are not complete yet")]
    Unfinished {
        /// Which process.
        pid: u32,
    },
    /// The file is malformed.
    #[error("the counters of process {pid} are not in the format that is known: {what}")]
    Malformed {
        /// Which process.
        pid: u32,
        /// The fault in the format.
        what: &'static str,
    },
}

/// Where the value of a counter is in the file. A machine adds counters and never moves one, so places hold
/// as long as [`Counters::header`] is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first byte.
    at: usize,
    /// The length of a text, with its padding; 0 for a number.
    text: usize,
}

/// One counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Long(i64),
    /// Text, without its padding.
    Text(&'a str),
}

/// The open counters file of one process.
#[derive(Debug)]
pub struct PerfFile {
    pid: u32,
    /// The name of the file: the process's number in its own pid namespace. `None` where the file is the
    /// process's memory.
    name: Option<String>,
    /// The open file.
    file: OwnedFd,
    /// Where the counters are in it, bytes.
    place: Range<u64>,
    /// The bytes that they took when they were read last.
    taken: usize,
    /// A copy of its content; kept so that its memory is used again.
    buffer: Vec<u8>,
}

impl PerfFile {
    /// Opens the counters of a process, in the process's mount namespace and by its number there.
    ///
    /// # Errors
    /// [`PerfError::Absent`] if it has none, [`PerfError::Unreadable`] if they may not be read.
    pub fn open(process: &Process) -> Result<PerfFile, PerfError> {
        let pid = process.pid;
        let unreadable = |source: std::io::Error| PerfError::Unreadable { pid, source };
        let status = process.status().map_err(unreadable)?;
        let tmp = process.tmp().map_err(unreadable)?;
        let name = status.inner_pid.to_string();
        let mut found = Err(PerfError::Absent { pid });
        let listing = rustix::fs::Dir::read_from(&tmp).map_err(|e| unreadable(e.into()))?;
        for entry in listing.take(MAX_LISTING) {
            let Ok(entry) = entry else { break };
            if !entry.file_name().to_bytes().starts_with(FOLDER.as_bytes()) {
                continue;
            }
            match open_beneath(&tmp, entry.file_name(), &name, status.euid) {
                Ok(Some(file)) => {
                    return Ok(PerfFile {
                        pid,
                        name: Some(name),
                        file,
                        place: 0..MAX_FILE as u64,
                        taken: 0,
                        buffer: Vec::new(),
                    });
                }
                Ok(None) => {}
                Err(e) => found = Err(unreadable(e.into())),
            }
        }
        found
    }

    /// Finds the counters that a machine keeps in its own memory. Looks through the process's memory for
    /// 0.3 s of processor time at most, but not in its `heap`. `size`: the bytes that the counters take
    /// (`PerfDataMemorySize`). Returns the outcome of the search, too.
    ///
    /// # Errors
    /// [`PerfError::NotFound`] if there are none, [`PerfError::Hidden`] without the rights of a debugger.
    pub fn in_memory(
        process: &Process,
        heap: Option<&Range<u64>>,
        size: u64,
    ) -> Result<(PerfFile, Searched), PerfError> {
        let pid = process.pid;
        let hidden = |source| PerfError::Hidden { pid, source };
        let file = process.memory_file().map_err(hidden)?;
        let mut perf = PerfFile {
            pid,
            name: None,
            file,
            place: 0..0,
            taken: 0,
            buffer: Vec::new(),
        };
        let size = size.min(MAX_FILE as u64);
        let searched = perf_memory::search(process, heap, &mut |at| {
            perf.place = at..at.saturating_add(size);
            // A machine that is starting has not named itself yet.
            match perf.read() {
                Ok(counters) => counters.iter().any(|(name, _)| name.starts_with(OWN)),
                Err(error) => matches!(error, PerfError::Unfinished { .. }),
            }
        });
        let searched = searched.map_err(hidden)?;
        if searched.found {
            Ok((perf, searched))
        } else {
            Err(PerfError::NotFound {
                pid,
                pages: searched.pages,
                cut: searched.cut,
            })
        }
    }

    /// Whether the counters name a `HotSpot` machine.
    fn is_of_machine(&mut self) -> bool {
        let names = ["OpenJDK", "HotSpot"];
        let known = |name: &str| names.iter().any(|part| name.contains(part));
        self.read()
            .is_ok_and(|c| c.text_of(NAME).is_some_and(known))
    }

    /// Whether this very process writes the file, and not an earlier process with its number or the
    /// program before an exec. Checks that the process has the file mapped or, if that is hidden,
    /// that the file changed since the process started.
    pub fn is_of(&self, process: &Process) -> bool {
        let Some(name) = &self.name else { return true };
        let name = format!("/{name}");
        let mut is_mapped = false;
        let looked = each_mapping_of(self.pid, &mut |mapping| {
            let folder = mapping.name.strip_suffix(&name);
            let folder = folder.and_then(|folder| folder.rsplit('/').next());
            is_mapped = folder.is_some_and(|folder| folder.starts_with(FOLDER));
            !is_mapped
        });
        if looked.is_ok() {
            return is_mapped;
        }
        let changed = std::fs::metadata(path_of(&self.file)).map(|file| file.ctime());
        let both = changed.and_then(|changed| Ok((changed, process.started_at()?)));
        both.is_ok_and(|(changed, started)| changed + 1 >= started)
    }

    /// Reads the file again, as far as the machine says that it has filled it. If it grows or shrinks
    /// meanwhile, reads what there is.
    ///
    /// # Errors
    /// [`PerfError::Unreadable`], or [`PerfError::Malformed`] if the header is invalid.
    pub fn read(&mut self) -> Result<Counters<'_>, PerfError> {
        let pid = self.pid;
        let most = (self.place.end - self.place.start) as usize;
        let first = if self.taken > 0 {
            self.taken
        } else {
            64 * 1024
        };
        self.buffer.resize(first.min(most), 0);
        let mut length = 0;
        while length < HEADER || filled(&self.buffer).is_none_or(|filled| length < filled) {
            if length == self.buffer.len() {
                if length >= most {
                    break;
                }
                self.buffer.resize((length * 2).min(most), 0);
            }
            let at = self.place.start + length as u64;
            match rustix::io::pread(&self.file, &mut self.buffer[length..], at) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    return Err(PerfError::Unreadable {
                        pid,
                        source: e.into(),
                    });
                }
            }
        }
        if length == 0 && self.name.is_none() {
            return Err(PerfError::Gone { pid });
        }
        self.taken = length;
        Counters::parse(&self.buffer[..length]).map_err(|what| match what {
            UNFINISHED => PerfError::Unfinished { pid },
            what => PerfError::Malformed { pid, what },
        })
    }
}

/// The bytes that the machine has filled, by the header of its file; `None` where that does not tell.
fn filled(bytes: &[u8]) -> Option<usize> {
    let counters = Counters {
        bytes,
        little: *bytes.get(4)? == 1,
        first: 0,
        entries: 0,
    };
    counters.offset(8).filter(|&filled| filled > HEADER)
}

/// Whether the counters of a process that we may not look into name it a `HotSpot` machine.
pub fn is_machine(process: &Process) -> bool {
    let Ok(mut perf) = PerfFile::open(process) else {
        return false;
    };
    perf.is_of(process) && perf.is_of_machine()
}

/// Opens `directory/name` if it is a regular file of this user. Follows no link.
fn open_beneath(
    tmp: impl AsFd,
    directory: &std::ffi::CStr,
    name: &str,
    uid: u32,
) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let directory =
        match rustix::fs::openat(&tmp, directory, flags | OFlags::DIRECTORY, Mode::empty()) {
            Ok(d) => d,
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => {
                return Ok(None);
            }
            Err(e) => {
                // Another user's directory that we may not enter tells nothing about this process.
                return match rustix::fs::statat(&tmp, directory, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(s) if s.st_uid == uid => Err(e),
                    _ => Ok(None),
                };
            }
        };
    // Do not open it yet: opening a device can have side effects.
    let found = match rustix::fs::openat(&directory, name, flags | OFlags::PATH, Mode::empty()) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Ok(None),
        Err(e) => return Err(e),
    };
    let stat = rustix::fs::fstat(&found)?;
    let is_regular =
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
    if !is_regular || stat.st_uid != uid {
        return Ok(None);
    }
    match foreign_files::open(&found) {
        Ok(file) => Ok(Some(file.into())),
        Err(e) => Err(rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO)),
    }
}

/// The counters in a copy of the file.
#[derive(Clone, Copy, Debug)]
pub struct Counters<'a> {
    bytes: &'a [u8],
    little: bool,
    first: usize,
    entries: usize,
}

impl<'a> Counters<'a> {
    /// Checks the header.
    ///
    /// # Errors
    /// The fault in the format.
    pub fn parse(bytes: &'a [u8]) -> Result<Counters<'a>, &'static str> {
        if bytes.len() < HEADER {
            return Err("shorter than its header");
        }
        if bytes[..4] != MAGIC {
            return Err("wrong magic number");
        }
        let little = match bytes[4] {
            0 => false,
            1 => true,
            _ => return Err("unknown byte order"),
        };
        if bytes[5] != 2 {
            return Err("unknown version");
        }
        if bytes[7] == 0 {
            return Err(UNFINISHED);
        }
        let mut counters = Counters {
            bytes,
            little,
            first: 0,
            entries: 0,
        };
        counters.first = counters.offset(24).ok_or("bad offset of the first entry")?;
        counters.entries = counters
            .offset(28)
            .ok_or("bad number of entries")?
            .min(MAX_ENTRIES);
        Ok(counters)
    }

    /// The text counter of this name, if there is one.
    pub fn text_of(&self, name: &str) -> Option<&'a str> {
        let mut found = self.iter().filter(|(found, _)| *found == name);
        match found.next()?.1 {
            Value::Text(text) => Some(text),
            Value::Long(_) => None,
        }
    }

    /// All well-formed counters, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let counters = *self;
        (self.places()).filter_map(move |(name, place)| Some((name, counters.value(place)?)))
    }

    /// The names of all well-formed counters, and where their values are, in the order of the file.
    pub fn places(&self) -> Places<'a> {
        Places {
            counters: *self,
            at: self.first,
            left: self.entries,
        }
    }

    /// The header. It changes when counters are added.
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..HEADER]
    }

    /// The value at a place; `None` beyond the end, and for text that is no UTF-8.
    pub fn value(&self, place: Place) -> Option<Value<'a>> {
        match place.text {
            0 => self.i64(place.at).map(Value::Long),
            longest => self.text(place.at, longest).map(Value::Text),
        }
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let word: [u8; 4] = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.little {
            u32::from_le_bytes(word)
        } else {
            u32::from_be_bytes(word)
        })
    }

    /// The non-negative 32-bit number at `at`.
    fn offset(&self, at: usize) -> Option<usize> {
        let value = self.u32(at)?;
        (value <= i32::MAX as u32).then_some(value as usize)
    }

    fn i64(&self, at: usize) -> Option<i64> {
        let word: [u8; 8] = self.bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(if self.little {
            i64::from_le_bytes(word)
        } else {
            i64::from_be_bytes(word)
        })
    }

    /// The text that starts at `at` and ends at a NUL, of at most `longest` bytes.
    fn text(&self, at: usize, longest: usize) -> Option<&'a str> {
        let rest = self.bytes.get(at..)?;
        let rest = &rest[..rest.len().min(longest).min(MAX_TEXT)];
        let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..end]).ok()
    }

    fn entry(&self, at: usize) -> Option<(&'a str, Place)> {
        let name = self.text(at.checked_add(self.offset(at + 4)?)?, 4096)?;
        let text = self.offset(at + 8)?;
        let kind = *self.bytes.get(at + 12)?;
        let at = at.checked_add(self.offset(at + 16)?)?;
        matches!((kind, text), (b'J', 0) | (b'B', 1..)).then_some((name, Place { at, text }))
    }
}

/// Iterates over the counters of a file.
#[derive(Debug)]
pub struct Places<'a> {
    counters: Counters<'a>,
    at: usize,
    left: usize,
}

impl<'a> Iterator for Places<'a> {
    type Item = (&'a str, Place);

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            self.left -= 1;
            let at = self.at;
            let length = self.counters.offset(at)?;
            // An entry has at least its header. A shorter length could loop for ever.
            if length < 20 {
                return None;
            }
            self.at = at.checked_add(length)?;
            if let Some(entry) = self.counters.entry(at) {
                return Some(entry);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
