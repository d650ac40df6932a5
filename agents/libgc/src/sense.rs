//! What the process can tell about itself. Nothing here allocates, because it also runs inside
//! collections. No descriptor is kept open, because programs close or reuse descriptors that they
//! do not know.

use std::ffi::CStr;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads the first bytes of a file. Returns how many, or `None` if it cannot be read.
pub fn read_file(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    // SAFETY: `path` ends with NUL.
    let file = unsafe {
        libc::open(
            path.as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK,
        )
    };
    if file < 0 {
        return None;
    }
    // SAFETY: the buffer is valid for its length, and `file` was just opened here.
    let got = unsafe { libc::pread(file, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    // SAFETY: closes what was opened above, once.
    unsafe { libc::close(file) };
    usize::try_from(got).ok()
}

/// Anonymous memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In memory.
    pub resident: u64,
    /// In swap.
    pub swapped: u64,
}

/// Reads `/proc/self/status`; if that is too long, or from another sandbox, `statm` (proc(5)).
pub fn memory() -> Option<Memory> {
    let mut buffer = [0u8; 4096];
    let got = read_file(c"/proc/self/status", &mut buffer).unwrap_or(0);
    if let Some(memory) = parse_status(&buffer[..got]) {
        return Some(memory);
    }
    let got = read_file(c"/proc/self/statm", &mut buffer)?;
    let resident = parse_statm(&buffer[..got])? * page_size();
    Some(Memory {
        resident,
        swapped: 0,
    })
}

fn parse_status(text: &[u8]) -> Option<Memory> {
    let field = |name: &str| {
        let line = text
            .split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(name.as_bytes()))?;
        let line = std::str::from_utf8(line).ok()?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(Memory {
        resident: field("RssAnon:")?,
        swapped: field("VmSwap:")?,
    })
}

fn page_size() -> u64 {
    // SAFETY: no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn parse_statm(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let mut fields = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let resident = fields.next()?.ok()?;
    let shared = fields.next()?.ok()?;
    Some(resident.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statm_is_read_and_bad_text_is_refused() {
        assert_eq!(parse_statm(b"100 40 15 1 0 20 0\n"), Some(25));
        assert_eq!(parse_statm(b"100 10 15 1 0 20 0\n"), Some(0));
        assert_eq!(parse_statm(b""), None);
        assert_eq!(parse_statm(b"1 x y"), None);
        assert_eq!(parse_statm(&[0xff, 0xfe]), None);
    }

    #[test]
    fn status_is_read_and_bad_text_is_refused() {
        let text =
            b"Name:\tx\nVmRSS:\t 9 kB\nRssAnon:\t     144 kB\nVmSwap:\t  8 kB\nThreads:\t1\n";
        let expected = Memory {
            resident: 144 << 10,
            swapped: 8 << 10,
        };
        assert_eq!(parse_status(text), Some(expected));
        for bad in [
            &b""[..],
            b"RssAnon:\t1 kB\n",
            b"RssAnon:\t1 kB\nVmSwap:\t",
            b"RssAnon:\tx kB\nVmSwap:\t1 kB\n",
            b"RssAnon:\t\xff kB\nVmSwap:\t1 kB\n",
            b"RssAnon:\t18446744073709551615 kB\nVmSwap:\t1 kB\n",
        ] {
            assert_eq!(parse_status(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn own_memory_shows_what_was_touched() {
        let resident = || memory().expect("status is readable").resident;
        let before = resident();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let after = resident();
        assert!(after >= before + (30 << 20), "{before} {after}");
        drop(block);
    }

    #[test]
    fn an_absent_file_is_none() {
        assert_eq!(read_file(c"/nonexistent/file", &mut [0; 8]), None);
    }
}
