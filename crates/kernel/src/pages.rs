//! Which pages of a range are present and which are swapped: `PAGEMAP_SCAN` (Linux 6.7), else the words of `/proc/PID/pagemap`.
//! Source: kernel document `admin-guide/mm/pagemap.rst`. No privilege is needed for processes of the same user.

use crate::process::{Process, page_size, proc_path};
use crate::smaps::Addresses;
use crate::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Runs that are asked for in one call.
const RUNS_PER_CALL: usize = 512;
/// Most calls for one range: 512 runs each.
const MAX_CALLS: usize = 1 << 16;
/// Pagemap words read at a time.
const WORDS: usize = 4096;

const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const WORD_SWAPPED: u64 = 1 << 62;
const WORD_PRESENT: u64 = 1 << 63;

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 =
    3 << 30 | (size_of::<ScanArguments>() as u64) << 16 | (b'f' as u64) << 8 | 16;

/// How the pages are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// `PAGEMAP_SCAN`: 3-13 ns a page.
    Scan,
    /// One word a page: 39-86 ns.
    Words,
}

/// Bytes of a range by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In memory.
    pub present: u64,
    /// In swap (guard pages and write-protect markers of userfaultfd look the same).
    pub swapped: u64,
}

/// Pages in a row that are in the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where.
    pub addresses: Addresses,
    /// In memory, else in swap.
    pub present: bool,
}

/// The page map of a process, open.
#[derive(Debug)]
pub struct PageMap {
    fd: OwnedFd,
    path: PathBuf,
    tier: Tier,
}

impl PageMap {
    /// Opens it and finds the best tier.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Denied`] for other users' processes.
    pub fn open(process: &Process) -> Result<PageMap> {
        let path = proc_path(process.pid(), "pagemap");
        let fd = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Error::of_file("open", &path, e))?;
        if !process.alive() {
            return Err(Error::Gone { pid: process.pid() });
        }
        let mut map = PageMap {
            fd,
            path,
            tier: Tier::Scan,
        };
        let mut none = [Region::default(); 1];
        if map.scan(&(0..page_size()), &mut none).is_err() {
            map.tier = Tier::Words;
        }
        Ok(map)
    }

    /// The same with a tier forced, to test the slower one.
    ///
    /// # Errors
    /// As [`PageMap::open`].
    pub fn open_with(process: &Process, tier: Tier) -> Result<PageMap> {
        Ok(PageMap {
            tier,
            ..PageMap::open(process)?
        })
    }

    /// How it looks.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Counts a range.
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
            *slot += bytes;
            true
        })?;
        Ok(counts)
    }

    /// Appends the runs of present pages in a range, at most `max` of them; returns false when there were more.
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

    /// Tells each run of present or swapped pages in order of address, until `tell` says stop.
    ///
    /// # Errors
    /// As [`PageMap::counts`].
    pub fn each_run(&self, range: &Addresses, tell: &mut dyn FnMut(Run) -> bool) -> Result<()> {
        match self.tier {
            Tier::Scan => self.scan_all(range, tell),
            Tier::Words => self.read_words(range, tell),
        }
    }

    fn scan_all(&self, range: &Addresses, tell: &mut dyn FnMut(Run) -> bool) -> Result<()> {
        let mut regions = [Region::default(); RUNS_PER_CALL];
        let mut rest = range.clone();
        for _ in 0..MAX_CALLS {
            if rest.is_empty() {
                break;
            }
            let (count, walked) = self.scan(&rest, &mut regions)?;
            for region in &regions[..count.min(RUNS_PER_CALL)] {
                let run = Run {
                    addresses: region.start..region.end,
                    present: region.categories & PAGE_IS_PRESENT != 0,
                };
                if !tell(run) {
                    return Ok(());
                }
            }
            if walked <= rest.start {
                break;
            }
            rest.start = walked;
        }
        Ok(())
    }

    /// One call: how many runs it found, and how far it walked.
    fn scan(&self, range: &Addresses, regions: &mut [Region]) -> Result<(usize, u64)> {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: range.start,
            end: range.end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            ..ScanArguments::default()
        };
        // SAFETY: the request takes a pointer to the structure above, whose size it carries; `vec` points to `vec_len` regions that
        // outlive the call, and the kernel writes only to those two.
        let count =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut arguments) };
        if count < 0 {
            return Err(self.failed("PAGEMAP_SCAN"));
        }
        Ok((count as usize, arguments.walk_end))
    }

    fn read_words(&self, range: &Addresses, tell: &mut dyn FnMut(Run) -> bool) -> Result<()> {
        let page = page_size();
        let mut buffer = vec![0u8; WORDS * 8];
        let mut open: Option<Run> = None;
        let mut at = range.start;
        while at < range.end {
            let want = (((range.end - at).div_ceil(page)) as usize).min(WORDS) * 8;
            let got = match rustix::io::pread(&self.fd, &mut buffer[..want], at / page * 8) {
                Ok(n) => n / 8 * 8,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(Error::of_file("read", &self.path, errno)),
            };
            if got == 0 {
                break;
            }
            for word in buffer[..got].chunks_exact(8) {
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                let kind = if word & WORD_PRESENT != 0 {
                    Some(true)
                } else if word & WORD_SWAPPED != 0 {
                    Some(false)
                } else {
                    None
                };
                if !extend(&mut open, kind, at..at + page, tell) {
                    return Ok(());
                }
                at += page;
            }
        }
        if let Some(run) = open {
            tell(run);
        }
        Ok(())
    }

    fn failed(&self, doing: &'static str) -> Error {
        let source = std::io::Error::last_os_error();
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

/// Adds a page to the open run, or closes that and opens another.
fn extend(
    open: &mut Option<Run>,
    kind: Option<bool>,
    page: Addresses,
    tell: &mut dyn FnMut(Run) -> bool,
) -> bool {
    if let Some(run) = open.as_mut()
        && kind == Some(run.present)
        && run.addresses.end == page.start
    {
        run.addresses.end = page.end;
        return true;
    }
    let closed = match kind {
        Some(present) => open.replace(Run {
            addresses: page,
            present,
        }),
        None => open.take(),
    };
    closed.is_none_or(tell)
}
