//! A process that is looked at many times in a second.

use super::{Handle, Memory, Process};
use std::io;

/// A process with its files of `/proc` held open, so that a look costs one read of each: three descriptors.
/// Where they cannot be held, each look opens them.
#[derive(Debug)]
pub struct Watched {
    /// Names it.
    handle: Handle,
    /// Its files; `None` where they could not be opened.
    files: Option<Process>,
}

impl Watched {
    /// Opens its files.
    pub fn new(handle: Handle) -> Watched {
        let pid = i32::try_from(handle.pid).ok();
        let files = pid.and_then(|pid| Process::open_known(pid, handle.started).ok());
        Watched { handle, files }
    }

    /// As [`Handle::alive`].
    pub fn alive(&self) -> bool {
        let held = self.files.as_ref().map(Process::alive);
        held.unwrap_or_else(|| self.handle.alive())
    }

    /// As [`Handle::memory`].
    ///
    /// # Errors
    /// As [`Handle::memory`].
    pub fn memory(&self) -> io::Result<Memory> {
        match self.files.as_ref().map(Process::memory) {
            // With very many groups the text is longer than what is read of an open file.
            Some(Ok(memory)) if memory != Memory::default() => Ok(memory),
            _ => self.handle.memory(),
        }
    }

    /// As [`Handle::major_faults`].
    pub fn major_faults(&self) -> Option<u64> {
        match self.files.as_ref().map(Process::faults) {
            Some(Ok(faults)) => Some(faults.major),
            _ => self.handle.major_faults(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_says_what_the_handle_says_with_and_without_open_files() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let handle = Handle::new(child.id()).unwrap();
        let without = Watched {
            handle,
            files: None,
        };
        let with = Watched::new(handle);
        assert!(with.files.is_some());
        for watched in [&with, &without] {
            assert!(watched.alive());
            assert!(watched.memory().unwrap().resident() > plimsoll_unit::Bytes::ZERO);
            assert_eq!(watched.major_faults(), handle.major_faults());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for watched in [&with, &without] {
            assert!(!watched.alive());
            assert!(watched.memory().is_err() && watched.major_faults().is_none());
        }
    }

    /// Calls of this thread that read (`proc.rst` 3.3); `None` where the kernel does not count them.
    fn reads() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        let count = text.lines().find_map(|line| line.strip_prefix("syscr: "));
        count?.parse().ok()
    }

    #[test]
    fn a_look_takes_three_reads() {
        let watched = Watched::new(Handle::new(std::process::id()).unwrap());
        let Some(before) = reads() else { return };
        let own = reads().unwrap() - before;
        let before = reads().unwrap();
        for _ in 0..100 {
            assert!(watched.alive());
            watched.memory().unwrap();
            watched.major_faults().unwrap();
        }
        // The end of `status` is a read of its own.
        assert_eq!(reads().unwrap() - before - own, 300);
    }

    #[test]
    fn another_process_with_its_number_is_never_it() {
        let own = Handle::new(std::process::id()).unwrap();
        let earlier = Handle {
            started: own.started + 1,
            ..own
        };
        assert!(!Watched::new(earlier).alive());
    }
}
