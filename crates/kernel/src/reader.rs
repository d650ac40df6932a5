//! Kernel files that are read again and again: opened once, read with `pread` into the caller's buffer.

use crate::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Largest text that [`read_text`] accepts, bytes.
pub const MAX_TEXT: usize = 64 << 20;

/// An open kernel file. Under `/proc/PID` it stays bound to one process. When that process is gone,
/// reading fails, even if the number was given to another.
#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
    path: PathBuf,
}

impl Reader {
    /// Opens for reading.
    ///
    /// # Errors
    /// [`Error::Absent`], [`Error::Denied`], [`Error::Gone`] or [`Error::Io`], by errno.
    pub fn open(path: impl Into<PathBuf>) -> Result<Reader> {
        let path = path.into();
        // Kernel files do not block. A file that somebody put in the place of one must not either.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => Ok(Reader { fd, path }),
            Err(errno) => Err(Error::of_file("open", &path, errno)),
        }
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text as it is now, as far as `buffer` reaches. Does not allocate.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        self.read_until(buffer, |_| false)
    }

    /// As [`Reader::read`], for a file of one line. The end of the line ends the text, which saves
    /// a second call.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn read_line<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        self.read_until(buffer, |text| text.last() == Some(&b'\n'))
    }

    fn read_until<'b>(
        &self,
        buffer: &'b mut [u8],
        complete: impl Fn(&[u8]) -> bool,
    ) -> Result<&'b [u8]> {
        let mut filled = 0;
        while filled < buffer.len() && !complete(&buffer[..filled]) {
            match rustix::io::pread(&self.fd, &mut buffer[filled..], filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(Error::of_file("read", &self.path, errno)),
            }
        }
        Ok(&buffer[..filled])
    }

    /// Reads one number (bytes or a count). `None` for `max` and other words.
    ///
    /// # Errors
    /// As [`Reader::open`]; [`Error::Broken`] when there is neither a number nor a word.
    pub fn number(&self) -> Result<Option<u64>> {
        let mut buffer = [0; 64];
        let text = self.read_line(&mut buffer)?.trim_ascii();
        match text.first() {
            None => Err(Error::Broken {
                path: self.path.clone(),
                why: "it is empty",
            }),
            Some(b'0'..=b'9') => match crate::parse::number(text) {
                Some(n) => Ok(Some(n)),
                None => Err(Error::Broken {
                    path: self.path.clone(),
                    why: "not a number",
                }),
            },
            Some(b'-') => Ok(None),
            Some(_) if text == b"max" => Ok(None),
            Some(_) => Err(Error::Broken {
                path: self.path.clone(),
                why: "neither a number nor `max`",
            }),
        }
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Appends the whole text of a file to `out`, at most `max` bytes of it (and [`MAX_TEXT`]). For the
/// paths that do not run every tick.
///
/// # Errors
/// As [`Reader::open`]; `ENOMEM` where there is no memory for the text.
pub fn read_text(path: &Path, max: usize, out: &mut Vec<u8>) -> Result<()> {
    let reader = Reader::open(path)?;
    let max = max.min(MAX_TEXT);
    let mut filled = 0;
    let start = out.len();
    while filled < max {
        if out.len() == start + filled {
            let step = filled.clamp(4 << 10, 64 << 10).min(max - filled);
            if out.try_reserve(step).is_err() {
                out.truncate(start);
                return Err(Error::of_file("read", path, rustix::io::Errno::NOMEM));
            }
            out.resize(start + filled + step, 0);
        }
        match rustix::io::read(&reader.fd, &mut out[start + filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => {
                out.truncate(start);
                return Err(Error::of_file("read", path, errno));
            }
        }
    }
    out.truncate(start + filled);
    Ok(())
}

/// Longest line that [`read_lines`] passes on whole, bytes; of a longer one it passes on pieces.
const MAX_LINE: usize = 64 << 10;

/// Calls `take` with each line of a file, without its end, until `take` returns false or `max` bytes
/// were read. Holds 64 KiB of the text at a time.
///
/// # Errors
/// As [`Reader::open`].
pub fn read_lines(path: &Path, max: u64, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
    let reader = Reader::open(path)?;
    let mut buffer = vec![0u8; MAX_LINE];
    let (mut filled, mut seen) = (0, 0u64);
    while seen < max {
        let got = match rustix::io::read(&reader.fd, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(Error::of_file("read", path, errno)),
        };
        seen += got as u64;
        filled += got;
        let mut start = 0;
        while let Some(length) = buffer[start..filled].iter().position(|&b| b == b'\n') {
            if !take(&buffer[start..start + length]) {
                return Ok(());
            }
            start += length + 1;
        }
        if start == 0 && filled == buffer.len() {
            if !take(&buffer) {
                return Ok(());
            }
            start = filled;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
    if filled > 0 {
        take(&buffer[..filled]);
    }
    Ok(())
}

/// Writes `text` to a kernel file in one `write`.
///
/// # Errors
/// As [`Reader::open`], and [`Error::Busy`] for `EBUSY`.
pub fn write_text(path: &Path, text: &[u8]) -> Result<()> {
    loop {
        match write_once(path, text) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// As [`write_text`], for a write that does work in the kernel: a signal ends it.
///
/// # Errors
/// As [`write_text`]; `EINTR` after a signal.
pub(crate) fn write_once(path: &Path, text: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| Error::of_file("write", path, e))?;
    let written = rustix::io::write(&fd, text);
    written.map_err(|errno| Error::of_file("write", path, errno))?;
    Ok(())
}
