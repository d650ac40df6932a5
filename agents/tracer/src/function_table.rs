//! Tables of functions, as both interfaces of a Java virtual machine have them: an environment is a pointer
//! to a table, and each function has a position in it that the specifications "JVM Tool Interface" and "Java
//! Native Interface" give.

use std::ffi::c_void;

/// An environment of either interface. Only the machine makes one.
#[repr(C)]
#[derive(Debug)]
pub struct Env {
    functions: *const *const c_void,
}

/// An object of Java, as native code is given it: the address of a place that the collector updates, or
/// null.
pub type Object = *mut c_void;

impl Env {
    /// The function at a position, counted from 0.
    ///
    /// # Safety
    /// `env` is an environment that the machine gave, and its table is longer than `position`.
    pub unsafe fn function(env: *mut Env, position: usize) -> *const c_void {
        // SAFETY: the caller vouches for both.
        unsafe { *(*env).functions.add(position) }
    }
}

/// Calls the function at a position of an environment's table, with the environment as the first argument.
macro_rules! call {
    ($env:expr, $position:expr, fn($($kind:ty),*) -> $result:ty $(, $argument:expr)* $(,)?) => {{
        let env = $env;
        let function = $crate::function_table::Env::function(env, $position);
        let function: unsafe extern "C" fn(*mut $crate::function_table::Env $(, $kind)*) -> $result =
            std::mem::transmute(function);
        function(env $(, $argument)*)
    }};
}
pub(crate) use call;
