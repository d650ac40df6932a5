//! Checks of trust: which process is at the other end of a UNIX socket (`SO_PEERCRED`, unix(7)),
//! and which user owns a directory.

use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The process that connected or listened, as it was at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its effective user.
    pub uid: u32,
    /// Its number; 0 if it is in a pid namespace that is neither ours nor below ours.
    pub pid: u32,
}

/// The peer of a UNIX socket. Uses the system call directly, because `rustix`'s type cannot hold
/// the number 0.
///
/// # Errors
/// The kernel's: it is no UNIX socket.
pub fn peer_of(socket: impl AsFd) -> Result<Peer, Errno> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is valid for writes of `length` bytes for the whole call, and any
    // bytes are a value of `ucred` (three integers).
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut length,
        )
    };
    if code != 0 {
        let errno = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO));
    }
    Ok(Peer {
        uid: credentials.uid,
        pid: u32::try_from(credentials.pid).unwrap_or(0),
    })
}

/// Whether a runtime directory belongs to this user. `su` and `sudo -E` leave the previous user's
/// directory in the environment; a broker there is not to be trusted, and ours does not belong
/// there.
pub fn is_own_directory(directory: &Path, uid: u32) -> bool {
    let status = || rustix::fs::stat(directory).ok();
    directory.is_absolute() && status().is_some_and(|status| status.st_uid == uid)
}

/// Whether there is something of another user, or no directory, at the path of a directory of this user. In
/// `/tmp` anybody may put it there first.
pub fn is_taken(directory: &Path, uid: u32) -> bool {
    rustix::fs::lstat(directory).is_ok_and(|found| {
        let kind = FileType::from_raw_mode(found.st_mode);
        found.st_uid != uid || kind != FileType::Directory
    })
}

/// Where a broker goes below a user's home if its usual places are [taken](is_taken).
pub const IN_HOME: &str = ".cache/plimsoll";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_place_is_taken_by_whatever_is_not_our_directory() {
        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
        assert!(!is_taken(dir.path(), own) && is_taken(dir.path(), own + 1));
        assert!(is_taken(&dir.path().join("link"), own) && !is_taken(&dir.path().join("x"), own));
    }

    #[test]
    fn both_ends_are_ours() {
        let (one, other) = UnixStream::pair().unwrap();
        let ours = Peer {
            uid: rustix::process::geteuid().as_raw(),
            pid: std::process::id(),
        };
        assert_eq!((peer_of(&one), peer_of(&other)), (Ok(ours), Ok(ours)));
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(peer_of(&file), Err(Errno::NOTSOCK));
    }

    #[test]
    fn a_directory_is_ours_while_we_own_it() {
        let own = rustix::process::geteuid().as_raw();
        let folder = tempfile::tempdir().unwrap();
        assert!(is_own_directory(folder.path(), own));
        assert!(!is_own_directory(&folder.path().join("absent"), own));
        assert!(!is_own_directory(Path::new("."), own), "it is relative");
        assert!(!is_own_directory(Path::new(""), own));
        let another = own.wrapping_add(1);
        assert!(!is_own_directory(folder.path(), another));
        if own != 0 {
            return plimsoll_testbed::skip("only root may give a directory to another user");
        }
        std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
        assert!(!is_own_directory(folder.path(), own));
    }
}
