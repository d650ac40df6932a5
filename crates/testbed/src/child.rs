//! A misbehaving program, started and ended by a test.

use crate::children::{enter, signal};
use crate::programs::VARIABLE;
use crate::{Progress, TestCgroup};
use plimsoll_kernel::cgroup::Cgroup;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough to read what is there, and shorter than the time between two reports.
const NOW: Duration = Duration::from_micros(200);

/// A running program that reports on itself. Ended when dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    out: ChildStdout,
    pending: Vec<u8>,
}

impl Child {
    /// Starts a program. If a group is given, the program is in it from its first instruction on.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        cgroup: Option<&TestCgroup>,
    ) -> io::Result<Child> {
        Child::start_in(program, arguments, cgroup.map(TestCgroup::cgroup))
    }

    /// As [`Child::start`], for any group.
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn start_in(
        program: &Path,
        arguments: &[&str],
        cgroup: Option<&Cgroup>,
    ) -> io::Result<Child> {
        let mut command = Command::new(program);
        command.args(arguments);
        Child::spawn(command, cgroup)
    }

    /// Starts this test binary again as a misbehaving program. Its test `test` must only call
    /// [`crate::programs::run_as_asked`].
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn start_again(
        test: &str,
        arguments: &[&str],
        cgroup: Option<&TestCgroup>,
    ) -> io::Result<Child> {
        Child::start_copy(&std::env::current_exe()?, test, arguments, cgroup)
    }

    /// As [`Child::start_again`], from a copy of this test binary.
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn start_copy(
        copy: &Path,
        test: &str,
        arguments: &[&str],
        cgroup: Option<&TestCgroup>,
    ) -> io::Result<Child> {
        let mut command = Command::new(copy);
        command
            .args(["--exact", test, "--nocapture"])
            .env(VARIABLE, arguments.join(" "));
        Child::spawn(command, cgroup.map(TestCgroup::cgroup))
    }

    fn spawn(mut command: Command, cgroup: Option<&Cgroup>) -> io::Result<Child> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(cgroup) = cgroup {
            enter(&mut command, cgroup)?;
        }
        let mut child = command.spawn()?;
        let out = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no pipe for the program's output"))?;
        Ok(Child {
            child,
            out,
            pending: Vec::new(),
        })
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The next report; `None` if the program ended or `patience` ran out. Lines without a JSON
    /// object come from the test harness and are skipped.
    ///
    /// # Errors
    /// When its output cannot be read.
    pub fn next(&mut self, patience: Duration) -> io::Result<Option<Progress>> {
        let end = Instant::now() + patience;
        loop {
            if let Some(at) = self.pending.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=at).collect();
                if line.contains(&b'{') {
                    return Ok(Some(Progress::parse(&String::from_utf8_lossy(&line))));
                }
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !readable(&self.out, left)? {
                return Ok(None);
            }
            let mut buffer = [0; 4096];
            let n = self.out.read(&mut buffer)?;
            if n == 0 {
                return Ok(None);
            }
            self.pending.extend_from_slice(&buffer[..n]);
        }
    }

    /// The newest report, or the next one if there is none: what it said while nobody listened is no news.
    /// `None` as in [`Child::next`].
    ///
    /// # Errors
    /// When its output cannot be read.
    pub fn latest(&mut self, patience: Duration) -> io::Result<Option<Progress>> {
        let mut last = self.next(patience)?;
        while last.is_some()
            && let Some(newer) = self.next(NOW)?
        {
            last = Some(newer);
        }
        Ok(last)
    }

    /// Skips reports until one is as wanted, and returns it.
    ///
    /// # Errors
    /// When it ended or `patience` ran out before.
    pub fn until(
        &mut self,
        patience: Duration,
        wanted: impl Fn(&Progress) -> bool,
    ) -> io::Result<Progress> {
        let end = Instant::now() + patience;
        let mut last = Progress::default();
        while let Some(progress) = self.next(end.saturating_duration_since(Instant::now()))? {
            last = progress;
            if wanted(&progress) {
                return Ok(progress);
            }
        }
        Err(io::Error::other(format!(
            "the program never got there; its last line was {last:?}"
        )))
    }

    /// Asks it to end (SIGTERM) and waits. Returns its exit code, or `None` if a signal ended it.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn end(&mut self) -> io::Result<Option<i32>> {
        signal(self.child.id(), rustix::process::Signal::TERM);
        // The program may be blocked while writing to us.
        let mut rest = Vec::new();
        let _ = self.out.read_to_end(&mut rest);
        Ok(self.child.wait()?.code())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn readable(out: &ChildStdout, patience: Duration) -> io::Result<bool> {
    let timeout = rustix::time::Timespec {
        tv_sec: patience.as_secs().min(86_400) as i64,
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    let mut fds = [PollFd::new(out, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}
