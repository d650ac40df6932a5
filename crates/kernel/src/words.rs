//! The words of `/proc/PID/pagemap`, one a page: which pages are in memory and which in swap, on
//! every kernel. Ten times as slow as [`crate::scan`]. Source: kernel document
//! `admin-guide/mm/pagemap.rst`. Nothing here allocates: collectors call it while the world stands
//! still.

use crate::process::page_size;
use crate::scan::{PRESENT, SWAPPED};
use crate::smaps::Addresses;
use rustix::io::{Errno, pread};
use std::io;
use std::os::fd::BorrowedFd;

/// Words read at a time. They are on the stack of who allocates, which may be small.
const WORDS: usize = 256;

const WORD_SWAPPED: u64 = 1 << 62;
const WORD_PRESENT: u64 = 1 << 63;

/// Pages in a row that are of one category.
struct Run {
    addresses: Addresses,
    category: u64,
}

/// Tells each run of pages that are of one of `categories` ([`PRESENT`], [`SWAPPED`]) and which, by
/// address, until `tell` says stop. What lies behind the last address of the process is of none.
///
/// # Errors
/// `ESRCH` when the process is gone, `EIO` and the like where the file cannot be read.
pub fn walk(
    pagemap: BorrowedFd<'_>,
    range: Addresses,
    categories: u64,
    tell: &mut dyn FnMut(Addresses, u64) -> bool,
) -> io::Result<()> {
    let page = page_size();
    let mut buffer = [0u8; WORDS * 8];
    let mut open: Option<Run> = None;
    let mut at = range.start / page * page;
    while at < range.end {
        let want = (((range.end - at).div_ceil(page)) as usize).min(WORDS) * 8;
        let got = match pread(pagemap, &mut buffer[..want], at / page * 8) {
            Ok(bytes) => bytes / 8 * 8,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if got == 0 {
            break;
        }
        for word in buffer[..got].chunks_exact(8) {
            let category = category(word) & categories;
            if !extend(&mut open, category, at..at + page, tell) {
                return Ok(());
            }
            at += page;
        }
    }
    if let Some(run) = open {
        tell(run.addresses, run.category);
    }
    Ok(())
}

fn category(word: &[u8]) -> u64 {
    let word = word.try_into().map_or(0, u64::from_le_bytes);
    match (word & WORD_PRESENT != 0, word & WORD_SWAPPED != 0) {
        (true, _) => PRESENT,
        (false, true) => SWAPPED,
        (false, false) => 0,
    }
}

/// Adds a page to the open run, or closes that and opens another; whether to go on.
fn extend(
    open: &mut Option<Run>,
    category: u64,
    page: Addresses,
    tell: &mut dyn FnMut(Addresses, u64) -> bool,
) -> bool {
    if let Some(run) = open.as_mut()
        && category == run.category
        && run.addresses.end == page.start
    {
        run.addresses.end = page.end;
        return true;
    }
    let closed = match category {
        0 => open.take(),
        _ => open.replace(Run {
            addresses: page,
            category,
        }),
    };
    closed.is_none_or(|run| tell(run.addresses, run.category))
}
