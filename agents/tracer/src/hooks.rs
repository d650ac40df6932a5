//! The native methods of the class [`recorder_class`](crate::recorder_class).

use crate::fields;
use crate::function_table::{Env, Object};
use crate::jni::{Jni, Native};
use crate::panic_guard::unharmed;
use crate::session::{Session, monitor, recording};
use plimsoll_trace::{ClassId, Event, ObjectId};
use std::ffi::c_int;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicI64, Ordering};

/// Arrays of references: where their elements begin, and how far they are apart, bytes.
static ARRAY: [AtomicI64; 2] = [AtomicI64::new(16), AtomicI64::new(4)];
/// Classes of static fields, by field, have numbers from here on.
const STATICS: u32 = 1 << 30;
/// How deep in arrays that the machine made.
const DEEP: u32 = 4;
/// The most elements of such an array.
const MOST: i32 = 1 << 16;

/// Asks where the elements of arrays are.
pub fn prepare(jni: Jni) {
    let Some(class) = jni.class(c"jdk/internal/misc/Unsafe") else {
        return;
    };
    let names = ["ARRAY_OBJECT_BASE_OFFSET", "ARRAY_OBJECT_INDEX_SCALE"];
    for (place, name) in ARRAY.iter().zip(names) {
        if let Some(value) = jni.static_number(class, name) {
            place.store(value, Ordering::Relaxed);
        }
    }
}

/// The functions, in the order of [`NATIVES`](crate::recorder_class::NATIVES).
pub fn natives() -> [Native; 15] {
    [
        Native::new(c"used0", c"(I)V", used as *const _),
        Native::new(c"stored0", c"(III)V", stored as *const _),
        Native::new(c"storedStatic0", c"(II)V", stored_static as *const _),
        Native::new(c"element0", c"(III)V", element as *const _),
        Native::new(c"unsafe0", c"(IJII)V", stored_at as *const _),
        Native::new(c"entered0", c"(I)V", entered as *const _),
        Native::new(c"exiting0", c"(I)V", exiting as *const _),
        Native::new(c"notifying0", c"(II)V", notifying as *const _),
        Native::new(c"starting0", c"(II)V", starting as *const _),
        Native::new(c"parking0", c"(ZJ)V", parking as *const _),
        Native::new(c"unparking0", c"(I)V", unparking as *const _),
        Native::new(c"sleeping", c"()V", sleeping as *const _),
        Native::new(c"fields", c"(Ljava/lang/Object;)V", all_fields as *const _),
        Native::new(c"cloning", c"()V", cloning as *const _),
        Native::new(c"cloned0", c"(Ljava/lang/Object;)V", cloned as *const _),
    ]
}

fn object(number: c_int) -> ObjectId {
    ObjectId(u64::from(number as u32))
}

fn push(event: Event) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.push(&event);
        }
    });
}

unsafe extern "C" fn used(_env: *mut Env, _class: Object, number: c_int) {
    if number == 0 {
        return;
    }
    unharmed((), || {
        if let Some(session) = recording() {
            session.record(|recorder| recorder.used(number as u32));
        }
    });
}

unsafe extern "C" fn stored(
    _env: *mut Env,
    _class: Object,
    holder: c_int,
    target: c_int,
    key: c_int,
) {
    unharmed((), || {
        let Some(session) = recording().filter(|_| holder != 0) else {
            return;
        };
        session.record(|recorder| {
            let slot = recorder.slot(key as u32);
            recorder.push(&Event::Store {
                holder: object(holder),
                slot,
                target: object(target),
            })
        });
    });
}

unsafe extern "C" fn stored_static(_env: *mut Env, _class: Object, target: c_int, key: c_int) {
    // Each static field has a class of its own here: that keeps them apart.
    if let Some(class) = NonZeroU32::new(STATICS | key as u32) {
        push(Event::StoreStatic {
            class: ClassId(class),
            slot: 0,
            target: object(target),
        });
    }
}

/// The machine itself keeps the object of a class.
pub fn keeps_class(session: &Session, class: Object) {
    let hash = session.jvmti.hash(class);
    let (class, target) = (session.class(hash), ObjectId(hash.into()));
    session.push(&Event::StoreStatic {
        class,
        slot: u32::MAX,
        target,
    });
}

unsafe extern "C" fn element(
    _env: *mut Env,
    _class: Object,
    array: c_int,
    index: c_int,
    target: c_int,
) {
    if array != 0 {
        push(Event::Store {
            holder: object(array),
            slot: index as u32,
            target: object(target),
        });
    }
}

/// `kind`: 1 for an array, 2 for a class, whose static fields are in it.
unsafe extern "C" fn stored_at(
    _env: *mut Env,
    _class: Object,
    holder: c_int,
    at: i64,
    target: c_int,
    kind: c_int,
) {
    let (holder, target) = (holder as u32, object(target));
    let [base, scale] = [&ARRAY[0], &ARRAY[1]].map(|it| it.load(Ordering::Relaxed));
    unharmed((), || {
        let Some(session) = recording().filter(|_| holder != 0) else {
            return;
        };
        let slot = match kind {
            1 => (at - base) / scale.max(1),
            _ => at,
        } as u32;
        session.push(&match kind {
            2 => Event::StoreStatic {
                class: session.class(holder),
                slot,
                target,
            },
            _ => Event::Store {
                holder: ObjectId(holder.into()),
                slot,
                target,
            },
        });
    });
}

unsafe extern "C" fn entered(_env: *mut Env, _class: Object, number: c_int) {
    if number != 0 {
        push(Event::Enter {
            monitor: monitor(number as u32),
        });
    }
}

unsafe extern "C" fn exiting(_env: *mut Env, _class: Object, number: c_int) {
    if number != 0 {
        push(Event::Exit {
            monitor: monitor(number as u32),
        });
    }
}

unsafe extern "C" fn notifying(_env: *mut Env, _class: Object, number: c_int, all: c_int) {
    if number != 0 {
        push(Event::Notify {
            monitor: monitor(number as u32),
            all: all != 0,
        });
    }
}

unsafe extern "C" fn starting(_env: *mut Env, _class: Object, number: c_int, priority: c_int) {
    unharmed((), || {
        if let Some(session) = recording() {
            let thread = session.thread(number as u32);
            let priority = priority.clamp(1, 10) as u8;
            session.push(&Event::Start { thread, priority });
        }
    });
}

/// Waits until `time` (milliseconds since 1970), or for `time` nanoseconds, as `until` says. 0 nanoseconds
/// are for ever.
unsafe extern "C" fn parking(_env: *mut Env, _class: Object, until: u8, time: i64) {
    let timeout = match until {
        0 => time.max(0) as u64,
        _ => {
            let now = std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .unwrap_or_default();
            let left = time.saturating_sub(now.as_millis() as i64).max(0);
            (left as u64).saturating_mul(1_000_000).max(1)
        }
    };
    push(Event::Park { timeout });
}

unsafe extern "C" fn unparking(_env: *mut Env, _class: Object, number: c_int) {
    unharmed((), || {
        if let Some(session) = recording()
            && let Some(thread) = session.known_thread(number as u32)
        {
            session.push(&Event::Unpark { thread });
        }
    });
}

unsafe extern "C" fn sleeping(_env: *mut Env, _class: Object) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.record(|recorder| {
                recorder.sleeps();
                Ok(())
            });
        }
    });
}

/// The thread is about to clone something.
unsafe extern "C" fn cloning(_env: *mut Env, _class: Object) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.clones();
        }
    });
}

/// It has, unless a method of the program did that in another way.
unsafe extern "C" fn cloned(_env: *mut Env, _class: Object, clone: Object) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.cloned(clone);
        }
    });
}

/// The fields of an object were set by code that is not seen.
unsafe extern "C" fn all_fields(env: *mut Env, _class: Object, holder: Object) {
    unharmed((), || {
        if let (Some(session), Some(jni)) = (recording(), Jni::of(env))
            && !holder.is_null()
        {
            let mut stores = Vec::new();
            look_at(session, jni, holder, &mut stores);
            for store in stores {
                session.push(&store);
            }
        }
    });
}

fn look_at(session: &Session, jni: Jni, holder: Object, stores: &mut Vec<Event>) {
    let jvmti = session.jvmti;
    let number = ObjectId(jvmti.hash(holder).into());
    for (field, slot) in fields::references(jvmti, jni, holder).iter() {
        let Some(value) = jni.field_value(holder, *field) else {
            continue;
        };
        let target = ObjectId(jvmti.hash(value).into());
        stores.push(Event::Store {
            holder: number,
            slot: *slot,
            target,
        });
        elements(session, jni, value, DEEP, stores);
        jni.forget(value);
    }
}

/// The elements of an array of objects, and of the arrays in it. Only the virtual machine itself makes arrays
/// that hold others without an instruction for each, in exceptions.
fn elements(session: &Session, jni: Jni, array: Object, depth: u32, stores: &mut Vec<Event>) {
    let jvmti = session.jvmti;
    let class = jni.class_of(array);
    let is_array = jvmti.signature(class).as_deref() == Some("[Ljava/lang/Object;");
    jni.forget(class);
    if !is_array || depth == 0 {
        return;
    }
    let holder = ObjectId(jvmti.hash(array).into());
    for index in 0..jni.length(array).min(MOST) {
        if let Some(value) = jni.element(array, index) {
            let target = ObjectId(jvmti.hash(value).into());
            stores.push(Event::Store {
                holder,
                slot: index as u32,
                target,
            });
            elements(session, jni, value, depth - 1, stores);
            jni.forget(value);
        }
    }
}
