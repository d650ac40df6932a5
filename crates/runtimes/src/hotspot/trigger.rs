//! The file that makes a machine open its attach socket.

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Turns `SIGQUIT` from "print a thread dump" into "open the socket" while it lies in the `/tmp` or
/// in the working directory of a machine. Removed when dropped.
pub(super) struct Trigger {
    directory: OwnedFd,
    name: String,
}

impl Trigger {
    /// The machine heeds it only when it belongs to its own user.
    pub(super) fn place(
        directory: OwnedFd,
        inner_pid: u32,
        (uid, gid): (u32, u32),
    ) -> rustix::io::Result<Trigger> {
        let name = format!(".attach_pid{inner_pid}");
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let file = match rustix::fs::openat(&directory, &name, flags, mode) {
            // Left by somebody who died over it; it could be a link or somebody else's.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&directory, &name, AtFlags::empty())?;
                rustix::fs::openat(&directory, &name, flags, mode)?
            }
            other => other?,
        };
        let trigger = Trigger { directory, name };
        if rustix::fs::fstat(&file)?.st_uid != uid {
            rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(trigger)
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}
