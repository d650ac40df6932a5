//! One program of a file and its stage.

use crate::programs::Program;
use crate::run::child::Running;
use crate::run::principal::Member;
use rustix::event::{PollFd, PollFlags};
use std::time::{Duration, Instant};

/// How long after SIGTERM a program is killed.
pub const GRACE: Duration = Duration::from_secs(10);
/// The pause between two checks whether a program's children have ended too. Nothing wakes us for
/// that.
const LOOK: Duration = Duration::from_millis(100);

/// One program of the file and its stage.
pub(super) struct Slot {
    pub(super) program: Program,
    pub(super) outsider: bool,
    pub(super) state: Stage,
}

pub(super) enum Stage {
    Waiting,
    Running {
        running: Running,
        _member: Option<Member>,
        asked: Option<Instant>,
        /// Its first process has ended but others of its group have not. They are waited for only
        /// if the program was asked to end.
        leaving: bool,
    },
    Ended,
}

/// A program's end.
pub(super) struct End {
    pub(super) pid: u32,
    pub(super) status: u8,
    /// It was asked to end.
    pub(super) asked: bool,
}

impl Slot {
    pub(super) fn new(program: Program, outsider: bool) -> Slot {
        Slot {
            program,
            outsider,
            state: Stage::Waiting,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, Stage::Ended)
    }

    /// Its process number, while we wait for its end.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            Stage::Running { running, .. } => Some(running.pid()),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    /// Whether it starts later.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, Stage::Waiting)
    }

    /// Whether it is to be started.
    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        matches!(self.state, Stage::Waiting) && self.program.start <= elapsed
    }

    /// Asks it to end, once. If it has not started, it never will.
    pub(super) fn ask(&mut self) {
        match &mut self.state {
            Stage::Waiting => self.state = Stage::Ended,
            Stage::Running { running, asked, .. } if asked.is_none() => {
                running.signal_group(libc::SIGTERM);
                // A stopped program receives the signal only when it goes on.
                running.signal_group(libc::SIGCONT);
                *asked = Some(Instant::now());
            }
            Stage::Running { .. } | Stage::Ended => {}
        }
    }

    pub(super) fn kill(&self) {
        if let Stage::Running { running, .. } = &self.state {
            running.signal_group(libc::SIGKILL);
        }
    }

    /// Asks it to end when the file says so, and kills what is left when the grace is over.
    pub(super) fn stop_due(&mut self, elapsed: Duration) {
        if !matches!(self.state, Stage::Running { .. }) {
            return;
        }
        if self.program.stop.is_some_and(|stop| stop <= elapsed) {
            self.ask();
        }
        if let Stage::Running { asked, .. } = &self.state
            && asked.is_some_and(|asked| asked.elapsed() >= GRACE)
        {
            self.kill();
        }
    }

    /// How it ended, if it has. A program that was asked to end has ended once nothing of its
    /// process group runs.
    pub(super) fn end(&mut self) -> Option<End> {
        let Stage::Running {
            running,
            asked,
            leaving,
            ..
        } = &mut self.state
        else {
            return None;
        };
        let asked = asked.is_some();
        *leaving = asked && running.left_others();
        if *leaving {
            return None;
        }
        let pid = running.pid();
        running.ended().map(|status| End { pid, status, asked })
    }

    /// The descriptor to wait for, and the longest time to wait.
    pub(super) fn watch<'a>(
        &'a self,
        elapsed: Duration,
        fds: &mut Vec<PollFd<'a>>,
    ) -> Option<Duration> {
        match &self.state {
            Stage::Waiting => Some(self.program.start.saturating_sub(elapsed)),
            // Its first process has ended, so the pidfd would wake us at once.
            Stage::Running { leaving: true, .. } => Some(LOOK),
            Stage::Running { running, asked, .. } => {
                fds.push(PollFd::new(running.pidfd(), PollFlags::IN));
                match (asked, self.program.stop) {
                    // Once killed, only its end is waited for.
                    (Some(asked), _) => Some(GRACE.saturating_sub(asked.elapsed()).max(LOOK)),
                    (None, Some(stop)) => Some(stop.saturating_sub(elapsed)),
                    (None, None) => None,
                }
            }
            Stage::Ended => None,
        }
    }
}
