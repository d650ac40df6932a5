//! Page files. They are written with `pwrite` and never through a mapping: truncating a page file
//! must not end the broker with SIGBUS.

use crate::error::Error;
use crate::owned_path::OwnedPath;
use crate::server::listener::advice;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use plimsoll_wire::page::{Numbers, PAGE_SIZE, PageImage, Step};
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

/// Interval at which a page file is checked for damage.
const CHECK: Nanos = Nanos::seconds(5);

/// The page of one principal. Only the deciding thread writes it; any process may read the file.
#[derive(Debug)]
pub struct PageFile {
    /// Its file.
    name: OwnedPath,
    /// The open file.
    fd: OwnedFd,
    /// Its contents.
    image: PageImage,
    /// Numbers published last.
    last: Numbers,
    /// Time of the last publication or heartbeat.
    written: Nanos,
    /// Time of the last check of the file.
    checked: Nanos,
}

impl PageFile {
    /// Writes the whole file before it gets its name, so that nobody maps half a page. All bytes
    /// are written: on a full tmpfs this step fails, and later writes cannot.
    ///
    /// # Errors
    /// [`Error::Path`] that says what to do.
    pub fn create(path: &Path, id: Id) -> Result<PageFile, Error> {
        let image = PageImage::new(id);
        let fd = make_file(path, &image)?;
        Ok(PageFile {
            name: OwnedPath::new(path),
            fd,
            image,
            last: Numbers::default(),
            written: Nanos::ZERO,
            checked: Nanos::ZERO,
        })
    }

    /// Publishes these numbers. `now` is the heartbeat; only the heartbeat is written when the
    /// numbers are unchanged.
    ///
    /// # Errors
    /// [`Error::Path`] when the file system refuses; the next publication tries again.
    pub fn publish(&mut self, numbers: &Numbers, now: Nanos) -> Result<(), Error> {
        self.written = now;
        if *numbers == self.last && self.image.generation() > 0 {
            return write(&self.fd, self.name.path(), self.image.heartbeat(now));
        }
        self.publish_all(numbers, now)
    }

    fn publish_all(&mut self, numbers: &Numbers, now: Nanos) -> Result<(), Error> {
        self.last = *numbers;
        for step in self.image.publish(numbers, now) {
            write(&self.fd, self.name.path(), step)?;
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    /// Renews the heartbeat unless something was published within `interval`. Every few seconds
    /// it repairs the file if somebody truncated, removed or replaced it.
    ///
    /// # Errors
    /// As [`PageFile::publish`].
    pub fn beat(&mut self, now: Nanos, interval: Nanos) -> Result<(), Error> {
        if now - self.checked >= CHECK {
            self.checked = now;
            self.mend(now)?;
        }
        if now - self.written < interval {
            return Ok(());
        }
        self.written = now;
        write(&self.fd, self.name.path(), self.image.heartbeat(now))
    }

    fn mend(&mut self, now: Nanos) -> Result<(), Error> {
        let status = rustix::fs::fstat(&self.fd);
        let whole =
            |status: &rustix::fs::Stat| status.st_size == PAGE_SIZE as i64 && status.st_nlink > 0;
        if status.as_ref().is_ok_and(whole) {
            return Ok(());
        }
        let path = self.name.path().to_path_buf();
        tracing::warn!(path = %path.display(), "the page was truncated, removed or replaced by somebody; \
                                                it is made again");
        self.fd = make_file(&path, &self.image)?;
        self.name = OwnedPath::new(&path);
        let last = self.last;
        self.publish_all(&last, now)
    }

    /// Counts changes of the numbers.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.image.generation()
    }

    /// Numbers published last.
    #[must_use]
    pub fn last(&self) -> &Numbers {
        &self.last
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.name.path()
    }
}

fn make_file(path: &Path, image: &PageImage) -> Result<OwnedFd, Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let _ = std::fs::remove_file(&new);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let refused = |errno| Error::path(path, advice(errno, "the page cannot be made"), errno);
    let fd =
        rustix::fs::open(&new, flags, Mode::RUSR | Mode::RGRP | Mode::ROTH).map_err(refused)?;
    let zeros = [0u8; PAGE_SIZE];
    let filled = write(
        &fd,
        path,
        Step {
            offset: 0,
            bytes: &zeros,
        },
    )
    .and_then(|()| write(&fd, path, image.create()));
    // The umask may have removed bits; the reader may be another user.
    let opened = rustix::fs::fchmod(&fd, Mode::RUSR | Mode::RGRP | Mode::ROTH).map_err(refused);
    let named = filled
        .and(opened)
        .and_then(|()| rustix::fs::rename(&new, path).map_err(refused));
    if let Err(error) = named {
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    Ok(fd)
}

fn write(fd: &OwnedFd, path: &Path, step: Step<'_>) -> Result<(), Error> {
    match rustix::io::pwrite(fd, step.bytes, step.offset) {
        Ok(count) if count == step.bytes.len() => Ok(()),
        Ok(_) => Err(Error::path(
            path,
            "only a part of the page could be written; free some space",
            rustix::io::Errno::NOSPC,
        )),
        Err(errno) => Err(Error::path(
            path,
            advice(errno, "the page cannot be written"),
            errno,
        )),
    }
}
