//! The parts of JVMTI 1.2 and of the invocation interface that the agent uses, as the specification
//! "JVM Tool Interface" lays them out. Each function has the position that the specification gives it;
//! the positions between are words that are never used.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// JVMTI 1.2: every machine since Java 6 has it.
const VERSION_1_2: c_int = 0x3001_0200;
/// JVMTI of Java 11.
const VERSION_11: c_int = 0x300b_0000;
/// No error, of either interface.
const OK: c_int = 0;
/// Switches an event on, or off.
const ENABLE: c_int = 1;
const DISABLE: c_int = 0;
/// Bit 31 of the capabilities: `can_generate_garbage_collection_events`.
const COLLECTIONS: u32 = 1 << 31;
/// The mean interval between two events of allocation that a machine begins with, bytes.
const USUAL_INTERVAL: c_int = 512 << 10;
/// Bit 43 of the capabilities: `can_generate_sampled_object_alloc_events`. One agent at a time has it.
static ALLOCATIONS: [u32; 4] = [0, 1 << (43 - 32), 0, 0];

/// Events, by the numbers of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Event {
    /// The machine has started.
    Init = 50,
    /// The machine ends.
    Death = 51,
    /// A stop-the-world pause of a collection begins.
    Start = 81,
    /// It ends.
    Finish = 82,
    /// An object is allocated: one in each interval of bytes. Since Java 11.
    Allocated = 86,
}

/// Number of the first event.
const FIRST: usize = 50;
/// Number of events in the table of callbacks.
const EVENTS: usize = Event::Allocated as usize - FIRST + 1;

/// The callback of `VMDeath`.
pub type OnEnd = unsafe extern "C" fn(*mut Env, *mut c_void);
/// The callback of `VMInit`.
pub type OnThread = unsafe extern "C" fn(*mut Env, *mut c_void, *mut c_void);
/// A callback of the events of collections.
pub type OnCollection = unsafe extern "C" fn(*mut Env);
/// The callback of `SampledObjectAlloc`: JNI, thread, object, class, its size in bytes.
pub type OnAllocation =
    unsafe extern "C" fn(*mut Env, *mut c_void, *mut c_void, *mut c_void, *mut c_void, i64);

/// JVMTI's table of callbacks, up to the last that is used.
#[repr(C)]
pub struct Callbacks {
    /// The machine has started.
    pub init: OnThread,
    /// The machine ends.
    pub death: OnEnd,
    _52_80: [usize; Event::Start as usize - Event::Death as usize - 1],
    /// A pause begins.
    pub start: OnCollection,
    /// A pause ends.
    pub finish: OnCollection,
    _83_85: [usize; Event::Allocated as usize - Event::Finish as usize - 1],
    /// An object is allocated.
    pub allocated: OnAllocation,
}

impl Callbacks {
    /// The table with these.
    pub const fn new(
        init: OnThread,
        death: OnEnd,
        start: OnCollection,
        finish: OnCollection,
        allocated: OnAllocation,
    ) -> Callbacks {
        Callbacks {
            init,
            death,
            _52_80: [0; Event::Start as usize - Event::Death as usize - 1],
            start,
            finish,
            _83_85: [0; Event::Allocated as usize - Event::Finish as usize - 1],
            allocated,
        }
    }
}

/// The machine's table of functions for one agent. Only the machine makes one.
#[repr(C)]
pub struct Functions {
    _1: usize,
    /// 2: with no further arguments after the thread.
    set_event_notification_mode:
        unsafe extern "C" fn(*mut Env, c_int, c_int, *mut c_void, ...) -> c_int,
    _3_107: [usize; 105],
    /// 108.
    force_garbage_collection: unsafe extern "C" fn(*mut Env) -> c_int,
    _109_121: [usize; 13],
    /// 122.
    set_event_callbacks: unsafe extern "C" fn(*mut Env, *const Callbacks, c_int) -> c_int,
    _123_126: [usize; 4],
    /// 127.
    dispose_environment: unsafe extern "C" fn(*mut Env) -> c_int,
    _128_141: [usize; 14],
    /// 142.
    add_capabilities: unsafe extern "C" fn(*mut Env, *const [u32; 4]) -> c_int,
    /// 143.
    relinquish_capabilities: unsafe extern "C" fn(*mut Env, *const [u32; 4]) -> c_int,
    _144_155: [usize; 12],
    /// 156, since Java 11.
    set_heap_sampling_interval: unsafe extern "C" fn(*mut Env, c_int) -> c_int,
}

/// An environment: a pointer to its functions.
#[repr(C)]
pub struct Env {
    functions: *const Functions,
}

/// The machine's invocation interface.
#[repr(C)]
pub struct Invocation {
    _0_5: [usize; 6],
    /// 6.
    get_env: unsafe extern "C" fn(*mut Vm, *mut *mut c_void, c_int) -> c_int,
}

/// The machine, as agents are given it.
#[repr(C)]
pub struct Vm {
    functions: *const Invocation,
}

/// The environment of this agent.
#[derive(Debug)]
pub struct Jvmti(NonNull<Env>);

impl Jvmti {
    /// Asks the machine for an environment. `None` if it has none of this version.
    ///
    /// # Safety
    /// `vm` is what the machine gave to one of the agent's entry points.
    pub unsafe fn of(vm: *mut Vm) -> Option<Jvmti> {
        // SAFETY: as the caller promises.
        unsafe { Jvmti::of_version(vm, VERSION_1_2) }
    }

    /// The same, for [`Jvmti::count`]. `None` before Java 11.
    ///
    /// # Safety
    /// As [`Jvmti::of`].
    pub unsafe fn that_counts(vm: *mut Vm) -> Option<Jvmti> {
        // SAFETY: as the caller promises.
        unsafe { Jvmti::of_version(vm, VERSION_11) }
    }

    unsafe fn of_version(vm: *mut Vm, version: c_int) -> Option<Jvmti> {
        let mut env: *mut c_void = std::ptr::null_mut();
        // SAFETY: the caller vouches for `vm`, whose table the machine keeps for its life; `env` is
        // valid for writing.
        let code = unsafe { ((*(*vm).functions).get_env)(vm, &raw mut env, version) };
        NonNull::new(env.cast::<Env>())
            .filter(|_| code == OK)
            .map(Jvmti)
    }

    /// The environment that a callback was given. `None` for none.
    ///
    /// # Safety
    /// `env` is what the machine gave to a callback, or null. Nobody disposes of it while what this returns
    /// is used.
    pub unsafe fn again(env: *mut Env) -> Option<Jvmti> {
        NonNull::new(env).map(Jvmti)
    }

    /// The address of a function in the machine's library.
    pub fn address_in_library(&self) -> *const c_void {
        // SAFETY: an environment and its table live until it is disposed of.
        unsafe { (*(*self.0.as_ptr()).functions).set_event_callbacks as *const c_void }
    }

    /// Asks for events of collections, and sets what is called. The machine copies the table.
    /// Returns whether it agreed.
    pub fn prepare(&self, callbacks: &Callbacks) -> bool {
        let env = self.0.as_ptr();
        let capabilities = [COLLECTIONS, 0, 0, 0];
        let size = size_of::<Callbacks>() as c_int;
        // SAFETY: an environment and its table live until it is disposed of; both arguments are
        // valid for the calls, of the sizes that the specification states, and copied.
        unsafe {
            // No reference to the table, which ends sooner before Java 11.
            let functions = (*env).functions;
            ((*functions).add_capabilities)(env, &raw const capabilities) == OK
                && ((*functions).set_event_callbacks)(env, callbacks, size) == OK
        }
    }

    /// Switches events on, for all threads, in this order. Returns whether all are.
    pub fn enable(&self, events: &[Event]) -> bool {
        events.iter().all(|&event| self.set(ENABLE, event))
    }

    /// Switches events off again, the last first.
    pub fn disable(&self, events: &[Event]) {
        for &event in events.iter().rev() {
            self.set(DISABLE, event);
        }
    }

    fn set(&self, mode: c_int, event: Event) -> bool {
        let env = self.0.as_ptr();
        // SAFETY: as in `prepare`; no thread is named, and the specification knows no more arguments.
        unsafe {
            let set = (*(*env).functions).set_event_notification_mode;
            set(env, mode, event as c_int, std::ptr::null_mut::<c_void>()) == OK
        }
    }

    /// Collects the whole heap, in a pause; also where explicit collections are forbidden. Returns whether
    /// the machine agreed. Not to be called at a safepoint: it waits for one.
    pub fn collect(&self) -> bool {
        let env = self.0.as_ptr();
        // SAFETY: as in `prepare`.
        unsafe { ((*(*env).functions).force_garbage_collection)(env) == OK }
    }

    /// Has the machine tell of one object in about `interval` bytes that are allocated, from any thread.
    /// Returns whether it does: another agent may have that already. `self` is of [`Jvmti::that_counts`].
    pub fn count(&self, callbacks: &Callbacks, interval: u64) -> bool {
        let env = self.0.as_ptr();
        let interval = c_int::try_from(interval).unwrap_or(c_int::MAX);
        let size = size_of::<Callbacks>() as c_int;
        // SAFETY: as in `prepare`; the machine has the last function, by its version.
        let agreed = unsafe {
            let functions = (*env).functions;
            ((*functions).add_capabilities)(env, &raw const ALLOCATIONS) == OK
                && ((*functions).set_event_callbacks)(env, callbacks, size) == OK
                && ((*functions).set_heap_sampling_interval)(env, interval) == OK
        };
        let counts = agreed && self.enable(&[Event::Allocated]);
        if !counts {
            self.uncount();
        }
        counts
    }

    /// Ends what [`Jvmti::count`] began, so that another agent may have it.
    pub fn uncount(&self) {
        self.disable(&[Event::Allocated]);
        let env = self.0.as_ptr();
        // SAFETY: as in `count`.
        unsafe {
            let functions = (*env).functions;
            // Without the capability this changes nothing.
            ((*functions).set_heap_sampling_interval)(env, USUAL_INTERVAL);
            ((*functions).relinquish_capabilities)(env, &raw const ALLOCATIONS);
        }
    }

    /// The environment, for a later [`Jvmti::again`].
    pub fn keep(self) -> *mut Env {
        self.0.as_ptr()
    }

    /// Gives the environment up, and its events with it.
    pub fn dispose(self) {
        let env = self.0.as_ptr();
        // SAFETY: as in `prepare`; this was the only one, or the caller of `again` vouched for the others.
        unsafe { ((*(*env).functions).dispose_environment)(env) };
    }
}

// The positions of the specification, counted from 1.
const _: () = assert!(std::mem::offset_of!(Functions, set_event_notification_mode) == 8);
const _: () = assert!(std::mem::offset_of!(Functions, force_garbage_collection) == 107 * 8);
const _: () = assert!(std::mem::offset_of!(Functions, set_event_callbacks) == 121 * 8);
const _: () = assert!(std::mem::offset_of!(Functions, dispose_environment) == 126 * 8);
const _: () = assert!(std::mem::offset_of!(Functions, add_capabilities) == 141 * 8);
const _: () = assert!(std::mem::offset_of!(Functions, relinquish_capabilities) == 142 * 8);
const _: () = assert!(std::mem::offset_of!(Functions, set_heap_sampling_interval) == 155 * 8);
const _: () = assert!(std::mem::offset_of!(Callbacks, start) == (81 - FIRST) * 8);
const _: () = assert!(std::mem::offset_of!(Callbacks, allocated) == (86 - FIRST) * 8);
const _: () = assert!(size_of::<Callbacks>() == EVENTS * 8);
