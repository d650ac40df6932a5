//! Whose turn it is. Users have their turns one after the other, and the connections of each: whoever has a thousand
//! connections is not served a thousand times as often.

use super::poll::Slot;
use std::collections::{HashMap, VecDeque};

/// Connections that have something to do, each once.
#[derive(Debug, Default)]
pub struct Turns {
    /// Users with a connection that waits, each once; the first is next.
    users: VecDeque<u32>,
    /// Of each user, the first is next. An empty queue keeps its room until it is swept.
    queues: HashMap<u32, VecDeque<Slot>>,
    count: usize,
}

impl Turns {
    /// A connection of that user's waits, behind the user's others.
    pub fn push(&mut self, uid: u32, slot: Slot) {
        let queue = self.queues.entry(uid).or_default();
        if queue.is_empty() {
            self.users.push_back(uid);
        }
        queue.push_back(slot);
        self.count += 1;
    }

    /// Who is next.
    pub fn pop(&mut self) -> Option<Slot> {
        let uid = self.users.pop_front()?;
        let queue = self.queues.get_mut(&uid)?;
        let slot = queue.pop_front()?;
        self.count -= 1;
        if !queue.is_empty() {
            self.users.push_back(uid);
        }
        Some(slot)
    }

    /// It waits no more.
    pub fn remove(&mut self, uid: u32, slot: Slot) {
        let Some(queue) = self.queues.get_mut(&uid) else {
            return;
        };
        let before = queue.len();
        queue.retain(|waiting| *waiting != slot);
        self.count -= before - queue.len();
        if queue.is_empty() {
            self.users.retain(|waiting| *waiting != uid);
        }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets users of whom nobody waits.
    pub fn sweep(&mut self) {
        self.queues.retain(|_, queue| !queue.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: u32) -> Slot {
        Slot {
            index,
            generation: 0,
        }
    }

    #[test]
    fn users_alternate_however_many_connections_one_has() {
        let mut turns = Turns::default();
        for index in 0..5 {
            turns.push(7, slot(index));
        }
        turns.push(8, slot(100));
        turns.push(9, slot(200));
        let order: Vec<u32> = std::iter::from_fn(|| turns.pop())
            .map(|slot| slot.index)
            .collect();
        assert_eq!(order, [0, 100, 200, 1, 2, 3, 4]);
        assert!(turns.is_empty() && turns.pop().is_none());
        turns.sweep();
        assert!(turns.queues.is_empty());
    }

    #[test]
    fn who_leaves_has_no_turn_and_its_user_only_with_another() {
        let mut turns = Turns::default();
        turns.push(7, slot(1));
        turns.push(7, slot(2));
        turns.push(8, slot(3));
        turns.remove(7, slot(1));
        turns.remove(7, slot(1));
        turns.remove(5, slot(1));
        assert_eq!(turns.len(), 2);
        turns.remove(8, slot(3));
        assert_eq!((turns.pop(), turns.pop()), (Some(slot(2)), None));
        turns.push(8, slot(4));
        assert_eq!(turns.pop(), Some(slot(4)));
    }
}
