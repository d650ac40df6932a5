//! Waits until a machine is ours alone, and until it tells its version, collector and flags.

use super::attach::{Attach, AttachError};
use super::machine::Machine;
use super::recognise::is_machine;
use super::silence::LEFT_ALONE;
use crate::hold::Hold;
use crate::link::{Ended, Link};
use crate::process::Process;
use std::time::{Duration, Instant};

/// How long a command that needs no work may take.
pub(super) const COMMAND: Duration = Duration::from_secs(5);
/// The pause between two looks while nothing changes.
pub(super) const IDLE: Duration = Duration::from_millis(500);
/// The first pause between two tries.
const SHORT: Duration = Duration::from_millis(100);

/// Waits until the machine answers; it may just be starting. After each failure tells the link that
/// the machine is not steered, and why.
///
/// # Errors
/// Why it never will answer: it is gone, or the link is stopped.
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
                // A stopped machine is looked at often, because that sends nothing to it.
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

/// Waits until nobody else steers the machine.
///
/// # Errors
/// Why that is of no use: it is gone, or the link is stopped.
pub(super) fn alone(process: &Process, link: &mut dyn Link) -> Result<Hold, Ended> {
    loop {
        if link.stopped() {
            return Err(Ended::Stopped);
        }
        if !process.alive() {
            return Err(Ended::ProgramGone);
        }
        match Hold::of(process) {
            Ok(hold) => return Ok(hold),
            Err(held) => link.not_steered(&held.to_string()),
        }
        rest(link, IDLE);
    }
}

/// Asks the machine what it is. Keeps the connection data in `attach` for the next try.
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

/// Waits for the whole pause even if the link wakes up early.
fn rest(link: &mut dyn Link, pause: Duration) {
    let until = Instant::now() + pause;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if link.stopped() {
            return;
        }
        link.wait(left.min(IDLE));
    }
}
