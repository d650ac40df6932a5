//! gc_typed.h: objects whose layout a bitmap describes. The descriptor is in the object's last word.

use crate::abi::variables::GC_oom_fn;
use crate::objects::allocate::allocate_sized;
use crate::objects::kinds::{self, BITS, Long, add};
use crate::start;
use libc::c_void;
use plimsoll_heap::KindId;
use std::sync::OnceLock;

const WORD: usize = size_of::<usize>();

/// Bits of a bitmap that fits in a descriptor (gc_mark.h).
const SHORT: usize = BITS - 2;

/// The descriptor of the kind of typed objects: the object's own descriptor is in its last word.
const LAST_WORD: usize = (WORD.wrapping_neg()) | 3;

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
    let _gc = start::lock();
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
    KindId(*KIND.get_or_init(|| kinds::own_kind(start::lock().heap, LAST_WORD).0))
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
            let _gc = start::lock();
            add(Long::Array {
                bytes,
                count,
                descriptor,
            })
        }
    };
    GC_malloc_explicitly_typed(all, of_all)
}
