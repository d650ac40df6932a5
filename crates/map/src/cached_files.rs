//! How much of mapped files is in the page cache, whether this process maps it or not: by
//! `cachestat` on the files themselves, never by touching them.

use crate::multiply_mapped::identity;
use crate::parts::Part;
use crate::snapshot::Snapshot;
use plimsoll_kernel::descriptors;
use plimsoll_kernel::mounts::{NotLocal, kind_of};
use plimsoll_kernel::page_cache;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use plimsoll_programs::mapped::{self, Closed};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

/// Most files that are open at a time.
const MAX_FILES: usize = 8192;
/// Most answers about one file that are kept.
const MAX_ANSWERS: usize = 4096;

/// The state of the part of a file that a part of a mapping shows, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// In the page cache.
    pub cached: u64,
    /// Left it so recently that reading it again is a refault; 0 of tmpfs.
    pub evicted: u64,
    /// In swap; of tmpfs only.
    pub swapped: u64,
}

/// Why some files could not be asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Bytes of mappings whose file could not be opened, or was not the mapped one.
    pub closed: u64,
    /// Bytes of mappings of files that were not asked about, because they may be behind a server: by what
    /// they are on.
    pub not_local: BTreeMap<NotLocal, u64>,
    /// Bytes of mappings of files on an overlay, which has no page cache of its own.
    pub overlay: u64,
    /// Bytes of mappings of files that the kernel tells only their owner about.
    pub denied: u64,
    /// Whether this kernel has no `cachestat`.
    pub unsupported: bool,
    /// Whether the time was up before all files were asked.
    pub late: bool,
}

/// Asks about each part; the result has one entry a part, `None` for what is not of a file or cannot
/// be told. Ends soon after `deadline`, unless a disk does not answer.
pub fn look(
    snapshot: &Snapshot,
    parts: &[Part],
    deadline: Option<Instant>,
) -> (Vec<Option<Cache>>, Untold) {
    let mut caches = vec![None; parts.len()];
    let mut untold = Untold::default();
    let mut files = Files::default();
    for (part, slot) in parts.iter().zip(&mut caches) {
        let area = &snapshot.mappings[part.mapping];
        if !has_file(area) {
            continue;
        }
        if deadline.is_some_and(|end| Instant::now() >= end) {
            untold.late = true;
            break;
        }
        let bytes = part.addresses.end - part.addresses.start;
        let asked = match files.of(snapshot, area) {
            Ok(file) if file.is_overlay => {
                untold.overlay += bytes;
                continue;
            }
            Ok(file) => file.ask(area, &part.addresses),
            Err(Closed::NotLocal(on)) => {
                *untold.not_local.entry(on.clone()).or_default() += bytes;
                continue;
            }
            Err(Closed::Away) => {
                untold.closed += bytes;
                continue;
            }
        };
        match asked {
            Ok(cache) => *slot = Some(cache),
            Err(error) if error.is_denied() => untold.denied += bytes,
            Err(error) if error.is_absent() => {
                untold.unsupported = true;
                break;
            }
            Err(_) => untold.closed += bytes,
        }
    }
    (caches, untold)
}

/// The files that were opened so far, by their [`identity`].
#[derive(Default)]
pub(crate) struct Files(HashMap<(FileKey, String), Result<File, Closed>>);

impl Files {
    fn of(&mut self, snapshot: &Snapshot, area: &Area) -> &mut Result<File, Closed> {
        let (file, path) = identity(area);
        let key = (file, path.to_owned());
        // Those of one file are mostly asked for in a row, so that few are opened again.
        let most = MAX_FILES.min(descriptors::limit() / 2);
        if self.0.len() >= most && !self.0.contains_key(&key) {
            self.0.clear();
        }
        let file = self.0.entry(key);
        file.or_insert_with(|| File::open(snapshot, area))
    }

    /// How much of what a part of a mapping shows has left memory, bytes: of tmpfs it is in swap, of
    /// other files it is not in the page cache. `None` where that cannot be told.
    pub(crate) fn gone(
        &mut self,
        snapshot: &Snapshot,
        area: &Area,
        part: &Addresses,
    ) -> Option<u64> {
        if !has_file(area) {
            return None;
        }
        let file = self.of(snapshot, area).as_ref().ok()?;
        if file.is_overlay {
            return None;
        }
        let cache = file.cache(pages_of(area, part)).ok()?;
        Some(if file.tmpfs {
            cache.swapped
        } else {
            (part.end - part.start).saturating_sub(cache.cached)
        })
    }
}

/// Whether a mapping shows a file that can have pages in the cache.
pub(crate) fn has_file(area: &Area) -> bool {
    let none = ["/anon_hugepage", "/["];
    area.file.inode != 0
        && area.name.starts_with('/')
        && !none.iter().any(|start| area.name.starts_with(start))
}

/// A mapped file, open.
struct File {
    descriptor: OwnedFd,
    path: PathBuf,
    tmpfs: bool,
    /// Its pages are those of a layer's file.
    is_overlay: bool,
    /// By what was asked, offsets in the file. A process may map the same part several times, as ZGC
    /// does with its heap, and to answer the kernel walks through all pages.
    answers: HashMap<Range<u64>, Cache>,
}

impl File {
    /// Opens the file of a mapping.
    fn open(snapshot: &Snapshot, area: &Area) -> Result<File, Closed> {
        let descriptor = mapped::open(snapshot.pid, &snapshot.mounts, area)?;
        let kind = kind_of(&descriptor);
        Ok(File {
            descriptor,
            path: PathBuf::from(&area.name),
            tmpfs: kind == Some("tmpfs"),
            is_overlay: kind == Some("overlay"),
            answers: HashMap::new(),
        })
    }

    /// Asks about what a part of a mapping shows, or remembers the answer.
    fn ask(&mut self, area: &Area, part: &Addresses) -> plimsoll_kernel::Result<Cache> {
        let range = pages_of(area, part);
        if let Some(answer) = self.answers.get(&range) {
            return Ok(*answer);
        }
        let answer = self.cache(range.clone())?;
        if self.answers.len() < MAX_ANSWERS {
            self.answers.insert(range, answer);
        }
        Ok(answer)
    }

    /// Asks about a range of the file.
    fn cache(&self, range: Range<u64>) -> plimsoll_kernel::Result<Cache> {
        let found = page_cache::of(&self.descriptor, &self.path, range)?;
        let (evicted, swapped) = if self.tmpfs {
            (0, found.evicted.0)
        } else {
            (found.recently_evicted.0, 0)
        };
        Ok(Cache {
            cached: found.cached.0,
            evicted,
            swapped,
        })
    }
}

/// The offsets in its file of what a part of a mapping shows, in whole pages: each page belongs to the
/// part in which it begins.
fn pages_of(area: &Area, part: &Addresses) -> Range<u64> {
    let page = page_size();
    let offset = |address: u64| {
        let inside = (address - area.addresses.start).next_multiple_of(page);
        area.offset.saturating_add(inside)
    };
    offset(part.start)..offset(part.end)
}
