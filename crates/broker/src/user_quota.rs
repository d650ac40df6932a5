//! Divides scarce resources of the broker between users: descriptors and queued bytes. A user that
//! takes more must leave as much free as it holds, and a part is reserved for the first units of
//! each user. So a user that comes late finds something, however many others take all that they
//! may.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a connection may always have queued: a stopped program must not lose a short message
/// because others leave little.
pub const A_WORD: usize = 4096;

/// The amount of a resource, and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Most units that all users together may hold.
    pub most: usize,
    /// Part of `most` reserved for the firsts of users.
    pub kept: usize,
    /// The *first* of a user: it may hold this much, however little others leave free.
    pub first: usize,
}

impl Division {
    /// Whether a user that holds `own` may take `more` when all users together hold `all`. A user
    /// that is not `bounded` may take all that is left.
    fn allows(self, bounded: bool, own: usize, all: usize, more: usize) -> bool {
        let Some(left) = self.most.checked_sub(all.saturating_add(more)) else {
            return false;
        };
        let own = own.saturating_add(more);
        !bounded || own <= self.first || own <= left.saturating_sub(self.kept)
    }
}

/// One resource.
#[derive(Debug)]
pub struct Pool {
    /// How it is divided.
    division: Division,
    /// Units that all users together hold.
    held: Mutex<usize>,
}

impl Pool {
    /// A pool that nobody holds a part of.
    #[must_use]
    pub fn new(division: Division) -> Arc<Pool> {
        Arc::new(Pool {
            division,
            held: Mutex::new(0),
        })
    }

    /// A user's account.
    #[must_use]
    pub fn account(self: &Arc<Pool>, bounded: bool) -> Account {
        Account {
            pool: Arc::clone(self),
            own: Arc::default(),
            bounded,
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One user's account of a resource. Clones are the same account; other threads may use it as well.
#[derive(Clone, Debug)]
pub struct Account {
    /// The resource.
    pool: Arc<Pool>,
    /// Units held by the user. Changes only under the pool's lock.
    own: Arc<AtomicUsize>,
    /// Whether bounds apply to the user.
    bounded: bool,
}

impl Account {
    /// Takes `count` more units, all or none; `None` when that would leave too little for others.
    #[must_use]
    pub fn take(&self, count: usize) -> Option<Held> {
        let mut held = self.nothing();
        held.resize(count).then_some(held)
    }

    /// An empty holding of this account.
    #[must_use]
    pub fn nothing(&self) -> Held {
        Held {
            account: self.clone(),
            count: 0,
        }
    }

    /// Units that the user holds now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }
}

/// Units held for a user; given back when dropped.
#[derive(Debug)]
pub struct Held {
    /// The user's account.
    account: Account,
    /// Units held.
    count: usize,
}

impl Held {
    /// An empty holding of the same account.
    #[must_use]
    pub fn nothing(&self) -> Held {
        self.account.nothing()
    }

    /// Divides it: `count` units, or all if they are fewer, are held by the new one.
    #[must_use]
    pub fn split(&mut self, count: usize) -> Held {
        let mut part = self.nothing();
        part.count = count.min(self.count);
        self.count -= part.count;
        part
    }

    /// Number of units.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Changes the holding to `count`. Returns `false` and changes nothing when that is an increase
    /// that leaves too little for others.
    #[must_use]
    pub fn resize(&mut self, count: usize) -> bool {
        self.change(count, false)
    }

    /// As [`Held::resize`], for the queued bytes of one connection; up to [`A_WORD`] is always allowed.
    #[must_use]
    pub fn resize_bytes(&mut self, bytes: usize) -> bool {
        self.change(bytes, bytes <= A_WORD)
    }

    /// As [`Held::resize`], even if it leaves too little for others.
    pub fn resize_anyway(&mut self, count: usize) {
        let _ = self.change(count, true);
    }

    fn change(&mut self, count: usize, anyway: bool) -> bool {
        let Account { pool, own, bounded } = &self.account;
        let mut all = pool.lock();
        let before = own.load(Ordering::Relaxed);
        if let Some(more) = count.checked_sub(self.count).filter(|&more| more > 0)
            && !anyway
            && !pool.division.allows(*bounded, before, *all, more)
        {
            return false;
        }
        *all = all.saturating_sub(self.count).saturating_add(count);
        let after = before.saturating_sub(self.count).saturating_add(count);
        own.store(after, Ordering::Relaxed);
        self.count = count;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize_anyway(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIVISION: Division = Division {
        most: 1000,
        kept: 200,
        first: 20,
    };

    /// Takes single units as long as allowed.
    fn grab(account: &Account) -> Vec<Held> {
        std::iter::from_fn(|| account.take(1)).collect()
    }

    #[test]
    fn who_takes_all_that_it_may_leaves_as_much_to_others() {
        let pool = Pool::new(DIVISION);
        let users: Vec<Account> = (0..10).map(|_| pool.account(true)).collect();
        let all: Vec<Vec<Held>> = users.iter().map(grab).collect();
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(counts, [400, 200, 100, 50, 25, 20, 20, 20, 20, 20]);
        // A user that comes now still gets its first.
        let late = pool.account(true);
        assert_eq!(late.take(20).map(|held| held.count()), Some(20));
        drop(all);
        assert_eq!((*pool.lock(), users[0].held()), (0, 0));
        assert_eq!(grab(&late).len(), 400);
    }

    #[test]
    fn who_is_not_bounded_may_have_all_and_no_more() {
        let pool = Pool::new(DIVISION);
        let ours = pool.account(false);
        let mut held = ours.take(1000).unwrap();
        assert!(ours.take(1).is_none() && !held.resize(1001));
        held.resize_anyway(1001);
        assert_eq!(ours.held(), 1001);
        assert!(held.resize(10));
        assert!(ours.take(990).is_some());
        let part = held.split(4);
        assert_eq!((part.count(), held.count(), ours.held()), (4, 6, 10));
        assert_eq!(held.split(9).count(), 6);
        drop((part, held));
        assert_eq!(ours.held(), 0);
    }

    proptest! {
        #[test]
        fn the_sum_stays_within_and_a_newcomer_finds_its_first(
            steps in prop::collection::vec((0usize..8, 0usize..300, any::<bool>()), 0..200),
        ) {
            let pool = Pool::new(DIVISION);
            let users: Vec<Account> = (0..8).map(|_| pool.account(true)).collect();
            let mut held: Vec<(usize, Held)> = Vec::new();
            for (user, count, give_back) in steps {
                if give_back {
                    held.retain(|(owner, _)| *owner != user);
                } else {
                    held.extend(users[user].take(count).map(|taken| (user, taken)));
                }
                let sum: usize = held.iter().map(|(_, held)| held.count()).sum();
                prop_assert_eq!(sum, *pool.lock());
                prop_assert!(sum <= DIVISION.most);
                prop_assert!(pool.account(true).take(DIVISION.first).is_some(), "{}", sum);
            }
        }
    }
}
