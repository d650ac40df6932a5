//! Ranges of the heap: what they are mapped to, and giving them back.

use crate::machine::{Machine, Refusal, word};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::sandbox;
use plimsoll_kernel::smaps::each_own_mapping;
use plimsoll_unit::Nanos;
use std::ffi::c_void;

/// Size of a huge page, where the kernel does not say, bytes.
const HUGE: u64 = 2 << 20;
/// Bytes that are given back between two looks at the clock.
const CHUNK: u64 = 16 << 20;

/// Gives ranges back.
#[derive(Debug)]
pub struct Giver {
    /// Whole pages are given back; the size of a page, bytes.
    page: u64,
    /// When to stop; changed at the end of each pause.
    until: Option<Nanos>,
}

impl Giver {
    /// One for this machine's heap.
    ///
    /// # Errors
    /// If the user wants memory to stay, or the machine does not tell.
    pub fn of(machine: &Machine) -> Result<Giver, Refusal> {
        let page = wanted_page(machine)?;
        Ok(Giver { page, until: None })
    }

    /// One for pages of this size.
    #[cfg(test)]
    pub fn of_pages(page: u64) -> Giver {
        Giver { page, until: None }
    }

    /// A pause ends; from this time on nothing more is given back in it.
    pub fn begin(&mut self, until: Option<Nanos>) {
        self.until = until;
    }

    /// Whether there is time left in this pause.
    pub fn has_time(&self) -> bool {
        self.until.is_none_or(|until| clock::now() < until)
    }

    /// Size of the pages, bytes.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// Gives whole pages of free heap back to the kernel, the last ones first. Returns from which address
    /// on, which is `from` unless the time was up.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Safety
    /// Whole pages between the addresses `from` and `to`, free memory of the heap, at a safepoint: nothing
    /// is there and nobody looks at it. The head of `heap` says why that holds at the end of a pause.
    pub unsafe fn give(&self, from: u64, to: u64) -> Result<u64, Refusal> {
        let mut given = to;
        while given > from && self.has_time() {
            let chunk = CHUNK.next_multiple_of(self.page);
            let start = from.max(given.saturating_sub(chunk));
            let length = (given - start) as usize;
            // SAFETY: a part of the caller's range, in whole pages.
            let code = unsafe { libc::madvise(start as *mut c_void, length, libc::MADV_DONTNEED) };
            if code != 0 {
                let error = std::io::Error::last_os_error();
                return Err(Refusal::System(error.raw_os_error().unwrap_or(0)));
            }
            given = start;
        }
        Ok(given)
    }
}

/// The size of the pages to give back, bytes.
fn wanted_page(machine: &Machine) -> Result<u64, Refusal> {
    let flag = |name: &'static str| machine.is_set(name).ok_or(Refusal::NoFlag(name));
    if flag("UseNUMA")? {
        return Err(Refusal::Flag("+UseNUMA"));
    }
    // Known to debug builds only.
    if machine.is_set("ZapUnusedHeapArea") == Some(true) {
        return Err(Refusal::Flag("+ZapUnusedHeapArea"));
    }
    if machine.has_text("AllocateHeapAt") == Some(true) {
        return Err(Refusal::Flag("AllocateHeapAt"));
    }
    // In 12 to 15.
    if machine.has_text("AllocateOldGenAt") == Some(true) {
        return Err(Refusal::Flag("AllocateOldGenAt"));
    }
    let transparent = flag("UseTransparentHugePages")?;
    if flag("UseLargePages")? && !transparent {
        return Err(Refusal::Flag("+UseLargePages"));
    }
    // A part of a huge page cannot be freed at once, so these are given back as a whole.
    Ok(if transparent || are_huge_pages_usual() {
        huge_page()
    } else {
        page_size()
    })
}

/// Whether the kernel makes huge pages where nobody asked for them, or does not say.
fn are_huge_pages_usual() -> bool {
    let setting = std::fs::read("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| setting.starts_with(b"[always]"))
}

fn huge_page() -> u64 {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    let size = text.ok().and_then(|text| text.trim().parse::<u64>().ok());
    size.filter(|size| size.is_power_of_two())
        .unwrap_or(HUGE)
        .max(page_size())
}

/// Whether the page at an address, which is one's start, is in memory. Pages in swap are not, nor are those
/// that were never touched or are only reserved. A system call of less than a microsecond. Where a filter of
/// system calls may end the program for it, every page counts as in memory: less than wished may stay.
pub fn is_in_memory(page: u64) -> bool {
    if sandbox::was_filtered() {
        return true;
    }
    let mut state = 0u8;
    // SAFETY: tells of mappings and touches none, whatever the address is; one byte for one page.
    let code = unsafe { libc::mincore(page as *mut c_void, 1, (&raw mut state).cast()) };
    code == 0 && state & 1 == 1
}

/// The reserved heap: its first address, and one past the last.
///
/// # Errors
/// If the machine does not tell, or not of a range.
pub fn reserved(machine: &Machine) -> Result<(u64, u64), Refusal> {
    let what = "the range of its heap";
    let heap = machine.static_pointer("Universe", "_collectedHeap")?;
    let region = machine.at(heap, "CollectedHeap", "_reserved")?;
    let start = word(machine.at(region, "MemRegion", "_start")?);
    let words = word(machine.at(region, "MemRegion", "_word_size")?);
    let (start, words) = start.zip(words).ok_or(Refusal::Odd(what))?;
    let end = words
        .checked_mul(8)
        .and_then(|size| start.checked_add(size));
    let end = end.filter(|&end| start > 0 && end > start);
    Ok((start, end.ok_or(Refusal::Odd(what))?))
}

/// Calls `other` with each part of a range that is not mapped privately without a file: a hole, or another
/// mapping.
///
/// # Errors
/// If the memory map cannot be read.
pub fn not_anonymous(
    (start, end): (u64, u64),
    mut other: impl FnMut(u64, u64),
) -> Result<(), Refusal> {
    let mut next = start;
    let read = each_own_mapping(&mut |area| {
        let (first, last) = (area.addresses.start, area.addresses.end);
        let is_plain = !area.shared_mapping && area.file.inode == 0;
        if first < end && last > start {
            if first > next {
                other(next, first);
            }
            if !is_plain {
                other(first.max(start), last.min(end));
            }
            next = last;
        }
        first < end
    });
    if next < end {
        other(next, end);
    }
    read.map(drop).map_err(|_| Refusal::NotAnonymous)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_heap::Mapping;

    fn others(range: (u64, u64)) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        not_anonymous(range, |first, last| found.push((first, last))).unwrap();
        found
    }

    #[test]
    fn only_private_memory_without_a_file_is_anonymous() {
        let own = Mapping::new(16 * page_size());
        let (start, end) = own.range();
        assert_eq!(others((start, end)), []);
        assert_eq!(others((4096, 8192)), [(4096, 8192)]);
        let code = others as *const () as u64;
        assert_eq!(others((code, code + 1)), [(code, code + 1)]);
        // A file in the middle.
        let file = tempfile::tempfile().unwrap();
        file.set_len(page_size()).unwrap();
        let middle = start + 3 * page_size();
        own.map_file(3 * page_size(), page_size(), &file);
        assert_eq!(others((start, end)), [(middle, middle + page_size())]);
    }

    #[test]
    fn memory_that_is_only_reserved_is_given_back_without_harm() {
        let page = page_size();
        let mut own = Mapping::new(64 * page);
        own.bytes().fill(1);
        own.reserve(8 * page, 16 * page);
        let giver = Giver::of_pages(page);
        let (start, _) = own.range();
        assert!(is_in_memory(start) && !is_in_memory(start + 8 * page));
        // SAFETY: our mapping; nobody else looks at it.
        let given = unsafe { giver.give(start + 4 * page, start + 32 * page) };
        assert_eq!(given, Ok(start + 4 * page));
        assert_eq!(own.resident(), 36 * page);
        assert!(!own.is_accessible(8 * page), "it stays reserved only");
        assert!(own.is_accessible(4 * page));
        // SAFETY: as above.
        let nothing = unsafe { giver.give(start + page, start + page) };
        assert_eq!(nothing, Ok(start + page));
    }

    #[test]
    fn it_stops_when_the_time_is_up() {
        let mut own = Mapping::new(2 * CHUNK);
        own.bytes().fill(1);
        let mut giver = Giver::of_pages(page_size());
        let (start, end) = own.range();
        giver.begin(Some(clock::now()));
        // SAFETY: our mapping; nobody else looks at it.
        let given = unsafe { giver.give(start, end) };
        assert_eq!((given, own.resident()), (Ok(end), 2 * CHUNK));
        giver.begin(None);
        // SAFETY: as above.
        let given = unsafe { giver.give(start, end) };
        assert_eq!((given, own.resident()), (Ok(start), 0));
    }
}
