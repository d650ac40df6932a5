//! gc.h: sizes and statistics, and how far the heap may grow.

use crate::abi::variables::{
    EARLY_MOST, GC_all_interior_pointers, GC_gc_no, GC_non_gc_bytes, GC_parallel,
};
use crate::front_end::Front;
use crate::output;
use crate::state::{self, Locked, State};
use crate::thread::current;
use crate::{heap, start};
use libc::{c_char, c_int, c_ulong};
use plimsoll_collector::Usage;
use plimsoll_heap::{Class, SUPERPAGE};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Sizes, with the bytes that the program counts itself.
fn usage(gc: &Locked) -> Usage {
    current::count_bins(gc.heap);
    let usage = gc.collector.usage();
    let counted = &gc.program.counted;
    Usage {
        since: usage.since.saturating_add(counted.told),
        total: usage
            .total
            .saturating_add(counted.told_before)
            .saturating_add(counted.told),
        ..usage
    }
}

/// The state, if the collector was made already.
fn made() -> Option<Locked> {
    heap::is_ready().then(start::either)
}

macro_rules! figures {
    ($($name:ident => $field:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name() -> usize {
            made().map_or(0, |gc| usage(&gc).$field)
        }
    )*};
}

figures! {
    GC_get_heap_size => heap;
    GC_get_free_bytes => free;
    GC_get_unmapped_bytes => unmapped;
    GC_get_bytes_since_gc => since;
    GC_get_total_bytes => total;
}

/// Bytes of the superpages that hold objects.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_memory_use() -> usize {
    made().map_or(0, |gc| gc.collector.central.used() * SUPERPAGE)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_obtained_from_os_bytes() -> usize {
    made().map_or(0, |gc| {
        current::count_bins(gc.heap);
        gc.collector.obtained()
    })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_expl_freed_bytes_since_gc() -> usize {
    made().map_or(0, |gc| freed(&gc))
}

fn freed(gc: &Locked) -> usize {
    gc.program
        .counted
        .freed
        .saturating_add(gc.program.threads.freed())
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_heap_usage_safe(
    heap: *mut usize,
    free: *mut usize,
    unmapped: *mut usize,
    since: *mut usize,
    total: *mut usize,
) {
    let usage = made().map(|gc| usage(&gc)).unwrap_or_default();
    let places = [
        (heap, usage.heap),
        (free, usage.free),
        (unmapped, usage.unmapped),
        (since, usage.since),
        (total, usage.total),
    ];
    for (place, value) in places {
        // SAFETY: the caller's, where it is not null.
        if let Some(place) = unsafe { place.as_mut() } {
            *place = value;
        }
    }
}

/// `struct GC_prof_stats_s`, as words in the order of its fields.
const PROF_WORDS: usize = 12;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_prof_stats(places: *mut usize, bytes: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { fill(made(), places, bytes) }
}

/// The caller holds the lock.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_prof_stats_unsafe(places: *mut usize, bytes: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { fill(made(), places, bytes) }
}

unsafe fn fill(gc: Option<Locked>, places: *mut usize, bytes: usize) -> usize {
    let gc = gc.as_ref();
    let usage = gc.map(usage).unwrap_or_default();
    let stats = gc.map(|gc| &gc.collector.statistics);
    let words: [usize; PROF_WORDS] = [
        usage.heap + usage.unmapped,
        usage.free + usage.unmapped,
        usage.unmapped,
        usage.since,
        usage.total - usage.since,
        GC_non_gc_bytes.get(),
        GC_gc_no.get(),
        GC_parallel.get() as usize,
        stats.map_or(0, |stats| stats.reclaimed_last.length()),
        stats.map_or(0, |stats| (stats.reclaimed - stats.reclaimed_last).length()),
        gc.map_or(0, freed),
        gc.map_or(0, |gc| gc.collector.obtained()),
    ];
    let known = size_of_val(&words);
    // SAFETY: the caller provides this many bytes. Fields that are not known are filled as libgc does.
    unsafe {
        places
            .cast::<u8>()
            .copy_from_nonoverlapping(words.as_ptr().cast(), bytes.min(known));
        if bytes > known {
            places
                .cast::<u8>()
                .add(known)
                .write_bytes(0xff, bytes - known);
        }
    }
    bytes.min(known)
}

/// Set if the program began to measure before the collector was made.
static MEASURES: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_performance_measurement() {
    let _guard = state::guard();
    if heap::is_ready() {
        let mut gc = start::held();
        let total = gc.collector.statistics.total;
        gc.program.counted.measured_from.get_or_insert(total);
    } else {
        MEASURES.store(true, Relaxed);
    }
}

/// In milliseconds.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_full_gc_total_time() -> c_ulong {
    let Some(gc) = made() else { return 0 };
    let from = if MEASURES.load(Relaxed) {
        Some(Duration::ZERO)
    } else {
        gc.program.counted.measured_from
    };
    from.map_or(0, |from| {
        (gc.collector.statistics.total - from).as_millis() as c_ulong
    })
}

/// The bytes that an object takes if `index` bytes are requested; all ones beyond the end of
/// libgc's table.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_size_map_at(index: c_int) -> usize {
    /// The last index in libgc's table, bytes.
    const LAST: usize = 2048;
    match usize::try_from(index) {
        Ok(bytes) if bytes <= LAST => {
            let extra = usize::from(GC_all_interior_pointers.get() != 0);
            Class::of(bytes + extra).map_or(usize::MAX, Class::bytes)
        }
        _ => usize::MAX,
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_expand_hp(bytes: usize) -> c_int {
    let mut gc = start::lock();
    let State { collector, program } = &mut *gc;
    c_int::from(collector.expand(&mut Front::new(program, 0), bytes))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_max_heap_size(bytes: usize) {
    let _guard = state::guard();
    if heap::is_ready() {
        let most = Some(bytes).filter(|&bytes| bytes > 0);
        start::held().collector.limit(most);
    } else {
        EARLY_MOST.set(bytes);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_dump() {
    // SAFETY: no name.
    unsafe { GC_dump_named(std::ptr::null()) };
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_dump_named(name: *const c_char) {
    let name = if name.is_null() {
        String::new()
    } else {
        // SAFETY: the caller's string.
        let name = unsafe { CStr::from_ptr(name) };
        format!("***GC Dump {}\n", name.to_string_lossy())
    };
    let Some(gc) = made() else {
        return output::print(&format!("{name}***No heap\n"));
    };
    let usage = usage(&gc);
    output::print(&format!(
        "{name}***Heap: {} KiB used, {} KiB free in it, {} KiB unmapped; {} collections, {} ms in all, \
         longest pause {} us, \
         {} major faults; {} finalizers, {:?} links\n",
        usage.heap >> 10,
        usage.free >> 10,
        usage.unmapped >> 10,
        GC_gc_no.get(),
        gc.collector.statistics.total.as_millis(),
        gc.collector.statistics.longest.as_micros(),
        gc.collector.statistics.faults,
        gc.program.finalization.finalizers.count(),
        gc.program.finalization.links.counts(),
    ));
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_dump_regions() {
    if heap::is_ready() {
        GC_dump();
    }
}

/// Adds bytes that the program took from lists. The caller holds the lock.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incr_bytes_allocd(bytes: usize) {
    if heap::is_ready() {
        let told = &mut start::either().program.counted.told;
        *told = told.saturating_add(bytes);
    }
}

/// Adds bytes that the program put into lists. The caller holds the lock.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incr_bytes_freed(bytes: usize) {
    if heap::is_ready() {
        let freed = &mut start::either().program.counted.freed;
        *freed = freed.saturating_add(bytes);
    }
}
