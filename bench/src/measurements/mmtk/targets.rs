//! The targets: comparisons of one heap with another, over all plans and programs.

use super::report::{Ran, runs, seconds, told};
use super::{BROKER, FIXED, HEAPS, ISLA_VISTA, MEM_BALANCER};
use crate::harness::job::Outcome;
use crate::measurements::libgc::run_workloads::{Runs, ratio};
use crate::report::results::Results;

/// The quantity that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// The time of the program.
    Time,
    /// Resident memory when everything is dead.
    After,
}

/// One heap against another, as the geometric mean over plans and programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    claim: &'static str,
    pressure: bool,
    measure: Measure,
    /// The heap that is judged, and the one that it is compared with: places in [`HEAPS`].
    ours: usize,
    base: usize,
    most: f64,
}

pub(super) const TARGETS: [Target; 7] = [
    Target {
        claim: "no pressure: Isla Vista at most 1.02 of a fixed heap's time, geometric mean",
        pressure: false,
        measure: Measure::Time,
        ours: ISLA_VISTA,
        base: FIXED,
        most: 1.02,
    },
    Target {
        claim: "no pressure: Isla Vista with a broker at most 1.02 of a fixed heap's time, geometric mean",
        pressure: false,
        measure: Measure::Time,
        ours: BROKER,
        base: FIXED,
        most: 1.02,
    },
    Target {
        claim: "pressure: Isla Vista takes less time than a fixed heap, geometric mean",
        pressure: true,
        measure: Measure::Time,
        ours: ISLA_VISTA,
        base: FIXED,
        most: 1.0,
    },
    Target {
        claim: "pressure: Isla Vista with a broker takes less time than a fixed heap, geometric mean",
        pressure: true,
        measure: Measure::Time,
        ours: BROKER,
        base: FIXED,
        most: 1.0,
    },
    Target {
        claim: "pressure: Isla Vista takes no more time than MemBalancer, geometric mean",
        pressure: true,
        measure: Measure::Time,
        ours: ISLA_VISTA,
        base: MEM_BALANCER,
        most: 1.0,
    },
    Target {
        claim: "pressure: when all is dead, Isla Vista holds less memory than a fixed heap, geometric mean",
        pressure: true,
        measure: Measure::After,
        ours: ISLA_VISTA,
        base: FIXED,
        most: 1.0,
    },
    Target {
        claim: "pressure: when all is dead, Isla Vista holds less memory than MemBalancer, geometric mean",
        pressure: true,
        measure: Measure::After,
        ours: ISLA_VISTA,
        base: MEM_BALANCER,
        most: 1.0,
    },
];

/// The claims of [`TARGETS`].
pub(super) const CLAIMS: [&str; TARGETS.len()] = {
    let mut claims = [""; TARGETS.len()];
    let mut index = 0;
    while index < TARGETS.len() {
        claims[index] = TARGETS[index].claim;
        index += 1;
    }
    claims
};

impl Measure {
    fn of(self, run: &Outcome) -> f64 {
        match self {
            Measure::Time => seconds(run),
            Measure::After => told(run, "/after"),
        }
    }

    /// The figure of the other heap's runs. Runs that took too long count as that long; there is nothing to
    /// compare with if one was killed, and no memory after a run that was ended.
    fn base(self, runs: &Runs) -> Option<f64> {
        match (self, runs.all_finished(), runs.survived()) {
            (_, true, _) => runs.median(|run| self.of(run)),
            (Measure::Time, false, true) => Some(runs.least_seconds()),
            _ => None,
        }
    }
}

impl Target {
    /// Plans in which there is nothing to compare with are only counted. With our heap, all runs must have
    /// finished.
    pub(super) fn judge(&self, results: &mut Results, ran: &[Ran]) {
        let mut ratios = Vec::new();
        let (mut finished, mut missing) = (true, 0);
        for variant in ran.iter().filter(|one| one.what.pressure == self.pressure) {
            let (base, ours) = (runs(variant, self.base), runs(variant, self.ours));
            finished &= ours.all_finished();
            let base = self.measure.base(&base);
            missing += usize::from(base.is_none());
            let ratio = ratio(ours.median(|run| self.measure.of(run)), base);
            ratios.extend(ratio.map(|ratio| (ratio, variant.what.plan)));
        }
        let worst = ratios.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((worst, plan)) = worst else {
            return results.target(self.claim, "nothing to compare".to_owned(), None);
        };
        let logs: f64 = ratios.iter().map(|(ratio, _)| ratio.max(1e-9).ln()).sum();
        let mean = (logs / ratios.len() as f64).exp();
        let beside = match missing {
            0 => String::new(),
            some => format!(
                "; beside {some} in which {} did not finish",
                HEAPS[self.base].name
            ),
        };
        let measured = format!("{mean:.2}; at most {worst:.2} ({plan}){beside}");
        results.target(self.claim, measured, finished && mean <= self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Case;
    use super::*;
    use crate::harness::job::Ending;
    use crate::runner::Variant;

    fn run(ending: Ending, seconds: f64, after: u64) -> Outcome {
        Outcome {
            ending,
            seconds: 12.0,
            resident: 0,
            faults: 0,
            pauses: Default::default(),
            usage: Default::default(),
            printed: 0,
            said: format!("{{\"seconds\": {seconds}, \"after\": {after}}}"),
        }
    }

    /// The verdicts of the targets on one plan under pressure.
    fn judged(heaps: [Outcome; HEAPS.len()]) -> Vec<(String, Option<bool>)> {
        let ran = Variant {
            name: String::new(),
            what: Case {
                program: 0,
                plan: "Immix",
                pressure: true,
            },
            outcomes: vec![heaps],
        };
        let mut results = Results::new("x", "", "", 1);
        for target in &TARGETS {
            target.judge(&mut results, std::slice::from_ref(&ran));
        }
        let targets = results.targets.into_iter();
        targets
            .map(|target| (target.measured, target.met))
            .collect()
    }

    #[test]
    fn heaps_are_compared_by_time_and_by_what_stays() {
        let done = |seconds, after| run(Ending::Finished, seconds, after);
        let found = judged([done(4.0, 200), done(2.0, 50), done(3.0, 100), done(2.0, 90)]);
        assert_eq!(found[0].1, None, "nothing without pressure");
        let met = found[2..].iter().map(|(_, met)| met.expect("compared"));
        assert_eq!(met.collect::<Vec<_>>(), [true, true, false, true, false]);
        assert_eq!(found[5].0, "0.50; at most 0.50 (Immix)");
    }

    #[test]
    fn what_took_too_long_has_a_time_and_no_memory() {
        let done = |seconds| run(Ending::Finished, seconds, 100);
        let late = run(Ending::TooLong, 0.0, 0);
        let killed = run(Ending::Killed, 0.0, 0);
        let found = judged([late, killed, done(3.0), done(2.0)]);
        assert_eq!(
            found[2],
            ("0.25; at most 0.25 (Immix)".to_owned(), Some(true))
        );
        for target in &found[4..] {
            assert_eq!(target, &("nothing to compare".to_owned(), None));
        }
        let found = judged([done(4.0), done(4.0), run(Ending::Killed, 0.0, 0), done(2.0)]);
        assert_eq!((found[2].1, found[3].1), (None, Some(true)));
    }
}
