//! Gives free memory of a heap back to the kernel, which MMTk 0.33.0 never does.
//!
//! There is no documented way to learn where a space is. This uses methods that 0.33.0 leaves
//! reachable (`Plan::for_each_space` and what a space tells of itself); another version may not have
//! them, or mean something else by them. So the module is behind a feature that names the version, and
//! does not compile with another one.
//!
//! Memory that is given back:
//! - **Copy spaces and nurseries without a page in use** (`copyspace0`, `copyspace1`, `nursery`): all of
//!   their memory. MMTk clears memory of these when it hands it out again.
//! - **Immix**, with the feature `undocumented-mmtk-0-33-immix` (MMTk's `vo_bit`): pages in which no
//!   object lies, above the space's free list; after collections of the whole heap only ([`Free::Pages`]).
//!   Not of a plan that marks while the program runs: MMTk marks all lines that are handed out meanwhile,
//!   word by word, and takes these marks for objects afterwards. Such a word may be within an object.
//!
//! Memory that is never touched: the beginning of the spaces `los`, `immix`, `nonmoving` and `ms`. MMTk
//! keeps their free lists there, in the extent of the space itself: without them it hangs. And
//! MarkSweep: its free lists run through dead objects.

use crate::sizer::Free;
use mmtk::MMTK;
use mmtk::util::Address;
use mmtk::vm::VMBinding;

const _: () = assert!(
    same(mmtk::build_info::MMTK_PKG_VERSION, "0.33.0"),
    "plimsoll-mmtk: the feature undocumented-mmtk-0-33 is for MMTk 0.33.0 only"
);

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Spaces into which objects are copied, or from which; they are contiguous on 64-bit machines.
const COPIED: [&str; 3] = ["copyspace0", "copyspace1", "nursery"];
#[cfg(feature = "undocumented-mmtk-0-33-immix")]
const IMMIX: &str = "immix";

/// Gives free memory back.
///
/// # Safety
/// Until it returns the program must be stopped, and no thread of the collector may work. Memory must have
/// been reclaimed in this pause.
pub(super) unsafe fn give_back<VM: VMBinding>(mmtk: &'static MMTK<VM>, free: Free) {
    #[cfg(feature = "undocumented-mmtk-0-33-immix")]
    let mut immix = None;
    #[cfg(not(feature = "undocumented-mmtk-0-33-immix"))]
    let _ = free;
    mmtk.get_plan().for_each_space(&mut |space| {
        let common = space.common();
        if common.start.is_zero() || common.extent == 0 {
            // Not contiguous: its pages are anywhere.
            return;
        }
        let name = space.get_name();
        if COPIED.contains(&name) && space.reserved_pages() == 0 {
            // SAFETY: a whole space without a reserved page, and no thread reserves one meanwhile. MMTk
            // clears its memory before it hands it out again.
            unsafe { drop_pages(common.start, common.extent) };
        }
        #[cfg(feature = "undocumented-mmtk-0-33-immix")]
        if name == IMMIX && free == Free::Pages && mmtk.get_plan().concurrent().is_none() {
            immix = Some((common.start, common.extent));
        }
    });
    #[cfg(feature = "undocumented-mmtk-0-33-immix")]
    if let Some((start, extent)) = immix {
        // SAFETY: where the space of Immix is, whose pages were reclaimed; nothing works, as the caller says.
        // The plan does not mark beside the program.
        unsafe { holes::give_back(mmtk, start, extent) };
    }
}

/// Drops the content of whole pages. A failure (locked memory) leaves them as they are.
///
/// # Safety
/// The pages from `start` on, `bytes` bytes, must belong to a space of MMTk's, which maps them privately and
/// without a file. Nothing in them may be in use, and whoever uses them next must expect nothing in them but
/// zeros.
unsafe fn drop_pages(start: Address, bytes: usize) {
    // SAFETY: these pages hold nothing that anybody reads again, as the caller says.
    unsafe { libc::madvise(start.to_mut_ptr(), bytes, libc::MADV_DONTNEED) };
}

#[cfg(feature = "undocumented-mmtk-0-33-immix")]
mod holes {
    use super::drop_pages;
    use mmtk::MMTK;
    use mmtk::util::Address;
    use mmtk::util::constants::BYTES_IN_PAGE;
    use mmtk::vm::{ObjectModel, VMBinding};

    /// MMTk's unit of address space, bytes; a free list fills whole ones.
    const CHUNK: usize = 4 << 20;
    /// Bytes of a free list for each page of its space.
    const ENTRY: usize = 8;
    /// Pages of a free list without a page of the space: its head and its two ends, rounded up.
    const ENDS: usize = 1;

    /// Where objects of this space begin: MMTk puts the free list of all its pages before them.
    pub(super) fn first(start: Address, extent: usize) -> Address {
        let list = extent / BYTES_IN_PAGE * ENTRY + ENDS * BYTES_IN_PAGE;
        (start + list).align_up(CHUNK)
    }

    /// Gives back the pages of the space without objects.
    ///
    /// # Safety
    /// `start` and `extent` must be those of the space of Immix, of a plan that marks only while the program
    /// is stopped. As for [`super::give_back`].
    pub(super) unsafe fn give_back<VM: VMBinding>(mmtk: &MMTK<VM>, start: Address, extent: usize) {
        let (first, end) = (first(start, extent), start + extent);
        // Objects of a space come in the order of their addresses.
        let mut holes = Holes { next: first };
        mmtk.enumerate_objects(|object| {
            let begin = VM::VMObjectModel::ref_to_object_start(object);
            if begin >= first && begin < end {
                let size = VM::VMObjectModel::get_current_size(object);
                // SAFETY: MMTk's bits tell of every object, in the order of their addresses, so nothing lies
                // between this one and the one before it. Nothing is allocated meanwhile.
                unsafe { holes.object(begin, begin + size) };
            }
        });
        // SAFETY: that was the last object, and the space ends there.
        unsafe { holes.last(end) };
    }

    /// The memory of the space from where objects can begin, looked at in the order of addresses.
    struct Holes {
        /// The end of the last object, or where objects can begin.
        next: Address,
    }

    impl Holes {
        /// The next object. Gives back the whole pages between it and what came before it.
        ///
        /// # Safety
        /// Between `next` and `begin` there must be memory of the space only, and no object: all of those
        /// before `begin` were told already. None may come into being until this returns.
        unsafe fn object(&mut self, begin: Address, end: Address) {
            let free = self.next;
            if begin < free {
                // Not in order: leave everything up to here.
                self.next = free.max(end);
                return;
            }
            let (from, to) = (
                free.align_up(BYTES_IN_PAGE),
                begin.align_down(BYTES_IN_PAGE),
            );
            if from < to {
                // SAFETY: no object lies there, as the caller says, and Immix expects nothing in free memory.
                unsafe { drop_pages(from, to - from) };
            }
            self.next = end;
        }

        /// No object comes any more. Gives back the whole pages up to the end of the space.
        ///
        /// # Safety
        /// As for [`Holes::object`], with the end of the space in place of an object.
        unsafe fn last(self, end: Address) {
            let from = self.next.align_up(BYTES_IN_PAGE);
            if from < end {
                // SAFETY: as above.
                unsafe { drop_pages(from, end - from) };
            }
        }
    }
}
