//! On which file systems pages of files are held: not on those that keep them in memory anyway, and not
//! on those behind a server, which may stop to answer while we lock pages.

use crate::error::PinError;
use plimsoll_kernel::Result;
use plimsoll_kernel::mounts::Layers;
use plimsoll_kernel::smaps::Area;
use std::collections::BTreeMap;

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

/// What an overlay lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    /// No layer is behind a server.
    Here,
    /// A layer is on this kind of file system behind a server.
    Server(String),
    /// Of a layer that is not known: it may be behind a server.
    Unknown,
}

impl Below {
    fn of(layers: Layers) -> Below {
        let remote = layers.kinds.into_iter().find(|kind| is_remote(kind));
        match (remote, layers.complete) {
            (Some(kind), _) => Below::Server(kind),
            (None, true) => Below::Here,
            (None, false) => Below::Unknown,
        }
    }
}

/// What each overlay lies on. That stays so, but the number of an overlay is given to another one once it is
/// unmounted: this is to be made anew now and then.
#[derive(Debug, Default)]
pub(crate) struct Overlays(BTreeMap<(u32, u32), Below>);

impl Overlays {
    /// What an overlay lies on. `read` tells its layers. It is asked again after a failure.
    pub(crate) fn below(
        &mut self,
        overlay: (u32, u32),
        read: impl FnOnce() -> Result<Layers>,
    ) -> Result<Below> {
        if let Some(known) = self.0.get(&overlay) {
            return Ok(known.clone());
        }
        let found = Below::of(read()?);
        if self.0.len() >= MAX_OVERLAYS {
            self.0.clear();
        }
        self.0.insert(overlay, found.clone());
        Ok(found)
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
        let gone = || Err(Error::Gone { pid: 7 });
        assert!(overlays.below((0, 1), gone).is_err());
        let server = Below::Server("fuse.sshfs".into());
        let below = overlays.below((0, 1), || Ok(layers(&["ext4", "fuse.sshfs"], true)));
        assert_eq!(below.unwrap(), server);
        assert_eq!(overlays.below((0, 1), gone).unwrap(), server);
        for minor in 2..300 {
            let below = overlays.below((0, minor), || Ok(layers(&["ext4", "overlay"], true)));
            assert_eq!(below.unwrap(), Below::Here);
            assert!(overlays.0.len() <= MAX_OVERLAYS);
        }
    }

    fn layers(kinds: &[&str], complete: bool) -> Layers {
        Layers {
            kinds: kinds.iter().map(|&kind| kind.into()).collect(),
            complete,
        }
    }

    #[test]
    fn a_layer_that_is_not_known_may_be_behind_a_server() {
        for kinds in [&[][..], &["ext4", "overlay"]] {
            assert_eq!(Below::of(layers(kinds, false)), Below::Unknown);
        }
        let server = Below::Server("nfs4".into());
        assert_eq!(Below::of(layers(&["ext4", "nfs4"], false)), server);
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
