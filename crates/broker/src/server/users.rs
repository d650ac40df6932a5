//! What each user takes of the broker: connections, listeners, calls, bytes that it does not read. A user may have a
//! thousand connections, so bounds of each are no bound of the user.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes that wait for one user at most: two listings of the largest size. It does not hold for root and the broker's
/// user.
const MAX_WAITING: usize = 32 << 20;
/// Bytes that wait for everybody together at most: they may be locked in memory.
const MAX_WAITING_IN_ALL: usize = 64 << 20;
/// A connection on which no more bytes wait than these is never the one that goes beyond: a stopped program must not
/// lose its word because others do not read.
const A_WORD: usize = 4096;
/// Calls per second of one user: ten connections that call as often as each may.
const CALLS_PER_SECOND: u32 = 20_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Calls that may be made at once, a second's worth at most, and are earned back with time.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    per_second: u32,
    left: u32,
    /// Up to when calls were earned, ns.
    at: u64,
}

impl Allowance {
    /// A whole second's worth.
    #[must_use]
    pub fn new(per_second: u32, now: u64) -> Allowance {
        Allowance {
            per_second,
            left: per_second,
            at: now,
        }
    }

    /// Whether one more call may be made at `now` (ns).
    pub fn allows(&mut self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.at);
        let earned = u128::from(elapsed) * u128::from(self.per_second) / u128::from(SECOND_NS);
        if earned >= u128::from(self.per_second - self.left) {
            self.left = self.per_second;
            self.at = self.at.max(now);
        } else {
            // What is no whole call yet counts on.
            self.left += earned as u32;
            self.at += earned as u64 * SECOND_NS / u64::from(self.per_second);
        }
        self.left > 0
    }

    /// One was made.
    pub fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

/// One user, held by everything that it has here.
#[derive(Debug)]
pub struct User {
    /// Neither root nor the broker's user.
    bounded: bool,
    connections: Cell<usize>,
    listeners: Cell<usize>,
    /// Bytes.
    waiting: Cell<usize>,
    waiting_in_all: Rc<Cell<usize>>,
    calls: Cell<Allowance>,
}

impl User {
    /// Counts one more connection, unless there are `most` already.
    #[must_use]
    pub fn connect(&self, most: usize) -> bool {
        let held = self.connections.get();
        let room = held < most;
        self.connections.set(held + usize::from(room));
        room
    }

    /// One of its connections ended.
    pub fn disconnect(&self) {
        self.connections
            .set(self.connections.get().saturating_sub(1));
    }

    /// Whether one more of its calls may be answered at `now` (ns).
    #[must_use]
    pub fn may_call(&self, now: u64) -> bool {
        let mut calls = self.calls.get();
        let allowed = calls.allows(now);
        self.calls.set(calls);
        allowed || !self.bounded
    }

    /// One of its calls is answered.
    pub fn called(&self) {
        let mut calls = self.calls.get();
        calls.take();
        self.calls.set(calls);
    }

    /// Counts bytes that begin to wait on a connection on which `there` are already. `false`, and they are not counted,
    /// when that is more than one user or all together may leave unread.
    #[must_use]
    pub fn wait(&self, bytes: usize, there: usize) -> bool {
        let own = self.waiting.get().saturating_add(bytes);
        let all = self.waiting_in_all.get().saturating_add(bytes);
        let beyond = all > MAX_WAITING_IN_ALL || self.bounded && own > MAX_WAITING;
        if beyond && there.saturating_add(bytes) > A_WORD {
            return false;
        }
        self.waiting.set(own);
        self.waiting_in_all.set(all);
        true
    }

    /// So many bytes wait no more.
    pub fn wait_no_more(&self, bytes: usize) {
        self.waiting.set(self.waiting.get().saturating_sub(bytes));
        self.waiting_in_all
            .set(self.waiting_in_all.get().saturating_sub(bytes));
    }
}

/// A connection to a pressure socket, counted as its user's until it is dropped.
#[derive(Debug)]
pub struct Listening(Rc<User>);

impl Listening {
    /// One more; `None` when the user has `most` already.
    #[must_use]
    pub fn begin(user: &Rc<User>, most: usize) -> Option<Listening> {
        let held = user.listeners.get();
        if user.bounded && held >= most {
            return None;
        }
        user.listeners.set(held + 1);
        Some(Listening(Rc::clone(user)))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let held = &self.0.listeners;
        held.set(held.get().saturating_sub(1));
    }
}

/// All users that have something here.
#[derive(Debug)]
pub struct Users {
    /// The broker's.
    ours: u32,
    by_uid: HashMap<u32, Rc<User>>,
    waiting_in_all: Rc<Cell<usize>>,
}

impl Users {
    /// None yet; `ours` is the broker's own.
    #[must_use]
    pub fn new(ours: u32) -> Users {
        Users {
            ours,
            by_uid: HashMap::new(),
            waiting_in_all: Rc::default(),
        }
    }

    /// That user; `now` in ns.
    pub fn get(&mut self, uid: u32, now: u64) -> Rc<User> {
        let bounded = uid != 0 && uid != self.ours;
        let all = &self.waiting_in_all;
        let user = self.by_uid.entry(uid).or_insert_with(|| {
            Rc::new(User {
                bounded,
                connections: Cell::new(0),
                listeners: Cell::new(0),
                waiting: Cell::new(0),
                waiting_in_all: Rc::clone(all),
                calls: Cell::new(Allowance::new(CALLS_PER_SECOND, now)),
            })
        });
        Rc::clone(user)
    }

    /// Forgets those who have nothing here any more; to be called once a second. Who comes back has a whole allowance,
    /// which a second earns anyway.
    pub fn sweep(&mut self) {
        self.by_uid.retain(|_, user| Rc::strong_count(user) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u32 = 5;

    #[test]
    fn calls_are_spent_and_earned_back_to_a_seconds_worth() {
        let mut calls = Allowance::new(1000, 1);
        let spent = (0..10_000)
            .take_while(|_| {
                let allowed = calls.allows(1);
                calls.take();
                allowed
            })
            .count();
        assert_eq!(spent, 1000);
        // Not a whole call, twice: together they are one.
        assert!(!calls.allows(1 + 600_000));
        assert!(calls.allows(1 + 1_200_000));
        calls.take();
        assert!(!calls.allows(1 + 1_900_000));
        assert!(calls.allows(100 * SECOND_NS));
        assert_eq!(calls.left, 1000);
        // A clock that goes back earns nothing and takes nothing.
        assert!(calls.allows(1));
    }

    #[test]
    fn a_users_calls_are_bounded_whatever_its_connections_and_ours_are_not() {
        let mut users = Users::new(OURS);
        for (uid, bounded) in [(7, true), (OURS, false), (0, false)] {
            let served = (0..2 * CALLS_PER_SECOND)
                .take_while(|_| {
                    let user = users.get(uid, 1);
                    let allowed = user.may_call(1);
                    user.called();
                    allowed
                })
                .count() as u32;
            let seconds = if bounded { 1 } else { 2 };
            assert_eq!(served, seconds * CALLS_PER_SECOND, "user {uid}");
        }
    }

    #[test]
    fn what_waits_is_bounded_for_a_user_and_for_all_but_a_word_always_fits() {
        const MIB: usize = 1 << 20;
        let mut users = Users::new(OURS);
        let user = users.get(7, 1);
        assert!(user.wait(MAX_WAITING, 0));
        assert!(!user.wait(MIB, 0) && !user.wait(1, A_WORD));
        assert!(user.wait(A_WORD, 0), "a word");
        user.wait_no_more(A_WORD);
        // Somebody else's bytes are not this user's.
        let other = users.get(8, 1);
        assert!(other.wait(MAX_WAITING - MIB, 0));
        // Ours alone is not bounded, all together are.
        let ours = users.get(OURS, 1);
        assert!(ours.wait(MIB, 0) && !ours.wait(MIB, 0));
        user.wait_no_more(MAX_WAITING);
        assert!(ours.wait(MAX_WAITING, 0) && !ours.wait(MIB, 0));
        assert!(!user.wait(MIB, 0) && user.wait(A_WORD, 0));
    }

    #[test]
    fn listeners_are_counted_until_they_are_dropped() {
        let mut users = Users::new(OURS);
        let user = users.get(7, 1);
        let mut listeners: Vec<_> = (0..3)
            .map(|_| Listening::begin(&user, 3).unwrap())
            .collect();
        assert!(Listening::begin(&user, 3).is_none());
        listeners.pop();
        assert!(Listening::begin(&user, 3).is_some());
        let ours = users.get(OURS, 1);
        assert!(Listening::begin(&ours, 0).is_some());
    }

    #[test]
    fn a_user_is_forgotten_with_the_last_thing_that_it_has() {
        let mut users = Users::new(OURS);
        let user = users.get(7, 1);
        assert!(user.connect(1) && !user.connect(1));
        users.sweep();
        assert!(!users.get(7, 1).connect(1));
        user.disconnect();
        assert!(user.connect(1));
        drop(user);
        users.sweep();
        assert!(users.by_uid.is_empty());
    }
}
