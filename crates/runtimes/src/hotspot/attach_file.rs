//! The file that makes a machine open its attach socket.

use crate::process::Process;
use plimsoll_kernel::descriptors::path_of;
use plimsoll_kernel::identity::as_user;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

/// A program whose file is no older than this is about to attach, seconds.
const AT_WORK: i64 = 60;
/// Mode bits that let others than the owner write.
const OF_OTHERS: u32 = 0o022;

/// A file that turns `SIGQUIT` from "print all threads" into "open the socket" while it lies in the
/// working directory or in the `/tmp` of a machine. Removed when dropped.
#[derive(Debug)]
pub(super) struct Trigger {
    /// Where it lies.
    directory: OwnedFd,
    /// Its name there.
    name: String,
    /// User and group of the machine.
    owner: (u32, u32),
    /// Whether it is left behind when this is dropped.
    stays: bool,
}

/// Why no file was placed.
#[derive(Debug)]
pub(super) enum Refused {
    /// A file of this other user lies where the machine looks first. The machine would ignore it.
    InTheWay(u32),
    /// The system refused.
    System(Errno),
}

/// Places the file in the machine's `/tmp`. Places it in the working directory instead if others
/// may write there, because the machine looks there first, or if `/tmp` cannot be written. The file
/// belongs to the machine's user, or the machine would ignore it. `None` if another program has
/// just placed one: a second signal would print all threads.
pub(super) fn place(
    process: &Process,
    tmp: &OwnedFd,
    inner_pid: u32,
    owner: (u32, u32),
) -> Result<Option<Trigger>, Refused> {
    let name = format!(".attach_pid{inner_pid}");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let cwd = rustix::fs::open(process.path("cwd"), flags, Mode::empty()).ok();
    if let Some(by) = cwd.as_ref().and_then(|cwd| stranger(cwd, &name, owner.0)) {
        return Err(Refused::InTheWay(by));
    }
    let mut places = vec![tmp];
    if let Some(cwd) = &cwd {
        let at = usize::from(!is_open_to_others(cwd));
        places.insert(at, cwd);
    }
    if places.iter().any(|place| is_at_work(place, &name, owner.0)) {
        return Ok(None);
    }
    let mut refused = Refused::System(Errno::ACCESS);
    for place in places {
        if let Some(by) = stranger(place, &name, owner.0) {
            refused = Refused::InTheWay(by);
            continue;
        }
        match Trigger::make(place, &name, owner) {
            Ok(trigger) => return Ok(Some(trigger)),
            Err(errno) => refused = Refused::System(errno),
        }
    }
    Err(refused)
}

/// The metadata of `name` in `directory`. Follows no link.
fn look(directory: &OwnedFd, name: &str) -> Option<std::fs::Metadata> {
    std::fs::symlink_metadata(path_of(directory).join(name)).ok()
}

/// Whether a machine of user `uid` follows this file: it must belong to that user or root.
fn is_heeded(found: &std::fs::Metadata, uid: u32) -> bool {
    found.uid() == uid || found.uid() == 0
}

/// The owner of a file that lies there and that the machine ignores.
fn stranger(directory: &OwnedFd, name: &str, uid: u32) -> Option<u32> {
    let found = look(directory, name)?;
    (!found.is_file() || !is_heeded(&found, uid)).then(|| found.uid())
}

/// Whether another program is about to attach. An older file was left by a program that died.
fn is_at_work(directory: &OwnedFd, name: &str, uid: u32) -> bool {
    let now = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    look(directory, name).is_some_and(|found| {
        let fresh = now.saturating_sub(found.ctime()) < AT_WORK;
        fresh && found.is_file() && is_heeded(&found, uid)
    })
}

fn is_open_to_others(directory: &OwnedFd) -> bool {
    std::fs::metadata(path_of(directory)).map_or(true, |found| found.mode() & OF_OTHERS != 0)
}

impl Trigger {
    fn make(place: &OwnedFd, name: &str, owner: (u32, u32)) -> rustix::io::Result<Trigger> {
        let own = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
        let directory = place.try_clone().map_err(own)?;
        let (uid, gid) = owner;
        let file = as_user(uid, gid, || create(&directory, name)).map_err(own)??;
        let trigger = Trigger {
            directory,
            name: name.to_owned(),
            owner,
            stays: false,
        };
        // Without the right to act as that user, we may still have the right to give the file away.
        if rustix::fs::fstat(&file)?.st_uid != uid {
            rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(trigger)
    }

    /// Drops the trigger but leaves the file, because a signal may still be on its way.
    pub(super) fn leave(mut self) {
        self.stays = true;
    }
}

fn create(directory: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(directory, name, flags, mode) {
        // Left by a program that died.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            rustix::fs::openat(directory, name, flags, mode)
        }
        other => other,
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let remove = || rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        if !matches!(as_user(self.owner.0, self.owner.1, remove), Ok(Ok(()))) {
            let _ = remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};
    use std::path::Path;

    /// Tries to place a file in `tmp` for our own process. It is gone afterwards.
    fn placed(tmp: &Path) -> Result<Option<()>, Refused> {
        let directory = OwnedFd::from(std::fs::File::open(tmp).unwrap());
        let owner = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let process = Process::new(std::process::id()).unwrap();
        let trigger = place(&process, &directory, u32::MAX, owner)?;
        let cwd = std::env::current_dir().unwrap();
        let there = |folder: &Path| folder.join(NAME).is_file();
        assert!(trigger.is_none() || there(tmp) || there(&cwd));
        Ok(trigger.map(drop))
    }

    /// No process has that number.
    const NAME: &str = ".attach_pid4294967295";

    #[test]
    fn it_is_there_as_long_as_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(placed(dir.path()), Ok(Some(()))));
        assert!(!dir.path().join(NAME).exists());
    }

    #[test]
    fn who_comes_while_another_is_at_work_waits() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NAME), "").unwrap();
        assert!(matches!(placed(dir.path()), Ok(None)));
        assert!(dir.path().join(NAME).exists());
    }

    #[test]
    fn what_somebody_else_put_there_is_neither_followed_nor_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, goal) = (dir.path().join(NAME), dir.path().join("goal"));
        symlink(&goal, &file).unwrap();
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(stranger(&directory, NAME, own), Some(own));
        // The file goes to the working directory instead.
        let _ = placed(dir.path());
        assert!(!goal.exists() && file.is_symlink());
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(stranger(&directory, NAME, own), None);
        if chown(&file, Some(4711), None).is_ok() {
            assert_eq!(stranger(&directory, NAME, own), Some(4711));
        }
    }
}
