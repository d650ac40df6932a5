//! One adapter at a time moves the levers of a process. Two would set the same flags, and the second would
//! overwrite what the first wishes.
//!
//! Who steers holds a lock (`flock(2)`) of the process's `/proc/PID/environ`: only those who may look into
//! the process can open that, nothing is left behind, and the lock ends with its holder. The lock is of one
//! mount of `/proc`: two adapters in containers with mounts of their own do not see each other's.

use crate::process::Process;
use plimsoll_kernel::locks;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The right to steer a process, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    /// `None` where the process cannot be looked into: there nobody can be kept away.
    _locked: Option<OwnedFd>,
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
    /// Who steers it; `None` if that is not seen from here.
    pub by: Option<i32>,
}

fn named(by: Option<i32>) -> String {
    by.map_or("another process".to_owned(), |by| format!("process {by}"))
}

impl Hold {
    /// Takes the right to steer a process, if nobody has it.
    ///
    /// # Errors
    /// [`Held`] says who has it.
    pub fn of(process: &Process) -> Result<Hold, Held> {
        let Ok(file) = process.lockable() else {
            return Ok(Hold { _locked: None });
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Held {
                pid: process.pid,
                by: locks::holder_of(&file),
            }),
            // A kernel that locks no such files keeps nobody away.
            _ => Ok(Hold {
                _locked: Some(file),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it_and_the_others_are_told_who() {
        let own = Process::new(std::process::id()).unwrap();
        let hold = Hold::of(&own).unwrap();
        let held = Hold::of(&own).unwrap_err();
        let by = i32::try_from(own.pid).ok();
        assert_eq!(held, Held { pid: own.pid, by });
        let said = format!("is steered by process {} already", own.pid);
        assert!(held.to_string().contains(&said), "{held}");
        drop(hold);
        assert!(Hold::of(&own).is_ok());
    }

    #[test]
    fn a_process_that_is_gone_is_held_by_nobody() {
        let gone = Process {
            pid: 4_194_305,
            started: 1,
        };
        assert!(Hold::of(&gone).is_ok());
    }
}
