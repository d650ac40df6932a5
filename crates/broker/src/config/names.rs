//! Users' names.

use plimsoll_kernel::reader::read_text;
use std::ffi::CString;
use std::path::Path;

/// Most bytes of the list of users that are read; the rest is ignored.
const MAX_PASSWD: usize = 1 << 20;

/// A user's name from `/etc/passwd`; `None` when it is not listed there. Other sources, such as a
/// directory service, are not asked because they may block.
#[must_use]
pub fn name_of(uid: u32) -> Option<String> {
    let mut text = Vec::new();
    read_text(Path::new("/etc/passwd"), MAX_PASSWD, &mut text).ok()?;
    name_in(&String::from_utf8_lossy(&text), uid)
}

/// Finds the name in lines of the form `name:password:number:...`, one user per line.
fn name_in(passwd: &str, uid: u32) -> Option<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let number = fields.nth(1)?.parse::<u32>();
        (number == Ok(uid)).then(|| name.to_owned())
    };
    passwd.lines().find_map(name)
}

/// The uid for a user's name or number; `None` when there is no such user.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number_among_lines_of_any_kind() {
        let passwd =
            "root:x:0:0::/:\n\n+::::::\n:x:5:5::/:\nalice:x:1000\nbob:x\nbob:x:1001:1::/:\n";
        assert_eq!(name_in(passwd, 0).as_deref(), Some("root"));
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(name_in(passwd, 1001).as_deref(), Some("bob"));
        assert_eq!((name_in(passwd, 5), name_in(passwd, 7)), (None, None));
    }

    #[test]
    fn root_has_a_name_both_ways() {
        assert_eq!(name_of(0).and_then(|name| uid_of(&name)), Some(0));
        assert_eq!(uid_of("1234"), Some(1234));
    }
}
