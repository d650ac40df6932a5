//! What an adapter and its surroundings tell each other.

use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::time::Duration;

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
    /// Tells which adapter steers the program from now on, [`crate::Runtime::name`]; none when nobody does
    /// any more.
    fn steered_by(&mut self, _adapter: Option<&'static str>) {}
    /// Tells that the program cannot be steered, whatever it was registered as, and why: it is passive, until
    /// [`Link::steered_by`] says otherwise. An adapter says it as often as it tried in vain.
    fn not_steered(&mut self, _why: &str) {}
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
