//! The source of the limit, and the destination of reports.

use crate::settings::Mode;
use plimsoll_client::messages::Report;
use plimsoll_client::{Follower, Granted};
use plimsoll_unit::Bytes;
use std::time::Duration;

/// Where this process gets its limit from.
#[derive(Debug)]
pub enum Link {
    /// A constant limit.
    Fixed(Bytes),
    /// A broker.
    Broker(Follower),
    /// Nothing.
    None,
}

impl Link {
    /// Opens the link that the environment asks for. `report` is false in a forked child, whose
    /// parent reports. This may take some seconds if a broker hangs.
    pub fn open(mode: &Mode, report: bool) -> Link {
        match mode {
            Mode::Off => Link::None,
            Mode::Fixed(bytes) => Link::Fixed(*bytes),
            Mode::Adaptive | Mode::Default => {
                Follower::of_environment("libgc", report).map_or(Link::None, Link::Broker)
            }
        }
    }

    /// The current numbers; `None` before the broker has sent any ([`Follower::read`]).
    pub fn read(&mut self) -> Option<Granted> {
        match self {
            Link::None => None,
            Link::Fixed(limit) => Some(Granted {
                limit: *limit,
                owed: Bytes::ZERO,
                uses: Bytes::ZERO,
            }),
            Link::Broker(follower) => follower.read(),
        }
    }

    /// Sleeps until there is news, or the time is over.
    pub fn wait(&self, time: Duration) {
        match self {
            Link::Broker(follower) => follower.wait(time),
            _ => std::thread::sleep(time),
        }
    }

    /// Whether news wake [`Link::wait`], and anything receives [`Link::report`].
    pub fn is_heard(&self) -> bool {
        matches!(self, Link::Broker(follower) if follower.is_principal())
    }

    /// Sends a report to the broker. Does not wait.
    pub fn report(&self, report: &Report) {
        if let Link::Broker(follower) = self {
            follower.report(report);
        }
    }

    /// Tells the broker how much was given back. Does not wait.
    pub fn released(&self, bytes: Bytes) {
        if let Link::Broker(follower) = self {
            follower.released(bytes);
        }
    }
}
