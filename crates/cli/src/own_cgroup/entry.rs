//! The way of a new program into a cgroup. The program enters by itself, before its exec. Where the kernel
//! does not let it (it moves between cgroups whose common parent is root's: cgroup-v2.rst, "Delegation
//! Containment"), it waits until systemd has moved it, for a bounded time, and else runs where it is.

use super::scope::Scope;
use plimsoll_kernel::cgroup::Cgroup;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// How long a program waits to be moved, milliseconds. Longer than systemd is given to answer.
const PATIENCE: i64 = 6_000;

/// A cgroup that a program is to enter.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The cgroup.
    pub dir: PathBuf,
    /// The scope that it is in, whose manager may move processes there.
    scope: Option<Arc<Scope>>,
}

impl Entry {
    /// Into a cgroup that we may move processes to.
    pub fn directly(dir: &Path) -> Entry {
        Entry {
            dir: dir.to_path_buf(),
            scope: None,
        }
    }

    /// Into a cgroup of a scope.
    pub(super) fn through(dir: &Path, scope: Arc<Scope>) -> Entry {
        Entry {
            dir: dir.to_path_buf(),
            scope: Some(scope),
        }
    }

    /// Into another cgroup of the same tree.
    pub fn to(&self, dir: &Path) -> Entry {
        Entry {
            dir: dir.to_path_buf(),
            ..self.clone()
        }
    }

    /// Whether a program that we start may enter.
    pub fn may_enter(&self) -> bool {
        self.scope.is_some() || self.processes().is_some()
    }

    /// Opens the list of its processes. A broker may have told us the directory, so this checks that it is a
    /// cgroup.
    fn processes(&self) -> Option<File> {
        let cgroup = Cgroup::named(&self.dir).ok()?;
        let list = cgroup.dir().join("cgroup.procs");
        OpenOptions::new().write(true).open(list).ok()
    }

    /// The two sides of the way: that of the new process and ours.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open(&self) -> io::Result<(Newcomer, Usher)> {
        let processes = self.processes();
        let Some(scope) = &self.scope else {
            let newcomer = Newcomer {
                processes,
                waits: None,
            };
            return Ok((newcomer, Usher(None)));
        };
        let (asked, asks) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answered, answers) = pipe_with(PipeFlags::CLOEXEC)?;
        let below = self.dir.strip_prefix(scope.dir()).unwrap_or(Path::new(""));
        let reader = answered.try_clone()?;
        let waits = Waits {
            asks,
            answered,
            answers: answers.as_raw_fd(),
        };
        let usher = Moves {
            scope: Arc::clone(scope),
            below: below.to_path_buf(),
            asked,
            answers,
            _reader: reader,
        };
        let newcomer = Newcomer {
            processes,
            waits: Some(waits),
        };
        Ok((newcomer, Usher(Some(usher))))
    }
}

/// The side of the new process, between fork and exec.
#[derive(Debug)]
pub struct Newcomer {
    /// The list of the cgroup's processes, open for writing.
    processes: Option<File>,
    /// How to wait for being moved, where that may be necessary.
    waits: Option<Waits>,
}

#[derive(Debug)]
struct Waits {
    /// Our number is written here; 0 if we are there already.
    asks: OwnedFd,
    /// A byte comes from here once we were moved.
    answered: OwnedFd,
    /// Our copy of the other end of it.
    answers: i32,
}

impl Newcomer {
    /// Enters. If this is refused, the process stays where it is.
    ///
    /// # Safety
    /// Calls only what may be called between fork and exec: `write`, `close`, `poll`, `getpid`,
    /// `clock_gettime`.
    pub unsafe fn enter(&self) {
        // SAFETY: the descriptors are ours and open, and the buffers are on our stack.
        unsafe {
            let entered = self
                .processes
                .as_ref()
                .is_some_and(|list| libc::write(list.as_raw_fd(), c"0".as_ptr().cast(), 1) == 1);
            let Some(waits) = &self.waits else { return };
            let number = if entered { 0 } else { libc::getpid() };
            let number = number.to_ne_bytes();
            let written = libc::write(waits.asks.as_raw_fd(), number.as_ptr().cast(), number.len());
            if entered || written != number.len() as isize {
                return;
            }
            // Without this our own copy would hide that the other side has ended.
            libc::close(waits.answers);
            await_answer(waits.answered.as_raw_fd(), PATIENCE);
        }
    }
}

/// Waits until a descriptor can be read, at most `patience` milliseconds. Signals do not end it: a process
/// that was stopped and goes on must not run before it was moved.
///
/// # Safety
/// The descriptor is open. Calls only what may be called between fork and exec: `clock_gettime` and `poll`.
unsafe fn await_answer(answered: i32, patience: i64) {
    let now = || {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes a variable of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    };
    let end = now() + patience;
    loop {
        let mut ready = libc::pollfd {
            fd: answered,
            events: libc::POLLIN,
            revents: 0,
        };
        let left = (end - now()).clamp(0, patience) as i32;
        // SAFETY: `ready` is ours; `errno` is this thread's.
        let interrupted = unsafe {
            libc::poll(&raw mut ready, 1, left) < 0 && *libc::__errno_location() == libc::EINTR
        };
        if !interrupted || left == 0 {
            return;
        }
    }
}

/// Our side: moves the new process when it asks.
#[derive(Debug)]
pub struct Usher(Option<Moves>);

#[derive(Debug)]
struct Moves {
    scope: Arc<Scope>,
    /// The cgroup, below that of the scope.
    below: PathBuf,
    asked: OwnedFd,
    answers: OwnedFd,
    /// A process that has given up waiting leaves nobody to read, and writing to nobody would end us.
    _reader: OwnedFd,
}

impl Usher {
    /// Whether there is something to do while the process starts.
    pub fn is_needed(&self) -> bool {
        self.0.is_some()
    }

    /// Serves the new process until it has executed its program, or could not be started.
    pub fn serve(self) {
        let Some(moves) = self.0 else { return };
        let mut answers = File::from(moves.answers);
        let mut number = [0; size_of::<i32>()];
        if File::from(moves.asked).read_exact(&mut number).is_err() {
            return;
        }
        let pid = i32::from_ne_bytes(number);
        if pid > 0
            && let Err(error) = moves.scope.attach(&moves.below, pid)
        {
            warn!("process {pid} runs without a cgroup of its own: {error}");
        }
        let _ = answers.write_all(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static HEARD: AtomicU32 = AtomicU32::new(0);

    extern "C" fn heard(_signal: libc::c_int) {
        HEARD.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn signals_do_not_end_the_wait() {
        // SAFETY: the handler only counts, and the signal is one that no other test uses.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            action.sa_sigaction = heard as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
        }
        let (answered, answers) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let waiting = std::thread::spawn(move || {
            // SAFETY: the pipe is open until the thread ends.
            unsafe { await_answer(answered.as_raw_fd(), 60_000) };
        });
        use std::os::unix::thread::JoinHandleExt;
        while HEARD.load(Ordering::SeqCst) < 20 {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGURG) };
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!waiting.is_finished(), "after {HEARD:?} signals");
        }
        File::from(answers).write_all(&[0]).unwrap();
        waiting.join().unwrap();
    }
}
