//! Resources of the broker that each user takes: connections, listeners, calls, descriptors, unread
//! bytes and unfinished bytes. A user may have a thousand connections, so bounds per connection do
//! not bound the user.

use crate::descriptors;
use crate::user_quota::{Account, Division, Held, Pool};
use plimsoll_unit::{Nanos, SECOND};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes queued for reading; they may be locked in memory. The largest listing fits into what one
/// user may have, a usual one into the user's first.
pub const UNREAD: Division = Division {
    most: 64 << 20,
    kept: 16 << 20,
    first: 4 << 20,
};
/// Bytes of calls that were read and not answered, most of them of unfinished messages. The longest
/// message fits into a user's first, in a buffer that has doubled.
pub const UNANSWERED: Division = Division {
    most: 16 << 20,
    kept: 2 << 20,
    first: 128 << 10,
};
/// Calls per second of one user: as many as ten connections may make.
const CALLS_PER_SECOND: u32 = 20_000;

/// Rate limit of calls: at most a second's worth at once, earned back with time.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Calls that are earned in a second, and most calls at once.
    per_second: u32,
    /// Calls that are allowed now.
    left: u32,
    /// Time up to which calls were earned.
    at: Nanos,
}

impl Allowance {
    /// An allowance of a whole second's calls.
    #[must_use]
    pub fn new(per_second: u32, now: Nanos) -> Allowance {
        Allowance {
            per_second,
            left: per_second,
            at: now,
        }
    }

    /// Whether one more call may be made at `now`.
    pub fn allows(&mut self, now: Nanos) -> bool {
        let elapsed = now - self.at;
        let earned = u128::from(elapsed.0) * u128::from(self.per_second) / u128::from(SECOND);
        if earned >= u128::from(self.per_second - self.left) {
            self.left = self.per_second;
            self.at = self.at.max(now);
        } else {
            // The fraction of a call stays counted.
            self.left += earned as u32;
            self.at += Nanos::seconds(earned as u64) / u64::from(self.per_second);
        }
        self.left > 0
    }

    /// Notes a call.
    pub fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

/// One user; each of its objects here holds a reference. Belongs to the deciding thread; other threads may
/// hold copies of the accounts.
#[derive(Debug)]
pub struct User {
    /// Whether bounds apply: not for root and the broker's user.
    bounded: bool,
    /// Number of its connections.
    connections: Cell<usize>,
    /// Number of its connections to pressure sockets.
    listeners: Cell<usize>,
    /// Descriptors of the broker held for it.
    descriptors: Account,
    /// Bytes queued for it to read.
    unread: Account,
    /// Bytes of its unanswered calls.
    unanswered: Account,
    /// Rate limit of the calls of all its connections.
    calls: Cell<Allowance>,
}

impl User {
    /// Account of the broker's descriptors held for it.
    #[must_use]
    pub fn descriptors(&self) -> &Account {
        &self.descriptors
    }

    /// Account of bytes queued for it to read.
    #[must_use]
    pub fn unread(&self) -> &Account {
        &self.unread
    }

    /// Account of bytes of its unanswered calls.
    #[must_use]
    pub fn unanswered(&self) -> &Account {
        &self.unanswered
    }

    /// Whether anything is still counted that holds no reference to the user itself.
    fn owes(&self) -> bool {
        [&self.descriptors, &self.unread, &self.unanswered]
            .iter()
            .any(|account| account.held() > 0)
    }

    /// Counts one more connection, unless there are `most` already.
    #[must_use]
    pub fn connect(&self, most: usize) -> bool {
        let held = self.connections.get();
        let room = held < most;
        self.connections.set(held + usize::from(room));
        room
    }

    /// Notes the end of one of its connections.
    pub fn disconnect(&self) {
        self.connections
            .set(self.connections.get().saturating_sub(1));
    }

    /// Whether one more of its calls may be answered at `now`.
    #[must_use]
    pub fn may_call(&self, now: Nanos) -> bool {
        let mut calls = self.calls.get();
        let allowed = calls.allows(now);
        self.calls.set(calls);
        allowed || !self.bounded
    }

    /// Notes that one of its calls is answered.
    pub fn called(&self) {
        let mut calls = self.calls.get();
        calls.take();
        self.calls.set(calls);
    }
}

/// A connection to a pressure socket, counted against its user until it is dropped.
#[derive(Debug)]
pub struct Listening {
    user: Rc<User>,
    _descriptor: Held,
}

impl Listening {
    /// Counts one more; `None` when the user already has `most`, or no descriptor is left for it.
    #[must_use]
    pub fn begin(user: &Rc<User>, most: usize) -> Option<Listening> {
        let held = user.listeners.get();
        if user.bounded && held >= most {
            return None;
        }
        let descriptor = user.descriptors.take(1)?;
        user.listeners.set(held + 1);
        Some(Listening {
            user: Rc::clone(user),
            _descriptor: descriptor,
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let held = &self.user.listeners;
        held.set(held.get().saturating_sub(1));
    }
}

/// All users that have something here. Belongs to the deciding thread.
#[derive(Debug)]
pub struct Users {
    /// The broker's uid.
    ours: u32,
    /// The users, by uid.
    by_uid: HashMap<u32, Rc<User>>,
    /// Descriptors that users share.
    descriptors: Arc<Pool>,
    /// Queued bytes that users share.
    unread: Arc<Pool>,
    /// Bytes of unanswered calls that users share.
    unanswered: Arc<Pool>,
}

impl Users {
    /// An empty table; `ours` is the broker's uid. Users share the descriptors that this process
    /// may open now.
    #[must_use]
    pub fn new(ours: u32) -> Users {
        Users {
            ours,
            by_uid: HashMap::new(),
            descriptors: Pool::new(descriptors::division()),
            unread: Pool::new(UNREAD),
            unanswered: Pool::new(UNANSWERED),
        }
    }

    /// The user with that uid.
    pub fn get(&mut self, uid: u32, now: Nanos) -> Rc<User> {
        let bounded = uid != 0 && uid != self.ours;
        let user = self.by_uid.entry(uid).or_insert_with(|| {
            Rc::new(User {
                bounded,
                connections: Cell::new(0),
                listeners: Cell::new(0),
                descriptors: self.descriptors.account(bounded),
                unread: self.unread.account(bounded),
                unanswered: self.unanswered.account(bounded),
                calls: Cell::new(Allowance::new(CALLS_PER_SECOND, now)),
            })
        });
        Rc::clone(user)
    }

    /// Drops users that have nothing here any more; call it once a second. A user that returns has
    /// a whole allowance, which it would have earned within a second anyway.
    pub fn sweep(&mut self) {
        self.by_uid
            .retain(|_, user| Rc::strong_count(user) > 1 || user.owes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u32 = 5;

    #[test]
    fn calls_are_spent_and_earned_back_to_a_seconds_worth() {
        let mut calls = Allowance::new(1000, Nanos(1));
        let spent = (0..10_000)
            .take_while(|_| {
                let allowed = calls.allows(Nanos(1));
                calls.take();
                allowed
            })
            .count();
        assert_eq!(spent, 1000);
        // Two fractions of a call that together are one.
        assert!(!calls.allows(Nanos(1 + 600_000)));
        assert!(calls.allows(Nanos(1 + 1_200_000)));
        calls.take();
        assert!(!calls.allows(Nanos(1 + 1_900_000)));
        assert!(calls.allows(Nanos(100 * SECOND)));
        assert_eq!(calls.left, 1000);
        // A clock that goes back earns nothing and takes nothing.
        assert!(calls.allows(Nanos(1)));
    }

    #[test]
    fn a_users_calls_are_bounded_whatever_its_connections_and_ours_are_not() {
        let mut users = Users::new(OURS);
        for (uid, bounded) in [(7, true), (OURS, false), (0, false)] {
            let served = (0..2 * CALLS_PER_SECOND)
                .take_while(|_| {
                    let user = users.get(uid, Nanos(1));
                    let allowed = user.may_call(Nanos(1));
                    user.called();
                    allowed
                })
                .count() as u32;
            let seconds = if bounded { 1 } else { 2 };
            assert_eq!(served, seconds * CALLS_PER_SECOND, "user {uid}");
        }
    }

    #[test]
    fn listeners_are_counted_until_they_are_dropped() {
        let mut users = Users::new(OURS);
        let user = users.get(7, Nanos(1));
        let mut listeners: Vec<_> = (0..3)
            .map(|_| Listening::begin(&user, 3).unwrap())
            .collect();
        assert!(Listening::begin(&user, 3).is_none());
        listeners.pop();
        assert!(Listening::begin(&user, 3).is_some());
        let ours = users.get(OURS, Nanos(1));
        assert!(Listening::begin(&ours, 0).is_some());
    }

    #[test]
    fn a_user_is_forgotten_with_the_last_thing_that_it_has() {
        let mut users = Users::new(OURS);
        let user = users.get(7, Nanos(1));
        assert!(user.connect(1) && !user.connect(1));
        users.sweep();
        assert!(!users.get(7, Nanos(1)).connect(1));
        user.disconnect();
        assert!(user.connect(1));
        // Objects in another thread may hold descriptors.
        let held = user.descriptors().take(3);
        drop(user);
        users.sweep();
        assert_eq!(users.get(7, Nanos(1)).descriptors().held(), 3);
        drop(held);
        users.sweep();
        assert!(users.by_uid.is_empty());
    }
}
