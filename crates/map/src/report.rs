//! The maps of several processes and their sum: what `plimsoll map --json` prints.

use crate::area::{Kind, States};
use crate::attribute::{AreaOf, Estimated};
use crate::look::Look;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process without a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its number.
    pub pid: i32,
    /// Why, and what to do.
    pub why: String,
}

/// The maps of several processes at one time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// When it was begun: milliseconds since 1970.
    pub unix_ms: u64,
    /// The sum of all processes. Memory that several of them map counts once for each.
    pub total: States,
    /// The sum of all processes, by area. They sum up to `total`, but for processes that show their
    /// total only.
    pub areas: Vec<AreaOf>,
    /// Notes about the sum.
    pub notes: Vec<String>,
    /// The processes.
    pub processes: Vec<Look>,
    /// The processes without a map.
    pub failed: Vec<Failed>,
}

impl Report {
    /// Sums up looks that were begun at this time, milliseconds since 1970.
    pub fn of(unix_ms: u64, processes: Vec<Look>, failed: Vec<Failed>) -> Report {
        let mut total = States::default();
        let mut sums: BTreeMap<Kind, (States, Estimated)> = BTreeMap::new();
        for look in &processes {
            total.add(&look.total);
            for area in &look.areas {
                let (states, estimated) = sums.entry(area.kind).or_default();
                states.add(&area.states);
                estimated.add(area.estimated);
            }
        }
        let areas = sums.into_iter().map(|(kind, (states, estimated))| AreaOf {
            kind,
            states,
            estimated,
        });
        let mut report = Report {
            unix_ms,
            total,
            areas: areas.collect(),
            notes: Vec::new(),
            processes,
            failed,
        };
        if report.processes.len() > 1 {
            report.notes.push(
                "what several of the processes map counts once for each of them in the sum".into(),
            );
            let closed = |look: &&Look| look.areas.is_empty() && look.total.resident > 0;
            let closed = report.processes.iter().filter(closed).count();
            if closed > 0 {
                report.notes.push(format!(
                    "processes that show their totals only: {closed}; the sum leaves out what they have \
                     cached, shared, referenced and refaulted, and their areas"
                ));
            }
        }
        report
    }
}
