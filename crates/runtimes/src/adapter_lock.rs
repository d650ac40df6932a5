//! One adapter at a time moves the levers of a process. Two would set the same flags, and the second would
//! overwrite what the first wishes.
//!
//! An adapter that steers holds a lock (`flock(2)`) of the process's `/proc/PID/environ`: only those who may
//! look into the process can open that, nothing is left behind, and the lock ends with its holder. A lock is
//! of one mount of `/proc`. So it is taken in our own and in the one that the process has itself: an adapter
//! beside a program in a container and one outside see each other, and so do two in other containers that
//! may both look into the process. (Anybody may take a lock of a pidfd, which would be of the
//! process itself.)
//!
//! When the first thread of a process ends before the others, that file is another one. So the process's
//! directory, which stays, is locked as well. Anybody may lock that one, so that it keeps an adapter away
//! only from a process whose first thread has ended.

use crate::process::Process;
use plimsoll_kernel::locks;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The right to steer a process, until it is dropped.
#[derive(Debug)]
pub struct AdapterLock {
    /// Empty where the process cannot be looked into: there nobody can be kept away.
    _locked: Vec<OwnedFd>,
}

/// Somebody else steers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "process {pid} is steered by {} already: end that first (the program goes on), or leave it to that",
    named(*by)
)]
pub struct Held {
    /// The process.
    pub pid: u32,
    /// The process that steers it; `None` if that is not seen from here.
    pub by: Option<i32>,
}

fn named(by: Option<i32>) -> String {
    by.map_or("another process".to_owned(), |by| format!("process {by}"))
}

impl AdapterLock {
    /// Takes the right to steer a process, if nobody has it.
    ///
    /// # Errors
    /// [`Held`] says who has it.
    pub fn of(process: &Process) -> Result<AdapterLock, Held> {
        let mut locked = process.lockable();
        let held = |file: &OwnedFd| Held {
            pid: process.pid,
            by: locks::holder_of(file),
        };
        if let Some(other) = locked.iter().find(|file| !takes(file)) {
            return Err(held(other));
        }
        // Where we may not look into the process, nobody is kept away.
        if locked.is_empty() {
            return Ok(AdapterLock { _locked: locked });
        }
        for directory in process.directories() {
            if takes(&directory) {
                locked.push(directory);
            } else if process.has_lost_its_first() {
                return Err(held(&directory));
            }
        }
        Ok(AdapterLock { _locked: locked })
    }
}

/// Locks a file, unless another has it. A kernel that locks no such files keeps nobody away.
fn takes(file: &OwnedFd) -> bool {
    let taken = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    taken != Err(Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family;
    use std::io::{BufRead, BufReader, Lines, Write};
    use std::process::{Child, ChildStdout, Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn one_at_a_time_has_it_and_the_others_are_told_who() {
        let own = Process::new(std::process::id()).unwrap();
        let hold = AdapterLock::of(&own).unwrap();
        let held = AdapterLock::of(&own).unwrap_err();
        let by = i32::try_from(own.pid).ok();
        assert_eq!(held, Held { pid: own.pid, by });
        let said = format!("is steered by process {} already", own.pid);
        assert!(held.to_string().contains(&said), "{held}");
        drop(hold);
        assert!(AdapterLock::of(&own).is_ok());
    }

    #[test]
    fn who_has_it_keeps_it_when_the_first_thread_ends() {
        let mut command = plimsoll_testbed::Leaderless::on_order();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let mut said = BufReader::new(program.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "ready");
        let process = Process::new(program.id()).unwrap();
        // A stranger's lock of the directory keeps nobody away from a process whose first thread lives.
        let directories = process.directories();
        assert!(takes(&directories[0]) && AdapterLock::of(&process).is_ok());
        drop(directories);
        let hold = AdapterLock::of(&process).unwrap();
        drop(program.stdin.take());
        let until = Instant::now() + Duration::from_secs(60);
        while !process.has_lost_its_first() {
            assert!(Instant::now() < until, "it ends");
            std::thread::sleep(Duration::from_millis(2));
        }
        let held = AdapterLock::of(&process).map(drop);
        drop(hold);
        let free = AdapterLock::of(&process).map(drop);
        program.kill().unwrap();
        program.wait().unwrap();
        let by = i32::try_from(std::process::id()).ok();
        let pid = process.pid;
        assert_eq!((held, free), (Err(Held { pid, by }), Ok(())));
    }

    #[test]
    fn a_process_that_is_gone_is_held_by_nobody() {
        let gone = Process {
            pid: 4_194_305,
            started: 1,
        };
        assert!(AdapterLock::of(&gone).is_ok());
    }

    /// A process in a pid namespace with a `/proc` of its own, and beside it there a shell that tries to
    /// lock it whenever a line comes, and says whether it could.
    struct Container {
        shell: Child,
        said: Lines<BufReader<ChildStdout>>,
    }

    impl Container {
        fn start() -> Container {
            let script = "sleep 600 & exec 9<\"/proc/$!/environ\" \n\
                          while read line; do flock -n 9 && echo taken || echo refused; done";
            let mut shell = Command::new("unshare")
                .args([
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "sh",
                    "-c",
                ])
                .arg(script)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let said = BufReader::new(shell.stdout.take().unwrap()).lines();
            Container { shell, said }
        }

        /// The shell's answer to one try.
        fn tries(&mut self) -> String {
            self.shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            self.said.next().unwrap().unwrap()
        }

        /// The process that sleeps there, once it does.
        fn process(&self) -> Process {
            let until = Instant::now() + Duration::from_secs(60);
            loop {
                let all = family::of(self.shell.id()).into_iter();
                let mut named = all.filter_map(|pid| Process::new(pid).ok());
                if let Some(process) = named.find(|process| process.has_thread(b"sleep")) {
                    return process;
                }
                assert!(Instant::now() < until, "it starts");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    impl Drop for Container {
        fn drop(&mut self) {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn one_within_a_container_and_one_outside_see_each_other() {
        if !rustix::process::geteuid().is_root() {
            return plimsoll_testbed::skip("a pid namespace needs root");
        }
        let mut container = Container::start();
        let process = container.process();
        assert_ne!(process.status().unwrap().inner_pid, process.pid);
        let hold = AdapterLock::of(&process).unwrap();
        assert_eq!(container.tries(), "refused");
        drop(hold);
        assert_eq!(container.tries(), "taken");
        let held = AdapterLock::of(&process).unwrap_err();
        assert_eq!(held.pid, process.pid);
    }
}
