//! Roots that are not stacks: static data of all loaded objects, and what the program adds.

use crate::collect::{GC_disable, GC_enable};
use crate::collector;
use crate::settings::{GC_no_dls, Variable};
use libc::{c_char, c_int, c_void, dl_phdr_info};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

type HasRoots = unsafe extern "C" fn(*const c_char, *mut c_void, usize) -> c_int;

static HAS_ROOTS: Variable<Option<HasRoots>> = Variable::new(None);

/// Ranges of addresses that hold references.
#[derive(Default)]
pub(crate) struct Roots {
    /// What the program added.
    added: Vec<Range<usize>>,
    /// What it took out, of whatever else is here.
    excluded: Vec<Range<usize>>,
    /// Static data of the objects that were loaded when this was looked at last.
    loaded: Vec<Range<usize>>,
}

/// What the program took out before there was a collector.
static EARLY: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

fn early(then: impl FnOnce(&mut Vec<Range<usize>>)) {
    if let Ok(mut early) = EARLY.lock() {
        then(&mut early);
    }
}

impl Roots {
    /// Those of a new collector.
    pub(crate) fn begin() -> Roots {
        let mut roots = Roots::default();
        early(|early| roots.excluded.append(early));
        roots
    }

    /// Looks at what is loaded now. Before the world is stopped: the loader has a lock, and this allocates.
    pub(crate) fn look(&mut self) {
        self.loaded.clear();
        if GC_no_dls.get() != 0 {
            // Not the program's own data either: libgc finds that in the same way.
            return;
        }
        let found: *mut Vec<Range<usize>> = &mut self.loaded;
        // SAFETY: the callback gets the vector, and nobody else uses it meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(each_object), found.cast()) };
    }

    /// Bytes that [`each`](Roots::each) reports, about.
    pub(crate) fn bytes(&self) -> usize {
        let of = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
        of(&self.loaded) + of(&self.added)
    }

    /// Every stretch of memory that holds references.
    pub(crate) fn each(&self, mut root: impl FnMut(usize, usize)) {
        for range in self.loaded.iter().chain(&self.added) {
            let mut at = range.start;
            while at < range.end {
                // The excluded range that is met next.
                let next = self
                    .excluded
                    .iter()
                    .filter(|excluded| excluded.end > at && excluded.start < range.end)
                    .min_by_key(|excluded| excluded.start);
                let end = next.map_or(range.end, |excluded| excluded.start.max(at));
                if at < end {
                    root(at, end);
                }
                at = next.map_or(range.end, |excluded| excluded.end);
            }
        }
    }
}

/// Adds the writable segments of one loaded object, but for our own.
unsafe extern "C" fn each_object(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    static OURS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: what `look` passed, and what the loader vouches for.
    let (found, info) = unsafe { (&mut *found.cast::<Vec<Range<usize>>>(), &*info) };
    // SAFETY: as above.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let main = found.is_empty() && info.dlpi_name.is_null() || {
        // SAFETY: a string of the loader's, where it is not null; the program itself has an empty name.
        !info.dlpi_name.is_null() && unsafe { *info.dlpi_name } == 0
    };
    let segments = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    let range = |header: &libc::Elf64_Phdr| {
        let start = (info.dlpi_addr + header.p_vaddr) as usize;
        start..start + header.p_memsz as usize
    };
    let own = (&raw const OURS) as usize;
    if !main && segments().any(|header| range(header).contains(&own)) {
        return 0;
    }
    for header in segments().filter(|header| header.p_flags & libc::PF_W != 0) {
        let range = range(header);
        let wanted = HAS_ROOTS.get().is_none_or(|ask| {
            // SAFETY: the program's own callback, with what libgc gives it.
            unsafe { ask(info.dlpi_name, range.start as *mut c_void, range.len()) != 0 }
        });
        if wanted {
            found.push(range);
        }
    }
    0
}

fn range(low: *mut c_void, high: *mut c_void) -> Range<usize> {
    const WORD: usize = size_of::<usize>();
    (low as usize).next_multiple_of(WORD)..high as usize / WORD * WORD
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_add_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if !range.is_empty() {
        let mut gc = collector::lock();
        if !gc.roots.added.contains(&range) {
            gc.roots.added.push(range);
        }
    }
}

/// Takes out added ranges that lie inside of this one, as libgc does.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_remove_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if !collector::is_ready() {
        return;
    }
    let inside = |added: &Range<usize>| added.start >= range.start && added.end <= range.end;
    collector::lock().roots.added.retain(|added| !inside(added));
}

/// What the loader knows of is found again by the next collection, as by libgc's.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_roots() {
    let mut gc = collector::lock();
    gc.roots.added.clear();
    gc.roots.loaded.clear();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_exclude_static_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if range.is_empty() {
        return;
    }
    let _guard = collector::guard();
    if collector::is_ready() {
        collector::held().roots.excluded.push(range);
    } else {
        early(|early| early.push(range));
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_exclusion_table() {
    let _guard = collector::guard();
    if collector::is_ready() {
        collector::held().roots.excluded.clear();
    } else {
        early(Vec::clear);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_has_static_roots_callback(callback: Option<HasRoots>) {
    HAS_ROOTS.set(callback);
}

/// Whether an address lies in roots that the loader added and may take away.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_tmp_root(address: *mut c_void) -> c_int {
    let holds = |range: &Range<usize>| range.contains(&(address as usize));
    c_int::from(collector::is_ready() && collector::either().roots.loaded.iter().any(holds))
}

/// As `dlopen`, without a collection meanwhile: who collects asks the loader, which may wait for what is loaded.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_dlopen(path: *const c_char, mode: c_int) -> *mut c_void {
    unsafe extern "C-unwind" {
        /// Runs the program's constructors, which may throw.
        fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    }
    struct Enable;
    impl Drop for Enable {
        fn drop(&mut self) {
            GC_enable();
        }
    }
    GC_disable();
    let _enable = Enable;
    // SAFETY: the caller's arguments.
    unsafe { dlopen(path, mode) }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WRITABLE: AtomicUsize = AtomicUsize::new(5);

    #[test]
    fn static_data_of_the_program_is_found() {
        let mut roots = Roots::default();
        roots.look();
        let word = &raw const WRITABLE as usize;
        assert!(roots.loaded.iter().any(|range| range.contains(&word)));
        assert!(roots.bytes() > 1000);
    }

    #[test]
    fn what_is_excluded_is_cut_out() {
        let roots = Roots {
            added: vec![100..200, 300..400],
            excluded: vec![190..310, 120..130, 110..125],
            ..Roots::default()
        };
        let mut found = Vec::new();
        roots.each(|start, end| found.push(start..end));
        assert_eq!(found, [100..110, 130..190, 310..400]);
    }
}
