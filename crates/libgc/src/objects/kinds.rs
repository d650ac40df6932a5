//! Kinds of objects: libgc's four, and those that a program adds with descriptors and mark
//! procedures; where references are in their objects.

use crate::diagnostics;
use crate::racy_cell::Variable;
use libc::{c_char, c_int, c_uint, c_void};
use plimsoll_heap::mark::{Marker, Tracer};
use plimsoll_heap::{Heap, Kind, KindId, Layout};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The numbers of libgc's kinds.
pub(crate) const PTRFREE: KindId = KindId(0);
pub(crate) const NORMAL: KindId = KindId(1);
pub(crate) const UNCOLLECTABLE: KindId = KindId(2);
pub(crate) const AUNCOLLECTABLE: KindId = KindId(3);

/// The most kinds of objects; libgc has the same bound.
const KINDS: usize = 24;

/// The type of a descriptor, in its lowest two bits (gc_mark.h).
const TAGS: usize = 3;
const LENGTH: usize = 0;
const BITMAP: usize = 1;
const PROC: usize = 2;
const PER_OBJECT: usize = 3;
const LOG_MAX_PROCS: u32 = 6;
const MAX_PROCS: usize = 1 << LOG_MAX_PROCS;
const RESERVED_PROCS: usize = 8;
const INDIRECT_BIAS: usize = 0x10;
const WORD: usize = size_of::<usize>();
pub(crate) type MarkProc =
    unsafe extern "C" fn(*mut usize, *mut Entry, *mut Entry, usize) -> *mut Entry;

pub(crate) type Describe = unsafe extern "C-unwind" fn(*mut c_void, *mut c_char);

/// `struct GC_ms_entry`. Programs only pass pointers to it on, and never look inside.
#[repr(C)]
pub(crate) struct Entry {
    opaque: *mut c_void,
}

/// Descriptors of kinds, and mark procedures. Kinds are added under the collector's lock, procedures without
/// it; markers read both without a lock.
struct Table {
    /// A kind's descriptor. The object's size is added to it if `adds_size` is set.
    descriptors: [AtomicUsize; KINDS],
    adds_size: [AtomicUsize; KINDS],
    /// The mark procedures, by number.
    procs: [OnceLock<MarkProc>; MAX_PROCS],
    /// The number for the next procedure.
    next_proc: AtomicUsize,
}

static TABLE: Table = Table {
    descriptors: [const { AtomicUsize::new(0) }; KINDS],
    adds_size: [const { AtomicUsize::new(0) }; KINDS],
    procs: [const { OnceLock::new() }; MAX_PROCS],
    next_proc: AtomicUsize::new(RESERVED_PROCS),
};

static DESCRIBERS: [Variable<Option<Describe>>; KINDS] = [const { Variable::new(None) }; KINDS];

/// Adds libgc's four kinds to a new heap.
pub(crate) fn add_first(heap: &Heap) {
    let kept = |kind: Kind| Kind {
        uncollectable: true,
        ..kind
    };
    for kind in [
        Kind::OPAQUE,
        Kind::WORDS,
        kept(Kind::WORDS),
        kept(Kind::OPAQUE),
    ] {
        heap.add_kind(kind).expect("the first of many");
    }
}

/// Finds the references in objects of a program's kinds.
pub(crate) struct Descriptors;

thread_local! {
    /// The marker that this thread runs, set while it is in a mark procedure or in the program's
    /// callback for roots.
    static MARKER: Cell<*mut c_void> = const { Cell::new(null_mut()) };
}

/// Calls `then`, which may report references through [`GC_mark_and_push` and similar functions.
pub(crate) fn with_marker(marker: &mut Marker<'_>, then: impl FnOnce()) {
    let before = MARKER.replace((&raw mut *marker).cast());
    then();
    MARKER.set(before);
}

/// Calls `then` with the marker that this thread runs, if there is one.
pub(crate) fn marker(then: impl FnOnce(&mut Marker<'_>)) {
    let marker: *mut Marker<'_> = MARKER.get().cast();
    // SAFETY: set only while `with_marker` waits for the code that calls this.
    if let Some(marker) = unsafe { marker.as_mut() } {
        then(marker);
    }
}

// SAFETY: by libgc's interface, a descriptor names every reference; nothing is allocated.
unsafe impl Tracer for Descriptors {
    unsafe fn trace(&self, start: usize, bytes: usize, kind: KindId, marker: &mut Marker<'_>) {
        let kind = usize::from(kind.0);
        let size = if TABLE.adds_size[kind].load(Relaxed) != 0 {
            bytes
        } else {
            0
        };
        let descriptor = TABLE.descriptors[kind].load(Relaxed).wrapping_add(size);
        // SAFETY: an object of this size, says the caller.
        unsafe { follow(start, bytes, descriptor, marker) };
    }
}

/// Reports the references in the object at `start`, as a descriptor defines them.
///
/// # Safety
/// There are `bytes` readable bytes at `start`, and the descriptor describes them.
pub(crate) unsafe fn follow(
    start: usize,
    bytes: usize,
    mut descriptor: usize,
    marker: &mut Marker<'_>,
) {
    // SAFETY: words of the object, or of a type that it names.
    let read = |address: usize| unsafe { (address as *const usize).read() };
    loop {
        let rest = descriptor & !TAGS;
        match descriptor & TAGS {
            LENGTH => {
                // SAFETY: a length of at most the object's.
                unsafe { marker.span(start, start + rest.min(bytes)) };
                return;
            }
            BITMAP => {
                let (mut bits, mut at) = (rest, start);
                while bits != 0 {
                    let skip = bits.leading_zeros() as usize;
                    at += skip * WORD;
                    marker.word(read(at));
                    at += WORD;
                    bits = bits << skip << 1;
                }
                return;
            }
            PROC => {
                let index = rest >> 2 & (MAX_PROCS - 1);
                let environment = rest >> 2 >> LOG_MAX_PROCS;
                if index == LONG_PROC {
                    // SAFETY: an object of one of the long descriptors.
                    return unsafe { follow_long(start, bytes, environment, marker) };
                }
                if let Some(&procedure) = TABLE.procs[index].get() {
                    // Programs pass these two back to `GC_mark_and_push`, and at most compare them.
                    let top: *mut Entry = null_mut::<Entry>().wrapping_add(1);
                    let limit = top.wrapping_add(4096);
                    with_marker(marker, || {
                        // SAFETY: the program's procedure, for an object that it described with it.
                        unsafe { procedure(start as *mut usize, top, limit, environment) };
                    });
                }
                return;
            }
            _ => {
                descriptor = if (descriptor as isize) >= 0 {
                    read(start + rest)
                } else {
                    let of_type = read(start);
                    if of_type == 0 {
                        return;
                    }
                    let back = descriptor
                        .wrapping_add(INDIRECT_BIAS)
                        .wrapping_sub(PER_OBJECT);
                    read(of_type.wrapping_sub(back))
                };
                if descriptor == 0 {
                    return;
                }
            }
        }
    }
}

/// Adds a kind. Called under the collector's lock.
pub(crate) fn new_kind(heap: &Heap, descriptor: usize, adds_size: c_int, clears: c_int) -> c_uint {
    let layout = match (descriptor, adds_size != 0) {
        (0, true) => Layout::Words,
        (0, false) => Layout::Opaque,
        _ => Layout::Traced,
    };
    let kind = Kind {
        layout,
        zeroed: clears != 0,
        uncollectable: false,
    };
    match heap.add_kind(kind) {
        Ok(id) if usize::from(id.0) < KINDS => {
            TABLE.descriptors[usize::from(id.0)].store(descriptor, Relaxed);
            TABLE.adds_size[usize::from(id.0)].store(adds_size as usize, Relaxed);
            c_uint::from(id.0)
        }
        _ => diagnostics::abort(c"Too many kinds"),
    }
}

/// Adds a kind of the collector's own, described like a program's.
pub(crate) fn own_kind(heap: &Heap, descriptor: usize) -> KindId {
    KindId(new_kind(heap, descriptor, 1, 1) as u16)
}

/// The same for a descriptor that does not depend on the object's size.
pub(crate) fn own_kind_without_size(heap: &Heap, descriptor: usize) -> KindId {
    KindId(new_kind(heap, descriptor, 0, 1) as u16)
}

/// The descriptor that has mark procedure `index` find references, with this environment as its
/// argument.
pub(crate) fn proc_descriptor(index: usize, environment: usize) -> usize {
    (environment << LOG_MAX_PROCS | index) << 2 | PROC
}

/// Sets one of the procedures with fixed numbers.
pub(crate) fn set_proc(index: usize, procedure: *mut c_void) {
    if let Some(place) = TABLE.procs.get(index)
        && !procedure.is_null()
    {
        // SAFETY: a mark procedure, says the interface.
        place.get_or_init(|| unsafe { std::mem::transmute::<*mut c_void, MarkProc>(procedure) });
    }
}

/// The function that describes objects of a kind in reports, if the program set one.
pub(crate) fn describer(kind: KindId) -> Option<Describe> {
    DESCRIBERS.get(usize::from(kind.0))?.get()
}

/// Adds a mark procedure, and returns its number.
pub(crate) fn add_proc(procedure: MarkProc) -> usize {
    let index = TABLE.next_proc.fetch_add(1, Relaxed);
    match TABLE.procs.get(index) {
        Some(place) => {
            place.get_or_init(|| procedure);
            index
        }
        None => diagnostics::abort(c"Too many mark procedures"),
    }
}

/// Sets the function that describes objects of a kind in reports.
pub(crate) fn set_describer(kind: usize, describe: Option<Describe>) {
    if let Some(place) = DESCRIBERS.get(kind) {
        place.set(describe);
    }
}

pub(crate) const BITS: usize = usize::BITS as usize;

/// The number of the mark procedure for long descriptors and arrays; libgc reserves it.
const LONG_PROC: usize = 1;

/// A layout that does not fit in one word.
#[derive(Clone)]
pub(crate) enum Long {
    /// One bit per word of the object, lowest first.
    Bitmap(&'static [usize]),
    /// An array of elements, all with the same size in bytes and the same descriptor.
    Array {
        bytes: usize,
        count: usize,
        descriptor: usize,
    },
}

/// Layouts, by number. As in libgc, they are never freed.
static LONG: Mutex<Vec<&'static Long>> = Mutex::new(Vec::new());

/// Adds a layout, and returns its descriptor. Called under the collector's lock.
pub(crate) fn add(long: Long) -> usize {
    let mut all = LONG.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(Box::leak(Box::new(long)));
    proc_descriptor(LONG_PROC, all.len() - 1)
}

/// Reports the references in an object, as a long descriptor defines them.
///
/// # Safety
/// There are `bytes` readable bytes at `start`.
unsafe fn follow_long(start: usize, bytes: usize, environment: usize, marker: &mut Marker<'_>) {
    let long = {
        // No thread is stopped while it holds this lock, because to add a layout it holds the
        // allocation lock.
        let all = LONG.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(environment).copied()
    };
    match long {
        Some(Long::Bitmap(words)) => {
            for (index, &word) in words.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    let at = (index * BITS + rest.trailing_zeros() as usize) * WORD;
                    if at + WORD <= bytes {
                        // SAFETY: inside of the object.
                        marker.word(unsafe { ((start + at) as *const usize).read() });
                    }
                    rest &= rest - 1;
                }
            }
        }
        Some(&Long::Array {
            bytes: each,
            count,
            descriptor,
        }) => {
            for index in 0..count.min(bytes / each.max(1)) {
                // SAFETY: an element of the array.
                unsafe { follow(start + index * each, each, descriptor, marker) };
            }
        }
        None => {}
    }
}
