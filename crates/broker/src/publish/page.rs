//! Page files. Written with `pwrite`, never through a mapping: whoever truncates a page file must
//! not bring the broker down with SIGBUS.

use crate::error::Error;
use crate::own_name::OwnName;
use crate::server::listener::{advice, make_directory};
use plimsoll_wire::messages::Id;
use plimsoll_wire::page::{Numbers, PAGE_SIZE, PageImage, Step};
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

/// A page is looked at this often, whether it is still whole, ns.
const CHECK_NS: u64 = 5_000_000_000;
/// `f_type` of tmpfs (statfs(2)).
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Where the pages are: beside the socket when that is in memory, else on `/dev/shm`, where a
/// write costs no disk.
#[derive(Debug)]
pub struct PageDirectory {
    path: PathBuf,
    /// Made by us outside of the broker's own directory: removed when we leave.
    own: bool,
}

impl PageDirectory {
    /// Chooses and makes it, and removes pages that a broker before us left: their readers see
    /// that the heartbeat is old, and join again. `tag` tells our directory from other brokers'.
    ///
    /// # Errors
    /// [`Error::Path`], [`Error::Unsafe`] when neither place can be used.
    pub fn open(beside: &Path, tag: u32, everybody: bool) -> Result<PageDirectory, Error> {
        let parent = beside.parent().unwrap_or(beside);
        let uid = rustix::process::geteuid().as_raw();
        let elsewhere = PathBuf::from(format!("/dev/shm/plimsoll-{uid}-{tag:08x}"));
        let use_elsewhere = !is_tmpfs(parent) && is_tmpfs(Path::new("/dev/shm"));
        if use_elsewhere && make_directory(&elsewhere, everybody).is_ok() {
            clear(&elsewhere);
            return Ok(PageDirectory {
                path: elsewhere,
                own: true,
            });
        }
        make_directory(beside, everybody)?;
        clear(beside);
        Ok(PageDirectory {
            path: beside.into(),
            own: false,
        })
    }

    /// The path of a principal's page.
    #[must_use]
    pub fn path_of(&self, id: Id) -> PathBuf {
        self.path.join(id.to_string())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PageDirectory {
    fn drop(&mut self) {
        if self.own {
            clear(&self.path);
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

fn is_tmpfs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|status| status.f_type as u64 == TMPFS_MAGIC)
}

/// Removes the files whose names are numbers, as pages' are (and half-made ones).
pub fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name
            .trim_end_matches(".new")
            .bytes()
            .all(|byte| byte.is_ascii_digit())
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The page of one principal.
#[derive(Debug)]
pub struct PageFile {
    name: OwnName,
    fd: OwnedFd,
    image: PageImage,
    last: Numbers,
    written: u64,
    checked: u64,
}

impl PageFile {
    /// Makes the file whole before it gets its name, so that nobody maps half a page. All of its
    /// bytes are written: on a full tmpfs this fails, later writes cannot.
    ///
    /// # Errors
    /// [`Error::Path`] that says what to do.
    pub fn create(path: &Path, id: Id) -> Result<PageFile, Error> {
        let image = PageImage::new(id);
        let fd = make_file(path, &image)?;
        Ok(PageFile {
            name: OwnName::new(path),
            fd,
            image,
            last: Numbers::default(),
            written: 0,
            checked: 0,
        })
    }

    /// Publishes these numbers; `now` (ns) is the heartbeat, and all that is written when they are
    /// those of last time.
    ///
    /// # Errors
    /// [`Error::Path`] when the file system refuses; the next publication tries again.
    pub fn publish(&mut self, numbers: &Numbers, now: u64) -> Result<(), Error> {
        self.written = now;
        if *numbers == self.last && self.image.generation() > 0 {
            return write(&self.fd, self.name.path(), self.image.heartbeat(now));
        }
        self.publish_all(numbers, now)
    }

    fn publish_all(&mut self, numbers: &Numbers, now: u64) -> Result<(), Error> {
        self.last = *numbers;
        for step in self.image.publish(numbers, now) {
            write(&self.fd, self.name.path(), step)?;
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    /// Says "still here" unless something was published within `interval` ns; every few seconds,
    /// mends the file when somebody truncated, removed or replaced it.
    ///
    /// # Errors
    /// As [`PageFile::publish`].
    pub fn beat(&mut self, now: u64, interval: u64) -> Result<(), Error> {
        if now.saturating_sub(self.checked) >= CHECK_NS {
            self.checked = now;
            self.mend(now)?;
        }
        if now.saturating_sub(self.written) < interval {
            return Ok(());
        }
        self.written = now;
        write(&self.fd, self.name.path(), self.image.heartbeat(now))
    }

    fn mend(&mut self, now: u64) -> Result<(), Error> {
        let status = rustix::fs::fstat(&self.fd);
        let whole =
            |status: &rustix::fs::Stat| status.st_size == PAGE_SIZE as i64 && status.st_nlink > 0;
        if status.as_ref().is_ok_and(whole) {
            return Ok(());
        }
        let path = self.name.path().to_path_buf();
        tracing::warn!(path = %path.display(), "the page was truncated, removed or replaced by somebody; it is made again");
        self.fd = make_file(&path, &self.image)?;
        self.name = OwnName::new(&path);
        let last = self.last;
        self.publish_all(&last, now)
    }

    /// Counts changes of the numbers.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.image.generation()
    }

    /// Where it is.
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
    // The umask may have taken bits away; the reader may be another user.
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
