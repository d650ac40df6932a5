//! Copies memory (`process_vm_readv(2)`): another process's, only where it is present, so that nothing is
//! brought back from swap or from a file for it; and our own at addresses that may be wrong.

use crate::pages::{Counts, PageMap};
use crate::process::{Process, by_thread, page_size};
use crate::{Error, Result, sandbox};
use plimsoll_unit::Bytes;
use std::os::unix::fs::FileExt;

/// The outcome of a copy.
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
        Ok(counts) if counts.present == Bytes(range.end - range.start) => {}
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
    let copied = by_thread(pid, |tid| {
        // SAFETY: the call writes to `local` only, which is the whole of `into`.
        bytes(unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) })
    });
    match copied {
        // The number may have been given to another process.
        Ok(_) if !process.alive() => Err(Error::Gone { pid }),
        Ok(copied) if copied == into.len() => Ok(Copied::All),
        Ok(_) => Ok(Copied::Not),
        Err(source) if source.raw_os_error() == Some(libc::EFAULT) => Ok(Copied::Not),
        Err(source) => Err(refused(pid, source)),
    }
}

/// The bytes that a call copied.
fn bytes(returned: isize) -> std::io::Result<usize> {
    usize::try_from(returned).map_err(|_| std::io::Error::last_os_error())
}

/// Part of another process's memory, to be copied.
#[derive(Debug)]
pub struct Piece<'a> {
    at: u64,
    into: &'a mut [u8],
}

impl<'a> Piece<'a> {
    /// From address `at` on, as much as `into` holds.
    pub fn new(at: u64, into: &'a mut [u8]) -> Piece<'a> {
        Piece { at, into }
    }
}

/// Pieces that one call copies.
const TOGETHER: usize = 128;

/// Copies several pieces of a process's memory in few calls. Returns how many were copied; a piece at which
/// nothing is mapped is left as it was, or is copied in part. Unlike [`copy`] this brings back what is in
/// swap, so it is for memory that the process uses right now.
///
/// # Errors
/// [`Error::NotPermitted`] without the rights of a debugger; [`Error::Gone`].
pub fn copy_pieces(process: &Process, pieces: &mut [Piece<'_>]) -> Result<usize> {
    let empty = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let pid = process.pid();
    let (mut copied, mut first) = (0, 0);
    while first < pieces.len() {
        let (mut local, mut remote) = ([empty; TOGETHER], [empty; TOGETHER]);
        let rest = &mut pieces[first..];
        let count = rest.len().min(TOGETHER);
        for ((local, remote), piece) in local.iter_mut().zip(&mut remote).zip(rest.iter_mut()) {
            local.iov_base = piece.into.as_mut_ptr().cast();
            local.iov_len = piece.into.len();
            remote.iov_base = piece.at as *mut libc::c_void;
            remote.iov_len = piece.into.len();
        }
        let count_of_call = count as libc::c_ulong;
        let got = by_thread(pid, |tid| {
            // SAFETY: the first `count` of `local` are the whole of the pieces' buffers, to which alone the
            // call writes.
            bytes(unsafe {
                libc::process_vm_readv(
                    tid,
                    local.as_ptr(),
                    count_of_call,
                    remote.as_ptr(),
                    count_of_call,
                    0,
                )
            })
        });
        let whole = match got {
            Ok(bytes) => whole_pieces(&rest[..count], bytes),
            Err(source) if source.raw_os_error() == Some(libc::EFAULT) => 0,
            Err(source) => return Err(refused(pid, source)),
        };
        copied += whole;
        // The call stops at the first piece that it cannot copy.
        first += if whole == count { count } else { whole + 1 };
    }
    // The number may have been given to another process.
    if process.alive() {
        Ok(copied)
    } else {
        Err(Error::Gone { pid })
    }
}

/// How many pieces, in their order, are filled by `bytes` bytes.
fn whole_pieces(pieces: &[Piece<'_>], mut bytes: usize) -> usize {
    let is_whole = |piece: &&Piece<'_>| {
        let rest = bytes.checked_sub(piece.into.len());
        bytes = rest.unwrap_or(0);
        rest.is_some()
    };
    pieces.iter().take_while(is_whole).count()
}

/// The error of a call that copied nothing.
fn refused(pid: i32, source: std::io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH) => Error::Gone { pid },
        Some(libc::EPERM | libc::ENOSYS) => Error::NotPermitted {
            call: "process_vm_readv",
            pid,
            needs: "the rights of a debugger (CAP_SYS_PTRACE, or kernel.yama.ptrace_scope 0)",
        },
        _ => Error::Call {
            call: "process_vm_readv",
            pid,
            source,
        },
    }
}

/// Copies memory of this process from address `at`, present or not. Returns false where nothing is mapped,
/// for which a plain load would end the process. Memory that is mapped and may not be read counts as mapped
/// where system calls are filtered.
pub fn copy_own(at: u64, into: &mut [u8]) -> bool {
    if sandbox::was_filtered() {
        return copy_own_by_file(at, into);
    }
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: into.len(),
    };
    // By this thread, because the first one may have ended.
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: the call writes to `local` only, which is the whole of `into`; it checks `remote` itself.
    let copied = unsafe { libc::process_vm_readv(thread, &local, 1, &remote, 1, 0) };
    if copied >= 0 {
        return copied as usize == into.len();
    }
    // Without a filter, too, the call may be forbidden.
    let allowed = std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    !allowed && copy_own_by_file(at, into)
}

/// The same by calls that every program makes.
fn copy_own_by_file(at: u64, into: &mut [u8]) -> bool {
    let memory = std::fs::File::open("/proc/thread-self/mem");
    memory.is_ok_and(|memory| memory.read_exact_at(into, at).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_copied_up_to_holes_and_beyond_them() {
        let own = Process::own().unwrap();
        let texts: Vec<[u8; 3]> = (0..300u16).map(|n| [n as u8, (n >> 8) as u8, 7]).collect();
        let mut copies = vec![[0; 3]; texts.len()];
        let is_hole = |index: usize| index.is_multiple_of(127);
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for (index, (text, copy)) in texts.iter().zip(&mut copies).enumerate() {
            let at = if is_hole(index) {
                4096
            } else {
                text.as_ptr() as u64
            };
            pieces.push(Piece::new(at, copy));
        }
        match copy_pieces(&own, &mut pieces) {
            Err(error) if error.is_denied() => return,
            copied => assert_eq!(copied.unwrap(), texts.len() - 3),
        }
        for (index, (text, copy)) in texts.iter().zip(&copies).enumerate() {
            assert_eq!(copy, if is_hole(index) { &[0; 3] } else { text }, "{index}");
        }
        assert_eq!(copy_pieces(&own, &mut []).unwrap(), 0);
    }

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
            for copy in [copy_own, copy_own_by_file] {
                assert!(!copy(nowhere, &mut copied), "{nowhere}");
            }
        }
        for copy in [copy_own, copy_own_by_file] {
            copied.fill(0);
            assert!(copy(text.as_ptr() as u64, &mut copied));
            assert_eq!(copied, text);
        }
    }
}
