//! On which file systems pages of files are held: not on those that keep them in memory anyway, and not
//! on those behind a server, which may stop to answer while we lock pages.

use crate::error::PinError;
use plimsoll_kernel::Result;
use plimsoll_kernel::smaps::Area;
use std::collections::{BTreeMap, BTreeSet};

/// File systems whose pages go to swap or stay in memory anyway.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
/// File systems behind a server, whose answer may never come.
const REMOTE: [&str; 20] = [
    "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "lustre", "virtiofs", "fuse", "fuseblk",
    "coda", "orangefs", "ocfs2", "gfs2", "gpfs", "beegfs", "vboxsf", "vmhgfs", "prl_fs",
];
pub(crate) const BEHIND_A_SERVER: &str = "behind a server that may not answer";
/// The most overlays of one process that are remembered.
const MAX_OVERLAYS: usize = 64;
/// Why files on an overlay that another user made are not held. A user can put one over a file system
/// of their own, whose server stops to answer while we lock pages.
pub(crate) const OTHERS_OVERLAY: &str = "made by another user; a layer may be behind a server";

/// Of each overlay, on what kind of file system behind a server a layer of it lies. That stays so, but the
/// number of an overlay is given to another one once it is unmounted: this is to be made anew now and then.
#[derive(Debug, Default)]
pub(crate) struct Overlays(BTreeMap<(u32, u32), Option<String>>);

impl Overlays {
    /// The first such kind, if there is any. `read` tells the kinds of all layers. It is asked again
    /// after a failure.
    pub(crate) fn behind(
        &mut self,
        overlay: (u32, u32),
        read: impl FnOnce() -> Result<BTreeSet<String>>,
    ) -> Result<Option<&str>> {
        if !self.0.contains_key(&overlay) {
            let found = read()?.into_iter().find(|kind| is_remote(kind));
            if self.0.len() >= MAX_OVERLAYS {
                self.0.clear();
            }
            self.0.insert(overlay, found);
        }
        Ok(self.0.get(&overlay).and_then(Option::as_deref))
    }
}

/// Whether an area is shared memory that has a name like a file's.
pub(crate) fn is_no_file(area: &Area) -> bool {
    [
        "/memfd:",
        "/SYSV",
        "/dev/zero",
        "/dev/shm/",
        "/[aio]",
        "anon_inode:",
        "/anon_hugepage",
    ]
    .iter()
    .any(|start| area.name.starts_with(start))
}

pub(crate) fn file_system(path: String, kind: &str) -> PinError {
    PinError::FileSystem {
        path,
        kind: kind.to_owned(),
        why: verdict(kind).unwrap_or("which is not held"),
    }
}

/// Why files on this kind of file system are not held; `None` where they may be.
pub fn verdict(kind: &str) -> Option<&'static str> {
    let base = kind.split('.').next().unwrap_or(kind);
    if IN_MEMORY.contains(&base) {
        return Some("whose pages go to swap: no file to read them from again");
    }
    is_remote(kind).then_some(BEHIND_A_SERVER)
}

/// Whether files on this kind of file system are behind a server.
fn is_remote(kind: &str) -> bool {
    REMOTE.contains(&kind.split('.').next().unwrap_or(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::Error;

    #[test]
    fn what_lies_below_an_overlay_is_asked_again_after_a_failure() {
        let mut overlays = Overlays::default();
        let all = |kinds: &[&str]| Ok(kinds.iter().map(|&kind| kind.into()).collect());
        let gone = || Err(Error::Gone { pid: 7 });
        assert!(overlays.behind((0, 1), gone).is_err());
        let behind = overlays.behind((0, 1), || all(&["ext4", "fuse.sshfs"]));
        assert_eq!(behind.unwrap(), Some("fuse.sshfs"));
        assert_eq!(overlays.behind((0, 1), gone).unwrap(), Some("fuse.sshfs"));
        for minor in 2..300 {
            let behind = overlays.behind((0, minor), || all(&["ext4", "overlay"]));
            assert_eq!(behind.unwrap(), None);
            assert!(overlays.0.len() <= MAX_OVERLAYS);
        }
    }

    #[test]
    fn file_systems_are_judged_by_their_kind() {
        for kind in ["tmpfs", "nfs4", "fuse.sshfs", "9p"] {
            assert!(verdict(kind).is_some(), "{kind}");
        }
        for kind in ["ext4", "xfs", "btrfs", "overlay", "squashfs", "erofs"] {
            assert!(verdict(kind).is_none(), "{kind}");
        }
    }
}
