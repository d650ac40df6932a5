//! Readings of this process about itself, by `/proc/self` and not by its number: in a pid namespace without a
//! `/proc` of its own, that number is another process's there.

use super::{page_size, parse_statm};
use crate::parse::{lines, number, words};
use plimsoll_unit::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

/// Whether `/proc` names this process by the number that it has for itself, so that it may be looked up by
/// it.
pub fn is_shown() -> bool {
    let named = std::fs::read_link("/proc/self").ok();
    let number = std::process::id().to_string();
    named.is_some_and(|named| named.as_os_str() == number.as_str())
}

/// Whether it is in the machine's own pid namespace, so that its process 1 is the machine's. The kernel
/// gives that namespace a fixed number (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
pub fn is_in_first_namespace() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    namespace.is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

/// The number of its pid namespace. The kernel may give it to another one once nobody is in this one.
pub fn pid_namespace() -> Option<u64> {
    let name = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let number = name.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Its short name, with the end of the line.
///
/// # Errors
/// The system's error; `InvalidData` if it is not UTF-8.
pub fn name() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/comm")
}

/// The file of its program. If that was replaced by a newer version, the kernel still has the old one, and
/// this is the kernel's link to it.
///
/// # Errors
/// The system's error.
pub fn program() -> io::Result<PathBuf> {
    let link = PathBuf::from("/proc/thread-self/exe");
    let own = std::fs::read_link(&link)?;
    if own.exists() { Ok(own) } else { Ok(link) }
}

/// The short names of its threads, each with the end of its line.
pub fn thread_names() -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
}

/// Anonymous memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anonymous {
    /// In memory.
    pub resident: Bytes,
    /// In swap.
    pub swapped: Bytes,
}

/// Reads `/proc/self/status`, or that of this thread where the first one has ended; if it is too long, or
/// from another sandbox, `statm` (proc(5)). Does not allocate and keeps no descriptor, so that it may be
/// called within a collection and in programs that close descriptors that they do not know.
pub fn anonymous() -> Option<Anonymous> {
    let mut buffer = [0u8; 4096];
    for status in [c"/proc/self/status", c"/proc/thread-self/status"] {
        let got = read_beginning(status, &mut buffer).unwrap_or(0);
        if let Some(found) = parse_anonymous(&buffer[..got]) {
            return Some(found);
        }
    }
    let statm = [c"/proc/thread-self/statm", c"/proc/self/statm"];
    let got = statm
        .iter()
        .find_map(|statm| read_beginning(statm, &mut buffer))?;
    Some(Anonymous {
        resident: parse_statm(&buffer[..got], Bytes(page_size()))?.anon(),
        swapped: Bytes::ZERO,
    })
}

/// The addresses that this process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The limit on all of them (`ulimit -v`).
    pub limit: Bytes,
    /// How many it does not have yet.
    pub left: Bytes,
}

/// The limit on addresses, and what is left below it. `None` if there is no limit. If it is not
/// known how many the process has, all count as left. As [`anonymous`], it does not allocate.
pub fn addresses() -> Option<Addresses> {
    let limit = Bytes(getrlimit(Resource::As).current?);
    let mut buffer = [0u8; 256];
    // A first thread that has ended has no pages.
    let mut pages = |statm: &CStr| {
        let got = read_beginning(statm, &mut buffer)?;
        let pages = words(&buffer[..got]).next().and_then(number);
        pages.filter(|&pages| pages > 0)
    };
    let statm = [c"/proc/thread-self/statm", c"/proc/self/statm"];
    let pages = statm.into_iter().find_map(&mut pages).unwrap_or(0);
    Some(Addresses {
        limit,
        left: limit - Bytes(page_size()) * pages,
    })
}

/// Reads the first bytes of a file. Returns how many, or `None` if it cannot be read.
fn read_beginning(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    rustix::io::pread(&file, buffer, 0).ok()
}

/// Unlike [`super::parse_status`], takes no text that was cut before both numbers.
fn parse_anonymous(text: &[u8]) -> Option<Anonymous> {
    let field = |name: &[u8]| {
        let mut words = words(lines(text).find_map(|line| line.strip_prefix(name))?);
        let kib = number(words.next()?)?;
        (words.next()? == b"kB").then_some(())?;
        kib.checked_mul(1024)
    };
    Some(Anonymous {
        resident: Bytes(field(b"RssAnon:")?),
        swapped: Bytes(field(b"VmSwap:")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_read_and_bad_text_is_refused() {
        let text =
            b"Name:\tx\nVmRSS:\t 9 kB\nRssAnon:\t     144 kB\nVmSwap:\t  8 kB\nThreads:\t1\n";
        let expected = Anonymous {
            resident: Bytes(144 << 10),
            swapped: Bytes(8 << 10),
        };
        assert_eq!(parse_anonymous(text), Some(expected));
        for bad in [
            &b""[..],
            b"RssAnon:\t1 kB\n",
            b"RssAnon:\t1 kB\nVmSwap:\t",
            b"RssAnon:\t1 kB\nVmSwap:\t 12",
            b"RssAnon:\tx kB\nVmSwap:\t1 kB\n",
            b"RssAnon:\t\xff kB\nVmSwap:\t1 kB\n",
            b"RssAnon:\t18446744073709551615 kB\nVmSwap:\t1 kB\n",
        ] {
            assert_eq!(parse_anonymous(bad), None, "{bad:?}");
        }
        let statm = |text: &[u8]| parse_statm(text, Bytes(1)).map(|found| found.anon());
        assert_eq!(statm(b"100 40 15 1 0 20 0\n"), Some(Bytes(25)));
        assert_eq!(statm(b"100 10 15 1 0 20 0\n"), Some(Bytes::ZERO));
        assert_eq!(statm(b""), None);
        assert_eq!(statm(b"1 x y"), None);
        assert_eq!(statm(&[0xff, 0xfe]), None);
    }

    /// A limit that is far above what the process has harms no other test.
    #[test]
    fn addresses_are_known_where_there_is_a_limit() {
        use rustix::process::{Rlimit, setrlimit};
        let before = getrlimit(Resource::As);
        let limit = 1 << 46;
        let limited = Rlimit {
            current: Some(limit),
            maximum: before.maximum,
        };
        setrlimit(Resource::As, limited).unwrap();
        let found = addresses().unwrap();
        setrlimit(Resource::As, before).unwrap();
        assert_eq!(found.limit, Bytes(limit));
        assert!(found.left < Bytes(limit) && found.left > Bytes(limit / 2));
    }

    /// Where a copy of this process writes what it found, by one of its threads.
    static TOLD: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

    /// Waits until the first thread has ended, then writes how many bytes of addresses this process has.
    fn tell_addresses() {
        use rustix::process::{Rlimit, setrlimit};
        let limited = Rlimit {
            current: Some(1 << 46),
            maximum: getrlimit(Resource::As).maximum,
        };
        let _ = setrlimit(Resource::As, limited);
        let mut buffer = [0; 256];
        while read_beginning(c"/proc/self/statm", &mut buffer) != Some(14)
            || !buffer.starts_with(b"0 0 0 0 0 0 0\n")
        {
            std::hint::spin_loop();
        }
        let had = addresses().map_or(0, |found| (found.limit - found.left).0);
        // SAFETY: a pipe that the test holds open.
        let pipe = unsafe {
            std::os::fd::BorrowedFd::borrow_raw(TOLD.load(std::sync::atomic::Ordering::Relaxed))
        };
        let _ = rustix::io::write(pipe, &had.to_ne_bytes());
    }

    #[test]
    fn addresses_are_known_when_the_first_thread_has_ended() {
        use std::io::Read;
        use std::os::fd::AsRawFd;
        let (mut from, to) = io::pipe().unwrap();
        TOLD.store(to.as_raw_fd(), std::sync::atomic::Ordering::Relaxed);
        let _child = plimsoll_testbed::Leaderless::running(tell_addresses).unwrap();
        drop(to);
        let mut had = [0; 8];
        from.read_exact(&mut had).unwrap();
        assert!(u64::from_ne_bytes(had) > 1 << 20);
    }

    #[test]
    fn own_memory_shows_what_was_touched() {
        let resident = || anonymous().expect("status is readable").resident;
        let before = resident();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let after = resident();
        assert!(after >= before + Bytes(30 << 20), "{before} {after}");
        drop(block);
    }

    #[test]
    fn an_absent_file_is_none() {
        assert_eq!(read_beginning(c"/nonexistent/file", &mut [0; 8]), None);
    }

    #[test]
    fn this_process_tells_who_it_is() {
        assert!(is_shown());
        let name = name().unwrap();
        assert!(thread_names().any(|thread| thread == name), "{name}");
        assert!(program().unwrap().is_file());
    }
}
