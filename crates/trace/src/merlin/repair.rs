//! A recorder sees some things incompletely: a machine that ends while threads run and wait, a monitor that a
//! virtual thread took to another one, a thread that the machine itself started. Simulators want each monitor
//! released by the thread that holds it, each thread ended, and none to run before its time.

use crate::event::{Event, MonitorId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// The most monitors that a thread holds at one time.
const MOST_HELD: usize = 1 << 16;

/// State of each thread so far, in the recorded order.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// The threads that others start, in the whole recording.
    started: BTreeSet<ThreadId>,
    /// The number of the last event of each thread that has begun and not ended.
    running: BTreeMap<ThreadId, u64>,
    /// How many numbers were given to events.
    events: u64,
    ended: BTreeSet<ThreadId>,
    /// The event of each thread that has not gone on since: it waits. If the virtual machine ends meanwhile,
    /// that is not a wait of the program. With it, how often it has entered the monitor in which it waits.
    waiting: BTreeMap<ThreadId, (Event, usize)>,
    /// Those of them that were unparked or interrupted meanwhile.
    unparked: BTreeSet<ThreadId>,
    /// The monitors that each thread holds, in the order in which they were entered, as often as each.
    held: BTreeMap<ThreadId, Vec<MonitorId>>,
    /// Events that were left out, because they belong to monitors that are not held.
    pub(super) left_out: u64,
}

impl Repair {
    /// Before the first event. `started` are the threads that others start.
    pub(super) fn new(started: BTreeSet<ThreadId>) -> Repair {
        Repair {
            started,
            ..Repair::default()
        }
    }

    /// An event of a thread comes. If it is its first one and nobody starts the thread, which then comes from
    /// outside of the program (a signal, a machine that ends), returns the thread that has to start it, so
    /// that it does not run before its time: the one that did something last.
    pub(super) fn begins(&mut self, thread: ThreadId) -> Option<ThreadId> {
        self.events += 1;
        let is_first = self.running.insert(thread, self.events).is_none();
        if !is_first || self.started.contains(&thread) {
            return None;
        }
        let others = self.running.iter().filter(|(other, _)| **other != thread);
        others
            .max_by_key(|(_, last)| **last)
            .map(|(other, _)| *other)
    }

    /// A thread waits. The wait is not written yet.
    pub(super) fn hold(&mut self, thread: ThreadId, event: Event) {
        self.unparked.remove(&thread);
        let held = self.held.get(&thread).map_or(&[][..], Vec::as_slice);
        let times = match event {
            Event::Wait { monitor, .. } => held.iter().filter(|it| **it == monitor).count(),
            _ => 0,
        };
        self.waiting.insert(thread, (event, times));
    }

    /// A thread is unparked or interrupted.
    pub(super) fn unparks(&mut self, thread: ThreadId) {
        if self.waiting.contains_key(&thread) {
            self.unparked.insert(thread);
        }
    }

    /// The waits of a thread that goes on, if it waited. A wait in a monitor that an interrupt ended is
    /// recorded as parking without the monitor: nothing else in a trace can end it.
    pub(super) fn resumes(&mut self, thread: ThreadId) -> Vec<Event> {
        let unparked = self.unparked.remove(&thread);
        match self.waiting.remove(&thread) {
            Some((Event::Wait { monitor, timeout }, times)) if unparked => {
                let exits = std::iter::repeat_n(Event::Exit { monitor }, times);
                let enters = std::iter::repeat_n(Event::Enter { monitor }, times);
                exits
                    .chain([Event::Park { timeout }])
                    .chain(enters)
                    .collect()
            }
            waited => waited.into_iter().map(|(event, _)| event).collect(),
        }
    }

    /// A thread has ended.
    pub(super) fn ends(&mut self, thread: ThreadId) {
        self.running.remove(&thread);
        self.ended.insert(thread);
    }

    /// Whether a thread has ended.
    pub(super) fn has_ended(&self, thread: ThreadId) -> bool {
        self.ended.contains(&thread)
    }

    /// Whether an event of a thread can stand.
    pub(super) fn stands(&mut self, thread: ThreadId, event: &Event) -> bool {
        let held = match event {
            Event::Enter { .. }
            | Event::Exit { .. }
            | Event::Wait { .. }
            | Event::Notify { .. } => self.held.entry(thread).or_default(),
            _ => return true,
        };
        let find = |monitor| held.iter().rposition(|it| *it == monitor);
        let stands = match *event {
            Event::Enter { monitor } if held.len() < MOST_HELD => {
                held.push(monitor);
                true
            }
            Event::Exit { monitor } => match find(monitor) {
                Some(at) => {
                    held.remove(at);
                    true
                }
                None => false,
            },
            Event::Wait { monitor, .. } | Event::Notify { monitor, .. } => find(monitor).is_some(),
            _ => false,
        };
        self.left_out += u64::from(!stands);
        stands
    }

    /// Takes what a thread that ends holds, the last first.
    pub(super) fn release(&mut self, thread: ThreadId) -> Vec<MonitorId> {
        let mut held = self.held.remove(&thread).unwrap_or_default();
        held.reverse();
        held
    }
}
