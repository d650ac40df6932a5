//! How users share what the broker has little of: descriptors, and bytes that wait. Whoever takes
//! more has to leave as much free as it holds, and a part is kept for the first that each user
//! takes. So however many take all that they may, one who comes later finds something.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a connection may always have waiting: a stopped program must not lose its word
/// because of what others leave.
pub const A_WORD: usize = 4096;

/// What there is of a resource, and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// All users together hold at most so much.
    pub most: usize,
    /// The part of that which is kept for the firsts of users.
    pub kept: usize,
    /// The *first* of a user: it may hold this much, however little others leave free.
    pub first: usize,
}

impl Division {
    /// Whether a user that holds `own` may take `more` when all together hold `all`. Who is not
    /// `bounded` may take all that there is.
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
    division: Division,
    held: Mutex<usize>,
}

impl Pool {
    /// Nobody holds anything yet.
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

/// What one user holds of a resource. Clones are the same account; other threads may take and give back, too.
#[derive(Clone, Debug)]
pub struct Account {
    pool: Arc<Pool>,
    /// Changes under the pool's lock only.
    own: Arc<AtomicUsize>,
    bounded: bool,
}

impl Account {
    /// Takes `count` more, all or none; `None` when that would leave too little to others.
    #[must_use]
    pub fn take(&self, count: usize) -> Option<Held> {
        let mut held = self.nothing();
        held.resize(count).then_some(held)
    }

    /// Nothing yet.
    #[must_use]
    pub fn nothing(&self) -> Held {
        Held {
            account: self.clone(),
            count: 0,
        }
    }

    /// What the user holds now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }
}

/// So much of a user's, given back when dropped.
#[derive(Debug)]
pub struct Held {
    account: Account,
    count: usize,
}

impl Held {
    /// How much.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Holds `count` from now on. `false`, and nothing changes, when it is more than before and
    /// that would leave too little to others.
    #[must_use]
    pub fn resize(&mut self, count: usize) -> bool {
        self.change(count, false)
    }

    /// The same for the bytes of one connection; [`A_WORD`] is never too much.
    #[must_use]
    pub fn resize_bytes(&mut self, bytes: usize) -> bool {
        self.change(bytes, bytes <= A_WORD)
    }

    /// The same, whatever it leaves to others.
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

    /// Takes one by one as long as it may.
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
        // One who comes now has its first all the same.
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
                match give_back {
                    true => held.retain(|(owner, _)| *owner != user),
                    false => held.extend(users[user].take(count).map(|taken| (user, taken))),
                }
                let sum: usize = held.iter().map(|(_, held)| held.count()).sum();
                prop_assert_eq!(sum, *pool.lock());
                prop_assert!(sum <= DIVISION.most);
                prop_assert!(pool.account(true).take(DIVISION.first).is_some(), "{}", sum);
            }
        }
    }
}
