//! The core alone: commands, one rule per test. `tests/simulation` runs many programs at once.

mod caches;
mod calm;
mod commands;
mod debts;
mod files;
mod lending;
mod shares;
mod users;

use super::*;
use plimsoll_unit::{Bytes, MIB, MILLISECOND, Nanos};
use plimsoll_wire::messages::{Kind, Max, Priority, Report, Weight};
use plimsoll_wire::page::Numbers;

fn weight(number: u32) -> Weight {
    Weight::new(number).expect("is in range")
}

fn max(bytes: u64) -> Max {
    Max::new(Bytes(bytes)).expect("is in range")
}

fn new(name: &str) -> NewPrincipal {
    NewPrincipal {
        name: name.into(),
        kind: Kind::Process,
        parent: None,
        weight: weight(100),
        priority: Priority::default(),
        max: Max::NONE,
        adaptive: true,
        tenant: false,
        automatic: false,
    }
}

fn group(parent: Option<Id>) -> NewPrincipal {
    NewPrincipal {
        kind: Kind::Group,
        parent,
        ..new("group")
    }
}

/// A core, its clock, and the uses of its principals.
struct Bench {
    core: Core,
    now: Nanos,
    capacity: u64,
    outsiders: u64,
    uses: Vec<(Id, u64)>,
    /// Processor time that some wanted, in thousandths of that in which they ran.
    wanted: Vec<(Id, u32)>,
    /// Bytes that some touched recently.
    working_sets: Vec<(Id, u64)>,
    /// Pages of files that some use, in their uses.
    files: Vec<(Id, u64)>,
    /// The most pages of files in the domain's use.
    counted_files: u64,
    /// Principals without a process.
    absent: Vec<Id>,
    /// No principal has a cgroup.
    bare: bool,
    /// Nothing can be paged out.
    cliff: bool,
}

impl Bench {
    fn new(capacity: u64) -> Bench {
        Bench {
            core: Core::new(Config::default()),
            now: Nanos::seconds(1),
            capacity,
            outsiders: 0,
            uses: Vec::new(),
            wanted: Vec::new(),
            working_sets: Vec::new(),
            files: Vec::new(),
            counted_files: 0,
            absent: Vec::new(),
            bare: false,
            cliff: false,
        }
    }

    fn add(&mut self, new: &NewPrincipal, uses: u64) -> Id {
        let id = self.core.register(new, self.now).expect("registers");
        self.uses.push((id, uses));
        id
    }

    fn uses(&mut self, id: Id, bytes: u64) {
        self.uses
            .iter_mut()
            .filter(|one| one.0 == id)
            .for_each(|one| one.1 = bytes);
    }

    /// Reports `live` bytes and no allocation.
    fn reports_idle(&mut self, id: Id, live: u64) {
        let report = Report {
            id,
            live: Some(live),
            allocation_rate: Some(0),
            collection_speed: Some(1 << 30),
            ..Report::default()
        };
        self.core.report(&report).expect("is registered");
    }

    fn tick(&mut self, after: Nanos) -> Vec<Action> {
        self.now += after;
        let sensed: Vec<_> = self
            .uses
            .iter()
            .map(|&(id, uses)| SensedPrincipal {
                bare: self.bare,
                wanted: of(&self.wanted, id).unwrap_or(0),
                working_set: of(&self.working_sets, id).map(Bytes),
                files: Bytes(of(&self.files, id).unwrap_or(0)),
                absent: self.absent.contains(&id),
                ..sensed(id, uses)
            })
            .collect();
        let sum = |all: &[(Id, u64)]| all.iter().map(|one| one.1).sum::<u64>();
        let listed = sum(&self.files).min(self.counted_files);
        let used = self.outsiders + sum(&self.uses) + listed - sum(&self.files);
        self.core
            .tick(
                self.now,
                &SensedDomain {
                    capacity: Bytes(self.capacity),
                    used: Bytes(used),
                    files: Bytes(self.counted_files),
                    cliff: self.cliff,
                },
                &sensed,
            )
            .to_vec()
    }

    fn ticks(&mut self, count: usize, after: Nanos) -> Vec<Action> {
        (0..count).flat_map(|_| self.tick(after)).collect()
    }

    fn numbers(&self, id: Id) -> Numbers {
        self.core.numbers(id).expect("is registered")
    }
}

fn of<T: Copy>(all: &[(Id, T)], id: Id) -> Option<T> {
    all.iter().find(|one| one.0 == id).map(|one| one.1)
}

fn sensed(id: Id, uses: u64) -> SensedPrincipal {
    SensedPrincipal {
        id,
        uses: Bytes(uses),
        ..SensedPrincipal::default()
    }
}
