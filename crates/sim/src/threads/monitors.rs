//! Monitors: which thread holds each, which contend for it, and which wait in it to be notified.

use plimsoll_trace::MonitorId;
use plimsoll_trace::numbered::ByNumber;
use std::collections::VecDeque;

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
    /// Notifications that found nobody waiting. A recorded thread was notified by one of them, and comes
    /// later under this scheduler: it does not wait then.
    credit: u64,
    /// Notifications of all threads.
    alls: u64,
    /// Threads that have waited in it, and how many notifications of all there had been.
    seen: Vec<(usize, u64)>,
}

/// The monitors that are in use.
#[derive(Debug, Default)]
pub(super) struct Monitors(ByNumber<MonitorId, Monitor>);

/// What came of an attempt to enter a monitor.
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
        let monitor = self.0.entry(id).or_default();
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
        let contenders = self.0.get_mut(&id).map_or(Vec::new(), |monitor| {
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
        self.0.get(&id)?.holder
    }

    /// A thread that holds a monitor waits in it. Returns how often it had entered the monitor, which it
    /// gives up; or nothing if it has been notified already and goes on.
    pub(super) fn wait(&mut self, id: MonitorId, thread: usize) -> Option<u64> {
        let monitor = self.held(id, thread)?;
        let alls = monitor.alls;
        let seen = match monitor.seen.iter_mut().find(|(who, _)| *who == thread) {
            Some((_, seen)) => std::mem::replace(seen, alls),
            None => {
                monitor.seen.push((thread, alls));
                0
            }
        };
        if alls > seen {
            return None;
        }
        if monitor.credit > 0 {
            monitor.credit -= 1;
            return None;
        }
        monitor.waiters.push_back(thread);
        monitor.holder = None;
        Some(std::mem::take(&mut monitor.depth))
    }

    /// Threads that wait in a monitor are notified, and contend for it from here on. Returns them.
    pub(super) fn notify(&mut self, id: MonitorId, all: bool) -> Vec<usize> {
        let Some(monitor) = self.0.get_mut(&id) else {
            return Vec::new();
        };
        let count = match (all, monitor.waiters.len()) {
            (true, waiting) => waiting,
            (false, waiting) => waiting.min(1),
        };
        let notified: Vec<usize> = monitor.waiters.drain(..count).collect();
        if all {
            monitor.alls += 1;
            for thread in &notified {
                if let Some((_, seen)) = monitor.seen.iter_mut().find(|(who, _)| who == thread) {
                    *seen = monitor.alls;
                }
            }
        } else if notified.is_empty() {
            monitor.credit += 1;
        }
        monitor.contenders.extend(&notified);
        notified
    }

    /// A thread no longer waits in a monitor, though nobody has notified it.
    pub(super) fn stop_waiting(&mut self, id: MonitorId, thread: usize) {
        if let Some(monitor) = self.0.get_mut(&id) {
            monitor.waiters.retain(|&waiter| waiter != thread);
        }
        self.forget_idle(id);
    }

    /// The object of a monitor is dead: no thread comes back to it.
    pub(super) fn died(&mut self, id: MonitorId) {
        let idle = |monitor: &Monitor| monitor.holder.is_none() && monitor.waiters.is_empty();
        if self.0.get(&id).is_some_and(idle) {
            self.0.remove(&id);
        }
    }

    /// One of the monitors that a thread holds: the one with the lowest number.
    pub(super) fn any_held_by(&self, thread: usize) -> Option<MonitorId> {
        let held = self
            .0
            .iter()
            .filter(|(_, monitor)| monitor.holder == Some(thread));
        held.map(|(&id, _)| id).min()
    }

    fn held(&mut self, id: MonitorId, thread: usize) -> Option<&mut Monitor> {
        self.0
            .get_mut(&id)
            .filter(|monitor| monitor.holder == Some(thread))
    }

    /// Forgets a monitor that nobody uses and of which nothing is known.
    fn forget_idle(&mut self, id: MonitorId) {
        let idle = |monitor: &Monitor| {
            monitor.holder.is_none()
                && monitor.contenders.is_empty()
                && monitor.waiters.is_empty()
                && monitor.credit == 0
                && monitor.seen.is_empty()
                && monitor.alls == 0
        };
        if self.0.get(&id).is_some_and(idle) {
            self.0.remove(&id);
        }
    }
}
