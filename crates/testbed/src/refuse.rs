//! Makes the kernel refuse system calls to a program, as an older kernel or a container's profile
//! would.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The calls that a seccomp filter refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `userfaultfd`, as with profiles of containers, so that writes cannot be tracked.
    Tracking,
    /// `PAGEMAP_SCAN` as well, as before Linux 6.7.
    TrackingAndScan,
}

/// Number and letter of the request, `linux/fs.h`.
const PAGEMAP_SCAN: u32 = (b'f' as u32) << 8 | 16;

/// Codes of instructions of the kernel's filter (BPF).
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// A filter step: continues with the next step if equal, else skips `over` steps.
fn unless(k: u32, over: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: EQUAL,
        jt: 0,
        jf: over,
        k,
    }
}

fn fail(errno: i32) -> libc::sock_filter {
    step(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32)
}

fn filter(refused: Refused) -> Vec<libc::sock_filter> {
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let second = std::mem::offset_of!(libc::seccomp_data, args) as u32 + 8;
    let mut steps = vec![
        step(LOAD, number),
        unless(libc::SYS_userfaultfd as u32, 1),
        fail(libc::EPERM),
    ];
    if refused == Refused::TrackingAndScan {
        steps.extend([
            unless(libc::SYS_ioctl as u32, 4),
            // The lower half. Both supported architectures are little-endian.
            step(LOAD, second),
            step(AND, 0xffff),
            unless(PAGEMAP_SCAN, 1),
            fail(libc::ENOTTY),
        ]);
    }
    steps.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
    steps
}

/// Makes the kernel refuse these calls to `command`, once started, and to its descendants.
pub fn refuse(command: &mut Command, refused: Refused) {
    install(command, filter(refused));
}

/// Makes the kernel refuse (`EPERM`) all but these system calls to `command`, once started, and to
/// its descendants.
pub fn allow_only(command: &mut Command, calls: &[u32]) {
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut steps = vec![step(LOAD, number)];
    for &call in calls {
        steps.extend([unless(call, 1), step(RETURN, libc::SECCOMP_RET_ALLOW)]);
    }
    steps.push(fail(libc::EPERM));
    install(command, steps);
}

fn install(command: &mut Command, filter: Vec<libc::sock_filter>) {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe; the filter
    // was made before, and lives in the closure.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_ptr().cast_mut(),
            };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}
