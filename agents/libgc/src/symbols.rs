//! Finds the real functions behind the names that this library also exports. In a program linked
//! with libgc, they come next in the loader's search order. If a plug-in brought libgc by `dlopen`,
//! they are found in that library only. Its own calls still come here, because a preloaded library
//! comes first.

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The most loaded objects to search.
const OBJECTS: usize = 4096;

/// The function of that name (ending with NUL) that is not in this library. `None` if no loaded
/// object has one.
pub fn real(name: &'static str) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: the name ends with NUL; RTLD_NEXT skips this library.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return Some(next);
    }
    let library = plugin()?;
    // SAFETY: a handle that was opened by `plugin` and never closed.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// A handle of a library that defines `GC_init` and is not in the loader's global scope.
fn plugin() -> Option<*mut c_void> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let found = FOUND.load(Ordering::Acquire);
    if !found.is_null() {
        return Some(found);
    }
    let handle = objects().iter().find_map(|path| open_if_libgc(path))?;
    FOUND.store(handle, Ordering::Release);
    Some(handle)
}

fn open_if_libgc(path: &CStr) -> Option<*mut c_void> {
    // SAFETY: the path ends with NUL; nothing new is loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle was just opened.
    let address = unsafe { libc::dlsym(handle, c"GC_init".as_ptr()) };
    if !address.is_null() && object_of(address) != object_of(real as *mut c_void) {
        return Some(handle);
    }
    // SAFETY: closes what was opened above, once.
    unsafe { libc::dlclose(handle) };
    None
}

/// The load address of the object that contains this address.
fn object_of(address: *mut c_void) -> *mut c_void {
    // SAFETY: plain old data, filled in by dladdr.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for writing; any address may be asked for.
    unsafe { libc::dladdr(address, &mut info) };
    info.dli_fbase
}

/// The paths of all loaded objects except the program itself.
fn objects() -> Vec<CString> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid structure, `objects` its own list.
        let (info, paths) = unsafe { (&*info, &mut *data.cast::<Vec<CString>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the loader's names end with NUL.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            if !name.is_empty() {
                paths.push(name.to_owned());
            }
        }
        c_int::from(paths.len() >= OBJECTS)
    }
    let mut paths = Vec::new();
    // SAFETY: the callback gets the list, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    paths
}
