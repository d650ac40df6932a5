//! Another user's identity for a moment: files are made, and connections are made, as that user would make
//! them. For the kernel user and group belong to a thread (setresuid(2), "C library/kernel differences"), so
//! one thread takes them on, and ends with it.

use std::io;
use std::sync::{Mutex, PoisonError};

/// "Leave this one as it is", setresuid(2).
const SAME: libc::uid_t = libc::uid_t::MAX;
/// `PR_GET_DUMPABLE`: who shares our user may look into this process.
const DUMPABLE: libc::c_int = 1;
/// Whoever holds it may change that.
static TURN: Mutex<()> = Mutex::new(());

/// Does something as this (effective) user and group, without the rights of root where that is not root. As
/// ourselves where that is who we are, and where we have no right to be another: then the kernel refuses what
/// is not ours to do.
///
/// # Errors
/// When there is no thread to be had.
pub fn as_user<T: Send>(uid: u32, gid: u32, what: impl FnOnce() -> T + Send) -> io::Result<T> {
    let (own, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if own.as_raw() == uid && group.as_raw() == gid {
        return Ok(what());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("as-user".into())
            .stack_size(256 << 10)
            .spawn_scoped(scope, move || {
                take_on(uid, gid);
                what()
            })?;
        Ok(thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Makes the calling thread that user's. The real and the saved user stay, so that nobody else may send
/// signals to this process.
fn take_on(uid: u32, gid: u32) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: system calls that touch no memory but the empty list of groups, which is not read. The C
    // library's functions would change all threads; these change the calling one.
    unsafe {
        let dumpable = libc::prctl(libc::PR_GET_DUMPABLE);
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        libc::syscall(libc::SYS_setresgid, SAME, gid, SAME);
        libc::syscall(libc::SYS_setresuid, SAME, uid, SAME);
        // A change of user closes the whole process to its own user, for good.
        if dumpable == DUMPABLE {
            libc::prctl(libc::PR_SET_DUMPABLE, DUMPABLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_another_user_makes_is_theirs_and_we_stay_who_we_are() {
        let ids = || (rustix::process::geteuid(), rustix::process::getegid());
        let before = ids();
        let dir = tempfile::tempdir().unwrap();
        let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let file = dir.path().join("made");
        let made = as_user(4711, 4712, || std::fs::write(&file, "")).unwrap();
        made.unwrap();
        let owner = std::fs::metadata(&file).unwrap();
        let (uid, gid) = (before.0.as_raw(), before.1.as_raw());
        match before.0.is_root() {
            true => assert_eq!((owner.uid(), owner.gid()), (4711, 4712)),
            // Nobody may be another without rights.
            false => assert_eq!((owner.uid(), owner.gid()), (uid, gid)),
        }
        assert_eq!(ids(), before);
        assert_eq!(
            as_user(uid, gid, std::process::id).unwrap(),
            std::process::id()
        );
    }

    #[test]
    fn a_process_that_was_another_user_for_a_moment_may_be_looked_into_as_before() {
        let dumpable = || {
            let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: only asks.
            unsafe { libc::prctl(libc::PR_GET_DUMPABLE) }
        };
        let before = dumpable();
        as_user(4711, 4712, || ()).unwrap();
        assert_eq!(dumpable(), before);
    }
}
