//! A recorder sees some things incompletely: a machine that ends while threads run, a monitor that a virtual
//! thread took to another one. Simulators want each monitor released by who holds it, and each thread ended.

use crate::event::{Event, MonitorId, ThreadId};
use std::collections::BTreeMap;

/// The most monitors that a thread holds at one time.
const MOST_HELD: usize = 1 << 16;

/// What each thread holds.
#[derive(Debug, Default)]
pub(super) struct Mend {
    /// The monitors, in the order in which they were entered, as often as each.
    held: BTreeMap<ThreadId, Vec<MonitorId>>,
    /// Events that were left out, because they belong to monitors that are not held.
    pub(super) left_out: u64,
}

impl Mend {
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
