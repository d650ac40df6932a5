//! Advice on another process's memory: `process_madvise` with `MADV_COLD` and `MADV_PAGEOUT` (Linux
//! 5.10, CAP_SYS_NICE). Paging out unmaps and writes, but the bytes stay charged to the group until
//! [`crate::cgroup::Cgroup::reclaim`] takes them. Source: `process_madvise(2)`, `madvise(2)`.

use crate::pages::PageMap;
use crate::process::{Process, proc_path};
use crate::smaps::{Addresses, Area, areas};
use crate::swap::spaces;
use crate::{Error, Result};
use plimsoll_unit::Bytes;
use std::os::fd::AsRawFd;

/// Most ranges of one call (`UIO_MAXIOV`).
const RANGES_PER_CALL: usize = 1024;
/// Most areas of one process that are looked at.
const MAX_AREAS: usize = 65_536;
/// Most runs of present pages of one process that are advised on.
const MAX_RUNS: usize = 1 << 18;
/// Runs shorter than this (bytes) are passed over at first, because single pages cost four times as
/// much per page (12 us against 3 us).
const LONG_RUN: u64 = 64 << 10;
/// Bytes of one call. Bounded so that the process's lock is not held for long, and to see in
/// between whether it was enough.
const BYTES_PER_CALL: u64 = 64 << 20;

/// A request to advise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Reclaim these pages next, when memory is short (0.1 us a page).
    Cold,
    /// Write out and unmap these pages now (3 us a page). A later reclaim frees them first and
    /// without I/O.
    PageOut,
}

impl Advice {
    fn number(self) -> i32 {
        match self {
            Advice::Cold => libc::MADV_COLD,
            Advice::PageOut => libc::MADV_PAGEOUT,
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advised {
    /// The memory for which the kernel took the advice.
    pub bytes: Bytes,
    /// Ranges of present pages that contain it.
    pub ranges: usize,
    /// System calls.
    pub calls: usize,
}

/// Advises on about so much of a process's present private anonymous memory. Begins with the areas
/// whose referenced part is smallest (meaningful some seconds after
/// [`crate::referenced::clear`]), and takes long runs before short ones. Passes over locked and
/// special areas, and areas shared with a forked child. Reads the process's areas (20-40 ms/GiB),
/// so call it from a worker thread.
///
/// # Errors
/// [`Error::NotPermitted`] without CAP_SYS_NICE; [`Error::Unsupported`] before Linux 5.10;
/// [`Error::Busy`] when there is no free swap to page out to; [`Error::Gone`].
pub fn advise(process: &Process, advice: Advice, most: Bytes) -> Result<Advised> {
    let candidates = coldest_first(&areas(process, MAX_AREAS)?);
    let most = match advice {
        Advice::Cold => most,
        Advice::PageOut => most.min(free_swap()?),
    };
    let ranges = choose(process, &candidates, most.0)?;
    advise_ranges(process, advice, &ranges)
}

/// Free swap space. Without any the kernel accepts the advice but does nothing.
fn free_swap() -> Result<Bytes> {
    let free = spaces()?.iter().map(|s| s.size - s.used).sum();
    if free == Bytes::ZERO {
        return Err(Error::Busy {
            path: "/proc/swaps".into(),
            why: "there is no free swap for anonymous memory to go to; add a swap file or zram",
        });
    }
    Ok(free)
}

/// The areas worth advising on, in the order of advice; pure.
pub fn coldest_first(areas: &[Area]) -> Vec<Addresses> {
    let mut fit: Vec<&Area> = areas.iter().filter(|a| fits(a)).collect();
    // Sort by the referenced part in 1/1000. Among equals take larger areas first, for fewer calls.
    fit.sort_by_key(|a| {
        (
            a.referenced.saturating_mul(1000) / a.rss.max(1),
            std::cmp::Reverse(a.anonymous),
        )
    });
    fit.into_iter().map(|a| a.addresses.clone()).collect()
}

/// Whether an area is private, anonymous, present, not locked, and not the stack (which is small
/// and hot).
fn fits(area: &Area) -> bool {
    let special = area.name.starts_with("[stack") || area.name.starts_with("[v");
    let mapped_once = area.private.saturating_mul(2) >= area.rss;
    !area.shared_mapping
        && !area.pinned
        && area.locked == 0
        && area.anonymous > 0
        && mapped_once
        && !special
}

/// Runs of present pages in the candidates, long ones first, until they sum up to `bytes`.
fn choose(process: &Process, candidates: &[Addresses], bytes: u64) -> Result<Vec<Addresses>> {
    let map = PageMap::open(process)?;
    let mut runs = Vec::new();
    let mut chosen = Vec::new();
    let mut short = Vec::new();
    let mut sum = 0u64;
    for area in candidates {
        if sum >= bytes || runs.len() >= MAX_RUNS {
            break;
        }
        runs.clear();
        map.present_runs(area, MAX_RUNS, &mut runs)?;
        for run in &runs {
            if run.end - run.start < LONG_RUN {
                short.push(run.clone());
            } else if sum < bytes {
                sum += push_cut(&mut chosen, run, bytes - sum);
            }
        }
        short.truncate(MAX_RUNS);
    }
    for run in &short {
        if sum >= bytes {
            break;
        }
        sum += push_cut(&mut chosen, run, bytes - sum);
    }
    Ok(chosen)
}

/// Adds a run, or the first `most` bytes of it (in whole pages); returns how many bytes.
fn push_cut(chosen: &mut Vec<Addresses>, run: &Addresses, most: u64) -> u64 {
    let page = crate::process::page_size();
    let length = (run.end - run.start).min(most.div_ceil(page).saturating_mul(page));
    chosen.push(run.start..run.start + length);
    length
}

/// Advises on given ranges of a process, whose pages should be present. A range that the kernel
/// refuses (unmapped or locked meanwhile) is passed over.
///
/// # Errors
/// As [`advise`].
pub fn advise_ranges(process: &Process, advice: Advice, ranges: &[Addresses]) -> Result<Advised> {
    let mut done = Advised::default();
    let mut queue = pieces(ranges);
    queue.retain(|r| !r.is_empty());
    let mut next = 0;
    while next < queue.len() {
        let batch = batch_of(&queue[next..]);
        let wanted: u64 = batch.iter().map(|r| r.iov_len as u64).sum();
        done.calls += 1;
        let got = match call(process, advice, &batch) {
            Ok(n) => n,
            Err(Error::Call { source, .. }) if is_range_fault(&source) => 0,
            Err(e) => return Err(e),
        };
        done.bytes += Bytes(got);
        if got >= wanted {
            done.ranges += batch.len();
            next += batch.len();
            continue;
        }
        // The kernel stopped inside the batch. Go on after the range that it refused.
        let accepted = accepted_ranges(&batch, got);
        done.ranges += accepted;
        next += accepted + 1;
    }
    Ok(done)
}

/// Cuts long ranges into pieces of one call.
fn pieces(ranges: &[Addresses]) -> Vec<Addresses> {
    let mut out = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + BYTES_PER_CALL);
            out.push(start..end);
            start = end;
        }
    }
    out
}

fn batch_of(queue: &[Addresses]) -> Vec<libc::iovec> {
    let mut bytes = 0;
    let mut batch = Vec::new();
    for range in queue.iter().take(RANGES_PER_CALL) {
        let length = range.end - range.start;
        if !batch.is_empty() && bytes + length > BYTES_PER_CALL {
            break;
        }
        bytes += length;
        batch.push(libc::iovec {
            iov_base: range.start as *mut libc::c_void,
            iov_len: length as usize,
        });
    }
    batch
}

/// How many whole ranges a number of accepted bytes covers.
fn accepted_ranges(batch: &[libc::iovec], mut bytes: u64) -> usize {
    for (index, range) in batch.iter().enumerate() {
        if bytes < range.iov_len as u64 {
            return index;
        }
        bytes -= range.iov_len as u64;
    }
    batch.len()
}

fn is_range_fault(source: &std::io::Error) -> bool {
    matches!(
        source.raw_os_error(),
        Some(libc::ENOMEM | libc::EINVAL | libc::EFAULT)
    )
}

fn call(process: &Process, advice: Advice, batch: &[libc::iovec]) -> Result<u64> {
    const WHAT: &str = "process_madvise";
    let Some(pidfd) = process.pidfd() else {
        return Err(Error::Unsupported {
            what: "pidfd_open",
            since: "5.3",
        });
    };
    // SAFETY: `batch` is an array of `batch.len()` iovecs that outlives the call. The addresses are
    // the other process's: the kernel checks them, and neither advice changes what that process
    // reads.
    let got = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            batch.as_ptr(),
            batch.len(),
            advice.number(),
            0u32,
        )
    };
    if got >= 0 {
        return Ok(got as u64);
    }
    let pid = process.pid();
    let source = std::io::Error::last_os_error();
    Err(match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NotPermitted {
            call: WHAT,
            pid,
            needs: "CAP_SYS_NICE",
        },
        Some(libc::ENOSYS) => Error::Unsupported {
            what: WHAT,
            since: "5.10",
        },
        // The call goes by the first thread alone, whichever thread the pidfd is of.
        Some(libc::ESRCH) if process.alive() => Error::Busy {
            path: proc_path(pid, "maps"),
            why: "its first thread has ended, and the kernel takes no advice on such a process",
        },
        Some(libc::ESRCH) => Error::Gone { pid },
        _ => Error::Call {
            call: WHAT,
            pid,
            source,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, referenced: u64) -> Area {
        let rss = 1 << 20;
        Area {
            addresses: start..start + rss,
            rss,
            anonymous: rss,
            private: rss,
            referenced,
            ..Area::default()
        }
    }

    #[test]
    fn cold_areas_come_first_and_special_ones_never() {
        let mut areas = vec![
            area(0x1000_0000, 1 << 20),
            area(0x2000_0000, 0),
            area(0x3000_0000, 1 << 19),
        ];
        areas.push(Area {
            locked: 4096,
            ..area(0x4000_0000, 0)
        });
        areas.push(Area {
            pinned: true,
            ..area(0x5000_0000, 0)
        });
        areas.push(Area {
            shared_mapping: true,
            ..area(0x6000_0000, 0)
        });
        areas.push(Area {
            name: "[stack]".into(),
            ..area(0x7000_0000, 0)
        });
        areas.push(Area {
            private: 0,
            ..area(0x8000_0000, 0)
        });
        let order: Vec<u64> = coldest_first(&areas).iter().map(|r| r.start).collect();
        assert_eq!(order, [0x2000_0000, 0x3000_0000, 0x1000_0000]);
    }

    #[test]
    fn batches_are_bounded() {
        let many: Vec<Addresses> = (0..3000).map(|i| i * 8192..i * 8192 + 4096).collect();
        assert_eq!(batch_of(&many).len(), RANGES_PER_CALL);
        let one = 0..BYTES_PER_CALL * 3 + 4096;
        let long = pieces(std::slice::from_ref(&one));
        assert_eq!(long.len(), 4);
        assert_eq!(batch_of(&long).len(), 1);
    }

    #[test]
    fn partial_answers_are_counted_in_whole_ranges() {
        let batch = batch_of(&[0..4096, 8192..16384, 32768..36864]);
        assert_eq!(accepted_ranges(&batch, 0), 0);
        assert_eq!(accepted_ranges(&batch, 4096), 1);
        assert_eq!(accepted_ranges(&batch, 8192), 1);
        assert_eq!(accepted_ranges(&batch, 16384), 3);
    }
}
