//! What every adapter is: something that runs beside one program until that program ends.

use crate::detect::Runtime;
use crate::hotspot::HotSpot;
use crate::passive::Passive;
use crate::process::Process;
use crate::{family, running};
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a program without an adapter is left alone until it is looked at again, at the most.
const LOOK: Duration = Duration::from_secs(2);

/// A machine that uses so many times what the steered one does is steered instead.
const OUTGROWN: u64 = 2;

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
    /// Tells which adapter steers the program from now on, [`Adapter::name`]; none when nobody does any more.
    fn steered_by(&mut self, _adapter: Option<&'static str>) {}
    /// Tells that the program cannot be steered, whatever it was registered as: it is passive, until
    /// [`Link::steered_by`] says otherwise.
    fn not_steered(&mut self) {}
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

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ended::ProgramGone => "the program is gone",
            Ended::Stopped => "it was told to stop",
        })
    }
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

/// Steers the program that was started as `pid`, or whatever among its descendants can be steered,
/// and follows when it is replaced. Blocks until the program is gone or the link is stopped: give
/// it a thread of its own.
pub fn run(link: &mut dyn Link, pid: u32, options: &Options) -> Ended {
    let Ok(root) = Process::new(pid) else {
        return Ended::ProgramGone;
    };
    let mut look = LOOK / 8;
    let mut told = false;
    loop {
        if link.stopped() {
            return Ended::Stopped;
        }
        let (machine, alone) = among(pid);
        if let Some((pid, why)) = alone.filter(|_| machine.is_none() && !told) {
            told = true;
            warn!("process {pid} is accounted, but not steered: {why}");
            link.not_steered();
        }
        let steered = match machine {
            Some(process) => {
                let mut watched = Watched::new(link, pid, process.pid);
                let steered = HotSpot::new(process, pid, options.clone()).steer(&mut watched);
                if watched.outgrown {
                    continue;
                }
                steered
            }
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

/// The link of one machine, which stops when another one of the same program has become the larger
/// one: a build tool's launcher starts a machine that does the work.
struct Watched<'a> {
    link: &'a mut dyn Link,
    root: u32,
    pid: u32,
    look_at: Instant,
    outgrown: bool,
}

impl<'a> Watched<'a> {
    fn new(link: &'a mut dyn Link, root: u32, pid: u32) -> Watched<'a> {
        let look_at = Instant::now() + LOOK;
        Watched {
            link,
            root,
            pid,
            look_at,
            outgrown: false,
        }
    }

    fn look(&mut self) {
        if self.outgrown || Instant::now() < self.look_at {
            return;
        }
        let own = uses(self.pid).unwrap_or(0);
        let much = own.saturating_mul(OUTGROWN);
        self.outgrown = family::of(self.root)
            .into_iter()
            .filter(|&pid| pid != self.pid && uses(pid).is_some_and(|bytes| bytes > much))
            .any(|pid| running::runtime(pid) == Runtime::HotSpot);
        self.look_at = Instant::now() + LOOK;
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

    fn released(&mut self, bytes: u64) {
        self.link.released(bytes);
    }

    fn steered_by(&mut self, adapter: Option<&'static str>) {
        self.link.steered_by(adapter);
    }

    fn not_steered(&mut self) {
        self.link.not_steered();
    }

    fn stopped(&self) -> bool {
        self.outgrown || self.link.stopped()
    }
}

/// Bytes; `None` when the process is gone.
fn uses(pid: u32) -> Option<u64> {
    let status = Process::new(pid).ok()?.status().ok()?;
    Some(status.rss_anon + status.rss_shmem)
}

/// The Java virtual machine that uses the most memory among a process and its descendants; and one of them
/// that is left alone although it looks as if it could be steered, with the reason.
fn among(root: u32) -> (Option<Process>, Option<(u32, &'static str)>) {
    let mut machines = Vec::new();
    let mut alone = None;
    for pid in family::of(root) {
        let runtime = running::runtime(pid);
        alone = alone.or_else(|| Some((pid, runtime.left_alone()?)));
        if runtime == Runtime::HotSpot {
            machines.extend(uses(pid).zip(Process::new(pid).ok()));
        }
    }
    let largest = machines.into_iter().max_by_key(|(uses, _)| *uses);
    (largest.map(|(_, process)| process), alone)
}
