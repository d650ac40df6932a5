//! When a machine is asked again to load the agent, after a failure that may pass: a machine that is short
//! of memory answers late, and a full `/tmp` takes no copy. Each try keeps the adapter from steering for as
//! long as loading may take, so the pauses in between grow, and the number of tries is bounded.

use super::load::AgentError;
use super::page::PageError;
use crate::steer::LEFT_ALONE;
use plimsoll_kernel::sealed_memfd::Refused;
use plimsoll_wire::collections::ViewError;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// The most tries at one machine: with the pauses in between, two minutes and a half.
const MOST: u32 = 10;
/// The pause after the first try. Each further pause is twice as long, up to [`LEFT_ALONE`].
const FIRST: Duration = Duration::from_secs(1);
/// Errors of a system that is short of something for a while: memory, room, descriptors.
const SHORT: [Errno; 6] = [
    Errno::NOMEM,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::MFILE,
    Errno::NFILE,
    Errno::AGAIN,
];

/// The tries at one machine. Used by the steering loop's thread alone.
#[derive(Debug, Default)]
pub(in super::super) struct Tries {
    /// Failed ones so far.
    failed: u32,
    /// When the next one is due; `None` before the first try and when there is none any more.
    next: Option<Instant>,
}

impl Tries {
    /// Whether the machine is to be asked again now. The first try is not asked for here.
    pub(in super::super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    /// Notes that no further try makes sense.
    pub(super) fn end(&mut self) {
        self.next = None;
    }

    /// Notes a failure. Returns the pause before the next try, or `None` if there is none.
    pub(super) fn failed(&mut self, may_pass: bool, now: Instant) -> Option<Duration> {
        let pause = FIRST
            .saturating_mul(1 << self.failed.min(8))
            .min(LEFT_ALONE);
        self.failed = self.failed.saturating_add(1);
        let pause = Some(pause).filter(|_| may_pass && self.failed < MOST);
        self.next = pause.map(|pause| now + pause);
        pause
    }

    /// Whether the failure that was noted last was the first.
    pub(super) fn is_first(&self) -> bool {
        self.failed <= 1
    }
}

/// Whether the same may go well a little later. A decision of the machine or of its user stays: a machine
/// that refused the agent is not asked again, because Java 21 and later warn on its standard error each
/// time.
pub(super) fn may_pass(error: &AgentError) -> bool {
    match error {
        AgentError::Library { source, .. } | AgentError::Nowhere { source, .. } => is_short(source),
        AgentError::NoExec { .. } | AgentError::Forbidden { .. } | AgentError::Refused { .. } => {
            false
        }
        AgentError::Attach(error) => error.may_pass(),
        AgentError::Page(error) => match error {
            // Only its maker can be at work on it still.
            PageError::Foreign { why, .. } => *why == Refused::NotSealed,
            PageError::Layout { why, .. } => *why == ViewError::Magic,
            PageError::System { source, .. } => is_short(source),
            PageError::Absent { .. } => false,
        },
    }
}

fn is_short(error: &std::io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| SHORT.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspot::attach::AttachError;

    #[test]
    fn pauses_grow_and_tries_end() {
        let mut tries = Tries::default();
        let mut now = Instant::now();
        assert!(!tries.is_due(now), "the first is made without asking");
        let mut pauses = Vec::new();
        while let Some(pause) = tries.failed(true, now) {
            assert!(!tries.is_due(now) && tries.is_due(now + pause));
            pauses.push(pause.as_secs());
            assert_eq!(tries.is_first(), pauses.len() == 1);
            now += pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30, 30]);
        assert!(!tries.is_due(now + LEFT_ALONE * 100), "it is left alone");
    }

    #[test]
    fn what_stays_is_not_tried_again() {
        let now = Instant::now();
        let mut tries = Tries::default();
        assert!(tries.failed(true, now).is_some());
        assert_eq!(tries.failed(false, now + FIRST), None);
        assert!(!tries.is_due(now + LEFT_ALONE));
        let mut tries = Tries::default();
        assert!(tries.failed(true, now).is_some());
        tries.end();
        assert!(!tries.is_due(now + LEFT_ALONE));
    }

    #[test]
    fn failures_are_told_apart() {
        let pid = 7;
        let system = |errno: Errno| std::io::Error::from(errno);
        let nowhere = |errno| AgentError::Nowhere {
            pid,
            source: system(errno),
        };
        let late = AttachError::NoAnswer {
            pid,
            command: "load".to_owned(),
            waited: FIRST,
        };
        let unfinished = PageError::Layout {
            pid,
            why: ViewError::Magic,
        };
        let unsealed = PageError::Foreign {
            pid,
            why: Refused::NotSealed,
        };
        for passing in [
            nowhere(Errno::NOSPC),
            nowhere(Errno::NOMEM),
            late.into(),
            AttachError::Busy { pid }.into(),
            AttachError::StandsStill { pid, how: "" }.into(),
            unfinished.into(),
            unsealed.into(),
        ] {
            assert!(may_pass(&passing), "{passing}");
        }
        let other = PageError::Layout {
            pid,
            why: ViewError::Version(99),
        };
        let said = "return code: 2".to_owned();
        for lasting in [
            nowhere(Errno::ROFS),
            nowhere(Errno::ACCESS),
            AgentError::NoExec { pid },
            AgentError::Forbidden { pid, why: "" },
            AgentError::Refused { pid, said },
            AttachError::Gone { pid }.into(),
            AttachError::Refused { pid }.into(),
            other.into(),
        ] {
            assert!(!may_pass(&lasting), "{lasting}");
        }
    }
}
