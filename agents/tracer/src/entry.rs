//! Callbacks of the virtual machine. Each returns normally, whatever happens.

use crate::classfile::file::rewrite;
use crate::function_table::{Env, Object};
use crate::jni::Jni;
use crate::jvmti::{Callbacks, Event, Jvmti, Vm};
use crate::panic_guard::unharmed;
use crate::session::{Mode, Session, recording, session};
use crate::{collector, counters, fields, hooks, recorder_class, report, sizes, weave};
use plimsoll_trace::{Deaths, Header};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The agent works, or has said why not.
const DONE: c_int = 0;
/// The machine is not started, because the recording that was asked for cannot be made.
const REFUSED: c_int = 1;
/// Nothing can be collected when the machine ends.
static NO_LAST: AtomicBool = AtomicBool::new(false);
/// The tag of objects that were there before the recording. It is taken away again.
const BEFORE: i64 = 1;
/// The last call before the virtual machine ends. Only a library for tests sets it (`alive`), which is built
/// on this one.
pub static AT_END: OnceLock<fn(&Session)> = OnceLock::new();

/// Called when the machine starts with `-agentpath:LIBRARY=MODE:IDENTITY:FOLDER`.
///
/// # Safety
/// Called by the machine, with its own pointer and a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Agent_OnLoad(
    vm: *mut Vm,
    options: *mut c_char,
    _reserved: *mut c_void,
) -> c_int {
    unharmed(REFUSED, || {
        if session().is_some() {
            eprintln!("plimsoll: the recorder is loaded twice; the second time changes nothing");
            return DONE;
        }
        let options = if options.is_null() {
            String::new()
        } else {
            // SAFETY: the machine's text ends with a zero.
            unsafe { CStr::from_ptr(options) }
                .to_string_lossy()
                .into_owned()
        };
        // SAFETY: the machine gave us `vm`.
        let begun = match unsafe { Jvmti::of(vm) } {
            Some(jvmti) => start(jvmti, &options),
            None => Err("this Java virtual machine is too old: Java 17 or later can be recorded"),
        };
        match begun {
            Ok(()) => DONE,
            Err(why) => {
                eprintln!("plimsoll: {why}");
                REFUSED
            }
        }
    })
}

/// Called when someone loads the library into a running virtual machine: the beginning would be missing.
///
/// # Safety
/// As [`Agent_OnLoad`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Agent_OnAttach(
    _vm: *mut Vm,
    _options: *mut c_char,
    _reserved: *mut c_void,
) -> c_int {
    REFUSED
}

fn start(jvmti: Jvmti, options: &str) -> Result<(), &'static str> {
    const FORM: &str = "the recorder is started by `plimsoll trace`, not by hand";
    let mut parts = options.splitn(3, ':');
    let (mode, identity, folder) = (parts.next(), parts.next(), parts.next());
    let mode = match mode {
        Some("exact") => Mode::Exact,
        Some("sampled") => Mode::Sampled,
        _ => return Err(FORM),
    };
    let identity = identity
        .and_then(|hex| u128::from_str_radix(hex, 16).ok())
        .ok_or(FORM)?;
    let folder = PathBuf::from(folder.ok_or(FORM)?);
    let header = Header {
        identity: identity.to_be_bytes(),
        deaths: match mode {
            Mode::Exact => Deaths::Unknown,
            Mode::Sampled => Deaths::AtCollections,
        },
        raw: mode == Mode::Exact,
        ..Header::default()
    };
    let callbacks = Callbacks::none()
        .with(Event::Init, on_init as *const c_void)
        .with(Event::Death, on_death as *const c_void)
        .with(Event::ThreadStart, on_thread_start as *const c_void)
        .with(Event::ThreadEnd, on_thread_end as *const c_void)
        .with(Event::SampledObjectAlloc, on_alloc as *const c_void)
        .with(Event::ClassFileLoadHook, on_class_file as *const c_void)
        .with(Event::ClassPrepare, on_prepare as *const c_void)
        .with(Event::MonitorWait, on_wait as *const c_void)
        .with(Event::MonitorWaited, on_waited as *const c_void)
        .with(Event::CollectionFinish, on_collected as *const c_void)
        .with(Event::ObjectFree, on_free as *const c_void);
    // The interval is set before the first thread draws how far its next sample is away.
    if !jvmti.prepare(&callbacks, mode == Mode::Exact) || !jvmti.sample_each(0) {
        return Err(
            "this Java virtual machine does not offer what recording needs; HotSpot 17 and later do",
        );
    }
    report::open(&folder);
    Session::create(jvmti, mode, folder, header);
    if jvmti.switch(Event::Init, true) && jvmti.switch(Event::Death, true) {
        Ok(())
    } else {
        Err("the Java virtual machine refuses to tell when it has started")
    }
}

unsafe extern "C" fn on_init(_env: *mut Env, jni: *mut Env, thread: Object) {
    unharmed((), || {
        let (Some(session), Some(jni)) = (session(), Jni::of(jni)) else {
            return;
        };
        let jvmti = session.jvmti;
        counters::prepare(jni);
        sizes::prepare(jvmti, jni);
        if let Err(why) = change_code(session, jni) {
            eprintln!("plimsoll: nothing is recorded: {why}");
            return;
        }
        let mut events = vec![
            Event::SampledObjectAlloc,
            Event::ThreadStart,
            Event::ThreadEnd,
        ];
        if session.mode == Mode::Sampled {
            events.extend([Event::ObjectFree, Event::CollectionFinish]);
        }
        if !events.iter().all(|event| jvmti.switch(*event, true)) {
            eprintln!(
                "plimsoll: the Java virtual machine does not tell of allocations: nothing is recorded"
            );
            return;
        }
        NO_LAST.store(collector::is_beside(), Ordering::Relaxed);
        jvmti.collect();
        report::before(match session.mode {
            Mode::Exact => number_all(session),
            Mode::Sampled => (0, 0),
        });
        session.begin_thread(thread);
        counters::start(jni);
        session.start();
        crate::flusher::start();
    });
}

/// Makes the program's code record what it does: that of loaded classes, and of those that will be.
fn change_code(session: &Session, jni: Jni) -> Result<(), &'static str> {
    let jvmti = session.jvmti;
    let bytes =
        recorder_class::class_file().map_err(|_| "the class of the recorder cannot be made")?;
    let name =
        CString::new(recorder_class::NAME).map_err(|_| "the class of the recorder has no name")?;
    let class = jni
        .define(&name, &bytes)
        .ok_or("the machine refuses the class of the recorder")?;
    if !jni.register(class, &hooks::natives()) {
        return Err("the machine refuses the recorder's native methods");
    }
    hooks::prepare(jni);
    let clone = jni
        .class(c"java/lang/Object")
        .and_then(|object| jni.method(object, c"clone", c"()Ljava/lang/Object;", false));
    if let Some(clone) = clone {
        let _ = session.clone_method.set(clone as usize);
    }
    let events = [
        Event::ClassFileLoadHook,
        Event::ClassPrepare,
        Event::MonitorWait,
        Event::MonitorWaited,
    ];
    if !events.iter().all(|event| jvmti.switch(*event, true)) {
        return Err("the machine refuses to tell of classes and monitors");
    }
    let mut classes = jvmti.loaded_classes();
    for class in &classes {
        fields::learn(jvmti, jni, *class);
    }
    classes.retain(|class| jvmti.is_modifiable(*class));
    if jvmti.retransform(&classes) != 0 {
        for class in &classes {
            if jvmti.retransform(&[*class]) != 0 {
                report::unchanged(1);
            }
        }
    }
    Ok(())
}

/// Gives numbers to all objects that are there already. Returns how many, and their bytes.
fn number_all(session: &Session) -> (u64, u64) {
    let jvmti = session.jvmti;
    let sums = jvmti.tag_all(BEFORE);
    for object in jvmti.tagged(BEFORE) {
        jvmti.hash(object);
        jvmti.tag(object, 0);
    }
    sums
}

unsafe extern "C" fn on_death(_env: *mut Env, jni: *mut Env) {
    unharmed((), || {
        let Some(session) = session() else { return };
        if session.mode == Mode::Sampled && recording().is_some() {
            // A last collection of everything finds the objects that are dead at the end.
            if NO_LAST.load(Ordering::Relaxed) {
                report::own_cycles();
            } else {
                session.jvmti.collect();
            }
            // The machine reports what it has found before its reports end.
            session.jvmti.switch(Event::ObjectFree, false);
            session.bury_last();
        }
        // The allocations of this question are in both counts.
        let by_machine = Jni::of(jni).and_then(counters::end);
        let sums = session.stop();
        report::end(session, sums, by_machine);
        if let Some(last) = AT_END.get() {
            last(session);
        }
    });
}

unsafe extern "C" fn on_thread_start(_env: *mut Env, _jni: *mut Env, thread: Object) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.begin_thread(thread);
        }
    });
}

unsafe extern "C" fn on_thread_end(_env: *mut Env, _jni: *mut Env, _thread: Object) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.end_thread();
        }
    });
}

unsafe extern "C" fn on_alloc(
    _env: *mut Env,
    jni: *mut Env,
    _thread: Object,
    object: Object,
    class: Object,
    size: i64,
) {
    unharmed((), || {
        let (Some(session), Some(jni)) = (session(), Jni::of(jni)) else {
            return;
        };
        match (recording(), session.mode) {
            (Some(session), _) => session.allocated(jni, object, class, size),
            (None, Mode::Exact) => drop(session.number(object)),
            (None, Mode::Sampled) => {}
        }
    });
}

unsafe extern "C" fn on_class_file(
    _env: *mut Env,
    _jni: *mut Env,
    _again: Object,
    _loader: Object,
    name: *const c_char,
    _domain: Object,
    length: c_int,
    bytes: *const u8,
    new_length: *mut c_int,
    new_bytes: *mut *mut u8,
) {
    unharmed((), || {
        let Some(session) = session() else { return };
        // SAFETY: the machine's name, if there is one, ends with a zero.
        if !name.is_null() && weave::is_left(unsafe { CStr::from_ptr(name) }.to_bytes()) {
            return;
        }
        // SAFETY: the machine gives `length` bytes for the time of the call.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, length.max(0) as usize) };
        let what = match session.mode {
            Mode::Exact => weave::What::All,
            Mode::Sampled => weave::What::Waits,
        };
        let written = rewrite(bytes, &mut |about, code, pool| {
            weave::weave(about, code, pool, what, &mut fields::key)
        });
        let Ok(written) = written else {
            report::unchanged(1);
            return;
        };
        report::unchanged(written.left);
        if let Some(new) = written.bytes
            && let Some(memory) = session.jvmti.allocate(new.len())
        {
            // SAFETY: the machine allocated `new.len()` bytes, and both results are valid for writing.
            unsafe {
                std::ptr::copy_nonoverlapping(new.as_ptr(), memory.as_ptr(), new.len());
                *new_length = new.len() as c_int;
                *new_bytes = memory.as_ptr();
            }
        }
    });
}

unsafe extern "C" fn on_prepare(_env: *mut Env, jni: *mut Env, _thread: Object, class: Object) {
    unharmed((), || {
        if let (Some(session), Some(jni)) = (session(), Jni::of(jni)) {
            fields::learn(session.jvmti, jni, class);
            if recording().is_some() && session.mode == Mode::Exact {
                hooks::keeps_class(session, class);
            }
        }
    });
}

unsafe extern "C" fn on_wait(
    _env: *mut Env,
    _jni: *mut Env,
    _thread: Object,
    object: Object,
    timeout: i64,
) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.waits(object, (timeout.max(0) as u64).saturating_mul(1_000_000));
        }
    });
}

unsafe extern "C" fn on_waited(
    _env: *mut Env,
    _jni: *mut Env,
    _thread: Object,
    _object: Object,
    timed_out: u8,
) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.waited(timed_out != 0);
        }
    });
}

/// A pause of the collector ends. All threads stand, so nothing is asked of the machine.
unsafe extern "C" fn on_collected(_env: *mut Env) {
    report::collected();
}

unsafe extern "C" fn on_free(_env: *mut Env, tag: i64) {
    unharmed((), || {
        if let Some(session) = recording() {
            session.freed(tag as u64);
        }
    });
}
