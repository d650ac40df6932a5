//! The interface between an adapter and its surroundings.

use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::time::Duration;

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
    fn released(&mut self, bytes: u64);
    /// Reports which adapter ([`crate::Runtime::name`]) steers the program from now on; `None` if
    /// none does any more.
    fn steered_by(&mut self, _adapter: Option<&'static str>) {}
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

/// Settings of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// The part of the wall-clock time, 0 to 1, that collections forced by an adapter may take
    /// while nothing is owed. The default is 0.05.
    pub collection_share: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            collection_share: 0.05,
        }
    }
}
