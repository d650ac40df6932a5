//! Waits until a machine is ours alone, and until it tells its version, collector and flags.

use super::attach::{Attach, AttachError};
use super::machine::Machine;
use super::quit;
use super::silence::LEFT_ALONE;
use crate::hold::Hold;
use crate::link::{Ended, Link};
use crate::process::Process;
use plimsoll_programs::hotspot::is_machine;
use std::time::{Duration, Instant};

/// How long a command that needs no work may take.
pub(super) const COMMAND: Duration = Duration::from_secs(5);
/// The pause between two looks while nothing changes.
pub(super) const IDLE: Duration = Duration::from_millis(500);
/// The first pause between two tries.
const SHORT: Duration = Duration::from_millis(100);
/// The longest pause while a machine may just be starting: such a look sends nothing to it.
const STARTING: Duration = Duration::from_secs(1);
/// From this age on, seconds, it is not taken to be just starting.
const STARTED: i64 = 60;

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
        let mut longest = LEFT_ALONE;
        match ask(process, &mut attach) {
            Ok(found) => return Ok(found),
            Err(AttachError::Gone { .. }) => return Err(Ended::ProgramGone),
            Err(error) if error.is_early() && pause < IDLE => {}
            Err(error) => {
                longest = longest_pause(&error, quit::age(process));
                // A stopped machine is looked at often, because that sends nothing to it.
                if matches!(error, AttachError::StandsStill { .. }) {
                    pause = IDLE / 2;
                }
                if attach.as_ref().is_some_and(Attach::has_signalled) {
                    link.signalled();
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
        pause = (pause * 2).min(longest);
    }
}

/// The longest pause after this error of a machine of this age, seconds.
fn longest_pause(error: &AttachError, age: Option<i64>) -> Duration {
    let is_young = age.is_some_and(|age| age < STARTED);
    match error.is_early() && is_young {
        true => STARTING,
        false => LEFT_ALONE,
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

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::messages::Report;
    use plimsoll_wire::page::Numbers;
    use std::process::{Child, Command};

    /// A link that keeps what it is told. At its first wait it lets go of what another adapter holds.
    #[derive(Default)]
    struct Told {
        held: Option<Hold>,
        why: Vec<String>,
        signals: u32,
    }

    impl Link for Told {
        fn numbers(&mut self) -> Option<Numbers> {
            None
        }

        fn wait(&mut self, timeout: Duration) {
            self.held = None;
            std::thread::sleep(timeout);
        }

        fn report(&mut self, _: &Report) {}

        fn released(&mut self, _: u64) {}

        fn signalled(&mut self) {
            self.signals += 1;
        }

        fn not_steered(&mut self, why: &str) {
            self.why.push(why.to_owned());
        }

        fn stopped(&self) -> bool {
            self.why.len() > 3
        }
    }

    /// A process that is no machine, ended with its guard.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Sleeper {
            Sleeper(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn process(&self) -> Process {
            Process::new(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_machine_that_another_steers_is_waited_for_and_gets_no_signal() {
        let sleeper = Sleeper::start();
        let process = sleeper.process();
        let mut link = Told {
            held: Some(Hold::of(&process).unwrap()),
            ..Told::default()
        };
        alone(&process, &mut link).unwrap();
        assert_eq!((link.why.len(), link.signals), (1, 0), "{:?}", link.why);
        assert!(link.why[0].contains("is steered by"), "{:?}", link.why);
    }

    #[test]
    fn one_that_may_just_be_starting_is_looked_at_often_and_others_are_left_alone() {
        let (starting, refused) = (
            AttachError::Starting { pid: 7 },
            AttachError::Refused { pid: 7 },
        );
        assert_eq!(longest_pause(&starting, Some(0)), STARTING);
        for age in [Some(STARTED), None] {
            assert_eq!(longest_pause(&starting, age), LEFT_ALONE);
        }
        assert_eq!(longest_pause(&refused, Some(0)), LEFT_ALONE);
    }

    #[test]
    fn what_takes_no_signal_is_told_of_and_gets_none() {
        let sleeper = Sleeper::start();
        let mut link = Told::default();
        let ended = greet(&sleeper.process(), &mut link).unwrap_err();
        assert_eq!(ended, Ended::ProgramGone, "it is no machine");
        assert_eq!(link.signals, 0);
        assert!(sleeper.process().alive(), "a signal would have ended it");
    }
}
