//! What every adapter is: something that runs beside one program until that program ends.

use crate::detect::{self, Runtime};
use crate::family;
use crate::hotspot::HotSpot;
use crate::passive::Passive;
use crate::process::Process;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::time::Duration;

/// How long a program without an adapter is left alone until it is looked at again, at the most.
const LOOK: Duration = Duration::from_secs(2);

/// Where an adapter reads its limit and leaves its reports.
///
/// A broker's client is one ([`crate::client::ClientLink`]); a script of limits in a measurement is another.
/// Nothing here may block for longer than it says, and nothing fails: a link without a broker has no numbers.
pub trait Link {
    /// The numbers of this moment, or `None` while no broker answers for them.
    fn numbers(&mut self) -> Option<Numbers>;
    /// Sleeps until the numbers may have changed, at the most for `timeout`.
    fn wait(&mut self, timeout: Duration);
    /// Tells what is known of the program. The link fills in the principal's number.
    fn report(&mut self, report: &Report);
    /// Tells that this many bytes were given back, so that the broker may look at once.
    fn released(&mut self, bytes: u64);
    /// The adapter shall end although its program may still run.
    fn stopped(&self) -> bool;
}

/// Why an adapter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program (the process that was named, with every descendant that could be steered) is gone.
    ProgramGone,
    /// [`Link::stopped`] said so.
    Stopped,
}

/// What a person may set.
#[derive(Clone, Debug)]
pub struct Options {
    /// Part of the wall-clock time that collections forced by an adapter may take while nothing is owed, 0.05
    /// when not set.
    pub collection_share: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            collection_share: 0.05,
        }
    }
}

/// Steers one kind of runtime.
pub trait Adapter {
    /// What `ps` shows: `hotspot`, `libgc`, `passive`.
    fn name(&self) -> &'static str;
    /// Steers the process until it is gone or the link is stopped. Returns [`Ended::ProgramGone`] when this
    /// process is gone.
    fn steer(&mut self, link: &mut dyn Link) -> Ended;
}

/// Steers the program that was started as `pid`, or whatever among its descendants can be steered, and follows
/// when it is replaced. Blocks until the program is gone or the link is stopped: give it a thread of its own.
pub fn run(link: &mut dyn Link, pid: u32, options: &Options) -> Ended {
    let Ok(root) = Process::new(pid) else {
        return Ended::ProgramGone;
    };
    let mut look = LOOK / 8;
    loop {
        if link.stopped() {
            return Ended::Stopped;
        }
        let steered = match machine_among(pid) {
            Some(process) => HotSpot::new(process, pid, options.clone()).steer(link),
            // A program may start its Java virtual machine at any time, so this waits only for a while.
            None => {
                let span = look;
                look = (look * 2).min(LOOK);
                Passive::new(root, span).steer(link)
            }
        };
        if steered == Ended::Stopped || !root.alive() {
            return steered;
        }
    }
}

/// The Java virtual machine that uses the most memory among a process and its descendants.
fn machine_among(root: u32) -> Option<Process> {
    let machines = family::of(root)
        .into_iter()
        .filter(|&pid| detect::of_process(pid) == Runtime::HotSpot);
    let sized = machines.filter_map(|pid| {
        let process = Process::new(pid).ok()?;
        let status = process.status().ok()?;
        Some((status.rss_anon + status.rss_shmem, process))
    });
    sized
        .max_by_key(|(uses, _)| *uses)
        .map(|(_, process)| process)
}
