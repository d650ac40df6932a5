//! Roots that are not stacks: static data of all loaded objects, and what the program adds.
//!
//! What is loaded is listed, and its data read, when the world stands, with the
//! [loader's](crate::loader) lock held: nobody can unload what is read, also no thread that is not
//! stopped. A stopped thread never has the lock, since it is held, too, when threads are told to
//! stop. No other way is as good: files of `/proc` may be closed, and a fault that is caught would
//! be caught in the program's place. The lock is not held for the whole pause, because a callback
//! may fork in it: the child would never get it again.

use crate::collect::{GC_disable, GC_enable};
use crate::settings::{GC_no_dls, Variable};
use crate::{collector, loader};
use libc::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::Mutex;

type HasRoots = unsafe extern "C" fn(*const c_char, *mut c_void, usize) -> c_int;

static HAS_ROOTS: Variable<Option<HasRoots>> = Variable::new(None);

/// Ranges of addresses that hold references.
#[derive(Default)]
pub(crate) struct Roots {
    /// What the program added.
    added: Vec<Range<usize>>,
    /// What it took out, of whatever else is here.
    excluded: Vec<Range<usize>>,
    /// Static data of the objects that were loaded before the world was stopped last, and what of
    /// that the program said has no references.
    loaded: Vec<Range<usize>>,
    refused: Vec<Range<usize>>,
    /// Static data counts.
    data: bool,
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

    /// Looks at what is loaded, and calls `stop` with the loader's lock held, which has the world
    /// stop. Before that: this allocates, and asks the program.
    pub(crate) fn look_and(&mut self, stop: &mut dyn FnMut()) {
        self.loaded.clear();
        self.refused.clear();
        // Without them not the program's own data either: libgc finds that in the same way.
        self.data = GC_no_dls.get() == 0;
        loader::while_held(|| {
            if self.data {
                self.look();
            }
            stop();
        });
    }

    fn look(&mut self) {
        loader::each_segment(|name, range| {
            let wanted = HAS_ROOTS.get().is_none_or(|ask| {
                // SAFETY: the program's own callback, with what libgc gives it.
                unsafe { ask(name, range.start as *mut c_void, range.len()) != 0 }
            });
            match wanted {
                true => self.loaded.push(range),
                false => self.refused.push(range),
            }
        });
    }

    /// Bytes that [`each`](Roots::each) reports, about.
    pub(crate) fn bytes(&self) -> usize {
        let of = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
        of(&self.loaded) + of(&self.added)
    }

    /// Every stretch of memory that holds references, of what is there. The world is stopped, and
    /// `root` is no more than a look: the loader's lock is held meanwhile.
    pub(crate) fn each(&self, mut root: impl FnMut(usize, usize)) {
        for range in &self.added {
            self.each_part(range, &mut root);
        }
        if self.data {
            loader::each_segment(|_, range| {
                if !self.refused.contains(&range) {
                    self.each_part(&range, &mut root);
                }
            });
        }
    }

    /// What of a range is not excluded.
    fn each_part(&self, range: &Range<usize>, root: &mut impl FnMut(usize, usize)) {
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

/// As `dlopen`, without a collection meanwhile: who collects asks the loader, which may wait for
/// what is loaded.
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
    use std::sync::atomic::AtomicUsize;

    static WRITABLE: AtomicUsize = AtomicUsize::new(5);

    #[test]
    fn static_data_of_the_program_is_found() {
        let mut roots = Roots::default();
        let mut stopped = 0;
        roots.look_and(&mut || stopped += 1);
        assert_eq!(stopped, 1);
        let word = &raw const WRITABLE as usize;
        let finds = |roots: &Roots| {
            let mut found = false;
            roots.each(|start, end| found |= (start..end).contains(&word));
            found
        };
        assert!(finds(&roots));
        assert!(roots.loaded.iter().any(|range| range.contains(&word)));
        assert!(roots.bytes() > 1000);
        roots.refused = roots.loaded.clone();
        assert!(!finds(&roots));
        roots.refused.clear();
        roots.loaded.clear();
        assert!(finds(&roots), "what was loaded since");
        roots.data = false;
        assert!(!finds(&roots));
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
