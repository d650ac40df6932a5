//! Filters of system calls on this process (`seccomp(2)`). Some end the program for a call that they do not
//! know: systemd's `SystemCallFilter=` without `SystemCallErrorNumber=` does. So what we put into other
//! people's programs tries no unusual call where there is a filter, whatever that filter would say.

use crate::parse::{lines, number};
use crate::reader::read_text;
use std::path::Path;
use std::sync::OnceLock;

/// The files of the first thread and of the calling one: a filter belongs to a thread and to those it makes.
const PLACES: [&str; 2] = ["/proc/self/status", "/proc/thread-self/status"];

/// Whether there is a filter on the first thread of this process, or on the calling one. True if it cannot be
/// read.
pub fn is_filtered() -> bool {
    let is = |place: &&str| {
        let mut text = Vec::new();
        let read = read_text(Path::new(place), 16 << 10, &mut text);
        read.is_err() || says_filtered(&text)
    };
    PLACES.iter().any(is)
}

/// The value of [`is_filtered`] at the first call, for frequent callers. A filter that the program sets on
/// itself later is not seen.
pub fn was_filtered() -> bool {
    static FIRST: OnceLock<bool> = OnceLock::new();
    *FIRST.get_or_init(is_filtered)
}

/// A kernel without filters has no such line.
fn says_filtered(text: &[u8]) -> bool {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Seccomp:"));
    line.is_some_and(|mode| number(mode.trim_ascii()) != Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_mode_but_none_is_a_filter() {
        let says =
            |line: &str| says_filtered(format!("Name:\tx\n{line}\nThreads:\t1\n").as_bytes());
        assert!(!says("Seccomp:\t0") && !says("Seccomp_filters:\t3") && !says(""));
        assert!(says("Seccomp:\t1") && says("Seccomp:\t2") && says("Seccomp:\tx"));
        assert_eq!(is_filtered(), was_filtered());
    }
}
