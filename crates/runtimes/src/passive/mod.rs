//! Programs without an adapter. They are accounted and shown, nothing else.

use crate::link::{Ended, Link};
use crate::process::Process;
use crate::runtime::{Addition, Runtime, Start, Steered};
use plimsoll_programs::{Candidate, Command, Recognise};
use std::time::{Duration, Instant};

/// The runtime of programs that no other runtime claims.
#[derive(Clone, Copy, Debug)]
pub struct Passive;

impl Recognise for Passive {
    fn name(&self) -> &'static str {
        "passive"
    }

    fn starts(&self, _: &Command<'_>) -> bool {
        true
    }

    fn runs(&self, _: &Candidate<'_>) -> bool {
        true
    }
}

impl Runtime for Passive {
    fn gives_way(&self) -> bool {
        true
    }

    fn prepare(&self, _: &Start<'_>) -> Addition {
        let note = "nothing is added, the runtime of this program is not known; if it starts a program of \
                    a known runtime, that one is found and steered without start flags (`--adapter NAME` \
                    passes them on)";
        Addition {
            notes: vec![note.to_owned()],
            ..Addition::default()
        }
    }

    fn steered(&self) -> Steered {
        Steered::Passive
    }
}

/// Waits for the end of a process that nothing can steer, for `span` at most.
pub fn rest(process: Process, span: Duration, link: &mut dyn Link) -> Ended {
    let until = Instant::now() + span;
    while !link.stopped() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !process.alive() {
            return Ended::ProgramGone;
        }
        link.wait(left);
    }
    Ended::Stopped
}
