//! On which file systems pages of files are held: on those of this machine
//! ([`plimsoll_kernel::mounts`]), since a server may stop to answer while we lock pages; and not on those
//! that keep files in memory anyway.

use crate::error::PinError;
use plimsoll_kernel::mounts::NotLocal;
use plimsoll_kernel::smaps::Area;

/// File systems whose pages go to swap or stay in memory anyway.
const IN_MEMORY: [&str; 5] = ["tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs"];

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

/// Whether this kind of file system keeps its files in memory.
pub fn is_in_memory(kind: &str) -> bool {
    IN_MEMORY.contains(&kind)
}

/// A file of a file system that keeps it in memory.
pub(crate) fn in_memory(path: String, kind: &str) -> PinError {
    PinError::FileSystem {
        path,
        kind: kind.to_owned(),
        why: "whose pages go to swap: no file to read them from again",
    }
}

/// A file that may be behind a server.
pub(crate) fn not_local(path: String, on: NotLocal) -> PinError {
    match on {
        NotLocal::Layers => PinError::UnknownLayers { path },
        on => PinError::FileSystem {
            path,
            kind: on.to_string(),
            why: "which may be behind a server that does not answer",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_behind_a_server_is_told_with_what_it_is_on() {
        let told = |on| not_local("/x".into(), on).to_string();
        let layer = told(NotLocal::Layer("fuse.sshfs".into()));
        assert!(layer.starts_with("/x: on an overlay over fuse.sshfs, which may be behind"));
        assert!(told(NotLocal::OfOthers).contains("that another user made, which may"));
        let layers = told(NotLocal::Layers);
        assert!(
            layers.contains("not known") && layers.contains("absolute paths"),
            "{layers}"
        );
        assert!(is_in_memory("tmpfs") && !is_in_memory("ext4"));
    }
}
