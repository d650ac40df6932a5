//! Which mounts are of this machine alone.

use super::{Device, MAX_OVERLAYS, Mount, Mounts};
use crate::descriptors::mount_of;
use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};
use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;

/// File systems on a disk, which gives their device its major number. One without a number has no disk: an
/// `erofs` then lies in a file of whatever file system, or a program reads it.
const ON_A_DISK: [&str; 21] = [
    "ext2", "ext3", "ext4", "xfs", "f2fs", "jfs", "reiserfs", "nilfs2", "vfat", "msdos", "exfat",
    "ntfs3", "hfs", "hfsplus", "udf", "iso9660", "squashfs", "erofs", "cramfs", "romfs", "minix",
];
/// File systems that number their devices themselves, on disks or in memory.
const BY_THEMSELVES: [&str; 9] = [
    "btrfs",
    "bcachefs",
    "zfs",
    "ubifs",
    "tmpfs",
    "ramfs",
    "rootfs",
    "devtmpfs",
    "hugetlbfs",
];
const OVERLAY: &str = "overlay";

/// The reason not to ask about a file: a server may be behind its mount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotLocal {
    /// This kind is not known to be of this machine alone.
    #[error("{0}")]
    Kind(String),
    /// A layer of the overlay is of such a kind.
    #[error("an overlay over {0}")]
    Layer(String),
    /// Not all layers of the overlay are known.
    #[error("an overlay whose layers are not known")]
    Layers,
    /// Another user made the overlay, over whatever they like.
    #[error("an overlay that another user made")]
    OfOthers,
    /// It is in no list of mounts.
    #[error("a file system that is not in the lists of mounts")]
    Unlisted,
}

/// On which kinds of file systems the layers of an overlay lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layers {
    /// The kinds that are known.
    pub(super) kinds: BTreeSet<String>,
    /// One that may be behind a server.
    pub(super) remote: Option<String>,
    /// Whether these are all. Not so where an overlay was mounted with relative paths, or is not in the list
    /// of mounts any more.
    pub(super) complete: bool,
}

impl Mounts {
    /// Whether files of this device may be asked about.
    ///
    /// # Errors
    /// The mount that they are on.
    pub fn check_device(&self, device: Device) -> Result<(), NotLocal> {
        if memory().is_some_and(|(own, _)| own == device) {
            return Ok(());
        }
        self.check(|mounts| mounts.mount_of(device))
    }

    /// Whether the file that is named by an open descriptor may be asked about: by its mount, which stays as
    /// long as that is open. Asks nothing of the file.
    ///
    /// # Errors
    /// The mount that it is on.
    pub fn check_open(&self, file: &impl AsRawFd) -> Result<(), NotLocal> {
        let id = mount_of(file).ok_or(NotLocal::Unlisted)?;
        if is_memory(file) {
            return Ok(());
        }
        self.check(|mounts| mounts.list.iter().find(|mount| mount.id == id))
    }

    /// Whether looking up a path below the root of the process asks nobody, as long as it leads through no
    /// link: all mounts on the way, also hidden ones.
    ///
    /// # Errors
    /// The first mount on the way that is not local.
    pub fn check_path(&self, path: &Path) -> Result<(), NotLocal> {
        let mut is_whole = false;
        for mount in self
            .list
            .iter()
            .filter(|mount| path.starts_with(&mount.point))
        {
            self.is_local(mount)?;
            is_whole |= mount.point == Path::new("/");
        }
        is_whole.then_some(()).ok_or(NotLocal::Unlisted)
    }

    fn check<'a>(&'a self, find: impl Fn(&'a Mounts) -> Option<&'a Mount>) -> Result<(), NotLocal> {
        if let Some(mount) = find(self) {
            return self.is_local(mount);
        }
        let ours = self.ours();
        find(ours).map_or(Err(NotLocal::Unlisted), |mount| ours.is_local(mount))
    }

    /// Judges one of our mounts.
    fn is_local(&self, mount: &Mount) -> Result<(), NotLocal> {
        let judge = || match (mount.kind == OVERLAY, self.of_others) {
            (false, _) => kind_is_local(mount)
                .then_some(())
                .ok_or_else(|| NotLocal::Kind(mount.kind.clone())),
            (true, true) => Err(NotLocal::OfOthers),
            (true, false) => match self.layers(mount) {
                Layers {
                    remote: Some(kind), ..
                } => Err(NotLocal::Layer(kind)),
                Layers {
                    complete: false, ..
                } => Err(NotLocal::Layers),
                Layers { .. } => Ok(()),
            },
        };
        mount.is_local.get_or_init(judge).clone()
    }

    /// The mounts below the layers of an overlay, by the paths in its options: they were valid when it was
    /// mounted, most likely as seen from here. A layer may lie on an overlay itself; its layers are included.
    pub(super) fn layers(&self, overlay: &Mount) -> Layers {
        let lists = [&self.list, &self.ours().list];
        let mut found = Layers {
            complete: true,
            ..Layers::default()
        };
        let (mut left, mut known) = (vec![overlay], BTreeSet::from([overlay.device]));
        while let Some(overlay) = left.pop() {
            let (paths, are_all) = overlay
                .layers
                .as_ref()
                .map_or((&[][..], false), |(paths, all)| (paths, *all));
            found.complete &= are_all;
            for layer in paths {
                // The directory in which a mount with relative paths was made is unknown.
                let below: Vec<&Mount> = lists
                    .iter()
                    .filter_map(|list| nearest_of(list, layer))
                    .collect();
                found.complete &= !below.is_empty();
                for mount in below {
                    found.kinds.insert(mount.kind.clone());
                    if mount.kind != OVERLAY {
                        if !kind_is_local(mount) {
                            found.remote = Some(mount.kind.clone());
                        }
                    } else if known.insert(mount.device) {
                        left.push(mount);
                    }
                }
            }
            if known.len() > MAX_OVERLAYS {
                found.complete = false;
                return found;
            }
        }
        found
    }
}

fn kind_is_local(mount: &Mount) -> bool {
    let kind = &*mount.kind;
    BY_THEMSELVES.contains(&kind) || ON_A_DISK.contains(&kind) && mount.device.0 != 0
}

/// The mount that an absolute path leads to: of several at the same place the last one.
fn nearest_of<'a>(list: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = list.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// Whether an open descriptor is of a memory file, or of shared memory without a file. Asks no other file
/// system.
pub(crate) fn is_memory(file: &impl AsRawFd) -> bool {
    memory().is_some_and(|(_, own)| mount_of(file) == Some(own))
}

/// Device and mount of the tmpfs that the kernel keeps for itself and lists nowhere: of memfd, System V
/// segments and shared memory without a file.
fn memory() -> Option<(Device, u64)> {
    static KNOWN: OnceLock<(Device, u64)> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Some(*known);
    }
    let file = memfd_create("plimsoll", MemfdFlags::CLOEXEC).ok()?;
    let device = fstat(&file).ok()?.st_dev;
    let found = ((major(device), minor(device)), mount_of(&file)?);
    Some(*KNOWN.get_or_init(|| found))
}
