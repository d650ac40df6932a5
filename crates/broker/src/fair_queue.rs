//! Work by user: a user with work waits for a turn, and one with costly turns waits longer. So a
//! flood of work delays other users by at most one piece of work of each user.

use plimsoll_unit::Nanos;
use std::collections::{HashMap, VecDeque};

/// Waiting work. Users take turns; each user's own work keeps its order.
#[derive(Debug)]
pub struct FairQueue<T> {
    /// Users with work; the first is next.
    users: VecDeque<(u32, VecDeque<T>)>,
    /// Number of waiting pieces of work of all users.
    waiting: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue {
            users: VecDeque::new(),
            waiting: 0,
        }
    }
}

impl<T> FairQueue<T> {
    /// Number of waiting pieces of work.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no work waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Number of waiting pieces of one user.
    #[must_use]
    pub fn of(&self, uid: u32) -> usize {
        let own = self.users.iter().find(|(user, _)| *user == uid);
        own.map_or(0, |(_, own)| own.len())
    }

    /// The user with the most work.
    #[must_use]
    pub fn busiest(&self) -> Option<u32> {
        let busiest = self.users.iter().max_by_key(|(_, own)| own.len());
        busiest.map(|&(uid, _)| uid)
    }

    /// Users with work.
    pub fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.users.iter().map(|&(uid, _)| uid)
    }

    /// Adds a piece of work behind the others of its user.
    pub fn push(&mut self, uid: u32, work: T) {
        match self.users.iter_mut().find(|(user, _)| *user == uid) {
            Some((_, own)) => own.push_back(work),
            None => self.users.push_back((uid, VecDeque::from([work]))),
        }
        self.waiting += 1;
    }

    /// Takes the oldest piece of work of the first user that `may` have a turn; that user then goes
    /// to the end.
    pub fn next_of(&mut self, may: impl Fn(u32) -> bool) -> Option<(u32, T)> {
        let at = self.users.iter().position(|&(uid, _)| may(uid))?;
        let (uid, mut own) = self.users.remove(at)?;
        let work = own.pop_front()?;
        self.waiting -= 1;
        if !own.is_empty() {
            self.users.push_back((uid, own));
        }
        Some((uid, work))
    }

    /// Removes a user's oldest piece of work that is `wanted`, or its oldest if none is.
    pub fn give_up(&mut self, uid: u32, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let user = self.users.iter().position(|&(user, _)| user == uid)?;
        let own = &mut self.users[user].1;
        let at = own.iter().position(wanted).unwrap_or(0);
        let given_up = own.remove(at)?;
        self.waiting -= 1;
        if own.is_empty() {
            self.users.remove(user);
        }
        Some(given_up)
    }

    /// Removes a user's work that is `unwanted`.
    pub fn remove(&mut self, uid: u32, unwanted: impl Fn(&T) -> bool) {
        let Some(user) = self.users.iter().position(|&(user, _)| user == uid) else {
            return;
        };
        let own = &mut self.users[user].1;
        let before = own.len();
        own.retain(|work| !unwanted(work));
        self.waiting -= before - own.len();
        if own.is_empty() {
            self.users.remove(user);
        }
    }

    /// All waiting work.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.users.iter_mut().flat_map(|(_, own)| own.iter_mut())
    }

    /// Keeps the work for which `keep` is true.
    pub fn retain_mut(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        for (_, own) in &mut self.users {
            own.retain_mut(&mut keep);
        }
        self.users.retain(|(_, own)| !own.is_empty());
        self.waiting = self.users.iter().map(|(_, own)| own.len()).sum();
    }

    /// Removes all work.
    pub fn clear(&mut self) {
        self.users.clear();
        self.waiting = 0;
    }
}

/// Cost of work by user: each user may take a part of one processor, and a burst at once.
#[derive(Debug)]
pub struct Spending {
    /// A user may take one in this many nanoseconds.
    one_in: u64,
    /// Time by which a user may exceed that.
    burst: Nanos,
    /// For each user, the time up to which its part is used up. A user without an entry has
    /// used none for long.
    had: HashMap<u32, Nanos>,
}

impl Spending {
    /// No user has spent anything.
    #[must_use]
    pub fn new(one_in: u64, burst: Nanos) -> Spending {
        Spending {
            one_in,
            burst: burst * one_in,
            had: HashMap::new(),
        }
    }

    /// Time when a user may continue; 0 for at once.
    #[must_use]
    pub fn due(&self, uid: u32) -> Nanos {
        let had = self.had.get(&uid).copied().unwrap_or_default();
        had - self.burst
    }

    /// Whether a user may continue at `now`.
    #[must_use]
    pub fn may(&self, uid: u32, now: Nanos) -> bool {
        self.due(uid) <= now
    }

    /// Notes that a user's work took `took` up to `now`.
    pub fn spend(&mut self, uid: u32, took: Nanos, now: Nanos) {
        let had = self.had.entry(uid).or_default();
        *had = (*had).max(now) + took * self.one_in;
    }

    /// Drops users whose part is not used up at `now`.
    pub fn sweep(&mut self, now: Nanos) {
        self.had.retain(|_, had| *had > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns_whatever_one_of_them_has() {
        let mut turns = FairQueue::default();
        for work in 0..5 {
            turns.push(7, work);
        }
        turns.push(8, 80);
        turns.push(9, 90);
        assert_eq!((turns.len(), turns.of(7), turns.busiest()), (7, 5, Some(7)));
        let order: Vec<(u32, i32)> = std::iter::from_fn(|| turns.next_of(|_| true)).collect();
        let expected = [(7, 0), (8, 80), (9, 90), (7, 1), (7, 2), (7, 3), (7, 4)];
        assert_eq!(order, expected);
        assert!(turns.is_empty() && turns.users().count() == 0);
    }

    #[test]
    fn who_may_not_is_passed_over_and_keeps_its_place() {
        let mut turns = FairQueue::default();
        for uid in [1, 2, 3] {
            turns.push(uid, uid);
        }
        assert_eq!(turns.next_of(|uid| uid != 1), Some((2, 2)));
        assert_eq!(turns.next_of(|_| true), Some((1, 1)));
        assert_eq!(turns.next_of(|uid| uid == 9), None);
        assert_eq!(turns.len(), 1);
    }

    #[test]
    fn who_leaves_has_no_turn_and_its_user_only_with_another() {
        let mut turns = FairQueue::default();
        for (uid, work) in [(7, 'a'), (7, 'b'), (8, 'c')] {
            turns.push(uid, work);
        }
        turns.remove(7, |&work| work == 'a');
        turns.remove(7, |&work| work == 'a');
        turns.remove(5, |_| true);
        turns.remove(8, |&work| work == 'c');
        assert_eq!((turns.len(), turns.of(8)), (1, 0));
        assert_eq!(turns.next_of(|_| true), Some((7, 'b')));
        assert_eq!(turns.next_of(|_| true), None);
    }

    #[test]
    fn work_is_given_up_and_kept_by_what_it_is() {
        let mut turns = FairQueue::default();
        for work in [1, 2, 3, 4] {
            turns.push(7, work);
        }
        turns.push(8, 5);
        assert_eq!(turns.give_up(7, |work| work % 2 == 0), Some(2));
        assert_eq!(turns.give_up(7, |work| *work > 9), Some(1));
        assert_eq!(turns.give_up(6, |_| true), None);
        turns.retain_mut(|work| *work != 5);
        assert_eq!(
            (turns.len(), turns.users().collect::<Vec<_>>()),
            (2, vec![7])
        );
        turns.iter_mut().for_each(|work| *work *= 10);
        assert_eq!(turns.next_of(|_| true), Some((7, 30)));
        turns.clear();
        assert_eq!((turns.len(), turns.next_of(|_| true)), (0, None));
    }

    #[test]
    fn time_is_had_in_advance_up_to_a_burst_and_earned_back() {
        let mut spending = Spending::new(10, Nanos(100));
        assert!(spending.may(1, Nanos(5_000)));
        spending.spend(1, Nanos(100), Nanos(5_000));
        assert!(spending.may(1, Nanos(5_000)), "a burst");
        spending.spend(1, Nanos(1), Nanos(5_000));
        assert!(!spending.may(1, Nanos(5_009)) && spending.may(1, Nanos(5_010)));
        assert!(spending.may(2, Nanos(5_000)), "another's time is its own");
        // A user whose work took very long waits long, but not for ever.
        spending.spend(1, Nanos(1_000_000), Nanos(6_000));
        assert!(!spending.may(1, Nanos(10_000_000)) && spending.may(1, Nanos(10_010_000)));
        spending.sweep(Nanos(20_000_000));
        assert!(spending.had.is_empty());
    }
}
