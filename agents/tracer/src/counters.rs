//! The machine's own count of allocated bytes, to check what was seen.

use crate::function_table::Object;
use crate::jni::Jni;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// The bean that answers, as a global reference, and its method.
static SOURCE: OnceLock<(usize, usize)> = OnceLock::new();
/// Bytes that were allocated before the recording.
static BEFORE: AtomicI64 = AtomicI64::new(0);
/// Whether there was an answer.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Finds what tells it. Loads classes, so it is called before the recording. A runtime without the module
/// `jdk.management` has none.
pub fn prepare(jni: Jni) {
    let found = || {
        let factory = jni.class(c"java/lang/management/ManagementFactory")?;
        let get = c"getThreadMXBean";
        let get = jni.method(factory, get, c"()Ljava/lang/management/ThreadMXBean;", true)?;
        let bean = jni.call_static(factory, get)?;
        let class = jni.class(c"com/sun/management/ThreadMXBean")?;
        let method = jni.method(class, c"getTotalThreadAllocatedBytes", c"()J", false)?;
        Some((jni.global(bean) as usize, method as usize))
    };
    if let Some(source) = found()
        && SOURCE.set(source).is_ok()
    {
        // The first call may load classes, too.
        query(jni);
    }
}

fn query(jni: Jni) -> Option<i64> {
    let (bean, method) = SOURCE.get()?;
    jni.call_long(*bean as Object, *method as Object)
}

/// The recording begins.
pub fn start(jni: Jni) {
    if let Some(bytes) = query(jni) {
        BEFORE.store(bytes, Ordering::Relaxed);
        ASKED.store(1, Ordering::Relaxed);
    }
}

/// Bytes that all threads have allocated since the recording began, by the machine's count.
pub fn end(jni: Jni) -> Option<u64> {
    if ASKED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let bytes = query(jni)?.saturating_sub(BEFORE.load(Ordering::Relaxed));
    u64::try_from(bytes).ok()
}
