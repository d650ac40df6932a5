//! One program of a file and how far it is.

use crate::programs::Program;
use crate::run::child::Running;
use crate::run::member::Member;
use rustix::event::{PollFd, PollFlags};
use std::time::{Duration, Instant};

/// Programs that were asked to end (SIGTERM) are killed after this time.
pub const GRACE: Duration = Duration::from_secs(10);
/// Between two looks whether what a program started has ended, too: nothing wakes us for that.
const LOOK: Duration = Duration::from_millis(100);

/// One program of the file and how far it is.
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
        /// Its first process has ended, others of its group have not. Only what was asked to end is
        /// waited for so.
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

    /// Its number, while its end is waited for.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            Stage::Running { running, .. } => Some(running.pid()),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    /// Whether it is to be started.
    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        matches!(self.state, Stage::Waiting) && self.program.start <= elapsed
    }

    /// Asks it to end, once; one that has not started never will.
    pub(super) fn ask(&mut self) {
        match &mut self.state {
            Stage::Waiting => self.state = Stage::Ended,
            Stage::Running { running, asked, .. } if asked.is_none() => {
                running.signal_group(libc::SIGTERM);
                // A stopped program hears it only when it goes on.
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

    /// How it ended, if it has. What was asked to end has ended when nothing of its process group
    /// runs any more.
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

    /// What to wait for, and for how long at the most.
    pub(super) fn watch<'a>(
        &'a self,
        elapsed: Duration,
        fds: &mut Vec<PollFd<'a>>,
    ) -> Option<Duration> {
        match &self.state {
            Stage::Waiting => Some(self.program.start.saturating_sub(elapsed)),
            // Its end is known, so its pidfd would wake us at once.
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
