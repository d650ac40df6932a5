//! How one principal learns its numbers.

use super::{PageFile, PressureSocket};
use crate::error::Error;
use crate::server::epoll::Slot;
use plimsoll_unit::Nanos;
use plimsoll_wire::page::{Level, Numbers};

/// The page, the pressure socket and the subscribers of one principal.
#[derive(Debug)]
pub struct Outlet {
    /// Its page.
    pub page: PageFile,
    /// Its pressure socket.
    pub pressure: PressureSocket,
    /// Connections that subscribed to its changes.
    pub subscribers: Vec<Slot>,
}

impl Outlet {
    /// Without subscribers.
    #[must_use]
    pub fn new(page: PageFile, pressure: PressureSocket) -> Outlet {
        Outlet {
            page,
            pressure,
            subscribers: Vec::new(),
        }
    }

    /// Publishes these numbers at `now` on the page, and wakes the listeners of the pressure socket
    /// when these numbers press more than the last ones.
    ///
    /// # Errors
    /// As [`PageFile::publish`]; the listeners are woken all the same.
    pub fn publish(&mut self, numbers: &Numbers, now: Nanos) -> Result<(), Error> {
        let presses = presses_more(numbers, self.page.last());
        let published = self.page.publish(numbers, now);
        if presses {
            self.pressure.wake();
        }
        published
    }
}

/// Whether the level rose, or more is owed at a raised level.
fn presses_more(numbers: &Numbers, last: &Numbers) -> bool {
    let owes_more = numbers.level > Level::Normal && numbers.owed > last.owed;
    numbers.level > last.level || owes_more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_presses_only_at_a_raised_level() {
        let at = |level, owed| Numbers {
            level,
            owed,
            ..Numbers::default()
        };
        let normal = at(Level::Normal, 0);
        assert!(!presses_more(&at(Level::Normal, 5), &normal));
        assert!(presses_more(&at(Level::Critical, 0), &normal));
        let critical = at(Level::Critical, 5);
        assert!(presses_more(&at(Level::Critical, 6), &critical));
        assert!(!presses_more(&at(Level::Critical, 5), &critical));
        assert!(!presses_more(&normal, &critical));
    }
}
