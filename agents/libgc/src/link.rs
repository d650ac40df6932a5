//! Where the numbers come from, and where the reports go.

use crate::settings::Mode;
use plimsoll_client::messages::Report;
use plimsoll_client::{Follower, Granted};
use std::time::Duration;

/// The source of this process's numbers.
#[derive(Debug)]
pub enum Link {
    /// One limit for ever.
    Fixed(u64),
    /// A broker's.
    Broker(Follower),
    /// Nobody.
    None,
}

impl Link {
    /// As the environment says; `report` is false in a forked child, whose parent is the one who
    /// reports. May take some seconds when a broker hangs.
    pub fn open(mode: &Mode, report: bool) -> Link {
        match mode {
            Mode::Off => Link::None,
            Mode::Fixed(bytes) => Link::Fixed(*bytes),
            Mode::Adaptive | Mode::Default => {
                Follower::of_environment("libgc", report).map_or(Link::None, Link::Broker)
            }
        }
    }

    /// The numbers of now; nothing before a broker spoke ([`Follower::read`]).
    pub fn read(&mut self) -> Option<Granted> {
        match self {
            Link::None => None,
            Link::Fixed(limit) => Some(Granted {
                limit: *limit,
                owed: 0,
                uses: 0,
            }),
            Link::Broker(follower) => follower.read(),
        }
    }

    /// Sleeps until there is news, or that time is over.
    pub fn wait(&self, time: Duration) {
        match self {
            Link::Broker(follower) => follower.wait(time),
            _ => std::thread::sleep(time),
        }
    }

    /// Whether news wake [`Link::wait`], and somebody hears [`Link::report`].
    pub fn is_heard(&self) -> bool {
        matches!(self, Link::Broker(follower) if follower.is_principal())
    }

    /// Tells the broker. Does not wait.
    pub fn report(&self, report: &Report) {
        if let Link::Broker(follower) = self {
            follower.report(report);
        }
    }

    /// Tells the broker that bytes were given back. Does not wait.
    pub fn released(&self, bytes: u64) {
        if let Link::Broker(follower) = self {
            follower.released(bytes);
        }
    }
}
