//! Programs that get more rights than the user who starts them. The loader ignores the library
//! variables in their environment.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bits of a file's mode: set-user-ID and set-group-ID.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
/// The extended attribute that holds a file's capabilities (capabilities(7)).
const CAPABILITIES: &str = "security.capability";
/// Bytes of the attribute that are read at most. Version 3 has 24.
const MAX_CAPABILITIES: usize = 64;
/// The flag "in effect from the start" in the attribute's first word.
const EFFECTIVE: u32 = 1;

/// Why this program would get more rights than we have; `None` if it would not.
pub fn privileges(executable: &Path) -> Option<&'static str> {
    let file = std::fs::metadata(executable).ok()?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    if file.mode() & SET_USER != 0 && file.uid() != user.as_raw()
        || file.mode() & SET_GROUP != 0 && file.gid() != group.as_raw()
    {
        return Some("is set-user-ID or set-group-ID");
    }
    // Root has all capabilities already.
    (!user.is_root() && has_capabilities(executable)).then_some("has file capabilities")
}

fn has_capabilities(executable: &Path) -> bool {
    let mut value = [0; MAX_CAPABILITIES];
    match rustix::fs::getxattr(executable, CAPABILITIES, &mut value[..]) {
        Ok(length) => gives(value.get(..length).unwrap_or_default()),
        Err(_) => false,
    }
}

/// Whether this value (`vfs_cap_data` of linux/capability.h) gives any capability. After the flags
/// come pairs of words: permitted and inheritable.
fn gives(value: &[u8]) -> bool {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut words = value.chunks_exact(4).map(word);
    let effective = words.next().is_some_and(|first| first & EFFECTIVE != 0);
    effective || words.next().unwrap_or(0) != 0 || words.nth(1).unwrap_or(0) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_as_the_kernel_keeps_them() {
        let value = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let (second, third) = (0x0200_0000, 0x0300_0000);
        assert!(gives(&value(&[second | EFFECTIVE, 1 << 10, 0, 0, 0])));
        assert!(gives(&value(&[second, 1 << 10, 0, 0, 0])));
        assert!(gives(&value(&[third, 0, 0, 1 << 5, 0, 1000])));
        // Inheritable capabilities alone give nothing.
        assert!(!gives(&value(&[second, 0, 1 << 10, 0, 0])));
        for cut in 0..8 {
            assert!(!gives(&value(&[second, 0])[..cut]));
        }
        assert!(!gives(&[]));
    }

    #[test]
    fn a_file_without_them_gives_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(privileges(file.path()), None);
        assert!(!has_capabilities(file.path()));
        assert_eq!(privileges(Path::new("/nonexistent")), None);
    }
}
