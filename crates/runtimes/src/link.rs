//! The interface between an adapter and its surroundings.

use crate::lever_options::Chosen;
use plimsoll_kernel::undo_notes::Notes;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Gives an adapter its limit and takes its reports.
///
/// Implemented by a client of the broker ([`crate::client::ClientLink`]) and by scripts of limits
/// in measurements. No method may block for longer than it says. None fails: a link without a
/// broker has no numbers.
pub trait Link {
    /// The present numbers, or `None` while there is no broker to give them.
    fn numbers(&mut self) -> Option<Numbers>;
    /// Sleeps until the numbers may have changed, for `timeout` at most.
    fn wait(&mut self, timeout: Duration);
    /// Reports what is known about the program. The link fills in the principal's number.
    fn report(&mut self, report: &Report);
    /// Reports that this many bytes were given back, so that the broker may look at once.
    fn released(&mut self, bytes: Bytes);
    /// Reports which adapter ([`plimsoll_programs::Recognise::name`]) steers the program from now on; `None`
    /// if none does any more.
    fn steered_by(&mut self, _adapter: Option<&'static str>) {}
    /// Reports that a signal was sent to the program, which it did not follow: no adapter may send
    /// signals without end. An adapter that sends none never calls this.
    fn signalled(&mut self) {}
    /// Reports why the program cannot be steered. It counts as passive until [`Link::steered_by`]
    /// says otherwise, whatever adapter it was registered with. An adapter calls this after each
    /// failed try.
    fn not_steered(&mut self, _why: &str) {}
    /// Whether the adapter must end although its program may still run.
    fn stopped(&self) -> bool;
}

/// Why an adapter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program is gone: the root process and every descendant that could be steered.
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

/// The link of a program without a broker. It gives no numbers and keeps no reports.
#[derive(Clone, Debug)]
pub struct Alone {
    /// Whether the adapter must end. Any thread may set it.
    stop: Arc<AtomicBool>,
}

impl Alone {
    /// The longest time until [`Link::stopped`] is seen to change.
    const GRAIN: Duration = Duration::from_millis(50);

    /// The adapter ends when `stop` is set.
    pub fn new(stop: Arc<AtomicBool>) -> Alone {
        Alone { stop }
    }
}

impl Link for Alone {
    fn numbers(&mut self) -> Option<Numbers> {
        None
    }

    fn wait(&mut self, timeout: Duration) {
        let until = Instant::now() + timeout;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.stopped()
        {
            std::thread::sleep(left.min(Self::GRAIN));
        }
    }

    fn report(&mut self, _: &Report) {}

    fn released(&mut self, _: Bytes) {}

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// Settings of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// The part of the wall-clock time, 0 to 1, that collections forced by an adapter may take
    /// while the program is within its limit, or is a Java heap of one size that owes nothing. The default
    /// is 0.05.
    pub collection_share: f64,
    /// The values that the user gave to options of levers.
    pub chosen: Chosen,
    /// Our own program file, beside which libraries for programs are.
    pub own: Option<PathBuf>,
    /// Where is noted what to restore if we are killed.
    pub notes: Option<Arc<Notes>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            collection_share: 0.05,
            chosen: Chosen::default(),
            own: None,
            notes: None,
        }
    }
}
