//! Monitors, as their documentation says it: all notifications that there ever were are searched.

use plimsoll_trace::Event;
use std::collections::BTreeMap;

struct Notification {
    by: usize,
    /// 0 without stamps.
    stamp: u64,
    all: bool,
    /// It was of one thread, and nobody waited; or it has ended a wait since.
    kept: bool,
}

#[derive(Default)]
pub(crate) struct Monitor {
    pub(crate) holder: Option<usize>,
    pub(crate) depth: u64,
    pub(crate) contenders: Vec<usize>,
    pub(crate) waiters: Vec<usize>,
    notifications: Vec<Notification>,
    /// How many notifications each thread without stamps has seen.
    seen: BTreeMap<usize, usize>,
}

impl Monitor {
    /// Whether a thread that comes to wait goes on, because a notification that came during the wait in the
    /// recorded order has been made.
    pub(crate) fn passes(&mut self, thread: usize, since: u64, until: u64) -> bool {
        let mut seen = 0;
        if since == 0 {
            let now = self.notifications.len();
            seen = self.seen.insert(thread, now).unwrap_or(0);
        }
        let of_others = || {
            let all = self.notifications.iter().enumerate();
            let during = move |stamp| since == 0 || since < stamp && stamp < until;
            all.filter(move |(_, it)| it.by != thread && during(it.stamp))
        };
        if of_others().any(|(index, it)| it.all && (since > 0 || index >= seen)) {
            return true;
        }
        let kept = of_others().filter(|(_, it)| it.kept);
        let first = kept.min_by_key(|(index, it)| (it.stamp, *index));
        let Some(index) = first.map(|(index, _)| index) else {
            return false;
        };
        self.notifications[index].kept = false;
        true
    }

    /// Returns who is notified.
    pub(crate) fn notify(&mut self, by: usize, stamp: u64, all: bool) -> Vec<usize> {
        let count = if all {
            self.waiters.len()
        } else {
            self.waiters.len().min(1)
        };
        self.notifications.push(Notification {
            by,
            stamp,
            all,
            kept: !all && count == 0,
        });
        let notified: Vec<usize> = self.waiters.drain(..count).collect();
        for &waiter in &notified {
            if let Some(seen) = self.seen.get_mut(&waiter).filter(|_| all) {
                *seen = self.notifications.len();
            }
            self.contenders.push(waiter);
        }
        notified
    }
}

/// The stamp of what a thread did last, stamps aside; these are all its events so far.
pub(crate) fn since(done: &[Event]) -> u64 {
    let deed = done
        .iter()
        .rposition(|event| !matches!(event, Event::Stamp { .. }));
    stamp(&done[..deed.unwrap_or(0)])
}

/// The stamp of what others did first after a wait, which is the event of this number in a stream: a stamp
/// that comes next, computing aside; else the last one before.
pub(crate) fn until(stream: &[Event], wait: usize) -> u64 {
    let computes = |event: &Event| matches!(event, Event::Compute { .. });
    match stream[wait + 1..]
        .iter()
        .take(2)
        .find(|event| !computes(event))
    {
        Some(Event::Stamp { order }) => *order,
        _ => stamp(&stream[..wait]),
    }
}

/// The last stamp of these events.
pub(crate) fn stamp(done: &[Event]) -> u64 {
    let mut stamps = done.iter().rev().filter_map(|event| match event {
        Event::Stamp { order } => Some(*order),
        _ => None,
    });
    stamps.next().unwrap_or(0)
}
