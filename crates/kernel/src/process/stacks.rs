//! Stack pointers of the threads of a process, as far as the kernel shows them. Source: kernel
//! document `proc.rst` 1.1 (`syscall`); `proc_pid_syscall(5)`.

use super::{Process, proc_path};
use crate::parse::{hexadecimal, lines, number, words};
use crate::reader::Reader;
use crate::{Error, Result};
use plimsoll_unit::Bytes;

/// Where the threads of a process have their stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackPointers {
    /// An address in the stack of each thread that waits.
    pub known: Vec<u64>,
    /// Threads that run now, whose stack pointer changes all the time, or that were not asked.
    pub unknown: usize,
}

/// Asks at most `max` threads, 5 us each. No thread is stopped for it.
///
/// # Errors
/// [`Error::Denied`] without the rights of a debugger; [`Error::Gone`].
pub fn stack_pointers(process: &Process, max: usize) -> Result<StackPointers> {
    let path = proc_path(process.pid(), "task");
    let tasks = std::fs::read_dir(&path).map_err(|e| {
        let errno = rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO);
        Error::of_file("read", &path, errno)
    })?;
    let mut found = StackPointers::default();
    let mut buffer = [0; 512];
    for (index, task) in tasks.flatten().enumerate() {
        if index >= max {
            found.unknown += 1;
            continue;
        }
        let text = Reader::open(task.path().join("syscall")).and_then(|reader| {
            let text = reader.read_line(&mut buffer)?;
            Ok(parse_stack_pointer(text))
        });
        match text {
            Ok(Some(pointer)) => found.known.push(pointer),
            Ok(None) => found.unknown += 1,
            Err(error) if error.is_denied() => return Err(error),
            // The thread ended, or the kernel was built without this file.
            Err(_) => found.unknown += 1,
        }
    }
    if process.alive() {
        Ok(found)
    } else {
        Err(Error::Gone { pid: process.pid() })
    }
}

/// The size of new stacks (the soft limit); `None` if it is unlimited.
///
/// # Errors
/// As [`Process::memory`].
pub fn stack_limit(process: &Process) -> Result<Option<Bytes>> {
    let reader = Reader::open(proc_path(process.pid(), "limits"))?;
    let mut buffer = [0; 4096];
    Ok(parse_stack_limit(reader.read(&mut buffer)?))
}

/// Parses `Max stack size  SOFT  HARD  bytes`.
pub fn parse_stack_limit(text: &[u8]) -> Option<Bytes> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Max stack size"))?;
    number(words(line).next()?).map(Bytes)
}

/// The last but one word of `running`, `-1 SP PC` or `NUMBER six arguments SP PC`.
pub fn parse_stack_pointer(text: &[u8]) -> Option<u64> {
    let mut last = None;
    let mut before = None;
    for word in words(text.trim_ascii()) {
        before = last;
        last = Some(word);
    }
    hexadecimal(before?.strip_prefix(b"0x")?).filter(|&pointer| pointer != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read_and_noise_is_none() {
        for (text, pointer) in [
            (&b"running\n"[..], None),
            (b"", None),
            (b"-1 0x7ffd10 0x7f00\n", Some(0x7f_fd10)),
            (b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7f10 0x7f20\n", Some(0x7f10)),
            (b"-1 0x0 0x0", None),
            (b"0xzz 0x1", None),
        ] {
            assert_eq!(parse_stack_pointer(text), pointer);
        }
    }

    #[test]
    fn a_stack_limit_is_read() {
        let text = b"Max cpu time  unlimited  unlimited seconds\nMax stack size   8388608  unlimited bytes\n";
        assert_eq!(parse_stack_limit(text), Some(Bytes(8 << 20)));
        for none in [
            &b""[..],
            b"Max stack size",
            b"Max stack size unlimited unlimited bytes",
        ] {
            assert_eq!(parse_stack_limit(none), None);
        }
        assert!(stack_limit(&Process::own().unwrap()).is_ok());
    }

    #[test]
    fn waiting_threads_show_where_their_stack_is() {
        let own = Process::own().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let local = 0u8;
            tell.send(&raw const local as u64).unwrap();
            let _ = ended.recv();
        });
        let address = told.recv().unwrap();
        let near = |pointers: &StackPointers| {
            pointers
                .known
                .iter()
                .any(|p| p.abs_diff(address) < 64 << 10)
        };
        let found = (0..12_000).find_map(|_| match stack_pointers(&own, 1000) {
            Ok(found) if near(&found) => Some(true),
            Ok(_) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                None
            }
            // Not shown to us here.
            Err(error) => Some(error.is_denied()),
        });
        drop(end);
        thread.join().unwrap();
        assert_eq!(found, Some(true));
    }
}
