//! The system's libgc, and its version.

use plimsoll_programs::elf::PLACES;
use plimsoll_programs::libgc::NEEDED;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The path of the system's libgc, searched where the loader usually looks.
pub fn system() -> Option<PathBuf> {
    let place = PLACES.map(|place| Path::new(place).join(NEEDED));
    place.into_iter().find(|path| path.is_file())
}

/// The version that a libgc reports. The library stays loaded.
///
/// # Errors
/// The loader's message if the library cannot be loaded.
pub fn version(library: &Path) -> Result<String, String> {
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the path ends with NUL. Loading a libgc runs nothing of it but what any library does.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(last_error());
    }
    // SAFETY: the handle is open, the name ends with NUL.
    let address = unsafe { libc::dlsym(handle, c"GC_get_version".as_ptr()) };
    if address.is_null() {
        return Err(last_error());
    }
    // SAFETY: `unsigned GC_get_version(void)` since libgc 7.1; it returns a constant.
    let version = unsafe {
        let ask: extern "C" fn() -> libc::c_uint = std::mem::transmute(address);
        ask()
    };
    let (major, minor, micro) = (version >> 16, version >> 8 & 0xff, version & 0xff);
    Ok(format!("{major}.{minor}.{micro}"))
}

fn last_error() -> String {
    // SAFETY: the loader's own string, or null; copied before the next call.
    let error = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
    error.map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}
