//! Users' names.

use std::ffi::CString;

/// The number of the user whose name or number is `user`; `None` when there is none of that name.
pub(super) fn uid_of(user: &str) -> Option<u32> {
    if let Ok(uid) = user.parse() {
        return Some(uid);
    }
    let name = CString::new(user).ok()?;
    let mut buffer = vec![0 as libc::c_char; 16 * 1024];
    // SAFETY: `passwd` is plain data for which all zeros is a value (null pointers, zero numbers).
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: `name` is NUL-terminated; `entry`, `buffer` and `found` are valid for writes for the
    // whole call, and `buffer.len()` is the length that is passed.
    let code = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &mut found,
        )
    };
    (code == 0 && !found.is_null()).then_some(entry.pw_uid)
}
