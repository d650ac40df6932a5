//! Copies memory (`process_vm_readv(2)`): another process's, only where it is present, so that nothing is
//! brought back from swap or from a file for it; and our own at addresses that may be wrong.

use crate::pages::{Counts, PageMap};
use crate::process::{Process, page_size};
use crate::{Error, Result};
use std::os::unix::fs::FileExt;

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// It is there.
    All,
    /// No page is in memory or in swap. In private memory of no file that means zeros: nothing was ever
    /// written there.
    Nothing,
    /// Some of it is in swap or in a file, or nothing readable is mapped there.
    Not,
}

/// Copies from address `at` of a process, if all of its pages there are present right before. A
/// page that is taken from the
/// process in the few microseconds between the look and the copy is brought back by it; nothing that
/// the kernel offers excludes that.
///
/// # Errors
/// [`Error::NotPermitted`] without the rights of a debugger; [`Error::Gone`].
pub fn copy(process: &Process, pages: &PageMap, at: u64, into: &mut [u8]) -> Result<Copied> {
    let Some(end) = at.checked_add(into.len() as u64) else {
        return Ok(Copied::Not);
    };
    if into.is_empty() {
        return Ok(Copied::All);
    }
    let page = page_size();
    let range = at / page * page..end.div_ceil(page).saturating_mul(page);
    match pages.counts(&range) {
        Ok(counts) if counts.present == range.end - range.start => {}
        Ok(counts) if counts == Counts::default() => return Ok(Copied::Nothing),
        Err(error) if error.is_gone() => return Err(error),
        // Beyond the addresses of programs the kernel refuses to look.
        _ => return Ok(Copied::Not),
    }
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: into.len(),
    };
    let pid = process.pid();
    // SAFETY: the call writes to `local` only, which is the whole of `into`.
    let copied = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    if copied >= 0 {
        // The number may have been given to another process.
        return match process.alive() {
            true if copied as usize == into.len() => Ok(Copied::All),
            true => Ok(Copied::Not),
            false => Err(Error::Gone { pid }),
        };
    }
    let source = std::io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::EFAULT) => Ok(Copied::Not),
        Some(libc::ESRCH) => Err(Error::Gone { pid }),
        Some(libc::EPERM | libc::ENOSYS) => Err(Error::NotPermitted {
            call: "process_vm_readv",
            pid,
            needs: "the rights of a debugger (CAP_SYS_PTRACE, or kernel.yama.ptrace_scope 0)",
        }),
        _ => Err(Error::Call {
            call: "process_vm_readv",
            pid,
            source,
        }),
    }
}

/// Copies memory of this process from address `at`, present or not. Returns false where nothing readable
/// is mapped, for which a plain load would end the process.
pub fn copy_own(at: u64, into: &mut [u8]) -> bool {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: into.len(),
    };
    // SAFETY: the call writes to `local` only, which is the whole of `into`; it checks `remote` itself.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if copied >= 0 {
        return copied as usize == into.len();
    }
    // Some sandboxes forbid that call.
    let allowed = std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    let memory = std::fs::File::open("/proc/self/mem");
    !allowed && memory.is_ok_and(|memory| memory.read_exact_at(into, at).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_copied_and_what_is_not_stays() {
        let own = Process::own().unwrap();
        let pages = PageMap::open(&own).unwrap();
        let text = *b"some words of this process";
        let mut copied = text.map(|_| 0);
        match copy(&own, &pages, text.as_ptr() as u64, &mut copied) {
            Err(error) if error.is_denied() => return,
            outcome => assert_eq!(outcome.unwrap(), Copied::All),
        }
        assert_eq!(copied, text);
        for nowhere in [0, 4096, u64::MAX - 8, u64::MAX - 40_000] {
            let outcome = copy(&own, &pages, nowhere, &mut copied).unwrap();
            assert_ne!(outcome, Copied::All, "{nowhere}");
            assert!(!copy_own(nowhere, &mut copied), "{nowhere}");
        }
        copied.fill(0);
        assert!(copy_own(text.as_ptr() as u64, &mut copied));
        assert_eq!(copied, text);
    }
}
