//! Opens the very file that a process has mapped, not one that has its name by now.

use crate::sight::Sight;
use plimsoll_kernel::descriptors;
use plimsoll_kernel::mapped::Named;
use plimsoll_kernel::smaps::{Area, FileKey};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A mapped file.
pub(crate) struct Opened {
    /// For reading.
    pub(crate) descriptor: OwnedFd,
    /// What its file system calls it. The kernel may count its pages under another number, that of
    /// the lower file of an overlay.
    pub(crate) key: FileKey,
}

/// Opens the file of a mapping: by the mapping itself, which needs rights, else by its path below the
/// root of the process. A file at that path that is not the mapped one is none.
pub(crate) fn open(sight: &Sight, area: &Area) -> Option<Opened> {
    let named = Named::of(sight.pid, &area.addresses, &sight.root, &area.name).ok();
    let is_memory = area.name.starts_with("/memfd:");
    let named = match named.filter(|named| named.by_mapping || !is_memory) {
        None if is_memory => by_descriptor(sight.pid, area.file),
        other => other,
    }?;
    let key = named.key();
    let is_it = named.by_mapping || key == area.file;
    Some(Opened {
        descriptor: (is_it && named.is_regular()).then(|| named.open().ok())??,
        key,
    })
}

/// Most descriptors of a process that are looked at for one file.
const MAX_DESCRIPTORS: usize = 4096;

/// Looks up shared memory without a path, which the process itself has open.
fn by_descriptor(pid: i32, file: FileKey) -> Option<Named> {
    let is_memory = |target: &Path| {
        let name = target.as_os_str().as_encoded_bytes();
        name.starts_with(b"/memfd:")
    };
    let open = descriptors::of(pid).ok()?.take(MAX_DESCRIPTORS);
    open.filter(|open| is_memory(&open.target))
        .filter_map(|open| Named::at(&open.path).ok())
        .find(|named| named.key() == file)
}
