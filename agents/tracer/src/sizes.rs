//! The sizes of very large objects.
//!
//! When a machine before version 18 reports an allocation, it multiplies the object's words by 8 in 32 bits
//! (`jvmtiExport.cpp`): from 2 GiB on the product is negative, and from 4 GiB on it begins again at 0.
//! `GetObjectSize` multiplies in 64 bits.

use crate::jni::Jni;
use crate::jvmti::Jvmti;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first version that multiplies in 64 bits.
const MENDED: u32 = 18;
/// From this size on, bytes, the product begins again at 0.
const AGAIN: u64 = 1 << 32;

/// Whether an object may be so large that its size seems to be a small one.
static AMBIGUOUS: AtomicBool = AtomicBool::new(false);

/// Finds out whether that may be, when the machine has started.
pub fn prepare(jvmti: Jvmti, jni: Jni) {
    let version = jvmti.property(c"java.vm.specification.version");
    let version = version.and_then(|text| text.parse().ok());
    AMBIGUOUS.store(is_ambiguous(version, max_heap(jni)), Ordering::Relaxed);
}

fn is_ambiguous(version: Option<u32>, max_heap: Option<u64>) -> bool {
    let mended = version.is_some_and(|version| version >= MENDED);
    !mended && max_heap.is_none_or(|bytes| bytes > AGAIN)
}

fn max_heap(jni: Jni) -> Option<u64> {
    let class = jni.class(c"java/lang/Runtime")?;
    let get = jni.method(class, c"getRuntime", c"()Ljava/lang/Runtime;", true)?;
    let runtime = jni.call_static(class, get)?;
    let max = jni.method(class, c"maxMemory", c"()J", false)?;
    u64::try_from(jni.call_long(runtime, max)?).ok()
}

/// The bytes that the machine reported, if they can be believed. `is_wide`: an array whose elements have more
/// than a byte. Others cannot have 4 GiB, because an array has fewer than 2^31 elements.
pub fn believed(told: i64, is_wide: bool) -> Option<u64> {
    let told = u64::try_from(told).ok().filter(|told| *told > 0)?;
    (!is_wide || !AMBIGUOUS.load(Ordering::Relaxed)).then_some(told)
}

/// Whether the class with this signature is an array whose elements have more than a byte.
pub fn is_wide(signature: &str) -> bool {
    signature.starts_with('[') && !matches!(signature, "[B" | "[Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_old_machine_may_have_cut_is_doubted() {
        assert!(is_ambiguous(Some(17), Some(8 << 30)));
        assert!(!is_ambiguous(Some(17), Some(4 << 30)));
        assert!(!is_ambiguous(Some(18), Some(8 << 30)));
        assert!(is_ambiguous(None, None), "nothing is known");
        // 290,000,000 numbers of 8 bytes, as Java 17 reports them.
        let told = i64::from((290_000_002_i32).wrapping_mul(8));
        assert_eq!((told, believed(told, true)), (-1_974_967_280, None));
        assert_eq!(believed(0, false), None);
        assert_eq!(believed(24, false), Some(24));
        for (signature, wide) in [
            ("[J", true),
            ("[[B", true),
            ("[Lq/A;", true),
            ("[B", false),
            ("[Z", false),
            ("Lq/A;", false),
        ] {
            assert_eq!(is_wide(signature), wide, "{signature}");
        }
    }
}
