//! Waiting until a machine says what it is.

use super::attach::{Attach, AttachError};
use super::machine::Machine;
use super::recognise::is_machine;
use super::silence::LEFT_ALONE;
use crate::link::{Ended, Link};
use crate::process::Process;
use std::time::{Duration, Instant};

/// How long a command may take that should be answered at once.
pub(super) const COMMAND: Duration = Duration::from_secs(5);
/// Between two looks while nothing moves.
pub(super) const IDLE: Duration = Duration::from_millis(500);
/// The first pause between two tries.
const SHORT: Duration = Duration::from_millis(100);

/// Waits until the machine says what it is; it may just be starting. Says each time that it is not steered,
/// and why.
///
/// # Errors
/// Why it never will: it is gone, or the link is stopped.
pub(super) fn greet(process: &Process, link: &mut dyn Link) -> Result<(Attach, Machine), Ended> {
    let mut attach = None;
    let mut pause = SHORT;
    loop {
        if link.stopped() {
            return Err(Ended::Stopped);
        }
        match ask(process, &mut attach) {
            Ok(found) => return Ok(found),
            Err(AttachError::Gone { .. }) => return Err(Ended::ProgramGone),
            Err(error) if error.is_early() && pause < IDLE => {}
            Err(error) => {
                // One that was stopped is looked at often: that asks nothing of it.
                if matches!(error, AttachError::StandsStill { .. }) {
                    pause = IDLE / 2;
                }
                link.not_steered(&format!(
                    "{error}; it is accounted, but not steered, until it answers"
                ));
            }
        }
        if !process.alive() || !is_machine(process) {
            return Err(Ended::ProgramGone);
        }
        rest(link, pause);
        pause = (pause * 2).min(LEFT_ALONE);
    }
}

/// Asks the machine what it is; how to reach it is kept for the next time.
fn ask(process: &Process, attach: &mut Option<Attach>) -> Result<(Attach, Machine), AttachError> {
    let known = match attach.take() {
        Some(known) => known,
        None => Attach::new(*process)?,
    };
    match Machine::ask(&known, COMMAND) {
        Ok(machine) => Ok((known, machine)),
        Err(error) => {
            *attach = Some(known);
            Err(error)
        }
    }
}

/// Waits that long even when the link wakes up early.
fn rest(link: &mut dyn Link, pause: Duration) {
    let until = Instant::now() + pause;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if link.stopped() {
            return;
        }
        link.wait(left.min(IDLE));
    }
}
