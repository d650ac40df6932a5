//! Takes on another user's identity for a moment, to make files and connections as that user. For
//! the kernel, user and group belong to a thread (setresuid(2), "C library/kernel differences"), so
//! a thread is started for this and ends afterwards. Also finds which user stands for those that our user
//! namespace does not have (user_namespaces(7)).

use std::io;
use std::sync::{Mutex, PoisonError};

/// The value for "leave this ID as it is", setresuid(2).
const SAME: libc::uid_t = libc::uid_t::MAX;
/// A value of `PR_GET_DUMPABLE`: other processes of our user may look into this one.
const DUMPABLE: libc::c_int = 1;
/// Guards changes of the dumpable attribute, which belongs to the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `what` as this effective user and group, without root's rights unless the user is root.
/// Runs it as ourselves if we are that user already, or if we have no right to become another; in
/// that case the kernel refuses what we may not do.
///
/// # Errors
/// When no thread can be started.
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

/// Gives the calling thread that user and group. The real and saved user stay, so that the other
/// user cannot send signals to this process.
fn take_on(uid: u32, gid: u32) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: system calls that touch no memory but the empty list of groups, which is not read. The C
    // library's functions would change all threads; these change the calling one.
    unsafe {
        let dumpable = libc::prctl(libc::PR_GET_DUMPABLE);
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        libc::syscall(libc::SYS_setresgid, SAME, gid, SAME);
        libc::syscall(libc::SYS_setresuid, SAME, uid, SAME);
        // A change of user makes the whole process non-dumpable for good. Undo that.
        if dumpable == DUMPABLE {
            libc::prctl(libc::PR_SET_DUMPABLE, DUMPABLE);
        }
    }
}

/// Number of possible uids.
const ALL_USERS: u64 = u32::MAX as u64;

/// The uid that the kernel shows for users without a uid in our user namespace; `None` where all
/// have one.
pub fn unmapped_user() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if has_all(&map) {
        return None;
    }
    let number = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
    number.trim().parse().ok()
}

/// Whether a map covers all uids: lines of the form `first-here first-there count`, one range per
/// line. A kernel without user namespaces has no such list.
fn has_all(map: &str) -> bool {
    let counts = map
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(2));
    let sum: u64 = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
    map.is_empty() || sum >= ALL_USERS
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
        if before.0.is_root() {
            assert_eq!((owner.uid(), owner.gid()), (4711, 4712));
        } else {
            // Without rights nobody can act as another user.
            assert_eq!((owner.uid(), owner.gid()), (uid, gid));
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

    #[test]
    fn a_namespace_of_few_users_is_known_by_its_map() {
        assert!(has_all("         0          0 4294967295\n"));
        assert!(has_all(""));
        assert!(!has_all("         0       1000          1\n"));
        assert!(!has_all("0 1000 1\n1 100000 65536\n"));
    }
}
