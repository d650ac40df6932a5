//! Programs that get more rights than whoever starts them: then the loader takes no libraries from their
//! environment.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bits of a file's mode.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
/// Where a file's capabilities stand (capabilities(7)).
const CAPABILITIES: &str = "security.capability";
/// The most of that, bytes: version 3 has 24.
const MAX_CAPABILITIES: usize = 64;
/// "In effect from the start", in its first word.
const EFFECTIVE: u32 = 1;

/// What gives this program more rights than we have; none where we may start it as what we are.
pub(crate) fn privileges(executable: &Path) -> Option<&'static str> {
    let file = std::fs::metadata(executable).ok()?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    if file.mode() & SET_USER != 0 && file.uid() != user.as_raw()
        || file.mode() & SET_GROUP != 0 && file.gid() != group.as_raw()
    {
        return Some("is set-user-ID or set-group-ID");
    }
    // Root has them all.
    (!user.is_root() && has_capabilities(executable)).then_some("has file capabilities")
}

fn has_capabilities(executable: &Path) -> bool {
    let mut value = [0; MAX_CAPABILITIES];
    match rustix::fs::getxattr(executable, CAPABILITIES, &mut value[..]) {
        Ok(length) => gives(value.get(..length).unwrap_or_default()),
        Err(_) => false,
    }
}

/// Whether this value (`vfs_cap_data` of linux/capability.h) gives anything: pairs of words, what it has and
/// what it passes on.
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
        // What it only passes on it has not.
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
