//! The measurements of principals, and the exchange of the deciding thread and the measuring thread.

use plimsoll_policy::balance::Costs;
use plimsoll_wire::messages::{Id, Refaulted, Refaults};
use std::collections::HashMap;
use std::path::PathBuf;

/// Where the cgroup of a subject is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The broker made it for this principal alone.
    Home(PathBuf),
    /// It bounds a group of principals.
    Domain(PathBuf),
    /// The one that its processes are in, if no others are.
    Own,
}

/// A principal to be measured.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) id: Id,
    pub(super) place: Place,
    /// Whether its refaults count towards the sum: not those of a group, whose programs are counted.
    pub(super) counts: bool,
    /// Process id and start time of its processes.
    pub(super) processes: Vec<(i32, u64)>,
    /// Whether the swappiness that was found is in the state file.
    pub(super) noted: bool,
}

/// The measurement of a principal in the last round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Pages of files that were read again, per second.
    pub(super) file: f64,
    /// Anonymous pages, likewise.
    pub(super) anon: f64,
    /// The pages themselves, since the round before.
    pub(super) pages: Refaulted,
    /// Their costs; `None` until any was read.
    pub(super) costs: Option<Costs>,
    /// Swappiness of its cgroup (version 1 only).
    pub(super) swappiness: Option<u32>,
    /// The swappiness that was found, where the broker may change it and nobody else did.
    pub usual: Option<u32>,
}

impl Reading {
    /// As listings show it.
    #[must_use]
    pub fn shown(&self) -> Refaults {
        let ns = |cost: fn(&Costs) -> f64| self.costs.map(|costs| (cost(&costs) * 1e9) as u64);
        Refaults {
            file: self.file.round() as u64,
            anon: self.anon.round() as u64,
            file_ns: ns(|costs| costs.file),
            anon_ns: ns(|costs| costs.anon),
            swappiness: self.swappiness,
        }
    }

    /// The swappiness with which bytes are taken from it under cgroup version 2.
    #[must_use]
    pub fn take_by(&self) -> Option<u32> {
        let costs = self.costs.filter(|_| self.file + self.anon >= 1.0);
        costs.map(|costs| costs.swappiness())
    }
}

/// The balance of reclaim of one principal.
#[derive(Debug, Default)]
pub struct Reclaim {
    /// Its refaults, as measured last.
    refaults: Option<Reading>,
    /// Swappiness of its cgroup as it was found, where the broker may change it.
    swappiness: Option<u32>,
    /// Whether the state file holds that.
    noted: bool,
}

impl Reclaim {
    /// Takes over the measurement of a round. Returns whether a swappiness is to be noted in the state.
    pub(super) fn take_over(&mut self, refaults: Option<Reading>) -> bool {
        self.refaults = refaults;
        let found = refaults.map(|reading| reading.usual);
        let Some(usual) = found.filter(|&usual| usual != self.swappiness) else {
            return false;
        };
        self.swappiness = usual;
        self.noted = false;
        true
    }

    /// Its refaults, as measured last.
    #[must_use]
    pub fn refaults(&self) -> Option<Reading> {
        self.refaults
    }

    /// Swappiness of its cgroup as it was found, where the broker may change it.
    #[must_use]
    pub fn swappiness(&self) -> Option<u32> {
        self.swappiness
    }

    /// The state file holds that swappiness now.
    pub fn note(&mut self) {
        self.noted = self.swappiness.is_some();
    }

    /// Whether the state file holds it.
    pub(super) fn is_noted(&self) -> bool {
        self.noted
    }
}

/// State that the deciding thread and the measuring thread exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) subjects: Vec<Subject>,
    pub(super) found: HashMap<Id, Reading>,
    /// Pages of programs that were read again so far.
    pub(super) refaulted: Refaulted,
    pub(super) shift: bool,
    pub(super) fresh: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swappiness_is_noted_anew_when_another_is_found() {
        let reading = |usual| {
            Some(Reading {
                file: 0.0,
                anon: 0.0,
                pages: Refaulted::default(),
                costs: None,
                swappiness: None,
                usual,
            })
        };
        let mut reclaim = Reclaim::default();
        assert!(!reclaim.take_over(None) && !reclaim.take_over(reading(None)));
        assert!(reclaim.take_over(reading(Some(60))) && !reclaim.is_noted());
        reclaim.note();
        assert!(reclaim.is_noted() && !reclaim.take_over(reading(Some(60))));
        assert!(!reclaim.take_over(None) && reclaim.is_noted());
        assert!(reclaim.take_over(reading(Some(10))) && !reclaim.is_noted());
    }
}
