//! The parts of the Java Native Interface that the recorder uses. Positions are those of the specification.
//! An exception that a call leaves behind is cleared: none of ours reaches the program.

// References reach these functions only from the machine, and are handed back to it; nothing here reads
// through one.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

use crate::function_table::{Env, Object, call};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::ptr::{NonNull, null_mut};

/// The environment of the current thread.
#[derive(Clone, Copy, Debug)]
pub struct Jni(NonNull<Env>);

/// A native method and what it calls.
#[repr(C)]
#[derive(Debug)]
pub struct Native {
    name: *const c_char,
    descriptor: *const c_char,
    function: *const c_void,
}

impl Native {
    /// Both texts live as long as the program; `function` has the type that the descriptor says, after an
    /// environment and a class.
    pub const fn new(
        name: &'static CStr,
        descriptor: &'static CStr,
        function: *const c_void,
    ) -> Native {
        Native {
            name: name.as_ptr(),
            descriptor: descriptor.as_ptr(),
            function,
        }
    }
}

/// A value as an argument of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Value {
    /// `int`.
    pub int: c_int,
    /// A reference.
    pub object: Object,
}

impl Jni {
    /// The environment that a callback or a native method was given.
    pub fn of(env: *mut Env) -> Option<Jni> {
        NonNull::new(env).map(Jni)
    }

    fn env(self) -> *mut Env {
        self.0.as_ptr()
    }

    /// Clears an exception. Returns whether there was one.
    pub fn clear(self) -> bool {
        // SAFETY: the environment is that of this thread; both functions are allowed with an exception.
        unsafe {
            let pending = call!(self.env(), 228, fn() -> c_uchar) != 0;
            if pending {
                call!(self.env(), 17, fn() -> ());
            }
            pending
        }
    }

    fn unless_thrown(self, object: Object) -> Option<Object> {
        let thrown = self.clear();
        (!thrown && !object.is_null()).then_some(object)
    }

    /// Defines a class in the boot loader, from the bytes of its class file.
    pub fn define(self, name: &CStr, bytes: &[u8]) -> Option<Object> {
        let length = bytes.len() as c_int;
        // SAFETY: as in `clear`; the machine copies the bytes.
        let class = unsafe {
            call!(
                self.env(),
                5,
                fn(*const c_char, Object, *const u8, c_int) -> Object,
                name.as_ptr(),
                null_mut(),
                bytes.as_ptr(),
                length
            )
        };
        self.unless_thrown(class)
    }

    /// A class by its name, from the boot or the system loader.
    pub fn class(self, name: &CStr) -> Option<Object> {
        // SAFETY: as in `clear`.
        let class = unsafe { call!(self.env(), 6, fn(*const c_char) -> Object, name.as_ptr()) };
        self.unless_thrown(class)
    }

    /// Says what a class's native methods call.
    pub fn register(self, class: Object, natives: &[Native]) -> bool {
        let count = natives.len() as c_int;
        // SAFETY: as in `clear`; the functions are what `Native::new` was promised.
        let code = unsafe {
            call!(
                self.env(),
                215,
                fn(Object, *const Native, c_int) -> c_int,
                class,
                natives.as_ptr(),
                count
            )
        };
        !self.clear() && code == 0
    }

    /// The class of an object.
    pub fn class_of(self, object: Object) -> Object {
        // SAFETY: as in `clear`; the object is a reference of this thread's.
        unsafe { call!(self.env(), 31, fn(Object) -> Object, object) }
    }

    /// The superclass, if there is one.
    pub fn superclass(self, class: Object) -> Option<Object> {
        // SAFETY: as in `class_of`.
        let class = unsafe { call!(self.env(), 10, fn(Object) -> Object, class) };
        self.unless_thrown(class)
    }

    /// Gives a local reference up.
    pub fn forget(self, object: Object) {
        // SAFETY: as in `class_of`; it is not used again.
        unsafe { call!(self.env(), 23, fn(Object) -> (), object) };
    }

    /// A reference that is valid in all threads, for ever.
    pub fn global(self, object: Object) -> Object {
        // SAFETY: as in `class_of`.
        unsafe { call!(self.env(), 21, fn(Object) -> Object, object) }
    }

    /// A reference that is valid in all threads, for ever, and keeps nothing.
    pub fn weak(self, object: Object) -> Option<Object> {
        // SAFETY: as in `class_of`.
        let weak = unsafe { call!(self.env(), 226, fn(Object) -> Object, object) };
        // The program's own exception stays, if there is one.
        if weak.is_null() {
            self.unless_thrown(weak)
        } else {
            Some(weak)
        }
    }

    /// A method's identifier.
    pub fn method(
        self,
        class: Object,
        name: &CStr,
        descriptor: &CStr,
        is_static: bool,
    ) -> Option<Object> {
        let position = if is_static { 113 } else { 33 };
        // SAFETY: as in `class_of`.
        let id = unsafe {
            call!(
                self.env(),
                position,
                fn(Object, *const c_char, *const c_char) -> Object,
                class,
                name.as_ptr(),
                descriptor.as_ptr()
            )
        };
        self.unless_thrown(id)
    }

    /// A field's identifier.
    pub fn field(self, class: Object, name: &str, descriptor: &str) -> Option<usize> {
        let (name, descriptor) = (CString::new(name).ok()?, CString::new(descriptor).ok()?);
        // SAFETY: as in `class_of`.
        let id = unsafe {
            call!(
                self.env(),
                94,
                fn(Object, *const c_char, *const c_char) -> Object,
                class,
                name.as_ptr(),
                descriptor.as_ptr()
            )
        };
        self.unless_thrown(id).map(|id| id as usize)
    }

    /// The value of a static field of type `int` or `long`.
    pub fn static_number(self, class: Object, name: &str) -> Option<i64> {
        let name = CString::new(name).ok()?;
        for (descriptor, wide) in [(c"I", false), (c"J", true)] {
            // SAFETY: as in `class_of`.
            let id = unsafe {
                call!(
                    self.env(),
                    144,
                    fn(Object, *const c_char, *const c_char) -> Object,
                    class,
                    name.as_ptr(),
                    descriptor.as_ptr()
                )
            };
            if let Some(id) = self.unless_thrown(id) {
                // SAFETY: as in `class_of`; the field is the class's and of that type.
                return Some(unsafe {
                    if wide {
                        call!(self.env(), 151, fn(Object, Object) -> i64, class, id)
                    } else {
                        call!(self.env(), 150, fn(Object, Object) -> c_int, class, id).into()
                    }
                });
            }
        }
        None
    }

    /// The reference in a field of an object.
    pub fn field_value(self, object: Object, field: usize) -> Option<Object> {
        // SAFETY: as in `class_of`; the field is one of references in the object's class.
        let value = unsafe {
            call!(
                self.env(),
                95,
                fn(Object, Object) -> Object,
                object,
                field as Object
            )
        };
        self.unless_thrown(value)
    }

    /// Calls a static method that returns a reference.
    pub fn call_static(self, class: Object, method: Object) -> Option<Object> {
        // SAFETY: as in `class_of`; the method is the class's and has no arguments.
        let value = unsafe {
            call!(
                self.env(),
                116,
                fn(Object, Object, *const Value) -> Object,
                class,
                method,
                std::ptr::null()
            )
        };
        self.unless_thrown(value)
    }

    /// Calls a method that returns a `long`.
    pub fn call_long(self, object: Object, method: Object) -> Option<i64> {
        // SAFETY: as in `call_static`.
        let value = unsafe {
            call!(
                self.env(),
                54,
                fn(Object, Object, *const Value) -> i64,
                object,
                method,
                std::ptr::null()
            )
        };
        (!self.clear()).then_some(value)
    }

    /// The length of an array.
    pub fn length(self, array: Object) -> i32 {
        // SAFETY: as in `class_of`; it is an array.
        unsafe { call!(self.env(), 171, fn(Object) -> c_int, array) }
    }

    /// An element of an array of references.
    pub fn element(self, array: Object, index: i32) -> Option<Object> {
        // SAFETY: as in `length`; an index beyond it leaves an exception, which is cleared.
        let value = unsafe { call!(self.env(), 173, fn(Object, c_int) -> Object, array, index) };
        self.unless_thrown(value)
    }
}
