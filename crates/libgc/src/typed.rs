//! Objects whose layout a bitmap describes. The descriptor is in the object's last word.

use crate::allocate::allocate_sized;
use crate::kinds;
use crate::settings::GC_oom_fn;
use crate::state::{self, Locked};
use libc::c_void;
use plimsoll_heap::KindId;
use plimsoll_heap::mark::Marker;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The number of the mark procedure for long descriptors and arrays; libgc reserves it.
pub(crate) const PROC: usize = 1;

const WORD: usize = size_of::<usize>();
const BITS: usize = usize::BITS as usize;
/// Bits of a bitmap that fits in a descriptor (gc_mark.h).
const SHORT: usize = BITS - 2;
/// The descriptor of the kind of typed objects: the object's own descriptor is in its last word.
const LAST_WORD: usize = (WORD.wrapping_neg()) | 3;

/// A layout that does not fit in one word.
#[derive(Clone)]
enum Long {
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

fn add(long: Long) -> usize {
    let mut all = LONG.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(Box::leak(Box::new(long)));
    kinds::proc_descriptor(PROC, all.len() - 1)
}

/// Reports the references in an object, as a long descriptor defines them.
///
/// # Safety
/// There are `bytes` readable bytes at `start`.
pub(crate) unsafe fn follow(
    start: usize,
    bytes: usize,
    environment: usize,
    marker: &mut Marker<'_>,
) {
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
                unsafe { kinds::follow(start + index * each, each, descriptor, marker) };
            }
        }
        None => {}
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_make_descriptor(bitmap: *const usize, bits: usize) -> usize {
    // SAFETY: the caller's bitmap.
    let words = unsafe { std::slice::from_raw_parts(bitmap, bits.div_ceil(BITS)) };
    let is_set = |bit: usize| words[bit / BITS] >> (bit % BITS) & 1 != 0;
    let Some(last) = (0..bits).rev().find(|&bit| is_set(bit)) else {
        return 0;
    };
    if (0..=last).all(is_set) {
        // References only, from the start: this descriptor is a length.
        return (last + 1) * WORD;
    }
    if last < SHORT {
        let mirrored = (0..=last)
            .filter(|&bit| is_set(bit))
            .fold(0usize, |all, bit| all | 1 << (BITS - 1 - bit));
        return mirrored | 1;
    }
    let _gc = state::lock();
    let mut own = words.to_vec();
    if !bits.is_multiple_of(BITS)
        && let Some(word) = own.last_mut()
    {
        *word &= (1 << (bits % BITS)) - 1;
    }
    add(Long::Bitmap(own.leak()))
}

#[inline(always)]
fn kind() -> KindId {
    static KIND: OnceLock<u16> = OnceLock::new();
    KindId(*KIND.get_or_init(|| {
        let gc: Locked = state::lock();
        kinds::own_kind(&gc, LAST_WORD).0
    }))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_explicitly_typed(bytes: usize, descriptor: usize) -> *mut c_void {
    let bytes = bytes.saturating_add(WORD).max(2 * WORD);
    let (object, size) = allocate_sized(bytes, kind());
    if size > 0 {
        let last = object as usize + size - WORD;
        // SAFETY: the last word of a new object.
        unsafe { *(last as *mut usize) = descriptor };
    }
    object
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_malloc_explicitly_typed_ignore_off_page(
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    GC_malloc_explicitly_typed(bytes, descriptor)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_calloc_explicitly_typed(
    count: usize,
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    let Some(all) = count.checked_mul(bytes) else {
        return (GC_oom_fn.get())(usize::MAX);
    };
    let of_all = match (descriptor & 3, count) {
        (_, 1) => descriptor,
        (0, _) if descriptor == 0 => 0,
        (0, _) if descriptor == bytes => all,
        _ => {
            let _gc = state::lock();
            add(Long::Array {
                bytes,
                count,
                descriptor,
            })
        }
    };
    GC_malloc_explicitly_typed(all, of_all)
}
