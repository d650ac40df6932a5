//! The targets: comparisons of one heap with another, over all plans and programs.

use super::report::{Ran, runs, seconds, told};
use super::{BEST, BROKER, FIXED, HEAPS, ISLA_VISTA, MEM_BALANCER};
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

pub(super) const TARGETS: [Target; 9] = [
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
        claim: "pressure: Isla Vista at most 1.05 of the best fixed heap's time in the same memory, \
                geometric mean",
        pressure: true,
        measure: Measure::Time,
        ours: ISLA_VISTA,
        base: BEST,
        most: 1.05,
    },
    Target {
        claim: "pressure: Isla Vista with a broker at most 1.05 of the best fixed heap's time in the same \
                memory, geometric mean",
        pressure: true,
        measure: Measure::Time,
        ours: BROKER,
        base: BEST,
        most: 1.05,
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

/// Claims that every run finishes where all runs with the best fixed heap do, and the heap that is judged.
pub(super) const ENDS: [(&str, usize); 2] = [
    (
        "pressure: no run of Isla Vista killed or too slow where the best fixed heap ends",
        ISLA_VISTA,
    ),
    (
        "pressure: no run of Isla Vista with a broker killed or too slow where the best fixed heap ends",
        BROKER,
    ),
];

/// The claims of [`TARGETS`] and [`ENDS`].
pub(super) const CLAIMS: [&str; TARGETS.len() + ENDS.len()] = {
    let mut claims = [""; TARGETS.len() + ENDS.len()];
    let mut index = 0;
    while index < ENDS.len() {
        claims[TARGETS.len() + index] = ENDS[index].0;
        index += 1;
    }
    index = 0;
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

/// Judges [`ENDS`].
pub(super) fn judge_ends(results: &mut Results, ran: &[Ran]) {
    let ends = |variant: &&Ran| variant.what.pressure && runs(variant, BEST).all_finished();
    let with: Vec<&Ran> = ran.iter().filter(ends).collect();
    for (claim, heap) in ENDS {
        let all = with.iter().map(|variant| (variant, runs(variant, heap)));
        let failed = all.filter(|(_, runs)| !runs.all_finished());
        let told = failed.map(|(variant, runs)| format!("{}: {}", variant.name, runs.ended()));
        let told: Vec<String> = told.collect();
        let measured = match told.len() {
            0 => format!("none in {} rows", with.len()),
            some => format!("in {some} of {} rows: {}", with.len(), told.join("; ")),
        };
        let met = (!with.is_empty()).then_some(told.is_empty());
        results.target(claim, measured, met);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Case, Row};
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

    /// The verdicts of the targets on one plan under pressure, and those of [`ENDS`] after them.
    fn judged(runs: [Outcome; HEAPS.len()]) -> Vec<(String, Option<bool>)> {
        let ran = Variant {
            name: "a plan".to_owned(),
            what: Case {
                program: 0,
                plan: "Immix",
                pressure: true,
            },
            outcomes: vec![Row {
                runs: runs.into(),
                best: 112,
            }],
        };
        let mut results = Results::new("x", "", "", 1);
        for target in &TARGETS {
            target.judge(&mut results, std::slice::from_ref(&ran));
        }
        judge_ends(&mut results, std::slice::from_ref(&ran));
        let targets = results.targets.into_iter();
        targets
            .map(|target| (target.measured, target.met))
            .collect()
    }

    fn done(seconds: f64, after: u64) -> Outcome {
        run(Ending::Finished, seconds, after)
    }

    /// The place among the verdicts of the target with this claim.
    fn place(claim: &str) -> usize {
        let found = CLAIMS.iter().position(|other| other.starts_with(claim));
        found.expect("there is such a claim")
    }

    #[test]
    fn heaps_are_compared_by_time_and_by_what_stays() {
        let found = judged([
            done(4.0, 200),
            done(2.9, 90),
            done(2.0, 50),
            done(3.0, 100),
            done(9.0, 10),
            done(2.0, 90),
        ]);
        assert_eq!(found.len(), CLAIMS.len());
        assert_eq!(found[0].1, None, "nothing without pressure");
        let met = found[2..].iter().map(|(_, met)| met.expect("compared"));
        let wanted = [true, true, true, true, false, true, false, true, true];
        assert_eq!(met.collect::<Vec<_>>(), wanted);
        assert_eq!(found[7].0, "0.50; at most 0.50 (Immix)");
    }

    #[test]
    fn a_heap_may_take_little_longer_than_the_best_fixed_one_and_must_end_where_that_does() {
        let with = |best: Outcome, ours: Outcome| {
            let any = done(1.0, 1);
            let (broker, printed) = (done(2.0, 1), any.clone());
            judged([any.clone(), best, any, ours, printed, broker])
        };
        let near = place("pressure: Isla Vista at most 1.05 of the best fixed");
        let ends = place("pressure: no run of Isla Vista killed");
        let killed = || run(Ending::Killed, 0.0, 0);
        let found = with(done(2.0, 1), done(2.2, 1));
        assert_eq!((found[near].1, found[ends].1), (Some(false), Some(true)));
        assert_eq!(found[near + 1].1, Some(true), "the broker's");
        assert_eq!(found[ends].0, "none in 1 rows");
        let found = with(done(2.0, 1), killed());
        let told = "in 1 of 1 rows: a plan: killed";
        assert_eq!(found[ends], (told.to_owned(), Some(false)));
        assert_eq!(found[ends + 1].1, Some(true), "the broker's");
        let found = with(killed(), killed());
        assert_eq!(found[ends].1, None, "nothing to compare with");
    }

    #[test]
    fn what_took_too_long_has_a_time_and_no_memory() {
        let done = |seconds| done(seconds, 100);
        let late = run(Ending::TooLong, 0.0, 0);
        let killed = || run(Ending::Killed, 0.0, 0);
        let found = judged([late, killed(), killed(), done(3.0), done(3.0), done(2.0)]);
        assert_eq!(
            found[2],
            ("0.25; at most 0.25 (Immix)".to_owned(), Some(true))
        );
        for target in &found[4..TARGETS.len()] {
            assert_eq!(target, &("nothing to compare".to_owned(), None));
        }
        let ours = killed();
        let found = judged([done(4.0), done(4.0), done(4.0), ours, done(2.0), done(2.0)]);
        assert_eq!((found[2].1, found[3].1), (None, Some(true)));
    }
}
