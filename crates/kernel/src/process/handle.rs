//! A process, named by its number and its start time. Holds nothing open, so that a handle may be
//! copied and kept for long; each call opens what it reads. Use [`super::Process`] for reads at
//! every tick.

use super::proc_path::living_thread;
use super::{
    Memory, Stat, Status, parse_stat, parse_status, parse_status_signals, place, proc_path,
    text_through, through,
};
use crate::Error;
use crate::descriptors::file_of;
use crate::sched::parse_schedstat;
use plimsoll_unit::{Nanos, SECOND};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::time::ClockId;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The most that is read of a process's memory map, bytes: about 100,000 mappings.
pub(crate) const MAX_MAPS: u64 = 16 << 20;
/// The most that is read of a process's arguments or of its environment, bytes.
const MAX_WORDS: u64 = 4 << 20;
/// Longest `status` that is read, bytes; a process may be in 65,536 groups.
const MAX_STATUS: usize = 1 << 20;
/// The most threads of a process that are looked at.
const MAX_THREADS: usize = 65_536;

/// The program of a process, which an exec changes: the kernel places the stack anew, and the file may be
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Address at which the stack begins.
    stack: u64,
    /// The executable: the device's numbers and the inode.
    file: FileNumbers,
}

/// A file: major and minor number of its device, and its inode.
type FileNumbers = (u32, u32, u64);

/// The file at a path of `/proc`. Asks no server that it may be behind.
fn numbers_at(path: PathBuf) -> Option<FileNumbers> {
    let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino))
}

/// A process that was alive when it was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// Its number in our pid namespace.
    pub pid: u32,
    /// Clock ticks after boot at which it started.
    pub started: u64,
}

impl Handle {
    /// Looks a process up.
    ///
    /// # Errors
    /// The system's error; `InvalidData` for a zombie.
    pub fn new(pid: u32) -> io::Result<Handle> {
        let mut process = Handle { pid, started: 0 };
        process.started = process.start_time()?;
        Ok(process)
    }

    /// Whether it still runs, is not a zombie, and still has its number.
    pub fn alive(&self) -> bool {
        self.start_time().is_ok_and(|t| t == self.started)
    }

    /// `/proc/PID/<name>`, or that of a living thread, as [`place()`].
    pub fn path(&self, name: &str) -> PathBuf {
        place(self.pid, name)
    }

    /// Opens its memory for reading: an address is an offset. Nothing can be read once the process has ended
    /// or become another program.
    ///
    /// # Errors
    /// The system's error; `PermissionDenied` without the rights of a debugger.
    pub fn memory_file(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(self.path("mem"), flags, Mode::empty())?)
    }

    /// Whether it has our root and our mounts, so that a path means the same to both. Asks no server that
    /// a root may be behind.
    pub fn sees_our_files(&self) -> bool {
        ["ns/mnt", "root"].into_iter().all(|name| {
            let theirs = numbers_at(self.path(name));
            theirs.is_some() && theirs == numbers_at(place("self", name))
        })
    }

    /// The program that it runs, to be compared with that of another moment. Equal ones are the same program,
    /// unless addresses are not random (`personality(2)`) and it started itself again. `None` where that is
    /// hidden, and when it has ended.
    pub fn image(&self) -> Option<Image> {
        let stat = self.stat().ok()?;
        let is_shown = stat.start_time == self.started && stat.stack > 0;
        let file = numbers_at(proc_path(self.pid, "exe")).filter(|_| is_shown)?;
        Some(Image {
            stack: stat.stack,
            file,
        })
    }

    /// Opens a directory below the root directory of the process. Links are followed inside that
    /// root only, so that a link in a container cannot lead us out of it.
    ///
    /// # Errors
    /// The system's error; `NotFound` when the process is gone.
    pub fn inner_directory(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.path("root"), flags | OFlags::PATH, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&root, name, flags, Mode::empty(), resolve) {
            Err(Errno::NOSYS) => Ok(rustix::fs::openat(
                &root,
                name,
                flags | OFlags::NOFOLLOW,
                Mode::empty(),
            )?),
            other => Ok(other?),
        }
    }

    /// Opens the process's `/tmp`. If the process is our user's but has capabilities that we lack,
    /// its root is closed to us. Then this is our own `/tmp`, and the caller must prove that files
    /// there belong to the process.
    ///
    /// # Errors
    /// The system's error; `NotFound` when the process is gone.
    pub fn tmp(&self) -> io::Result<OwnedFd> {
        let closed = match self.inner_directory("tmp") {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => e,
            other => return other,
        };
        if self.status()?.levels != 1 {
            return Err(closed);
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::open("/tmp", flags, Mode::empty())?)
    }

    /// When the process started: seconds since 1970, by the present setting of the clock.
    ///
    /// # Errors
    /// A clock with an impossible time.
    pub fn started_at(&self) -> io::Result<i64> {
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let second = |clock| rustix::time::clock_gettime(clock).tv_sec;
        let lives = second(ClockId::Boottime)
            .checked_sub_unsigned(self.started / ticks)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(second(ClockId::Realtime).saturating_sub(lives))
    }

    /// Sends a signal to exactly this process, never to a later one with its number.
    ///
    /// # Errors
    /// The system's error; `NotFound` when the process is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(gone)?;
        let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            // Linux before 5.3.
            Err(Errno::NOSYS) if self.alive() => {
                return Ok(rustix::process::kill_process(pid, signal)?);
            }
            Err(e) => return Err(e.into()),
        };
        // The descriptor belongs to the process that had the number when it was opened.
        if !self.alive() {
            return Err(gone());
        }
        Ok(rustix::process::pidfd_send_signal(fd, signal)?)
    }

    /// Processor time of all its threads so far (clock_getcpuclockid(3)); `None` if it is gone.
    pub fn processor(&self) -> Option<Nanos> {
        let pid = i32::try_from(self.pid).ok()?;
        let (mut clock, mut time) = (0, MaybeUninit::<libc::timespec>::uninit());
        // SAFETY: both are written to within their size; the time is read only when the kernel has filled it.
        let time = unsafe {
            if libc::clock_getcpuclockid(pid, &mut clock) != 0
                || libc::clock_gettime(clock, time.as_mut_ptr()) != 0
            {
                return None;
            }
            time.assume_init()
        };
        let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        Some(Nanos::seconds(seconds.ok()?) + Nanos(rest.ok()?))
    }

    /// Time for which its threads ran in the program itself so far, without time in the
    /// kernel; `None` if it is gone.
    pub fn user(&self) -> Option<Nanos> {
        let stat = self
            .stat()
            .ok()
            .filter(|stat| stat.start_time == self.started)?;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        Some(Nanos(SECOND / ticks) * stat.user_ticks)
    }

    /// Its major faults so far: pages that it had to wait for from the disk.
    pub fn major_faults(&self) -> Option<u64> {
        Some(self.stat().ok()?.faults.major)
    }

    /// The memory that it holds, by kind, with swap. Shared pages that it maps several times count
    /// several times.
    ///
    /// # Errors
    /// The system's error; `NotFound` when the process is gone.
    pub fn memory(&self) -> io::Result<Memory> {
        let says_nothing = |text: &Vec<u8>| parse_status(text) == Memory::default();
        let text = text_through(self.pid, "status", MAX_STATUS, says_nothing)?;
        Ok(parse_status(&text))
    }

    /// Its identities, and its state for signals.
    ///
    /// # Errors
    /// As [`Handle::memory`].
    pub fn status(&self) -> io::Result<Status> {
        let text = std::fs::read(proc_path(self.pid, "status"))?;
        parse_status_signals(&text).ok_or_else(|| malformed("status"))
    }

    /// The arguments that it was started with, its own name first. `None` if they are longer than 4 MiB,
    /// cannot be read, or were written over by something that has no end.
    pub fn arguments(&self) -> Option<Vec<OsString>> {
        let text = self.whole("cmdline")?;
        let words = text.strip_suffix(b"\0")?.split(|&byte| byte == 0);
        Some(
            words
                .map(|word| OsString::from_vec(word.to_vec()))
                .collect(),
        )
    }

    /// The environment that it was started with, names with values. `None` if it is longer than 4 MiB or
    /// cannot be read.
    pub fn variables(&self) -> Option<Vec<(OsString, OsString)>> {
        let text = self.whole("environ")?;
        let variable = |word: &[u8]| {
            let at = word.iter().position(|&byte| byte == b'=')?;
            let (name, value) = (word[..at].to_vec(), word[at + 1..].to_vec());
            Some((OsString::from_vec(name), OsString::from_vec(value)))
        };
        Some(text.split(|&byte| byte == 0).filter_map(variable).collect())
    }

    /// Whether one of its threads has this name. Looks at 65,536 threads at most.
    pub fn has_thread(&self, name: &[u8]) -> bool {
        self.threads_named(|it| it == name).next().is_some()
    }

    /// Processor time of one of its threads so far; `None` if it has none of this number, or the
    /// kernel does not count (`CONFIG_SCHED_INFO`).
    pub fn thread_processor(&self, tid: i32) -> Option<Nanos> {
        let text = std::fs::read(proc_path(self.pid, &format!("task/{tid}/schedstat"))).ok()?;
        Some(parse_schedstat(&text)?.ran)
    }

    /// The numbers of its threads whose names, of up to 15 bytes, pass `is`. Looks at 65,536 threads at most.
    pub fn threads_named(&self, is: impl Fn(&[u8]) -> bool) -> impl Iterator<Item = i32> {
        let threads = std::fs::read_dir(proc_path(self.pid, "task"));
        let threads = threads.into_iter().flatten().flatten().take(MAX_THREADS);
        threads.filter_map(move |thread| {
            let comm = std::fs::read(thread.path().join("comm")).ok()?;
            is(comm.strip_suffix(b"\n")?).then_some(())?;
            thread.file_name().to_str()?.parse().ok()
        })
    }

    /// Files that stand for the process, to be locked by `flock(2)`: its environment, which is not read, as
    /// it lies in our `/proc`, and in its own if that is another mount. None where we may not look into the
    /// process. Locks of one mount are not seen in another, but whoever looks into the process sees its own.
    /// When its first thread has ended, these are other files than before.
    pub fn lockable(&self) -> Vec<OwnedFd> {
        self.in_each_proc(&self.path("environ"), "environ")
    }

    /// As [`Handle::lockable`], its directory, which stays the same when its first thread ends. Anybody may
    /// open and lock it.
    pub fn directories(&self) -> Vec<OwnedFd> {
        self.in_each_proc(&proc_path(self.pid, "."), ".")
    }

    /// Whether its first thread has ended while others go on.
    pub fn has_lost_its_first(&self) -> bool {
        living_thread(self.pid).is_some()
    }

    /// The files at a path in our `/proc` and under this name in the process's own `/proc`.
    fn in_each_proc(&self, ours: &Path, name: &str) -> Vec<OwnedFd> {
        let ours = File::open(ours).map(OwnedFd::from);
        let mut files: Vec<OwnedFd> = ours.into_iter().collect();
        if let Some(inner) = self.in_inner_proc(name)
            && files.iter().all(|file| file_of(file) != file_of(&inner))
        {
            files.push(inner);
        }
        files
    }

    /// The file with this name in the process's own `/proc`, if the process has its own number there.
    fn in_inner_proc(&self, name: &str) -> Option<OwnedFd> {
        let proc = self.inner_directory("proc").ok()?;
        let on = rustix::fs::fstatfs(&proc).ok()?;
        if on.f_type as libc::c_long != libc::PROC_SUPER_MAGIC {
            return None;
        }
        let inner = self.status().ok()?.inner_pid;
        let open = |name: &str| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&proc, format!("{inner}/{name}"), flags, Mode::empty()).ok()
        };
        let found = open(name)?;
        // Read afterwards: if the number is this process's now, it was when the other file was opened.
        let mut stat = Vec::new();
        File::from(open("stat")?).read_to_end(&mut stat).ok()?;
        let started = parse_stat(&stat)?.start_time;
        (started == self.started).then_some(found)
    }

    /// One of its files; `None` if it is longer than [`MAX_WORDS`] or cannot be read.
    fn whole(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = beginning(self.pid, name, MAX_WORDS + 1)?;
        (bytes.len() as u64 <= MAX_WORDS).then_some(bytes)
    }

    fn stat(&self) -> io::Result<Stat> {
        parse_stat(&std::fs::read(proc_path(self.pid, "stat"))?).ok_or_else(|| malformed("stat"))
    }

    fn start_time(&self) -> io::Result<u64> {
        let stat = self.stat()?;
        if stat.has_ended() {
            Err(malformed("stat"))
        } else {
            Ok(stat.start_time)
        }
    }
}

/// The value of a variable in the environment that a process was started with. `None` if it was not
/// set or the environment cannot be read. At most 4 MiB of the environment are looked at.
pub fn variable_of(pid: u32, name: &str) -> Option<Vec<u8>> {
    let environment = beginning(pid, "environ", MAX_WORDS)?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = |variable: &[u8]| {
        let value = variable.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=").map(<[u8]>::to_vec)
    };
    variables.find_map(value)
}

/// Up to `most` bytes of a file of a process.
fn beginning(pid: u32, name: &str, most: u64) -> Option<Vec<u8>> {
    let read = |path: &Path| {
        let mut bytes = Vec::new();
        let file = File::open(path);
        let read = file.and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|error| Error::of_io("read", path, &error))?;
        Ok(bytes)
    };
    through(pid, name, Vec::is_empty, read).ok()
}

fn malformed(file: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Bytes;

    #[test]
    fn a_process_started_when_it_did() {
        let own = Handle::new(std::process::id()).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let started = own.started_at().unwrap();
        assert!(
            started <= now + 1 && now - started < 86_400,
            "{started} {now}"
        );
    }

    #[test]
    fn a_number_that_belongs_to_another_process_is_not_it() {
        let own = Handle::new(std::process::id()).unwrap();
        let before = Handle {
            started: own.started - 1,
            ..own
        };
        assert!(own.alive() && !before.alive());
        assert!(own.sees_our_files());
        assert!(before.signal(Signal::URG).is_err());
        assert!(Handle::new(0).is_err());
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(own.status().unwrap().euid, user);
        assert!(own.memory().unwrap().anon > Bytes(0));
    }

    #[test]
    fn the_variables_that_a_process_was_started_with_are_told() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("PLIMSOLL_TEST_VARIABLE", "a=b")
            .spawn()
            .unwrap();
        // Until its exec the child has our environment.
        let told = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            variable_of(child.id(), "PLIMSOLL_TEST_VARIABLE")
        });
        let prefix = variable_of(child.id(), "PLIMSOLL_TEST");
        let handle = Handle::new(child.id()).unwrap();
        let (arguments, variables) = (handle.arguments(), handle.variables());
        let named = handle.has_thread(b"sleep");
        let prefix_named = handle.has_thread(b"slee");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(named && !prefix_named && !handle.has_thread(b"sleep"));
        assert_eq!(arguments.unwrap(), ["sleep", "60"]);
        let pair = ["PLIMSOLL_TEST_VARIABLE", "a=b"].map(OsString::from);
        assert!(variables.unwrap().contains(&pair.into()));
        // A process that has ended has no arguments.
        assert_eq!(handle.arguments(), None);
        assert_eq!(told.as_deref(), Some(&b"a=b"[..]));
        assert_eq!(prefix, None);
        assert_eq!(variable_of(0, "PATH"), None);
    }
}
