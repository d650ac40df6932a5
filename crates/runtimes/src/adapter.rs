//! Follows a program from its start to its end. Finds the processes that can be steered, runs the
//! adapter of one of them, and says why the others are left alone.

use crate::lever::Target;
use crate::link::{Ended, Link, Options};
use crate::list::Runtimes;
use crate::process::Process;
use crate::runtime::{Runtime, Steered};
use crate::steer::steer;
use crate::{ALL, family, passive};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The longest pause before a program without an adapter is looked at again.
const LOOK: Duration = Duration::from_secs(2);
/// A machine that uses this many times the memory of the steered one is steered instead.
const OUTGROWN: u64 = 2;
/// How long an adapter may fail to reach its process while another process could be steered.
const PATIENCE: Duration = Duration::from_secs(5);
/// A process that was not reached ranks last for this long. The time doubles with each failure.
const PUT_OFF: Duration = Duration::from_secs(30);
/// After this many failures with a signal a process ranks last for good, because each further try may send
/// it another one.
const MOST_TRIES: u32 = 3;
/// While one machine is steered, the pause between two searches for processes that are left alone.
/// A search reads the memory map of each process.
const TELL: Duration = Duration::from_secs(30);
/// The most reasons that are remembered, so that none is told twice.
const MOST_TOLD: usize = 64;

/// Steers the program that was started as `pid`, or one of its descendants if that is what can be
/// steered, and changes over when the steered process is replaced. Blocks until the program is gone
/// or the link is stopped, so give it a thread of its own.
pub fn run(link: &mut dyn Link, pid: u32, options: &Options) -> Ended {
    run_among(ALL, link, pid, options)
}

/// As [`run`], with these runtimes instead of [`ALL`].
pub fn run_among(runtimes: Runtimes, link: &mut dyn Link, pid: u32, options: &Options) -> Ended {
    let Ok(root) = Process::new(pid) else {
        return Ended::ProgramGone;
    };
    let mut known = Known::default();
    let mut pause = LOOK / 8;
    loop {
        if link.stopped() {
            return Ended::Stopped;
        }
        let (machines, alone) = among(runtimes, pid);
        known.tell(&alone);
        let ended = match known.choose(&machines) {
            Some(machine) => {
                known.is_passive = false;
                let target = Target {
                    process: machine.process,
                    root: pid,
                    options,
                };
                let mut watched = Watched::new(&mut *link, runtimes, &target, &mut known);
                let ended = steer(machine.runtime, &target, &mut watched);
                if watched.leave() {
                    continue;
                }
                info!("steering of process {} ended: {ended}", machine.process.pid);
                ended
            }
            // The program may start a process that can be steered at any time, so the wait is
            // short.
            None => {
                if let Some((_, why)) = alone.first()
                    && !std::mem::replace(&mut known.is_passive, true)
                {
                    link.not_steered(why);
                }
                let span = pause;
                pause = (pause * 2).min(LOOK);
                passive::rest(root, span, link)
            }
        };
        if ended == Ended::Stopped || !root.alive() {
            return ended;
        }
    }
}

/// A process that can be steered.
#[derive(Clone, Copy, Debug)]
struct Machine {
    process: Process,
    /// Its memory, bytes.
    uses: Bytes,
    /// The runtime whose lever steers it.
    runtime: &'static dyn Runtime,
}

/// Processes that look as if they could be steered but are left alone, each with the reason.
type Alone = Vec<(Process, &'static str)>;

/// The process and its descendants: those that can be steered, and those that are left alone.
fn among(runtimes: Runtimes, root: u32) -> (Vec<Machine>, Alone) {
    let (mut machines, mut alone) = (Vec::new(), Vec::new());
    for pid in family::of(root) {
        let runtime = runtimes.of_process(pid);
        match runtime.steered() {
            Steered::Outside(_) => {
                let process = Process::new(pid).ok();
                machines.extend(
                    process
                        .zip(family::uses(pid))
                        .map(|(process, uses)| Machine {
                            process,
                            uses,
                            runtime,
                        }),
                );
            }
            Steered::LeftAlone(why) => {
                alone.extend(Process::new(pid).ok().map(|process| (process, why)));
            }
            Steered::Inside | Steered::Passive => {}
        }
    }
    (machines, alone)
}

/// Facts learned about a program while it was followed.
#[derive(Debug, Default)]
struct Known {
    /// Reasons that were told, each with the process concerned.
    told: BTreeMap<String, Process>,
    /// The user was told that there are more reasons.
    is_cut: bool,
    /// Processes that were not reached: until when each ranks last, and how often it was tried.
    put_off: BTreeMap<Process, (Instant, u32)>,
    /// The link was told that nothing of the program is steered.
    is_passive: bool,
}

impl Known {
    /// Whether this reason is new. When the list is full, the reasons of processes that are gone
    /// are forgotten first.
    fn is_news(&mut self, process: Process, why: &str) -> bool {
        if self.told.contains_key(why) {
            return false;
        }
        if self.told.len() >= MOST_TOLD {
            self.told.retain(|_, process| process.alive());
        }
        if self.told.len() >= MOST_TOLD {
            if !std::mem::replace(&mut self.is_cut, true) {
                warn!("{MOST_TOLD} reasons why processes are not steered were told; more are not");
            }
            return false;
        }
        self.told.insert(why.to_owned(), process);
        true
    }

    /// Tells each reason for leaving a process alone once.
    fn tell(&mut self, alone: &Alone) {
        for (process, why) in alone {
            if self.is_news(*process, why) {
                let pid = process.pid;
                warn!("process {pid} is accounted, but not steered: {why}");
            }
        }
    }

    /// The machine that uses the most memory among those that can be reached, or among all if none
    /// can.
    fn choose(&self, machines: &[Machine]) -> Option<Machine> {
        let reached = |machine: &&Machine| !self.is_put_off(&machine.process);
        machines
            .iter()
            .max_by_key(|machine| (reached(machine), machine.uses))
            .copied()
    }

    fn is_put_off(&self, process: &Process) -> bool {
        let known = self.put_off.get(process);
        known.is_some_and(|(until, tries)| *tries >= MOST_TRIES || Instant::now() < *until)
    }

    /// Ranks a process last for a while. `counts`: the try sent it a signal.
    fn put_off(&mut self, process: Process, counts: bool) {
        self.put_off.retain(|process, _| process.alive());
        let tries = self.put_off.get(&process).map_or(0, |(_, tries)| *tries);
        let until = Instant::now() + PUT_OFF * (1 << tries.min(MOST_TRIES));
        self.put_off
            .insert(process, (until, tries + u32::from(counts)));
    }
}

/// The link of one machine. It stops when another machine of the same program should be steered
/// instead: because the other has become larger (the launcher of a build tool starts a machine that
/// does the work), or because this one cannot be reached.
struct Watched<'a> {
    /// The link of the program.
    link: &'a mut dyn Link,
    /// The runtimes that are looked for.
    runtimes: Runtimes,
    /// The reasons that the user was told, and the machines that are not tried for a while.
    known: &'a mut Known,
    /// Process id of the program, whose descendants are looked at.
    root: u32,
    /// The machine that is steered.
    process: Process,
    /// Time of the next search for a larger machine.
    look_at: Instant,
    /// Time of the next message about processes that are left alone.
    tell_at: Instant,
    /// Since when the adapter has failed to reach it.
    in_vain: Option<Instant>,
    /// A signal was sent to it that it did not follow.
    is_signalled: bool,
    /// Another machine is to be steered.
    left: bool,
}

impl<'a> Watched<'a> {
    fn new(
        link: &'a mut dyn Link,
        runtimes: Runtimes,
        target: &Target<'_>,
        known: &'a mut Known,
    ) -> Watched<'a> {
        Watched {
            link,
            runtimes,
            known,
            root: target.root,
            process: target.process,
            look_at: Instant::now() + LOOK,
            tell_at: Instant::now() + TELL,
            in_vain: None,
            is_signalled: false,
            left: false,
        }
    }

    fn look(&mut self) {
        if self.left || Instant::now() < self.look_at {
            return;
        }
        let pid = self.process.pid;
        let in_vain = self
            .in_vain
            .is_some_and(|since| since.elapsed() >= PATIENCE);
        let bound = if in_vain {
            Bytes::ZERO
        } else {
            family::uses(pid).unwrap_or_default() * OUTGROWN
        };
        let is_larger = |other| family::uses(other).is_some_and(|uses| uses > bound);
        let mut others = family::of(self.root);
        others.retain(|&other| other != pid && is_larger(other));
        self.left = others.iter().any(|&other| self.can_steer(other));
        // The search read the memory map of each process. While this machine is out of reach every
        // other process is a candidate, so search less often.
        let pause = if in_vain && !others.is_empty() {
            TELL
        } else {
            LOOK
        };
        self.look_at = Instant::now() + pause;
        if Instant::now() >= self.tell_at {
            self.known.tell(&among(self.runtimes, self.root).1);
            self.tell_at = Instant::now() + TELL;
        }
    }

    fn can_steer(&self, pid: u32) -> bool {
        let process = Process::new(pid);
        process.is_ok_and(|process| !self.known.is_put_off(&process))
            && matches!(self.runtimes.of_process(pid).steered(), Steered::Outside(_))
    }

    /// Called when the adapter has returned. Returns whether another machine is to be steered.
    fn leave(self) -> bool {
        if self.left && self.in_vain.is_some() {
            self.known.put_off(self.process, self.is_signalled);
        }
        self.left
    }
}

impl Link for Watched<'_> {
    fn numbers(&mut self) -> Option<Numbers> {
        self.link.numbers()
    }

    fn wait(&mut self, timeout: Duration) {
        self.link.wait(timeout);
        self.look();
    }

    fn report(&mut self, report: &Report) {
        self.link.report(report);
    }

    fn released(&mut self, bytes: Bytes) {
        self.link.released(bytes);
    }

    fn steered_by(&mut self, adapter: Option<&'static str>) {
        if adapter.is_some() {
            self.in_vain = None;
            self.is_signalled = false;
            self.look_at = self.look_at.min(Instant::now() + LOOK);
            self.known.put_off.remove(&self.process);
        }
        self.link.steered_by(adapter);
    }

    fn signalled(&mut self) {
        self.is_signalled = true;
        self.link.signalled();
    }

    fn not_steered(&mut self, why: &str) {
        if self.known.is_news(self.process, why) {
            warn!("{why}");
        }
        if self.in_vain.is_none() {
            self.in_vain = Some(Instant::now());
            self.link.not_steered(why);
        }
    }

    fn stopped(&self) -> bool {
        self.left || self.link.stopped()
    }
}

#[cfg(test)]
#[path = "adapter_tests.rs"]
mod tests;
