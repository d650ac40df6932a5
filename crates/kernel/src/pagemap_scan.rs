//! `PAGEMAP_SCAN` (Linux 6.7): which pages are in memory or in swap, and which were written to.
//! Source: kernel document `admin-guide/mm/pagemap.rst`. Nothing here allocates, because collectors
//! call it while the world is stopped.

use crate::smaps::Addresses;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;

/// Runs that are asked for in one call. They lie on the stack of the allocating thread, which may
/// be small. With more than 512 Linux 6.18 reported some runs twice.
const REGIONS: usize = 128;
/// Most calls for one range.
const MAX_CALLS: usize = 1 << 20;

/// Categories of pages (`linux/fs.h`): written to since they were armed, or never armed.
pub const WRITTEN: u64 = 1 << 1;
/// A page of a file or of shared memory, not a private copy.
pub const FILE: u64 = 1 << 2;
/// In memory.
pub const PRESENT: u64 = 1 << 3;
/// In swap; guard pages and markers of write protection look the same.
pub const SWAPPED: u64 = 1 << 4;
/// The page of zeros that all processes share. It is present, but does not count as resident.
pub const ZERO: u64 = 1 << 5;
/// Mapped by a huge entry of the page table.
pub const HUGE: u64 = 1 << 6;
/// A guard page (Linux 6.15); it is swapped too, though nothing of it is in swap.
pub const GUARD: u64 = 1 << 8;

/// Arm the pages that match.
const WP_MATCHING: u64 = 1;
/// Fail unless the range is tracked.
const CHECK_WPASYNC: u64 = 2;

/// Which pages are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query {
    flags: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

impl Query {
    /// Asks for pages that are in any of these categories.
    pub const fn any_of(categories: u64) -> Query {
        Query {
            flags: 0,
            all_of: 0,
            any_of: categories,
            returned: categories,
        }
    }

    /// Tells these categories of the pages too.
    pub const fn telling(self, categories: u64) -> Query {
        Query {
            returned: self.returned | categories,
            ..self
        }
    }

    /// Asks for pages of a tracked range that were written to since they were armed.
    pub const WRITTEN: Query = Query {
        flags: CHECK_WPASYNC,
        all_of: WRITTEN,
        any_of: 0,
        returned: WRITTEN,
    };

    /// Arms the pages of a tracked range that are in memory or in swap. Arming others would create
    /// page tables and markers that look like swap.
    pub const ARM: Query = Query {
        flags: WP_MATCHING | CHECK_WPASYNC,
        all_of: WRITTEN,
        any_of: PRESENT | SWAPPED,
        returned: WRITTEN | PRESENT | SWAPPED,
    };
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

struct Scan<'a>(&'a mut Arguments);

// SAFETY: the request takes a pointer to this structure, reads and writes it and the regions that
// it points to.
unsafe impl Ioctl for Scan<'_> {
    type Output = usize;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<Arguments>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.0).cast()
    }

    unsafe fn output_from_ptr(count: IoctlOutput, _: *mut c_void) -> rustix::io::Result<usize> {
        Ok(count as usize)
    }
}

/// Calls `visit` with each run of matching pages and its categories, by address, until it returns
/// false.
///
/// # Errors
/// `ENOTTY` or `EINVAL` before Linux 6.7, `EPERM` where the range is not tracked and the query
/// needs it, `ESRCH` when the process is gone.
pub fn walk(
    pagemap: BorrowedFd<'_>,
    range: Addresses,
    query: Query,
    visit: &mut dyn FnMut(Addresses, u64) -> bool,
) -> io::Result<()> {
    // Always ask for regions. Without them the kernel arms every page, whatever its category.
    let mut regions = [Region::default(); REGIONS];
    let mut at = range.start;
    for _ in 0..MAX_CALLS {
        if at >= range.end {
            return Ok(());
        }
        let mut arguments = Arguments {
            size: size_of::<Arguments>() as u64,
            flags: query.flags,
            start: at,
            end: range.end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            mask: query.all_of,
            any_of: query.any_of,
            returned: query.returned,
            ..Arguments::default()
        };
        // SAFETY: `vec` points to `vec_len` regions that outlive the call.
        let count = unsafe { ioctl(pagemap, Scan(&mut arguments))? };
        for region in &regions[..count.min(REGIONS)] {
            if !visit(region.start..region.end, region.categories) {
                return Ok(());
            }
        }
        if arguments.walk_end <= at {
            break;
        }
        at = arguments.walk_end;
    }
    Err(io::ErrorKind::InvalidData.into())
}
