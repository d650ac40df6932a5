//! Which pages of a range are present and which are swapped: `PAGEMAP_SCAN` (Linux 6.7), else the
//! words of `/proc/PID/pagemap`. Source: kernel document `admin-guide/mm/pagemap.rst`. No privilege
//! is needed for processes of the same user.

use crate::pagemap_scan::{self, FILE, GUARD, HUGE, PRESENT, Query, SWAPPED, WRITTEN, ZERO};
use crate::process::{Process, page_size, through};
use crate::smaps::Addresses;
use crate::{Error, Result, pagemap};
use plimsoll_unit::Bytes;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// The interface that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// `PAGEMAP_SCAN`: 3-13 ns a page.
    Scan,
    /// One word a page: 39-86 ns.
    Words,
}

/// Memory of a range, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In memory.
    pub present: Bytes,
    /// In swap (guard pages and write-protect markers of userfaultfd look the same).
    pub swapped: Bytes,
}

/// Consecutive pages in the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where.
    pub addresses: Addresses,
    /// Whether the pages are in memory; if not, they are in swap.
    pub present: bool,
}

/// The page map of a process, open.
#[derive(Debug)]
pub struct PageMap {
    fd: OwnedFd,
    path: PathBuf,
    tier: Tier,
    /// The categories that the scan knows of pages here.
    told: u64,
}

/// The categories that every kernel with the scan knows.
const TOLD: u64 = PRESENT | SWAPPED | WRITTEN | FILE | ZERO | HUGE;

/// Opens the page map of this process, for [`pagemap_scan::walk`] and [`pagemap::walk`]. Does not allocate.
///
/// # Errors
/// The system's error.
pub fn open_own() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let open = |path| rustix::fs::open(path, flags, Mode::empty());
    // The first thread may have ended.
    open(c"/proc/thread-self/pagemap").or_else(|_| open(c"/proc/self/pagemap"))
}

/// Whether an open page map is of no memory, as that of a thread that has ended.
fn is_empty((fd, _): &(OwnedFd, PathBuf)) -> bool {
    rustix::io::pread(fd, &mut [0; 8], 0).is_ok_and(|bytes| bytes == 0)
}

impl PageMap {
    /// Opens the page map and finds the best tier.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Denied`] for other users' processes.
    pub fn open(process: &Process) -> Result<PageMap> {
        let (fd, path) = through(process.pid(), "pagemap", is_empty, |path| {
            let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| Error::of_file("open", path, e))?;
            Ok((fd, path.to_path_buf()))
        })?;
        if !process.alive() {
            return Err(Error::Gone { pid: process.pid() });
        }
        let mut map = PageMap {
            fd,
            path,
            tier: Tier::Scan,
            told: TOLD | GUARD,
        };
        let nowhere = 0..page_size();
        if map.each_kind(&nowhere, &mut |_, _| true).is_err() {
            map.told = TOLD;
        }
        if map.each_kind(&nowhere, &mut |_, _| true).is_err() {
            map.tier = Tier::Words;
        }
        Ok(map)
    }

    /// As [`PageMap::open`], with a given tier, to test the slower one.
    ///
    /// # Errors
    /// As [`PageMap::open`].
    pub fn open_with(process: &Process, tier: Tier) -> Result<PageMap> {
        Ok(PageMap {
            tier,
            ..PageMap::open(process)?
        })
    }

    /// The tier in use.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Counts the bytes of a range.
    ///
    /// # Errors
    /// [`Error::Gone`] when the process exited, [`Error::Io`].
    pub fn counts(&self, range: &Addresses) -> Result<Counts> {
        let mut counts = Counts::default();
        self.each_run(range, &mut |run| {
            let bytes = run.addresses.end - run.addresses.start;
            let slot = if run.present {
                &mut counts.present
            } else {
                &mut counts.swapped
            };
            *slot += Bytes(bytes);
            true
        })?;
        Ok(counts)
    }

    /// Appends the runs of present pages in a range, at most `max` of them; returns false when
    /// there were more.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn present_runs(
        &self,
        range: &Addresses,
        max: usize,
        out: &mut Vec<Addresses>,
    ) -> Result<bool> {
        let start = out.len();
        let mut complete = true;
        self.each_run(range, &mut |run| {
            if run.present {
                complete = out.len() - start < max;
                if complete {
                    out.push(run.addresses);
                }
            }
            complete
        })?;
        Ok(complete)
    }

    /// Calls `visit` for each run of present or swapped pages, by address, until it returns false.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_run(&self, range: &Addresses, visit: &mut dyn FnMut(Run) -> bool) -> Result<()> {
        match self.tier {
            Tier::Scan => self.scan_all(range, visit),
            Tier::Words => self.read_words(range, visit),
        }
    }

    /// Calls `visit` for each run of present pages of files and shared memory (not of private copies
    /// of them), by address, until it returns false.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_file_run(
        &self,
        range: &Addresses,
        visit: &mut dyn FnMut(Addresses) -> bool,
    ) -> Result<()> {
        let (fd, range) = (self.fd.as_fd(), range.clone());
        let mut visit = |addresses, _| visit(addresses);
        match self.tier {
            Tier::Scan => pagemap_scan::walk(fd, range, Query::any_of(FILE), &mut visit),
            Tier::Words => pagemap::walk(fd, range, FILE, &mut visit),
        }
        .map_err(|error| self.failed("read", error))
    }

    /// Calls `visit` with the address and the frame of each present page, 39-86 ns a page. A page of a
    /// file that was evicted and read again is in another frame than before. All frames are 0 without
    /// CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_frame(
        &self,
        range: &Addresses,
        visit: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<()> {
        pagemap::frames(self.fd.as_fd(), range.clone(), visit)
            .map_err(|error| self.failed("read", error))
    }

    /// Calls `visit` for each run of present or swapped pages and the categories that they are in
    /// ([`crate::pagemap_scan`]), by address, until it returns false. The slower tier does not report the
    /// page of zeros.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_kind(
        &self,
        range: &Addresses,
        visit: &mut dyn FnMut(Addresses, u64) -> bool,
    ) -> Result<()> {
        self.each_of(range, self.told, visit)
    }

    /// As [`PageMap::each_kind`], but does not say for sure which pages are of a file ([`FILE`]). Ten
    /// times as fast where pages are small: for that the kernel looks at what it keeps of each page.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_place(
        &self,
        range: &Addresses,
        visit: &mut dyn FnMut(Addresses, u64) -> bool,
    ) -> Result<()> {
        self.each_of(range, self.told & !FILE, visit)
    }

    fn each_of(
        &self,
        range: &Addresses,
        told: u64,
        visit: &mut dyn FnMut(Addresses, u64) -> bool,
    ) -> Result<()> {
        match self.tier {
            Tier::Scan => {
                let query = Query::any_of(PRESENT | SWAPPED).telling(told);
                pagemap_scan::walk(self.fd.as_fd(), range.clone(), query, visit)
                    .map_err(|error| self.failed("PAGEMAP_SCAN", error))
            }
            Tier::Words => self.each_word(range, visit),
        }
    }

    /// As [`PageMap::each_kind`], always by the words, which show [`pagemap::EXCLUSIVE`] too.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_word(
        &self,
        range: &Addresses,
        visit: &mut dyn FnMut(Addresses, u64) -> bool,
    ) -> Result<()> {
        let categories = PRESENT | SWAPPED | WRITTEN | FILE | GUARD | pagemap::EXCLUSIVE;
        pagemap::walk(self.fd.as_fd(), range.clone(), categories, visit)
            .map_err(|error| self.failed("read", error))
    }

    fn scan_all(&self, range: &Addresses, visit: &mut dyn FnMut(Run) -> bool) -> Result<()> {
        let query = Query::any_of(PRESENT | SWAPPED);
        pagemap_scan::walk(self.fd.as_fd(), range.clone(), query, &mut runs(visit))
            .map_err(|error| self.failed("PAGEMAP_SCAN", error))
    }

    fn read_words(&self, range: &Addresses, visit: &mut dyn FnMut(Run) -> bool) -> Result<()> {
        let either = PRESENT | SWAPPED;
        pagemap::walk(self.fd.as_fd(), range.clone(), either, &mut runs(visit))
            .map_err(|error| self.failed("read", error))
    }

    fn failed(&self, doing: &'static str, source: std::io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL) => Error::Unsupported {
                what: "PAGEMAP_SCAN",
                since: "6.7",
            },
            Some(libc::ESRCH) => Error::of_file(doing, &self.path, rustix::io::Errno::SRCH),
            _ => Error::Io {
                doing,
                path: self.path.clone(),
                source,
            },
        }
    }
}

/// Adapts `visit` to runs with categories.
fn runs(visit: &mut dyn FnMut(Run) -> bool) -> impl FnMut(Addresses, u64) -> bool {
    |addresses, categories| {
        visit(Run {
            addresses,
            present: categories & PRESENT != 0,
        })
    }
}
