//! Monitors: which thread holds each, which contend for it, and which wait in it to be notified.

use plimsoll_trace::MonitorId;
use plimsoll_trace::numbered::ByNumber;
use std::collections::{BTreeMap, VecDeque};

/// The most notifications of one thread that a monitor keeps for waits to come. The oldest are given up.
const MOST_KEPT: usize = 1 << 14;
/// The most notifications of all threads that a monitor keeps. Older ones are forgotten, except their highest
/// stamp: a wait that began before it is over at once, for want of knowing better.
const MOST_ALLS: usize = 1 << 12;
/// The most monitors that are kept because they were notified, while nobody uses them. If there are more, all
/// unused ones are forgotten: the numbers of most monitors say when their objects die, but not those of
/// recordings with sampled deaths.
const MOST_NOTIFIED: usize = 1 << 16;

/// A thread that begins to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub thread: usize,
    /// The stamp of what it did last before; 0 where its stream has none. It has held the monitor since, so
    /// in the recorded program each notification with a higher stamp came after the wait had begun.
    pub since: u64,
    /// In the recorded program the wait was over before any event with this stamp or a higher one. Without
    /// meaning where `since` is 0.
    pub until: u64,
}

/// A thread that notifies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notifying {
    pub thread: usize,
    /// The stamp of the notification; 0 where its stream has none.
    pub stamp: u64,
}

/// One monitor. Threads are indices of streams.
#[derive(Clone, Debug, Default)]
struct Monitor {
    holder: Option<usize>,
    /// How often the holder has entered it and not exited it.
    depth: u64,
    /// Threads that found it held, in the order of their coming.
    contenders: Vec<usize>,
    /// Threads that wait in it: the longest waiting first.
    waiters: VecDeque<usize>,
    /// Notifications that found nobody waiting: their stamps and numbers, and who made them. Some recorded
    /// thread was notified by one of them, and comes later under this scheduler: it does not wait then.
    kept: BTreeMap<(u64, u64), usize>,
    /// Notifications of all threads: their stamps, and who made them.
    alls: BTreeMap<u64, usize>,
    /// The highest stamp of a notification of all threads that was given up.
    given_up: u64,
    /// The number of the last notification of all threads by each thread.
    last_alls: Vec<(usize, u64)>,
    /// Notifications of either kind; a number.
    count: u64,
    /// Threads without stamps that have waited in it, and how many notifications of all there had been.
    seen: Vec<(usize, u64)>,
}

impl Monitor {
    /// Whether a wait is over before it begins, because a notification that may have ended it in the recorded
    /// program came before. A thread's own never is one. One that was of one thread is used up by that.
    fn passes(&mut self, wait: Waiting) -> bool {
        let by_another = |by: &usize| *by != wait.thread;
        let (first, end, is_over) = match wait.since {
            0 => (0, u64::MAX, self.has_unseen(wait.thread)),
            since => {
                let first = since.saturating_add(1);
                let end = wait.until.max(first);
                let mut during = self.alls.range(first..end);
                let was_told = during.any(|(_, by)| by_another(by));
                let is_unknown = first < end && since < self.given_up;
                (first, end, was_told || is_unknown)
            }
        };
        if is_over {
            return true;
        }
        let mut kept = self.kept.range((first, 0)..(end, 0));
        let found = kept.find(|(_, by)| by_another(by));
        let Some(key) = found.map(|(key, _)| *key) else {
            return false;
        };
        self.kept.remove(&key);
        true
    }

    /// Whether all threads were notified since a thread without stamps came to wait here before.
    fn has_unseen(&mut self, thread: usize) -> bool {
        let mut before = 0;
        match self.seen.iter_mut().find(|(who, _)| *who == thread) {
            Some((_, seen)) => before = std::mem::replace(seen, self.count),
            None => self.seen.push((thread, self.count)),
        }
        let mut others = self.last_alls.iter().filter(|(by, _)| *by != thread);
        others.any(|(_, number)| *number > before)
    }

    /// Takes down that all threads were notified.
    fn told_all(&mut self, by: Notifying) {
        let number = self.count;
        match self.last_alls.iter_mut().find(|(who, _)| *who == by.thread) {
            Some((_, last)) => *last = number,
            None => self.last_alls.push((by.thread, number)),
        }
        if by.stamp > 0 {
            self.alls.insert(by.stamp, by.thread);
        }
        if self.alls.len() > MOST_ALLS
            && let Some((oldest, _)) = self.alls.pop_first()
        {
            self.given_up = self.given_up.max(oldest);
        }
    }

    /// Whether nobody holds it, contends for it or waits in it.
    fn is_idle(&self) -> bool {
        self.holder.is_none() && self.contenders.is_empty() && self.waiters.is_empty()
    }

    /// Whether nobody uses it and nothing is known of it that matters to those who come.
    fn is_blank(&self) -> bool {
        let knows = !(self.kept.is_empty() && self.last_alls.is_empty() && self.seen.is_empty());
        self.is_idle() && !knows
    }
}

/// The monitors that are in use, or have been notified.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    known: ByNumber<MonitorId, Monitor>,
    /// So many are in use of those that were looked through last.
    used: usize,
}

/// The result of an attempt to enter a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The thread did not hold it, and does now.
    Acquired,
    /// The thread held it before.
    Again,
    /// Another thread holds it. The thread contends for it from here on.
    Contended,
}

impl Monitors {
    /// A thread enters a monitor `times` times at once.
    pub(super) fn enter(&mut self, id: MonitorId, thread: usize, times: u64) -> Entry {
        if self.known.len() >= 2 * self.used + MOST_NOTIFIED {
            self.known.retain(|_, monitor| !monitor.is_idle());
            self.used = self.known.len();
        }
        let monitor = self.known.entry(id).or_default();
        let entry = match monitor.holder {
            None => Entry::Acquired,
            Some(holder) if holder == thread => Entry::Again,
            Some(_) => {
                monitor.contenders.push(thread);
                return Entry::Contended;
            }
        };
        monitor.holder = Some(thread);
        monitor.depth = monitor.depth.saturating_add(times);
        entry
    }

    /// A thread exits a monitor once. Returns nothing if it does not hold it, and otherwise whether it has
    /// given it up now.
    pub(super) fn exit(&mut self, id: MonitorId, thread: usize) -> Option<bool> {
        let monitor = self.held(id, thread)?;
        monitor.depth -= 1;
        if monitor.depth == 0 {
            monitor.holder = None;
        }
        Some(monitor.depth == 0)
    }

    /// Takes those that contend for a monitor that was given up.
    pub(super) fn take_contenders(&mut self, id: MonitorId) -> Vec<usize> {
        let contenders = self.known.get_mut(&id).map_or(Vec::new(), |monitor| {
            std::mem::take(&mut monitor.contenders)
        });
        self.forget_idle(id);
        contenders
    }

    /// Whether a thread holds a monitor.
    pub(super) fn is_held_by(&self, id: MonitorId, thread: usize) -> bool {
        self.holder(id) == Some(thread)
    }

    /// The thread that holds a monitor.
    pub(super) fn holder(&self, id: MonitorId) -> Option<usize> {
        self.known.get(&id)?.holder
    }

    /// A thread that holds a monitor waits in it. Returns how often it had entered the monitor, which it
    /// gives up; or nothing if it has been notified already and goes on.
    pub(super) fn wait(&mut self, id: MonitorId, wait: Waiting) -> Option<u64> {
        let monitor = self.held(id, wait.thread)?;
        if monitor.passes(wait) {
            return None;
        }
        monitor.waiters.push_back(wait.thread);
        monitor.holder = None;
        Some(std::mem::take(&mut monitor.depth))
    }

    /// Threads that wait in a monitor are notified, and contend for it from here on. Returns them.
    pub(super) fn notify(&mut self, id: MonitorId, by: Notifying, all: bool) -> Vec<usize> {
        let Some(monitor) = self.known.get_mut(&id) else {
            return Vec::new();
        };
        let count = match (all, monitor.waiters.len()) {
            (true, waiting) => waiting,
            (false, waiting) => waiting.min(1),
        };
        let notified: Vec<usize> = monitor.waiters.drain(..count).collect();
        monitor.count += 1;
        let number = monitor.count;
        if all {
            monitor.told_all(by);
            for (who, seen) in &mut monitor.seen {
                if notified.contains(who) {
                    *seen = number;
                }
            }
        } else if notified.is_empty() {
            monitor.kept.insert((by.stamp, number), by.thread);
            if monitor.kept.len() > MOST_KEPT {
                monitor.kept.pop_first();
            }
        }
        monitor.contenders.extend(&notified);
        notified
    }

    /// A thread no longer waits in a monitor, though nobody has notified it.
    pub(super) fn stop_waiting(&mut self, id: MonitorId, thread: usize) {
        if let Some(monitor) = self.known.get_mut(&id) {
            monitor.waiters.retain(|&waiter| waiter != thread);
        }
        self.forget_idle(id);
    }

    /// The object of a monitor is dead: no thread comes back to it.
    pub(super) fn died(&mut self, id: MonitorId) {
        let unused = |monitor: &Monitor| monitor.holder.is_none() && monitor.waiters.is_empty();
        if self.known.get(&id).is_some_and(unused) {
            self.known.remove(&id);
        }
    }

    /// One of the monitors that a thread holds: the one with the lowest number.
    pub(super) fn any_held_by(&self, thread: usize) -> Option<MonitorId> {
        let held = self
            .known
            .iter()
            .filter(|(_, monitor)| monitor.holder == Some(thread));
        held.map(|(&id, _)| id).min()
    }

    fn held(&mut self, id: MonitorId, thread: usize) -> Option<&mut Monitor> {
        self.known
            .get_mut(&id)
            .filter(|monitor| monitor.holder == Some(thread))
    }

    /// Forgets a monitor that nobody uses and about which nothing is known.
    fn forget_idle(&mut self, id: MonitorId) {
        if self.known.get(&id).is_some_and(Monitor::is_blank) {
            self.known.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONITOR: MonitorId = MonitorId(7);

    fn notify(monitors: &mut Monitors, id: MonitorId, thread: usize, stamp: u64, all: bool) {
        assert_eq!(monitors.enter(id, thread, 1), Entry::Acquired);
        monitors.notify(id, Notifying { thread, stamp }, all);
        monitors.exit(id, thread);
        monitors.take_contenders(id);
    }

    /// Whether a wait does not block. One that does is given up.
    fn passes(monitors: &mut Monitors, thread: usize, (since, until): (u64, u64)) -> bool {
        monitors.enter(MONITOR, thread, 1);
        let wait = Waiting {
            thread,
            since,
            until,
        };
        let blocks = monitors.wait(MONITOR, wait).is_some();
        if blocks {
            monitors.stop_waiting(MONITOR, thread);
        } else {
            assert_eq!(monitors.exit(MONITOR, thread), Some(true));
        }
        monitors.take_contenders(MONITOR);
        !blocks
    }

    #[test]
    fn a_wait_is_passed_by_what_was_recorded_while_it_lasted() {
        let mut monitors = Monitors::default();
        notify(&mut monitors, MONITOR, 0, 10, true);
        assert!(passes(&mut monitors, 1, (9, 12)) && passes(&mut monitors, 2, (9, 11)));
        assert!(
            passes(&mut monitors, 1, (9, 12)),
            "it is recorded, not used up"
        );
        assert!(!passes(&mut monitors, 1, (10, 99)) && !passes(&mut monitors, 1, (11, 99)));
        assert!(!passes(&mut monitors, 1, (5, 10)) && !passes(&mut monitors, 1, (5, 0)));
        notify(&mut monitors, MONITOR, 0, 15, true);
        assert!(
            passes(&mut monitors, 1, (9, 12)),
            "the one before is still known"
        );
        notify(&mut monitors, MONITOR, 0, 20, false);
        notify(&mut monitors, MONITOR, 0, 30, false);
        assert!(!passes(&mut monitors, 1, (31, 99)) && !passes(&mut monitors, 1, (16, 20)));
        assert!(passes(&mut monitors, 1, (16, 31)) && passes(&mut monitors, 2, (16, 31)));
        assert!(!passes(&mut monitors, 1, (16, 31)), "each ends one wait");
    }

    #[test]
    fn without_stamps_a_wait_is_passed_by_what_others_did_and_it_has_not_seen() {
        for all in [true, false] {
            let mut monitors = Monitors::default();
            notify(&mut monitors, MONITOR, 1, 0, all);
            assert!(!passes(&mut monitors, 1, (0, 0)), "its own");
            notify(&mut monitors, MONITOR, 0, 0, all);
            assert!(passes(&mut monitors, 1, (0, 0)));
            assert!(!passes(&mut monitors, 1, (0, 0)), "seen");
        }
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut monitors = Monitors::default();
        for stamp in 1..3 * MOST_KEPT as u64 {
            notify(&mut monitors, MONITOR, 0, stamp, false);
        }
        assert_eq!(monitors.known[&MONITOR].kept.len(), MOST_KEPT);
        for stamp in 1..3 * MOST_ALLS as u64 {
            notify(&mut monitors, MONITOR, 0, 10 * stamp, true);
        }
        assert_eq!(monitors.known[&MONITOR].alls.len(), MOST_ALLS);
        let given_up = 10 * (2 * MOST_ALLS as u64 - 1);
        assert!(
            passes(&mut monitors, 1, (given_up - 9, given_up - 5)),
            "nobody knows"
        );
        assert!(
            !passes(&mut monitors, 1, (given_up - 9, given_up - 8)),
            "nobody did anything"
        );
        assert!(!passes(&mut monitors, 1, (given_up + 1, given_up + 2)));
        assert_eq!(monitors.enter(MonitorId(1), 3, 1), Entry::Acquired);
        for number in 0..3 * MOST_NOTIFIED as u64 {
            notify(&mut monitors, MonitorId(100 + number), 0, number, true);
            assert!(monitors.known.len() <= 2 * MOST_NOTIFIED);
        }
        assert!(monitors.is_held_by(MonitorId(1), 3), "one in use stays");
    }
}
