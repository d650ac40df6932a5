//! The parts of JVMTI that the recorder uses. Positions are those of the specification less one.

// References reach these functions only from the machine, and are handed back to it; nothing here reads
// through one.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

use crate::function_table::{Env, Object, call};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ptr::{NonNull, null, null_mut};

/// JVMTI 11: the first that samples allocations.
const VERSION: c_int = 0x3000_0000 + (11 << 16);
/// No error, of either interface.
const OK: c_int = 0;

/// Bits of the capabilities that are asked for.
mod capability {
    pub(super) const TAGS: usize = 0;
    pub(super) const ALL_CLASS_HOOKS: usize = 26;
    pub(super) const MONITORS: usize = 28;
    pub(super) const COLLECTIONS: usize = 31;
    pub(super) const OBJECT_FREE: usize = 32;
    pub(super) const RETRANSFORM: usize = 37;
    pub(super) const RETRANSFORM_ANY: usize = 38;
    pub(super) const SAMPLED_ALLOCATIONS: usize = 43;
    pub(super) const VIRTUAL_THREADS: usize = 44;
}

/// Events, by the numbers of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Event {
    Init = 50,
    Death = 51,
    ThreadStart = 52,
    ThreadEnd = 53,
    ClassFileLoadHook = 54,
    ClassPrepare = 56,
    MonitorWait = 73,
    MonitorWaited = 74,
    CollectionFinish = 82,
    ObjectFree = 83,
    SampledObjectAlloc = 86,
}

/// Number of the first event in the table of callbacks.
const FIRST: usize = 50;
/// Places in that table.
const PLACES: usize = Event::SampledObjectAlloc as usize - FIRST + 1;

/// The callbacks of each event. The virtual machine copies it.
#[repr(C)]
#[derive(Debug)]
pub struct Callbacks([*const c_void; PLACES]);

impl Callbacks {
    /// A table in which nothing is called.
    pub const fn none() -> Callbacks {
        Callbacks([null(); PLACES])
    }

    /// Puts a function in. It has the type that the specification gives for the event.
    pub const fn with(mut self, event: Event, function: *const c_void) -> Callbacks {
        self.0[event as usize - FIRST] = function;
        self
    }
}

/// The machine, as agents are given it: the invocation interface.
pub type Vm = Env;

/// Memory that the machine allocated and that is given back to it.
struct Given(Jvmti, *mut c_uchar);

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: the memory is from the machine and is not used any more.
        unsafe { call!(self.0.env(), 46, fn(*mut c_uchar) -> c_int, self.1) };
    }
}

/// The environment of this agent.
#[derive(Clone, Copy, Debug)]
pub struct Jvmti(NonNull<Env>);

// SAFETY: the specification lets every thread use an environment.
unsafe impl Send for Jvmti {}
// SAFETY: as above.
unsafe impl Sync for Jvmti {}

/// A field of a class, without those of its superclasses.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type, as class files write it.
    pub descriptor: String,
    /// Its identifier for JNI.
    pub id: usize,
    /// Whether the class has it, rather than each of its objects.
    pub is_static: bool,
}

/// A thread's name and whether the machine may end before it does.
#[derive(Clone, Debug, Default)]
pub struct ThreadInfo {
    /// The name.
    pub name: String,
}

impl Jvmti {
    /// Asks the machine for an environment. `None` if it has none of this version.
    ///
    /// # Safety
    /// `vm` is what the machine gave to one of the agent's entry points.
    pub unsafe fn of(vm: *mut Vm) -> Option<Jvmti> {
        let mut env: *mut c_void = null_mut();
        // SAFETY: the caller vouches for `vm`; 6 is GetEnv; `env` is valid for writing.
        let code = unsafe {
            call!(
                vm,
                6,
                fn(*mut *mut c_void, c_int) -> c_int,
                &raw mut env,
                VERSION
            )
        };
        NonNull::new(env.cast::<Env>())
            .filter(|_| code == OK)
            .map(Jvmti)
    }

    fn env(self) -> *mut Env {
        self.0.as_ptr()
    }

    /// Asks for what a recording needs, and sets what is called. `exact` recordings see more.
    pub fn prepare(self, callbacks: &Callbacks, exact: bool) -> bool {
        let mut potential = [0u32; 4];
        // SAFETY: the table lives as long as the environment; 16 bytes are what the specification asks for.
        unsafe {
            call!(
                self.env(),
                139,
                fn(*mut [u32; 4]) -> c_int,
                &raw mut potential
            )
        };
        let mut wanted = [0u32; 4];
        let mut want = |bit: usize| wanted[bit / 32] |= 1 << (bit % 32);
        use capability::*;
        let always = [
            TAGS,
            SAMPLED_ALLOCATIONS,
            ALL_CLASS_HOOKS,
            MONITORS,
            RETRANSFORM,
            RETRANSFORM_ANY,
        ];
        always.into_iter().for_each(&mut want);
        if !exact {
            [OBJECT_FREE, COLLECTIONS].into_iter().for_each(&mut want);
        }
        if potential[VIRTUAL_THREADS / 32] & (1 << (VIRTUAL_THREADS % 32)) != 0 {
            want(VIRTUAL_THREADS);
        }
        let size = size_of::<Callbacks>() as c_int;
        // SAFETY: as above; both arguments are copied.
        unsafe {
            call!(
                self.env(),
                141,
                fn(*const [u32; 4]) -> c_int,
                &raw const wanted
            ) == OK
                && call!(
                    self.env(),
                    121,
                    fn(*const Callbacks, c_int) -> c_int,
                    callbacks,
                    size
                ) == OK
        }
    }

    /// Switches an event on or off, for all threads. Returns whether that was done.
    pub fn switch(self, event: Event, on: bool) -> bool {
        type Set = unsafe extern "C" fn(*mut Env, c_int, c_int, Object, ...) -> c_int;
        // SAFETY: the specification gives the function this type, with no more arguments for these events.
        unsafe {
            let function = Env::function(self.env(), 1);
            let set: Set = std::mem::transmute::<*const c_void, Set>(function);
            set(
                self.env(),
                c_int::from(on),
                event as c_int,
                null_mut::<c_void>(),
            ) == OK
        }
    }

    /// Samples an allocation each time that this many bytes (on average) are allocated; 0 is every one.
    pub fn sample_each(self, bytes: c_int) -> bool {
        // SAFETY: the table lives as long as the environment.
        unsafe { call!(self.env(), 155, fn(c_int) -> c_int, bytes) == OK }
    }

    /// Collects the whole heap. All threads begin new allocation buffers then, whose allocations are sampled.
    pub fn collect(self) -> bool {
        // SAFETY: as in `sample_each`.
        unsafe { call!(self.env(), 107, fn() -> c_int) == OK }
    }

    /// The identity hash of an object, which it gets now if it has none. 0 where the machine refuses.
    pub fn hash(self, object: Object) -> u32 {
        let mut hash: c_int = 0;
        // SAFETY: as above; `object` is a reference that the machine gave, and `hash` valid for writing.
        let code = unsafe {
            call!(
                self.env(),
                57,
                fn(Object, *mut c_int) -> c_int,
                object,
                &raw mut hash
            )
        };
        if code == OK { hash as u32 } else { 0 }
    }

    /// The bytes of an object.
    pub fn size(self, object: Object) -> u64 {
        let mut size: i64 = 0;
        // SAFETY: as in `hash`.
        unsafe {
            call!(
                self.env(),
                153,
                fn(Object, *mut i64) -> c_int,
                object,
                &raw mut size
            )
        };
        size.max(0) as u64
    }

    /// Tags an object. Returns whether it could.
    pub fn tag(self, object: Object, tag: i64) -> bool {
        // SAFETY: as in `hash`.
        unsafe { call!(self.env(), 106, fn(Object, i64) -> c_int, object, tag) == OK }
    }

    /// A class's signature, such as `Ljava/lang/String;`.
    pub fn signature(self, class: Object) -> Option<String> {
        let mut text: *mut c_char = null_mut();
        // SAFETY: as in `hash`; the generic signature is not asked for.
        let code = unsafe {
            call!(
                self.env(),
                47,
                fn(Object, *mut *mut c_char, *mut *mut c_char) -> c_int,
                class,
                &raw mut text,
                null_mut()
            )
        };
        (code == OK).then(|| self.text(text)).flatten()
    }

    /// A property of the machine, such as its version.
    pub fn property(self, name: &CStr) -> Option<String> {
        let mut text: *mut c_char = null_mut();
        // SAFETY: as in `hash`; the name ends with a zero.
        let code = unsafe {
            call!(
                self.env(),
                130,
                fn(*const c_char, *mut *mut c_char) -> c_int,
                name.as_ptr(),
                &raw mut text
            )
        };
        (code == OK).then(|| self.text(text)).flatten()
    }

    /// Takes a text of the machine's, in modified UTF-8.
    fn text(self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        let given = Given(self, text.cast());
        // SAFETY: the machine ends its texts with a zero; `given` is dropped after.
        let text = unsafe { CStr::from_ptr(given.1.cast()) };
        Some(text.to_string_lossy().into_owned())
    }

    /// A thread's name. It is the current thread, or one that runs.
    pub fn thread(self, thread: Object) -> ThreadInfo {
        #[repr(C)]
        struct Info {
            name: *mut c_char,
            priority: c_int,
            daemon: c_uchar,
            group: Object,
            loader: Object,
        }
        let mut info = Info {
            name: null_mut(),
            priority: 0,
            daemon: 0,
            group: null_mut(),
            loader: null_mut(),
        };
        // SAFETY: as in `hash`; the structure is that of the specification.
        let code = unsafe {
            call!(
                self.env(),
                8,
                fn(Object, *mut Info) -> c_int,
                thread,
                &raw mut info
            )
        };
        let name = (code == OK).then(|| self.text(info.name)).flatten();
        ThreadInfo {
            name: name.unwrap_or_default(),
        }
    }

    /// The current thread's object.
    pub fn current_thread(self) -> Option<Object> {
        let mut thread: Object = null_mut();
        // SAFETY: as in `hash`.
        let code = unsafe { call!(self.env(), 17, fn(*mut Object) -> c_int, &raw mut thread) };
        (code == OK && !thread.is_null()).then_some(thread)
    }

    /// The method that the current thread runs, by its identifier.
    pub fn method(self) -> Option<usize> {
        let (mut method, mut at): (Object, i64) = (null_mut(), 0);
        // SAFETY: as in `hash`; null is the current thread, and 0 its innermost method.
        let code = unsafe {
            call!(
                self.env(),
                18,
                fn(Object, c_int, *mut Object, *mut i64) -> c_int,
                null_mut(),
                0,
                &raw mut method,
                &raw mut at
            )
        };
        (code == OK).then_some(method as usize)
    }

    /// A list of references that the machine makes by `ask`.
    fn list(self, ask: impl FnOnce(*mut c_int, *mut *mut Object) -> c_int) -> Vec<Object> {
        let (mut count, mut list) = (0, null_mut());
        if ask(&raw mut count, &raw mut list) != OK || list.is_null() {
            return Vec::new();
        }
        let given = Given(self, list.cast());
        // SAFETY: the machine made a list of `count` objects.
        unsafe { std::slice::from_raw_parts(given.1.cast::<Object>(), count.max(0) as usize) }
            .to_vec()
    }

    /// All classes that are loaded, as local references.
    pub fn loaded_classes(self) -> Vec<Object> {
        // SAFETY: as in `hash`.
        self.list(|count, list| unsafe {
            call!(
                self.env(),
                77,
                fn(*mut c_int, *mut *mut Object) -> c_int,
                count,
                list
            )
        })
    }

    /// Whether a class may be changed.
    pub fn is_modifiable(self, class: Object) -> bool {
        let mut answer: c_uchar = 0;
        // SAFETY: as in `hash`.
        unsafe {
            call!(
                self.env(),
                44,
                fn(Object, *mut c_uchar) -> c_int,
                class,
                &raw mut answer
            )
        };
        answer != 0
    }

    /// Loads classes again, through the hook of class files. Returns the error's number, 0 for none.
    pub fn retransform(self, classes: &[Object]) -> c_int {
        let count = classes.len() as c_int;
        // SAFETY: as in `hash`.
        unsafe {
            call!(
                self.env(),
                151,
                fn(c_int, *const Object) -> c_int,
                count,
                classes.as_ptr()
            )
        }
    }

    /// Memory for a class file, which the machine frees.
    pub fn allocate(self, bytes: usize) -> Option<NonNull<u8>> {
        let mut memory: *mut c_uchar = null_mut();
        // SAFETY: as in `hash`.
        unsafe {
            call!(
                self.env(),
                45,
                fn(i64, *mut *mut c_uchar) -> c_int,
                bytes as i64,
                &raw mut memory
            )
        };
        NonNull::new(memory)
    }

    /// The fields that a prepared class declares. Empty for arrays and where the machine refuses.
    pub fn fields(self, class: Object) -> Vec<Field> {
        // SAFETY: as in `hash`.
        let ids = self.list(|count, list| unsafe {
            call!(
                self.env(),
                52,
                fn(Object, *mut c_int, *mut *mut Object) -> c_int,
                class,
                count,
                list
            )
        });
        ids.into_iter()
            .filter_map(|id| self.field(class, id))
            .collect()
    }

    fn field(self, class: Object, id: Object) -> Option<Field> {
        let (mut name, mut descriptor, mut modifiers): (*mut c_char, *mut c_char, c_int) =
            (null_mut(), null_mut(), 0);
        type Name = *mut *mut c_char;
        // SAFETY: as in `hash`; the identifier is the machine's.
        let codes = unsafe {
            [
                call!(
                    self.env(),
                    59,
                    fn(Object, Object, Name, Name, Name) -> c_int,
                    class,
                    id,
                    &raw mut name,
                    &raw mut descriptor,
                    null_mut()
                ),
                call!(
                    self.env(),
                    61,
                    fn(Object, Object, *mut c_int) -> c_int,
                    class,
                    id,
                    &raw mut modifiers
                ),
            ]
        };
        let (name, descriptor) = (self.text(name), self.text(descriptor));
        (codes == [OK, OK]).then_some(())?;
        Some(Field {
            name: name?,
            descriptor: descriptor?,
            id: id as usize,
            is_static: modifiers & 8 != 0,
        })
    }

    /// Tags all objects that have no tag with this one. Returns how many objects and bytes there are, where
    /// machines before 18 leave out those of 2 GiB and more (see `sizes`).
    pub fn tag_all(self, tag: i64) -> (u64, u64) {
        #[repr(C)]
        struct Heap {
            unused: [*const c_void; 16],
        }
        struct Sum {
            tag: i64,
            objects: u64,
            bytes: u64,
        }
        unsafe extern "C" fn each(
            _class: i64,
            size: i64,
            tag: *mut i64,
            _length: c_int,
            sum: *mut c_void,
        ) -> c_int {
            // SAFETY: the machine hands `sum` through, and `tag` is valid in the callback.
            unsafe {
                let sum = &mut *sum.cast::<Sum>();
                *tag = sum.tag;
                sum.objects += 1;
                sum.bytes += size.max(0) as u64;
            }
            0
        }
        let mut sum = Sum {
            tag,
            objects: 0,
            bytes: 0,
        };
        let mut heap = Heap {
            unused: [null(); 16],
        };
        // The first callback of the table is that of the iteration.
        heap.unused[0] = each as *const c_void;
        // SAFETY: as in `hash`; the callback has the type of the specification.
        unsafe {
            call!(
                self.env(),
                115,
                fn(c_int, Object, *const Heap, *mut c_void) -> c_int,
                0,
                null_mut(),
                &raw const heap,
                (&raw mut sum).cast()
            );
        }
        (sum.objects, sum.bytes)
    }

    /// The objects that have a tag, as local references.
    pub fn tagged(self, tag: i64) -> Vec<Object> {
        type List = *mut *mut Object;
        // SAFETY: as in `hash`; the tags of what is found are not asked for.
        self.list(|count, list| unsafe {
            call!(
                self.env(),
                113,
                fn(c_int, *const i64, *mut c_int, List, *mut *mut i64) -> c_int,
                1,
                &raw const tag,
                count,
                list,
                null_mut()
            )
        })
    }
}
