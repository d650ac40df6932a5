//! The programs of the tables.

use super::paper::{self, Paper};
use super::recorded::Recording;
use crate::report::results::Cell;

/// A program of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    /// Its name in the tables, and of its trace.
    pub(super) name: &'static str,
    pub(super) source: Source,
    /// The row of the paper that it stands beside; `None` where the paper has no such program.
    pub(super) paper: Option<Paper>,
    /// Whether a phase of allocation takes several of the paper's quanta, as its text tells. Then a shorter
    /// quantum says nothing about the paper.
    pub(super) has_long_phases: bool,
}

/// Where the trace of a program comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// `plimsoll trace synth`, shortened by this.
    MadeUp { name: &'static str, shorten: u32 },
    /// `plimsoll trace -- java …`.
    Recorded(Recording),
}

impl Program {
    /// Whether it is a real one.
    pub(super) fn is_recorded(&self) -> bool {
        matches!(self.source, Source::Recorded(_))
    }

    /// The name of the paper's program that it stands beside.
    pub(super) fn beside(&self) -> Cell {
        self.paper
            .map_or("no counterpart", |paper| paper.name)
            .into()
    }
}

const fn made_up(name: &'static str, shorten: u32, paper: Paper) -> Program {
    Program {
        name,
        source: Source::MadeUp { name, shorten },
        paper: Some(paper),
        has_long_phases: false,
    }
}

/// A program that allocates so slowly that the paper's quantum fits its phases.
const fn slow(name: &'static str, paper: Paper) -> Program {
    Program {
        has_long_phases: true,
        ..made_up(name, 1, paper)
    }
}

const fn recorded(name: &'static str, what: Recording, paper: Option<Paper>) -> Program {
    Program {
        name,
        source: Source::Recorded(what),
        paper,
        has_long_phases: false,
    }
}

const ORDERS: Recording = Recording::Ours {
    class: "Orders",
    arguments: &["8", "15000"],
    slice: &["8", "500"],
};

const BANK: Recording = Recording::Ours {
    class: "Bank",
    arguments: &["80", "100", "1000"],
    slice: &["80", "2", "100"],
};

/// The programs, in the order of the tables. Recorded ones are of other sizes than the paper's: only
/// what they are like is the same.
pub(super) const PROGRAMS: [Program; 11] = [
    made_up("hsqldb", 1, paper::HSQLDB),
    made_up("lusearch", 1, paper::LUSEARCH),
    // In full, a simulation of it takes minutes, and there are dozens.
    made_up("specjbb2000", 30, paper::SPECJBB),
    slow("specjappserver2004", paper::APPSERVER),
    slow("ecperf", paper::ECPERF),
    recorded("bank-h2", BANK, Some(paper::HSQLDB)),
    recorded(
        "lucene-search",
        Recording::Lucene {
            algorithm: "search.alg",
        },
        Some(paper::LUSEARCH),
    ),
    recorded(
        "lucene-index",
        Recording::Lucene {
            algorithm: "index.alg",
        },
        None,
    ),
    recorded("orders", ORDERS, Some(paper::SPECJBB)),
    recorded(
        "open-liberty",
        Recording::Liberty {
            requests: 150,
            slice: 2,
        },
        Some(paper::APPSERVER),
    ),
    recorded(
        "kafka",
        Recording::Kafka {
            records: 40_000,
            slice: 100,
        },
        None,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::root;
    use std::collections::BTreeSet;

    #[test]
    fn each_program_has_a_name_of_its_own_and_its_sources() {
        let names: BTreeSet<_> = PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        for program in PROGRAMS {
            let file = match program.source {
                Source::Recorded(Recording::Ours { class, .. }) => format!("{class}.java"),
                Source::Recorded(Recording::Lucene { algorithm }) => algorithm.to_owned(),
                _ => continue,
            };
            let path = root().join("bench/programs/traced").join(file);
            assert!(path.exists(), "{}", path.display());
        }
    }

    #[test]
    fn a_slice_is_smaller_than_the_whole() {
        for program in PROGRAMS {
            match program.source {
                Source::Recorded(Recording::Ours {
                    arguments, slice, ..
                }) => {
                    let sum = |list: &[&str]| {
                        list.iter()
                            .map(|it| it.parse::<u32>().unwrap())
                            .sum::<u32>()
                    };
                    assert_eq!(arguments.len(), slice.len());
                    assert!(sum(slice) < sum(arguments));
                }
                Source::Recorded(
                    Recording::Kafka {
                        records: whole,
                        slice,
                    }
                    | Recording::Liberty {
                        requests: whole,
                        slice,
                    },
                ) => assert!(slice < whole),
                _ => {}
            }
        }
    }
}
