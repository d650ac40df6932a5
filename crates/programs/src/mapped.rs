//! Opens the very file that a process has mapped, not one that has its name by now.

use plimsoll_kernel::descriptors;
use plimsoll_kernel::mapped::{Named, NotNamed, is_listed_as};
use plimsoll_kernel::mounts::{Mounts, NotLocal};
use plimsoll_kernel::smaps::{Area, FileKey};
use std::os::fd::OwnedFd;

/// Why a file cannot be opened.
#[derive(Debug)]
pub enum Closed {
    /// Not without asking whoever serves this file system.
    NotLocal(NotLocal),
    /// It is not there, not for us, or another one is in its place.
    Away,
}

/// Opens the file of a mapping of a process, which sees these mounts, for reading: by the mapping itself,
/// which needs rights, else by its path below the root of the process. A file at that path that is not the
/// mapped one is none. A file system may call a file otherwise than the kernel's lists of mappings (overlay,
/// Btrfs); then a mapping of our own tells.
///
/// # Errors
/// [`Closed`].
pub fn open(pid: i32, mounts: &Mounts, area: &Area) -> Result<OwnedFd, Closed> {
    let is_memory = area.name.starts_with("/memfd:");
    let device = (area.file.major, area.file.minor);
    mounts.check_device(device).map_err(Closed::NotLocal)?;
    let named = match Named::of(pid, &area.addresses, &area.name, mounts) {
        Err(NotNamed::NotLocal(on)) => return Err(Closed::NotLocal(on)),
        named => named.ok().filter(|named| named.by_mapping || !is_memory),
    };
    let named = match named {
        None if is_memory => by_descriptor(pid, area.file),
        other => other,
    };
    let named = named.filter(Named::is_regular).ok_or(Closed::Away)?;
    let is_it = named.by_mapping || named.key() == area.file;
    let file = named.open().map_err(|_| Closed::Away)?;
    let is_it = is_it || is_listed_as(&file, area.file);
    is_it.then_some(file).ok_or(Closed::Away)
}

/// Most descriptors of a process that are looked at for one file.
const MAX_DESCRIPTORS: usize = 4096;

/// Looks up shared memory without a path, which the process itself has open.
fn by_descriptor(pid: i32, file: FileKey) -> Option<Named> {
    let mut open = descriptors::memory(pid, MAX_DESCRIPTORS)
        .ok()?
        .filter_map(|(path, _)| Named::memory(&path).ok());
    open.find(|named| named.key() == file)
}
