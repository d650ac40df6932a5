//! A misbehaving program, started and ended by a test.

use super::TestCgroup;
use crate::cgroup::Cgroup;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// One line that a program tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Monotonic clock, ns.
    pub time_ns: u64,
    /// Bytes that it holds (and touched).
    pub bytes: u64,
    /// Its major faults so far.
    pub major_faults: u64,
    /// Its minor faults so far.
    pub minor_faults: u64,
    /// Processor time of its thread so far, ns.
    pub processor_ns: u64,
    /// Rounds over its memory so far (touchers).
    pub rounds: u64,
    /// Whether it has reached what it was asked for, and holds.
    pub holding: bool,
}

impl Progress {
    /// One line of JSON.
    pub fn to_json(self) -> String {
        let Progress {
            time_ns,
            bytes,
            major_faults,
            minor_faults,
            processor_ns,
            rounds,
            holding,
        } = self;
        format!(
            "{{\"time_ns\":{time_ns},\"bytes\":{bytes},\"major_faults\":{major_faults},\
             \"minor_faults\":{minor_faults},\"processor_ns\":{processor_ns},\"rounds\":{rounds},\
             \"holding\":{holding}}}"
        )
    }

    /// Reads such a line; what is missing stays 0.
    pub fn parse(line: &str) -> Progress {
        let text = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
            rest.split([',', '}']).next()
        };
        let number = |name: &str| text(name).and_then(|t| t.trim().parse().ok()).unwrap_or(0);
        Progress {
            time_ns: number("time_ns"),
            bytes: number("bytes"),
            major_faults: number("major_faults"),
            minor_faults: number("minor_faults"),
            processor_ns: number("processor_ns"),
            rounds: number("rounds"),
            holding: text("holding") == Some("true"),
        }
    }
}

/// A running `plimsoll-misbehave`; ended when dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    out: ChildStdout,
    pending: Vec<u8>,
}

impl Child {
    /// Starts `program arguments`, inside of a group from its first instruction on when one is given.
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

    /// The same for any group.
    ///
    /// # Errors
    /// As [`Child::start`].
    pub fn start_in(
        program: &Path,
        arguments: &[&str],
        cgroup: Option<&Cgroup>,
    ) -> io::Result<Child> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(cgroup) = cgroup {
            enter_at_start(&mut command, cgroup.dir())?;
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

    /// Its next line, or `None` when it ended or `patience` ran out.
    ///
    /// # Errors
    /// When its output cannot be read.
    pub fn next(&mut self, patience: Duration) -> io::Result<Option<Progress>> {
        let end = Instant::now() + patience;
        loop {
            if let Some(at) = self.pending.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=at).collect();
                return Ok(Some(Progress::parse(&String::from_utf8_lossy(&line))));
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

    /// Passes lines over until one is as wanted; the last line otherwise.
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

    /// Asks it to end (SIGTERM) and waits; its exit code, or `None` when a signal ended it.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn end(&mut self) -> io::Result<Option<i32>> {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        // It may be blocked writing to us.
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

/// Makes a command enter a group between fork and exec.
fn enter_at_start(command: &mut Command, dir: &Path) -> io::Result<()> {
    let mut members: File = OpenOptions::new()
        .write(true)
        .open(dir.join("cgroup.procs"))?;
    // SAFETY: between fork and exec only `write` to an open descriptor is called, which is safe there.
    unsafe {
        command.pre_exec(move || members.write_all(b"0"));
    }
    Ok(())
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
