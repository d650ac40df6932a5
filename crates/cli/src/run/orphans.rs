//! Orphans: the first process of a container becomes the parent of processes whose own parents
//! ended.

use std::mem::MaybeUninit;

/// The signal to listen for, if we are the first process of a pid namespace (a container).
pub fn heard() -> Option<i32> {
    (std::process::id() == 1).then_some(libc::SIGCHLD)
}

/// Reaps orphaned zombies, if we are such a first process. Zombies in `own` are left to their
/// waiters. Zombies behind one of these stay until then, because the kernel shows one at a time.
pub fn reap(own: &[u32]) {
    if heard().is_none() {
        return;
    }
    while let Some(pid) = ended().filter(|&pid| !own.iter().any(|&one| one as i32 == pid)) {
        // SAFETY: nothing is written where there is no pointer. One that a thread of ours has
        // waited for meanwhile is no child any more, and then this says so.
        let reaped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        if reaped != pid {
            return;
        }
    }
}

/// A child that has ended; it stays a zombie.
fn ended() -> Option<i32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills `info` for a child that has ended, and else leaves it zeroed, which
    // is a valid value whose number is 0.
    let pid = unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) != 0 {
            return None;
        }
        info.assume_init().si_pid()
    };
    (pid > 0).then_some(pid)
}
