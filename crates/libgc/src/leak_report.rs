//! Reports lost and damaged objects that the last collection found ([`crate::leaks`]).

use crate::leaks::FOUND;
use crate::objects::header::{describe, has_header};
use crate::objects::kinds::PTRFREE;
use crate::objects::release::free;
use crate::output::complain;
use crate::state::{self, Locked};
use crate::{diagnostics, environ};
use libc::c_void;
use plimsoll_heap::KindId;
use std::sync::atomic::Ordering::Relaxed;

/// Reports what was found, without the lock, and frees the lost objects.
#[inline]
pub(crate) fn report() {
    if FOUND.load(Relaxed) {
        report_all(state::lock());
    }
}

#[cold]
fn report_all(mut gc: Locked) {
    if !FOUND.swap(false, Relaxed) {
        return;
    }
    let heap = gc.heap;
    let lost = std::mem::take(&mut gc.program.leaks.lost);
    let damaged = std::mem::take(&mut gc.program.leaks.damaged);
    drop(gc);
    if !damaged.is_empty() {
        complain(&format!(
            "GC_check_heap_block: found {} smashed heap objects:\n",
            damaged.len()
        ));
    }
    for (start, word) in &damaged {
        complain(&format!(
            "{word:#x} in or near object at {}\n",
            describe(*start)
        ));
    }
    if !lost.is_empty() {
        complain(&format!("Found {} leaked objects:\n", lost.len()));
    }
    for &start in &lost {
        let text = if has_header(start) {
            format!("{}\n", describe(start))
        } else {
            let (size, kind) = heap
                .slot(start)
                .map_or((0, KindId(0)), |slot| (heap.size(slot), heap.kind_of(slot)));
            let what = if kind == PTRFREE {
                "atomic"
            } else {
                "composite"
            };
            format!("object at {start:#x} of appr. {size} bytes ({what})\n")
        };
        complain(&text);
        // SAFETY: nothing refers to it, and it was not freed.
        unsafe { free(heap, start as *mut c_void) };
    }
    if environ::is_set("GC_ABORT_ON_LEAK") {
        diagnostics::abort(c"Objects were lost or damaged");
    }
}
