//! The holders of locks of files: `/proc/locks`. Source: `proc_locks(5)`.

use std::io;
use std::os::fd::AsFd;

/// The processes of our pid namespace that hold a lock of `flock(2)`, one entry a lock.
///
/// # Errors
/// The system's error.
pub fn holders() -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string("/proc/locks")?;
    Ok(text.lines().filter_map(holder).collect())
}

/// A holder of a lock of `flock(2)` of an open file, one of them if there are several; `None` without, or if
/// it is in another pid namespace.
pub fn holder_of(file: &impl AsFd) -> Option<i32> {
    let stat = rustix::fs::fstat(file).ok()?;
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let text = std::fs::read_to_string("/proc/locks").ok()?;
    let is_of = |line: &&str| line.split_ascii_whitespace().any(|word| word == place);
    text.lines().filter(is_of).find_map(holder)
}

/// Process id in a line such as `1: FLOCK  ADVISORY  WRITE 3543 00:19:1337 0 EOF`, if it is in our
/// pid namespace.
fn holder(line: &str) -> Option<i32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    (words.next()? == "FLOCK").then_some(())?;
    words.nth(2)?.parse().ok().filter(|&pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_holder_of_a_file_lock_only() {
        assert_eq!(
            holder("1: FLOCK  ADVISORY  WRITE 3543 00:19:1337 0 EOF"),
            Some(3543)
        );
        for other in [
            "2: POSIX  ADVISORY  WRITE 3543 00:19:1337 0 EOF",
            "3: FLOCK  ADVISORY  WRITE 0 00:19:1337 0 EOF",
            "3: -> FLOCK  ADVISORY  WRITE 7 00:19:1337 0 EOF",
            "",
        ] {
            assert_eq!(holder(other), None, "{other}");
        }
    }

    #[test]
    fn our_own_lock_is_among_them() {
        let file = tempfile::tempfile().unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(holders().unwrap().contains(&own));
        assert_eq!(holder_of(&file), Some(own));
        let other = tempfile::tempfile().unwrap();
        assert_eq!(holder_of(&other), None);
    }
}
