//! Rounds over the subjects.

use super::devices::Devices;
use super::group::{Group, Round};
use super::reading::{Exchange, Reading, Subject};
use crate::background::Monitor;
use plimsoll_kernel::clock;
use plimsoll_kernel::meminfo::MeminfoReader;
use plimsoll_kernel::stalls::{Taskstats, is_switched_on};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Refaulted};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Shortest time between two rounds.
const EVERY: Duration = Duration::from_secs(1);
/// A round may take this long; the remaining subjects come first in the next.
const ROUND: Nanos = Nanos::millis(50);
/// A round is followed by a rest of this many times what it took.
const REST: u32 = 99;
/// With less free swap no swappiness is changed: reclaim has nowhere to shift to.
const SWAP_NEEDED: Bytes = Bytes::mib(64);

pub(super) struct Thread {
    monitor: Arc<Monitor<Exchange>>,
    subjects: Vec<Subject>,
    shift: bool,
    groups: HashMap<Id, Group>,
    found: HashMap<Id, Reading>,
    refaulted: Refaulted,
    devices: Devices,
    taskstats: Option<Taskstats>,
    /// Index of the subject that comes first in the next round.
    next: usize,
}

impl Thread {
    pub(super) fn new(monitor: Arc<Monitor<Exchange>>) -> Thread {
        Thread {
            monitor,
            subjects: Vec::new(),
            shift: false,
            groups: HashMap::new(),
            found: HashMap::new(),
            refaulted: Refaulted::default(),
            devices: Devices::default(),
            taskstats: Taskstats::open().ok(),
            next: 0,
        }
    }

    /// Runs until the handle is dropped. Every changed swappiness is put back at the end.
    pub(super) fn run(mut self) {
        let mut rest = EVERY;
        while self.monitor.rest(rest) {
            let began = clock::now();
            self.refresh();
            if !self.subjects.is_empty() {
                self.round(began);
            }
            let took = (clock::now() - began).duration();
            rest = EVERY.max(took.saturating_mul(REST));
            let mut exchange = self.monitor.lock();
            exchange.found.clone_from(&self.found);
            exchange.refaulted = self.refaulted;
        }
    }

    /// Takes over the current principals, and forgets those that are gone.
    fn refresh(&mut self) {
        let mut exchange = self.monitor.lock();
        self.shift = exchange.shift;
        if !std::mem::take(&mut exchange.fresh) {
            return;
        }
        std::mem::swap(&mut self.subjects, &mut exchange.subjects);
        drop(exchange);
        let lives = |id: &Id| self.subjects.iter().any(|subject| subject.id == *id);
        self.groups.retain(|id, _| lives(id));
        self.found.retain(|id, _| lives(id));
    }

    fn round(&mut self, began: Nanos) {
        self.devices.read();
        let has_room = self.devices.has_swap() && swap_free() >= SWAP_NEEDED;
        let counted = is_switched_on();
        let count = self.subjects.len();
        let first = self.next % count;
        self.next = 0;
        for n in 0..count {
            let index = (first + n) % count;
            let now = clock::now();
            if now - began > ROUND {
                self.next = index;
                return;
            }
            let subject = &self.subjects[index];
            let mut round = Round {
                now,
                devices: self.devices.costs(),
                may_shift: self.shift && has_room,
                taskstats: self.taskstats.as_mut().filter(|_| counted),
            };
            let group = self.groups.entry(subject.id).or_default();
            if !group.is_due() {
                continue;
            }
            let reading = group.step(subject, &mut round);
            if let Some(Reading { pages, .. }) = reading.filter(|_| subject.counts) {
                self.refaulted.file = self.refaulted.file.saturating_add(pages.file);
                self.refaulted.anon = self.refaulted.anon.saturating_add(pages.anon);
            }
            match reading {
                Some(reading) => self.found.insert(subject.id, reading),
                None => self.found.remove(&subject.id),
            };
        }
    }
}

/// The free swap.
fn swap_free() -> Bytes {
    let read = MeminfoReader::open().and_then(|reader| reader.read());
    read.map_or(Bytes::ZERO, |meminfo| meminfo.swap_free)
}
