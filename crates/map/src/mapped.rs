//! Opens the very file that a process has mapped, not one that has its name by now.

use crate::sight::Sight;
use plimsoll_kernel::descriptors;
use plimsoll_kernel::mapped::{Named, is_listed_as};
use plimsoll_kernel::smaps::{Area, FileKey};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens the file of a mapping for reading: by the mapping itself, which needs rights, else by its path
/// below the root of the process. A file at that path that is not the mapped one is none. A file system
/// may call a file otherwise than the kernel's lists of mappings (overlay, Btrfs); then a mapping of our
/// own tells.
pub(crate) fn open(sight: &Sight, area: &Area) -> Option<OwnedFd> {
    let named = Named::of(sight.pid, &area.addresses, &sight.root, &area.name).ok();
    let is_memory = area.name.starts_with("/memfd:");
    let named = match named.filter(|named| named.by_mapping || !is_memory) {
        None if is_memory => by_descriptor(sight.pid, area.file),
        other => other,
    }?;
    if !named.is_regular() {
        return None;
    }
    let is_it = named.by_mapping || named.key() == area.file;
    let file = named.open().ok()?;
    (is_it || is_listed_as(&file, area.file)).then_some(file)
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
        .filter_map(|open| Named::memory(&open.path).ok())
        .find(|named| named.key() == file)
}
