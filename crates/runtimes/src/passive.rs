//! A program without an adapter: accounted and shown, nothing else.

use crate::adapter::{Adapter, Ended, Link};
use crate::process::Process;
use std::time::{Duration, Instant};

/// Waits for the end of a program that nothing can steer.
pub struct Passive {
    process: Process,
    span: Duration,
}

impl Passive {
    /// For this process; [`Adapter::steer`] comes back after `span`, too.
    pub fn new(process: Process, span: Duration) -> Passive {
        Passive { process, span }
    }
}

impl Adapter for Passive {
    fn name(&self) -> &'static str {
        "passive"
    }

    fn steer(&mut self, link: &mut dyn Link) -> Ended {
        let until = Instant::now() + self.span;
        while !link.stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.process.alive() {
                return Ended::ProgramGone;
            }
            link.wait(left);
        }
        Ended::Stopped
    }
}
