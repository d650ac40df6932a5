//! Pressure stall information. Source: kernel document `accounting/psi.rst`. Late by 0.1 to 2 s
//! without CAP_SYS_RESOURCE: never the first alarm.

use crate::parse::{lines, number, words};
use crate::reader::Reader;
use crate::{Error, Result};
use plimsoll_unit::{MICROSECOND, Nanos};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The machine's file.
pub const MACHINE: &str = "/proc/pressure/memory";

/// Time that tasks waited for memory since boot (or since the group was made).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// At least one task waited.
    pub some: Nanos,
    /// All tasks waited.
    pub full: Nanos,
}

/// Parses the text of a pressure file; what is missing stays 0.
pub fn parse_psi(text: &[u8]) -> Stalled {
    let microseconds = |n| Nanos(MICROSECOND) * n;
    let mut stalled = Stalled::default();
    for line in lines(text) {
        let kind = words(line).next();
        let total = words(line).find_map(|w| number(w.strip_prefix(b"total=")?));
        match (kind, total) {
            (Some(b"some"), Some(n)) => stalled.some = microseconds(n),
            (Some(b"full"), Some(n)) => stalled.full = microseconds(n),
            _ => {}
        }
    }
    stalled
}

/// A pressure file, open: [`MACHINE`], or `memory.pressure` of a v2 group.
#[derive(Debug)]
pub struct Psi(Reader);

impl Psi {
    /// Opens the file.
    ///
    /// # Errors
    /// [`Error::Absent`] where the kernel was built or started without (`psi=1` turns it on).
    pub fn open(path: &Path) -> Result<Psi> {
        let psi = Psi(Reader::open(path)?);
        psi.read()?;
        Ok(psi)
    }

    /// Reads the totals, 2 us.
    ///
    /// # Errors
    /// [`Error::Absent`] when it is switched off; [`Error::Io`].
    pub fn read(&self) -> Result<Stalled> {
        let mut buffer = [0; 512];
        match self.0.read(&mut buffer) {
            Ok(text) => Ok(parse_psi(text)),
            Err(Error::Io { source, path, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Err(Error::Absent { path })
            }
            Err(e) => Err(e),
        }
    }
}

impl AsFd for Psi {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A trigger. Its descriptor polls `POLLPRI` when tasks waited for longer than the threshold within
/// a window, and `POLLERR` when the group was removed (then stop polling it).
#[derive(Debug)]
pub struct Trigger(OwnedFd);

impl Trigger {
    /// Sets a trigger on `some` stalls of this time within a window, both in whole microseconds. Without
    /// CAP_SYS_RESOURCE windows must be multiples of 2 s.
    ///
    /// # Errors
    /// [`Error::Denied`] without rights on the file; [`Error::Io`] with `EINVAL` for a window that
    /// the kernel does not allow us.
    pub fn some(path: &Path, stall: Nanos, window: Nanos) -> Result<Trigger> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| Error::of_file("open", path, e))?;
        // The kernel cuts off the last byte, which without the NUL would be a digit.
        let [stall, window] = [stall, window].map(|span| span.0 / MICROSECOND);
        let text = format!("some {stall} {window}\0");
        rustix::io::write(&fd, text.as_bytes()).map_err(|e| Error::of_file("write", path, e))?;
        Ok(Trigger(fd))
    }
}

impl AsFd for Trigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
