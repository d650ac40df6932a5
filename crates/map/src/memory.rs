//! Words of another process's memory, read only where it is resident.

use plimsoll_kernel::Result;
use plimsoll_kernel::clock;
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::process_vm::{self, Copied};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Why memory was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unread {
    /// Reading it would bring it back from swap or from a file, or nothing is mapped there.
    #[error("it is not in memory")]
    NotResident,
    /// It is neither in memory nor in swap. If it is private memory of no file it was never written to.
    #[error("nothing was ever written there")]
    Absent,
    /// The kernel refuses to let us read this process's memory (`ptrace(2)`, access mode checks).
    #[error(
        "reading its memory needs the rights of a debugger (CAP_SYS_PTRACE, or kernel.yama.ptrace_scope 0)"
    )]
    Denied,
    /// Nothing is mapped there, or the process exited.
    #[error("nothing is mapped there")]
    Unmapped,
    /// More was read of the process in this look than is allowed, or for longer.
    #[error("more of its memory would have to be read than one look may, or for longer")]
    TooMuch,
}

/// The memory of a process. A script in tests.
pub trait Memory {
    /// Fills `into` from address `at`.
    ///
    /// # Errors
    /// [`Unread`]; then `into` may be filled in part.
    #[allow(
        deprecated,
        reason = "Rust 1.90 does not know the new name, `try_update`"
    )]
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Unread>;

    /// The 64-bit word at an address.
    ///
    /// # Errors
    /// [`Unread`].
    fn word(&self, at: u64) -> std::result::Result<u64, Unread> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The 32-bit word at an address.
    ///
    /// # Errors
    /// [`Unread`].
    fn half_word(&self, at: u64) -> std::result::Result<u32, Unread> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

/// Most bytes of a process that are read in one look.
const MAX_BYTES: usize = 64 << 20;

/// The memory of a real process.
#[derive(Debug)]
pub struct ProcessMemory {
    process: Arc<Process>,
    pages: PageMap,
    left: AtomicUsize,
    /// Until when it is read, monotonic ns.
    until_ns: AtomicU64,
    /// A read was refused since that was set.
    refused: AtomicBool,
}

impl ProcessMemory {
    /// The memory of this process; reads 64 MiB of it at most.
    ///
    /// # Errors
    /// As [`PageMap::open`].
    pub fn open(process: &Arc<Process>) -> Result<ProcessMemory> {
        Ok(ProcessMemory {
            pages: PageMap::open(process)?,
            process: Arc::clone(process),
            left: AtomicUsize::new(MAX_BYTES),
            until_ns: AtomicU64::new(u64::MAX),
            refused: AtomicBool::new(false),
        })
    }

    /// Allows reads for `time` from now on. Later reads fail, so that every reader ends: a process may
    /// hold anything, and a reader without an end would keep one of the few threads for all processes.
    pub(crate) fn limit(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let until = clock::now().0.saturating_add(time);
        self.until_ns.store(until, Ordering::Relaxed);
        self.refused.store(false, Ordering::Relaxed);
    }

    /// Whether something was not read since then, because it was too much or took too long.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Memory for ProcessMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Unread> {
        let take = |left: usize| left.checked_sub(into.len());
        let order = Ordering::Relaxed;
        let is_late = clock::now().0 >= self.until_ns.load(order);
        if is_late || self.left.fetch_update(order, order, take).is_err() {
            self.refused.store(true, order);
            return Err(Unread::TooMuch);
        }
        match process_vm::copy(&self.process, &self.pages, at, into) {
            Ok(Copied::All) => Ok(()),
            Ok(Copied::Nothing) => Err(Unread::Absent),
            Ok(Copied::Not) => Err(Unread::NotResident),
            Err(error) if error.is_denied() => Err(Unread::Denied),
            Err(_) => Err(Unread::Unmapped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_for_its_time_and_again_when_it_has_more() {
        let memory = ProcessMemory::open(&Arc::new(Process::own().unwrap())).unwrap();
        let word = 7u64;
        let at = &raw const word as u64;
        assert_eq!((memory.word(at), memory.has_refused()), (Ok(7), false));
        memory.limit(Duration::ZERO);
        assert_eq!(
            (memory.word(at), memory.has_refused()),
            (Err(Unread::TooMuch), true)
        );
        memory.limit(Duration::from_secs(60));
        assert_eq!((memory.word(at), memory.has_refused()), (Ok(7), false));
    }
}
