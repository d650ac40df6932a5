//! The functions that the machine calls. Each of them returns, whatever happens.

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
use plimsoll_wire::collections::{About, Collector, Writer};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// The option with which the library is loaded once more for a collection of the whole heap.
const COLLECT: &CStr = c"collect";

static PAUSES: Shared<Pauses> = Shared::empty();
/// Pauses that have begun and not yet ended, as the machine tells.
static NESTING: Nesting = Nesting::none();
/// The agent is being set up, or was.
static SET_UP: AtomicBool = AtomicBool::new(false);
/// The page says that a panic ended the agent.
static TOLD: AtomicBool = AtomicBool::new(false);
/// Events of pauses that came while another was at work.
static MISSED: AtomicU64 = AtomicU64::new(0);

static CALLBACKS: Callbacks = Callbacks::new(on_init, on_death, on_start, on_finish);

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
        // SAFETY: the machine gave us `vm`.
        let Some(jvmti) = (unsafe { Jvmti::of(vm) }) else {
            return NO_EVENTS;
        };
        // SAFETY: the caller vouches for the text, which the machine keeps during the call.
        if !options.is_null() && unsafe { CStr::from_ptr(options) } == COLLECT {
            let collected = jvmti.collect();
            jvmti.dispose();
            return if collected { COLLECTED } else { NOT_COLLECTED };
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
        // SAFETY: as in `on_start`; what is to be collected has been, and the pauses within this have ended.
        unsafe { pauses.end() };
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
