//! The counters of a machine that makes no file of them: `HotSpot` keeps them at the start of a page of its
//! private memory then (`PerfMemory::create_memory_region`). They are searched for by their first bytes.
//!
//! Only pages that are in memory are looked at, some bytes of each: those of the counters are, because the
//! machine writes them all the time, and nothing is brought back from swap for a look. Small mappings come
//! first.

use plimsoll_kernel::clock;
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::process::{Handle, Process, page_size};
use plimsoll_kernel::process_vm::{Piece, copy_pieces};
use plimsoll_kernel::smaps::{Addresses, Area, FileKey, each_mapping};
use plimsoll_unit::Nanos;
use std::io;
use std::ops::Range;

/// The first bytes of counters.
pub(super) const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
/// How long the search may take, processor time: on a busy computer it waits for others.
const LONGEST: Nanos = Nanos::millis(300);
/// A larger mapping is not looked at, bytes: before Linux 6.7 each of its pages has to be asked for.
const LARGEST: u64 = 16 << 30;
/// The most mappings that are looked at.
const MAX_AREAS: usize = 65_536;
/// Pages that are looked at between two looks at the clock.
const TOGETHER: usize = 1024;

/// The outcome of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Something was accepted.
    pub found: bool,
    /// Pages that were looked at.
    pub pages: u64,
    /// It took longer than it may.
    pub cut: bool,
}

/// Looks for pages of a process, outside of `heap`, that begin as counters do, until `accept` takes one.
///
/// # Errors
/// `PermissionDenied` without the rights of a debugger; that the process is gone.
pub(super) fn search(
    process: &Handle,
    heap: Option<&Range<u64>>,
    accept: &mut dyn FnMut(u64) -> bool,
) -> io::Result<Searched> {
    let pid = i32::try_from(process.pid).map_err(io::Error::other)?;
    let process = Process::open_known(pid, process.started)?;
    let map = PageMap::open(&process)?;
    let mut search = Search {
        process: &process,
        accept,
        pages: Vec::with_capacity(TOGETHER),
        until: clock::thread_cpu() + LONGEST,
        searched: Searched::default(),
    };
    for area in areas(&process, heap)? {
        let mut failed = None;
        map.each_run(&area, &mut |run| {
            let goes_on = search.add(run.addresses, run.present);
            failed = goes_on.as_ref().err().map(|error| error.kind().into());
            goes_on.unwrap_or(false)
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if !search.look()? {
            break;
        }
    }
    Ok(search.searched)
}

/// Private memory of no file that can be written, the smallest first.
fn areas(process: &Process, heap: Option<&Range<u64>>) -> io::Result<Vec<Addresses>> {
    let mut found = Vec::new();
    each_mapping(process, &mut |area| {
        let is_heap = heap
            .is_some_and(|heap| heap.start < area.addresses.end && area.addresses.start < heap.end);
        let is_large = area.addresses.end - area.addresses.start > LARGEST;
        if is_of_counters(area) && !is_heap && !is_large {
            found.push(area.addresses.clone());
        }
        found.len() < MAX_AREAS
    })?;
    found.sort_by_key(|area| area.end - area.start);
    Ok(found)
}

fn is_of_counters(area: &Area) -> bool {
    let is_private = !area.shared_mapping && area.file == FileKey::default();
    // Newer kernels let a program name such memory.
    let is_plain = area.name.is_empty() || area.name.starts_with("[anon");
    is_private && is_plain && area.readable && area.writable && !area.executable
}

/// A search that is under way.
struct Search<'a> {
    process: &'a Process,
    accept: &'a mut dyn FnMut(u64) -> bool,
    /// Addresses of pages that are to be looked at.
    pages: Vec<u64>,
    /// The processor time of this thread at which it ends.
    until: Nanos,
    searched: Searched,
}

impl Search<'_> {
    /// Adds the pages of a run, and looks at them if they are many. False when the search is over.
    fn add(&mut self, run: Addresses, present: bool) -> io::Result<bool> {
        if !present {
            return Ok(true);
        }
        for page in run.step_by(page_size() as usize) {
            self.pages.push(page);
            if self.pages.len() == TOGETHER && !self.look()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks at the pages that were added. False when the search is over.
    fn look(&mut self) -> io::Result<bool> {
        if self.searched.found || self.searched.cut {
            return Ok(false);
        }
        let pages = std::mem::take(&mut self.pages);
        let mut heads = vec![[0; MAGIC.len()]; pages.len()];
        let pairs = pages.iter().zip(&mut heads);
        let mut pieces: Vec<Piece<'_>> =
            pairs.map(|(page, head)| Piece::new(*page, head)).collect();
        copy_pieces(self.process, &mut pieces)?;
        self.searched.pages += pages.len() as u64;
        let begins = pages.iter().zip(&heads).filter(|(_, head)| **head == MAGIC);
        for (page, _) in begins {
            if (self.accept)(*page) {
                self.searched.found = true;
                return Ok(false);
            }
        }
        self.searched.cut = clock::thread_cpu() >= self.until;
        Ok(!self.searched.cut)
    }
}
