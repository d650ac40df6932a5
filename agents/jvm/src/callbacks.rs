//! The functions that the machine calls. Each of them returns, whatever happens.

use crate::byte_trigger::{self, Trigger};
use crate::counters::Counters;
use crate::heap::Heap;
use crate::jvmti::{Callbacks, Env, Event, Jvmti, Vm};
use crate::machine::{Machine, Refusal};
use crate::nested_pauses::Nesting;
use crate::panic_guard::{Shared, caught, is_broken, is_over, stop, unharmed};
use crate::pauses::Pauses;
use crate::stall_signal::Reader;
use crate::{page, polling_thread};
use plimsoll_kernel::clock;
use plimsoll_wire::collections::{About, Collector, Words, Writer, wished};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// `Agent_OnAttach`: the agent works, or one works already.
const DONE: c_int = 0;
/// The machine offers no events of collections.
const NO_EVENTS: c_int = 1;
/// No page could be made.
const NO_PAGE: c_int = 2;
/// The machine is to be saved in a file and continued, which an open descriptor would prevent.
const SAVED: c_int = 3;
/// The machine was asked to collect, and agreed. It is no success, so that the machine keeps no note of
/// another agent.
const COLLECTED: c_int = 4;
/// The machine does not collect when it is asked to.
const NOT_COLLECTED: c_int = 5;
/// The machine tells of what is allocated, from now on or since before. No success, as above.
const COUNTED: c_int = 6;
/// It tells of that no more.
const NOT_COUNTED: c_int = 7;

/// The option with which the library is loaded once more for a collection of the whole heap.
const COLLECT: &CStr = c"collect";
/// That with which the bytes that are allocated are counted, and that with which they are no more.
const COUNT: &CStr = c"count";
const UNCOUNT: &CStr = c"uncount";

static PAUSES: Shared<Pauses> = Shared::empty();
/// Pauses that have begun and not yet ended, as the machine tells.
static NESTING: Nesting = Nesting::none();
/// The agent is being set up, or was.
static SET_UP: AtomicBool = AtomicBool::new(false);
/// The page says that a panic ended the agent.
static TOLD: AtomicBool = AtomicBool::new(false);
/// Events of pauses that came while another was at work.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Counts the bytes that the program allocates.
static TRIGGER: Trigger = Trigger::before_the_first();
/// The environment that tells of them; null for none. A profiler may want the machine to tell it instead.
static COUNTING: AtomicPtr<Env> = AtomicPtr::new(std::ptr::null_mut());
/// The page, for threads other than that of the pauses.
static PAGE: OnceLock<Words<'static>> = OnceLock::new();

static CALLBACKS: Callbacks = Callbacks::new(on_init, on_death, on_start, on_finish, on_allocated);

/// Called when the machine starts with `-agentpath:`. Any other result than 0 would end the machine.
///
/// # Safety
/// Called by the machine, with its own pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Agent_OnLoad(
    vm: *mut Vm,
    _options: *mut c_char,
    _reserved: *mut c_void,
) -> c_int {
    unharmed((), || {
        // SAFETY: the machine gave us `vm`.
        let Some(jvmti) = (unsafe { Jvmti::of(vm) }) else {
            return;
        };
        if !(jvmti.prepare(&CALLBACKS) && jvmti.enable(&[Event::Init, Event::Death])) {
            jvmti.dispose();
        }
    });
    DONE
}

/// Called when the agent is loaded into a running machine, or is asked for a collection there.
///
/// # Safety
/// As [`Agent_OnLoad`]; `options` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Agent_OnAttach(
    vm: *mut Vm,
    options: *mut c_char,
    _reserved: *mut c_void,
) -> c_int {
    unharmed(NO_EVENTS, || {
        // SAFETY: the caller vouches for the text, which the machine keeps during the call.
        let option = (!options.is_null()).then(|| unsafe { CStr::from_ptr(options) });
        if option == Some(COUNT) {
            // SAFETY: the machine gave us `vm`.
            let jvmti = counting().or_else(|| unsafe { Jvmti::that_counts(vm) });
            return jvmti.map_or(NOT_COUNTED, count);
        }
        if option == Some(UNCOUNT) {
            return uncount();
        }
        // SAFETY: the machine gave us `vm`.
        let Some(jvmti) = (unsafe { Jvmti::of(vm) }) else {
            return NO_EVENTS;
        };
        if option == Some(COLLECT) {
            return collect(jvmti);
        }
        let done = if jvmti.prepare(&CALLBACKS) && jvmti.enable(&[Event::Death]) {
            set_up(&jvmti)
        } else {
            Err(NO_EVENTS)
        };
        // One that tells of nothing would stay as long as the machine.
        if done != Ok(Is::New) {
            jvmti.dispose();
        }
        done.err().unwrap_or(DONE)
    })
}

/// Collects the whole heap. Returns a result of [`Agent_OnAttach`].
fn collect(jvmti: Jvmti) -> c_int {
    let collected = jvmti.collect();
    jvmti.dispose();
    if collected { COLLECTED } else { NOT_COLLECTED }
}

/// Has the machine tell of what is allocated. Returns a result of [`Agent_OnAttach`]. This and [`uncount`]
/// are called by the one thread of the machine that takes such requests.
fn count(counting: Jvmti) -> c_int {
    let counted = counting.count(&CALLBACKS, byte_trigger::INTERVAL);
    COUNTING.store(counting.keep(), Ordering::Relaxed);
    if counted { COUNTED } else { NOT_COUNTED }
}

/// Has the machine tell of that no more, and leaves it to other agents. Returns as [`count`].
fn uncount() -> c_int {
    if let Some(counting) = counting() {
        counting.uncount();
    }
    NOT_COUNTED
}

/// The environment that counts, or did. It is never disposed of: a thread may be about to tell of an object.
fn counting() -> Option<Jvmti> {
    // SAFETY: it was made by `Jvmti::of`, and is kept.
    unsafe { Jvmti::again(COUNTING.load(Ordering::Relaxed)) }
}

/// Called when the machine ends.
///
/// # Safety
/// As [`Agent_OnLoad`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Agent_OnUnload(_vm: *mut Vm) {
    stop();
}

/// The agent that works in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// It has just begun.
    New,
    /// It was there before, of this copy of the library or of another.
    There,
}

/// Begins to measure, unless an agent does so in this process. Runs on a thread of Java, at no safepoint.
/// Fails with a result of [`Agent_OnAttach`].
fn set_up(jvmti: &Jvmti) -> Result<Is, c_int> {
    if SET_UP.swap(true, Ordering::AcqRel) || page::is_there() {
        return Ok(Is::There);
    }
    let done = measure(jvmti);
    if done.is_err() {
        SET_UP.store(false, Ordering::Release);
    }
    done
}

/// The events of pauses, in the order in which they are switched on, so that no beginning is told without its
/// end.
const PAUSE: [Event; 2] = [Event::Finish, Event::Start];

fn measure(jvmti: &Jvmti) -> Result<Is, c_int> {
    let machine = Machine::of(jvmti.address_in_library());
    let machine = machine.as_ref();
    if machine.is_ok_and(|machine| machine.has_text("CRaCCheckpointTo") == Some(true)) {
        return Err(SAVED);
    }
    // Before the page, which says that there is an agent: without events it would say so for ever.
    if !jvmti.enable(&PAUSE) {
        jvmti.disable(&PAUSE);
        return Err(NO_EVENTS);
    }
    // Before the page, too: most of all here something unexpected may be met, and a panic leaves none then.
    let heap = machine.map_err(Clone::clone).and_then(Heap::of_running);
    let counters = machine.ok().and_then(Counters::of);
    let Ok(words) = page::make() else {
        jvmti.disable(&PAUSE);
        return Err(NO_PAGE);
    };
    PAGE.get_or_init(|| words);
    let reader = Reader::open();
    let about = About {
        pid: u64::from(std::process::id()),
        collector: machine.map_or(Collector::Unknown, Machine::collector),
        signal: reader.signal(),
        loaded_ns: clock::now().0,
        signal_text: reader.describe(),
    };
    let (writer, process) = Writer::new(words, &about);
    let is_concurrent = about.collector.is_concurrent();
    let (own, other) = if is_concurrent {
        (None, Some(process))
    } else {
        (Some(process), None)
    };
    PAUSES.set(Pauses::new(writer, own, reader, counters, heap));
    // The missed pauses ended before there was anything to tell of them.
    MISSED.store(0, Ordering::Relaxed);
    if let Some(process) = other {
        polling_thread::start(process);
    }
    Ok(Is::New)
}

unsafe extern "C" fn on_init(env: *mut Env, _jni: *mut c_void, _thread: *mut c_void) {
    unharmed((), || {
        // SAFETY: the machine gave us `env` for this call. Only those without this event are disposed of.
        if let Some(jvmti) = unsafe { Jvmti::again(env) } {
            let _ = set_up(&jvmti);
        }
    });
}

unsafe extern "C" fn on_death(_env: *mut Env, _jni: *mut c_void) {
    stop();
}

unsafe extern "C" fn on_start(_env: *mut Env) {
    if !NESTING.begin() {
        return;
    }
    // SAFETY: the machine sends this at a safepoint, before it collects, and after its end nothing gets
    // there. The heap was found by its own tables.
    within_pause(|pauses| unsafe { pauses.begin() });
}

unsafe extern "C" fn on_finish(_env: *mut Env) {
    if !NESTING.end() {
        return;
    }
    within_pause(|pauses| {
        pauses.miss(MISSED.swap(0, Ordering::Relaxed));
        pauses.ask(TRIGGER.asked());
        // SAFETY: as in `on_start`; what is to be collected has been, and the pauses within this have ended.
        let free = unsafe { pauses.end() };
        TRIGGER.pause_ended(free.used);
    });
}

unsafe extern "C" fn on_allocated(
    env: *mut Env,
    _jni: *mut c_void,
    _thread: *mut c_void,
    _object: *mut c_void,
    _class: *mut c_void,
    size: i64,
) {
    unharmed((), || {
        // SAFETY: the machine gave us `env`, which is never disposed of (`counting`).
        let (Some(jvmti), Some(page)) = (unsafe { Jvmti::again(env) }, PAGE.get()) else {
            return;
        };
        let Some(wish) = wished(*page, clock::now()) else {
            // Its adapter is gone: another agent may have it.
            jvmti.uncount();
            return;
        };
        let size = u64::try_from(size).unwrap_or(0);
        // The machine lets this thread wait for a safepoint here, as it does where its memory is full.
        TRIGGER.allocated(size, wish.bound, || {
            jvmti.collect();
        });
    });
}

fn within_pause(work: impl FnOnce(&mut Pauses)) {
    unharmed((), || {
        if PAUSES.with(work).is_none() && !is_over() {
            MISSED.fetch_add(1, Ordering::Relaxed);
        }
    });
    if is_broken() {
        tell_broken(&PAUSES, &TOLD);
    }
}

/// Says on the page, once, that a panic ended the agent. While another thread is at work with the pauses,
/// that is left to the next event.
fn tell_broken(pauses: &Shared<Pauses>, told: &AtomicBool) {
    if told.load(Ordering::Relaxed) {
        return;
    }
    let done = caught(|| pauses.with(|pauses| pauses.refuse(&Refusal::Panic)));
    // A message that panics again is not tried again.
    told.store(done != Some(None), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall_signal::Reader;
    use plimsoll_wire::collections::{SIZE, View, Words};

    #[test]
    fn a_panic_leaves_its_reason_on_the_page() {
        let page: &'static [AtomicU64; SIZE / 8] =
            Box::leak(Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        let words = Words::of(page);
        let (writer, _) = Writer::new(words, &About::default());
        let no_heap = Err(Refusal::NotAnonymous);
        let (shared, told) = (Shared::empty(), AtomicBool::new(false));
        shared.set(Pauses::new(writer, None, Reader::open(), None, no_heap));
        let refusal = || View::new(words).unwrap().refusal().unwrap();
        assert!(refusal().contains("anonymous"), "{}", refusal());
        let panicked = caught(|| shared.with(|_| std::panic::resume_unwind(Box::new(()))));
        assert!(panicked.is_none());
        shared.with(|_| tell_broken(&shared, &told));
        assert!(refusal().contains("anonymous"), "it is in use: later");
        tell_broken(&shared, &told);
        assert_eq!(refusal(), Refusal::Panic.to_string());
        assert!(told.load(Ordering::Relaxed));
    }
}
