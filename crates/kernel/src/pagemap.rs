//! The words of `/proc/PID/pagemap`, one for each page: which pages are in memory and which in
//! swap. Works on every kernel, ten times as slowly as [`crate::pagemap_scan`]. Source: kernel document
//! `admin-guide/mm/pagemap.rst`. Nothing here allocates, because collectors call it while the world
//! is stopped.

use crate::pagemap_scan::{FILE, GUARD, PRESENT, SWAPPED, WRITTEN};
use crate::process::page_size;
use crate::smaps::Addresses;
use rustix::io::{Errno, pread};
use std::io;
use std::os::fd::BorrowedFd;

/// Words read at a time. They lie on the stack of the allocating thread, which may be small.
const WORDS: usize = 256;

/// A category that only the words show: no other mapping has the page.
pub const EXCLUSIVE: u64 = 1 << 32;

/// The number of the frame of a present page.
const WORD_FRAME: u64 = (1 << 55) - 1;
const WORD_EXCLUSIVE: u64 = 1 << 56;
/// Protected from writes by userfaultfd; of a page that is not there, a marker.
const WORD_PROTECTED: u64 = 1 << 57;
const WORD_GUARD: u64 = 1 << 58;
const WORD_FILE: u64 = 1 << 61;
const WORD_SWAPPED: u64 = 1 << 62;
const WORD_PRESENT: u64 = 1 << 63;

/// Consecutive pages of one category.
struct Run {
    addresses: Addresses,
    category: u64,
}

/// Calls `visit` with each run of pages in one of `categories` and its categories, by address, until
/// it returns false. Addresses beyond the end of the process are in none. The words show [`PRESENT`],
/// [`SWAPPED`], [`FILE`], [`EXCLUSIVE`], [`WRITTEN`] and [`GUARD`], not whether a page is the page of
/// zeros or a part of a huge one.
///
/// # Errors
/// `ESRCH` when the process is gone, `EIO` and the like where the file cannot be read.
pub fn walk(
    pagemap: BorrowedFd<'_>,
    range: Addresses,
    categories: u64,
    visit: &mut dyn FnMut(Addresses, u64) -> bool,
) -> io::Result<()> {
    let page = page_size();
    let mut open: Option<Run> = None;
    let complete = each(pagemap, range, &mut |at, word| {
        let category = category(word) & categories;
        extend(&mut open, category, at..at + page, visit)
    })?;
    if let Some(run) = open.filter(|_| complete) {
        visit(run.addresses, run.category);
    }
    Ok(())
}

/// Calls `visit` with the address and the frame of each present page, by address, until it returns
/// false. Frames are numbers of the machine's memory; the kernel shows 0 for all of them without
/// CAP_SYS_ADMIN.
///
/// # Errors
/// As [`walk`].
pub fn frames(
    pagemap: BorrowedFd<'_>,
    range: Addresses,
    visit: &mut dyn FnMut(u64, u64) -> bool,
) -> io::Result<()> {
    let is_present = |word| word & WORD_PRESENT != 0;
    each(pagemap, range, &mut |at, word| {
        !is_present(word) || visit(at, word & WORD_FRAME)
    })?;
    Ok(())
}

/// Calls `visit` with the address and the word of each page until it returns false. Returns whether
/// it never did.
fn each(
    pagemap: BorrowedFd<'_>,
    range: Addresses,
    visit: &mut dyn FnMut(u64, u64) -> bool,
) -> io::Result<bool> {
    let page = page_size();
    let mut buffer = [0u8; WORDS * 8];
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
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            if !visit(at, word) {
                return Ok(false);
            }
            at += page;
        }
    }
    Ok(true)
}

fn category(word: u64) -> u64 {
    let place = match (word & WORD_PRESENT != 0, word & WORD_SWAPPED != 0) {
        (true, _) => PRESENT,
        (false, true) => SWAPPED,
        (false, false) => return 0,
    };
    let written = if word & WORD_PROTECTED == 0 {
        WRITTEN
    } else {
        0
    };
    [
        (WORD_FILE, FILE),
        (WORD_EXCLUSIVE, EXCLUSIVE),
        (WORD_GUARD, GUARD),
    ]
    .iter()
    .filter(|(bit, _)| word & bit != 0)
    .fold(place | written, |all, (_, category)| all | category)
}

/// Adds a page to the open run, or closes that run and opens another. Returns whether to go on.
fn extend(
    open: &mut Option<Run>,
    category: u64,
    page: Addresses,
    visit: &mut dyn FnMut(Addresses, u64) -> bool,
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
    closed.is_none_or(|run| visit(run.addresses, run.category))
}
