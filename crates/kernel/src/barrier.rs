//! Memory barriers in all threads of this process at once, membarrier(2). Threads that do something often
//! can do without barriers of their own, when others that do something rarely have this one.

/// A command of `membarrier(2)`: `linux/membarrier.h`.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Command {
    Query = 0,
    PrivateExpedited = 1 << 3,
    RegisterPrivateExpedited = 1 << 4,
}

fn membarrier(command: Command) -> libc::c_long {
    // SAFETY: the call takes three numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command as i32, 0, 0) }
}

/// Whether this kernel, and what filters our system calls, offers it. Linux does since 4.14.
fn is_offered() -> bool {
    let offered = membarrier(Command::Query);
    offered > 0 && offered & Command::PrivateExpedited as libc::c_long != 0
}

/// Announces that this process will use it. Returns whether it may.
pub fn prepare() -> bool {
    is_offered() && membarrier(Command::RegisterPrivateExpedited) == 0
}

/// Has every thread of this process that runs pass a full barrier before this returns. Returns whether that
/// was done: it is after [`prepare`] returned true.
pub fn in_all_threads() -> bool {
    membarrier(Command::PrivateExpedited) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_where_it_is_offered() {
        let offered = is_offered();
        assert_eq!(prepare(), offered);
        assert_eq!(in_all_threads(), offered);
    }
}
