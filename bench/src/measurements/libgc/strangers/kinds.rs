//! The programs, and what is asked of them.

use crate::harness::job::Outcome;
use crate::harness::libgc::Workload;
use crate::harness::libgc_programs;

/// Something that a run tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Seconds of processors.
    Processor,
    /// Seconds from its start to its end.
    Seconds,
    Collections,
    /// Minor faults.
    Minor,
    /// Bytes: the largest resident memory.
    Peak,
    /// Bytes: how much of it came after the program's start.
    Grown,
    /// Bytes: the heap without its free bytes, at the end.
    Occupied,
}

impl Figure {
    pub(super) fn of(self, run: &Outcome) -> f64 {
        let told = |name: &str| run.told(name).map(|number| number as f64);
        match self {
            Figure::Processor => run.usage.processor,
            Figure::Seconds => run.seconds,
            Figure::Minor => run.usage.minor as f64,
            Figure::Collections => {
                told("\"collections\"").unwrap_or(run.pauses.collections() as f64)
            }
            // The kernel's peak of the process includes its memory before it became this program.
            Figure::Peak => told("peak\"").unwrap_or(run.resident as f64),
            Figure::Grown => told("\"grown\"").unwrap_or(f64::NAN),
            Figure::Occupied => told("\"occupied\"").unwrap_or(f64::NAN),
        }
    }
}

/// A target: a figure of some programs is to be at most `most` times libgc's, or at most `most`.
pub(super) struct Ask {
    pub(super) claim: &'static str,
    pub(super) programs: &'static [&'static str],
    pub(super) figure: Figure,
    pub(super) most: f64,
    pub(super) absolute: bool,
}

const fn ask(
    claim: &'static str,
    programs: &'static [&'static str],
    figure: Figure,
    most: f64,
) -> Ask {
    Ask {
        claim,
        programs,
        figure,
        most,
        absolute: false,
    }
}

/// Asked of a program near the smallest memory limit.
pub(super) const LIMITS: &str =
    "at 1.1 of the smallest memory limit: at most 4 times the time without a limit";
/// Asked of programs with few addresses.
pub(super) const ADDRESSES: &str = "runs in each limit of addresses in which it runs with libgc";

pub(super) const ASKS: [Ask; 10] = [
    ask(
        "threads: processor time at most 1.2 of libgc's",
        &["threads"],
        Figure::Processor,
        1.2,
    ),
    ask(
        "threads: collections at most 1.5 of libgc's",
        &["threads"],
        Figure::Collections,
        1.5,
    ),
    ask(
        "blocks and buffers: processor time at most 1.05 of libgc's",
        &["blocks", "buffers", "buffers-mixed"],
        Figure::Processor,
        1.05,
    ),
    ask(
        "strings: processor time at most 1.1 of libgc's",
        &["strings"],
        Figure::Processor,
        1.1,
    ),
    ask(
        "score and LilyPond: peak at most 1.05 of libgc's",
        &["score", "lilypond"],
        Figure::Peak,
        1.05,
    ),
    ask(
        "finalizers: grows by at most 3 times as much as with libgc",
        &["finalizers"],
        Figure::Grown,
        3.0,
    ),
    ask(
        "typed, uncollectable, free: processor time at most 1.1 of libgc's",
        &["typed", "uncollectable", "free"],
        Figure::Processor,
        1.1,
    ),
    Ask {
        claim: "small: at most 300,000 bytes of the heap in use, as a test of Nim asks",
        programs: &["small"],
        figure: Figure::Occupied,
        most: 300_000.0,
        absolute: true,
    },
    ask(
        "cells, servers, large strings, trees, large heap: processor time at most libgc's",
        &["cells", "servers", "strings-large", "bintree", "largelive"],
        Figure::Processor,
        1.0,
    ),
    ask(
        "programs of Debian: processor time at most 1.1 of libgc's",
        &[
            "guile",
            "ecl",
            "w3m",
            "asymptote",
            "neko",
            "nim",
            "lilypond",
        ],
        Figure::Processor,
        1.1,
    ),
];

/// The claims, word for word.
pub(super) const CLAIMS: [&str; 12] = [
    ASKS[0].claim,
    ASKS[1].claim,
    ASKS[2].claim,
    ASKS[3].claim,
    ASKS[4].claim,
    ASKS[5].claim,
    ASKS[6].claim,
    ASKS[7].claim,
    ASKS[8].claim,
    ASKS[9].claim,
    LIMITS,
    ADDRESSES,
];

/// The programs, in the order of the table.
pub(super) fn workloads() -> Vec<Workload> {
    /// As in bench/programs/libgc/strangers.c.
    const KINDS: [&str; 14] = [
        "threads",
        "blocks",
        "buffers",
        "buffers-mixed",
        "strings",
        "score",
        "finalizers",
        "typed",
        "uncollectable",
        "free",
        "small",
        "strings-large",
        "cells",
        "servers",
    ];
    let mut all: Vec<Workload> = KINDS
        .iter()
        .map(|kind| Workload::stranger(kind, None))
        .collect();
    all.push(Workload::bintree(18, 1));
    all.push(Workload::largelive(100, 10_000_000, 1));
    all.extend(libgc_programs::installed());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_a_target_is_measured_or_foreign() {
        let all = workloads();
        let foreign = ASKS[9].programs;
        for ask in &ASKS {
            for program in ask.programs {
                let measured = all.iter().any(|one| one.name == *program);
                assert!(measured || foreign.contains(program), "{program}");
            }
        }
        for one in &all {
            let asked = ASKS
                .iter()
                .any(|ask| ask.programs.contains(&one.name.as_str()));
            assert!(asked, "nothing is asked of {}", one.name);
        }
    }
}
