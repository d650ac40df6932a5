//! Waits until a process is ours alone, and until it has a lever.

use super::silence::LEFT_ALONE;
use crate::adapter_lock::AdapterLock;
use crate::lever::{Lever, Reach, Refusal};
use crate::link::{Ended, Link};
use crate::process::Process;
use crate::runtime::Runtime;
use plimsoll_programs::Candidate;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The pause between two looks while nothing changes.
pub(super) const IDLE: Duration = Duration::from_millis(500);
/// The first pause between two tries.
const SHORT: Duration = Duration::from_millis(100);
/// The longest pause while a program may just be starting: such a look sends nothing to it.
const STARTING: Duration = Duration::from_secs(1);
/// From this age on, seconds, it is not taken to be just starting.
const STARTED: i64 = 60;

/// Waits until there is a lever; the program may just be starting. After each failure tells the link that
/// the program is not steered, and why.
///
/// # Errors
/// Why there never will be one: the process is gone, or the link is stopped.
pub(crate) fn reach<'a>(
    runtime: &dyn Runtime,
    mut ask: Reach<'a>,
    process: &Process,
    link: &mut dyn Link,
) -> Result<Box<dyn Lever + 'a>, Ended> {
    let mut pause = SHORT;
    loop {
        if link.stopped() {
            return Err(Ended::Stopped);
        }
        let mut longest = LEFT_ALONE;
        match ask() {
            Ok(lever) => return Ok(lever),
            Err(Refusal::Gone) => return Err(Ended::ProgramGone),
            Err(Refusal::NotYet { early: true, .. }) if pause < IDLE => {}
            Err(Refusal::NotYet {
                why,
                early,
                still,
                signalled,
            }) => {
                longest = longest_pause(early, age(process));
                // A stopped program is looked at often, because that sends nothing to it.
                if still {
                    pause = IDLE / 2;
                }
                if signalled {
                    link.signalled();
                }
                link.not_steered(&format!(
                    "{why}; it is accounted, but not steered, until it answers"
                ));
            }
        }
        if !process.alive() || !runtime.runs(&Candidate::look(process.pid)) {
            return Err(Ended::ProgramGone);
        }
        rest(link, pause);
        pause = (pause * 2).min(longest);
    }
}

/// The longest pause between two tries to reach a program. `early`: it looks as if it was just starting,
/// which is believed of a young one only. `age`: seconds since its start, where known.
fn longest_pause(early: bool, age: Option<i64>) -> Duration {
    let is_young = age.is_some_and(|age| age < STARTED);
    if early && is_young {
        STARTING
    } else {
        LEFT_ALONE
    }
}

/// Seconds since a process was started, by the present setting of the clock; `None` if it is gone.
pub(crate) fn age(process: &Process) -> Option<i64> {
    let now = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let started = process.started_at().ok()?;
    Some(i64::try_from(now).ok()?.saturating_sub(started))
}

/// Waits until nobody else steers the process.
///
/// # Errors
/// Why that is of no use: it is gone, or the link is stopped.
pub(super) fn alone(process: &Process, link: &mut dyn Link) -> Result<AdapterLock, Ended> {
    loop {
        if link.stopped() {
            return Err(Ended::Stopped);
        }
        if !process.alive() {
            return Err(Ended::ProgramGone);
        }
        match AdapterLock::of(process) {
            Ok(hold) => return Ok(hold),
            Err(held) => link.not_steered(&held.to_string()),
        }
        rest(link, IDLE);
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
    use crate::hotspot::HotSpot;
    use crate::lever::Target;
    use crate::link::Options;
    use crate::runtime::Steered;
    use crate::testing::Sleeper;
    use plimsoll_unit::Bytes;
    use plimsoll_wire::messages::Report;
    use plimsoll_wire::page::Numbers;

    /// A link that keeps what it is told. At its first wait it lets go of what another adapter holds.
    #[derive(Default)]
    struct Told {
        held: Option<AdapterLock>,
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

        fn released(&mut self, _: Bytes) {}

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

    #[test]
    fn a_machine_that_another_steers_is_waited_for_and_gets_no_signal() {
        let sleeper = Sleeper::start();
        let process = sleeper.process();
        let mut link = Told {
            held: Some(AdapterLock::of(&process).unwrap()),
            ..Told::default()
        };
        alone(&process, &mut link).unwrap();
        assert_eq!((link.why.len(), link.signals), (1, 0), "{:?}", link.why);
        assert!(link.why[0].contains("is steered by"), "{:?}", link.why);
    }

    #[test]
    fn one_that_may_just_be_starting_is_looked_at_often_and_others_are_left_alone() {
        assert_eq!(longest_pause(true, Some(0)), STARTING);
        for age in [Some(STARTED), None] {
            assert_eq!(longest_pause(true, age), LEFT_ALONE);
        }
        assert_eq!(longest_pause(false, Some(0)), LEFT_ALONE);
    }

    #[test]
    fn what_takes_no_signal_is_told_of_and_gets_none() {
        let sleeper = Sleeper::start();
        let process = sleeper.process();
        let options = Options::default();
        let target = Target {
            process,
            root: process.pid,
            options: &options,
        };
        let Steered::Outside(begin) = HotSpot.steered() else {
            panic!("it is steered from outside");
        };
        let mut link = Told::default();
        let reached = reach(&HotSpot, begin(target), &process, &mut link);
        assert_eq!(reached.err(), Some(Ended::ProgramGone), "it is no machine");
        assert_eq!(link.signals, 0);
        assert!(process.alive(), "a signal would have ended it");
    }
}
