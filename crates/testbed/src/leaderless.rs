//! A process whose first thread has ended while another goes on, as after `pthread_exit` in `main`.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of the stack of the thread that goes on.
const STACK: usize = 64 << 10;
/// The longest wait for the first thread to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A copy of this process whose first thread has ended. Another one waits for ever. Killed when dropped.
#[derive(Debug)]
pub struct Leaderless {
    pid: i32,
}

extern "C" fn wait(first: *mut libc::c_void) -> libc::c_int {
    // SAFETY: what `running` passed.
    unsafe { (*first.cast::<fn()>())() };
    loop {
        // SAFETY: takes no arguments and is safe after a fork.
        unsafe { libc::pause() };
    }
}

impl Leaderless {
    /// Starts it, and waits until its first thread has ended. It has a copy of our memory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start() -> io::Result<Leaderless> {
        Leaderless::running(|| ())
    }

    /// As [`Leaderless::start`]; the thread that goes on does `first` first. That has to be safe after a fork
    /// of a process with several threads, and to use no variables of a thread: it shares those of the other.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn running(mut first: fn()) -> io::Result<Leaderless> {
        let mut stack = vec![0u128; STACK / size_of::<u128>()];
        let top = stack.as_mut_ptr_range().end;
        // SAFETY: the child calls only `clone`, `pause` and `exit`, which are safe after a fork.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let flags = libc::CLONE_VM
                | libc::CLONE_FS
                | libc::CLONE_FILES
                | libc::CLONE_SIGHAND
                | libc::CLONE_THREAD
                | libc::CLONE_SYSVSEM;
            // SAFETY: the stack is the child's own copy, aligned, and never freed there. `exit` ends this
            // thread alone, and all of the process where no other was made.
            unsafe {
                libc::clone(wait, top.cast(), flags, (&raw mut first).cast());
                libc::syscall(libc::SYS_exit, 0);
            }
            unreachable!("this thread has ended");
        }
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        let started = Leaderless { pid };
        let deadline = Instant::now() + PATIENCE;
        while !started.has_lost_its_first() {
            if Instant::now() > deadline {
                return Err(io::Error::other("the first thread does not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(started)
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    fn has_lost_its_first(&self) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        text.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"))
    }

    /// A program that is such a process: it takes this many bytes, prints `ready`, and stays.
    #[must_use]
    pub fn program(bytes: usize) -> Command {
        let script = format!(
            "import ctypes, threading, time\n\
             def work():\n    \
                 held = bytearray(b'x') * {bytes}\n    \
                 print('ready', flush=True)\n    \
                 while held: time.sleep(1)\n\
             threading.Thread(target=work).start()\n\
             ctypes.CDLL(None).syscall({}, 0)\n",
            libc::SYS_exit
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]);
        command
    }

    /// A program that becomes such a process when a line comes, and prints `ready` before.
    #[must_use]
    pub fn on_order() -> Command {
        let script = format!(
            "import ctypes, sys, threading, time\n\
             threading.Thread(target=time.sleep, args=(600,)).start()\n\
             print('ready', flush=True)\n\
             sys.stdin.readline()\n\
             ctypes.CDLL(None).syscall({}, 0)\n",
            libc::SYS_exit
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]);
        command
    }
}

impl Drop for Leaderless {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: it is a child of ours that was not waited for; `status` outlives the call.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, &raw mut status, 0);
        }
    }
}
