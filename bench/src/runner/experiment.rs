//! Variants that are compared.

use super::Runner;
use crate::Result;
use crate::harness::interrupt;
use crate::progress::Progress;
use std::time::{Duration, Instant};

/// Variants to compare. Each round runs all of them once, so that disturbances on the machine
/// affect all alike.
pub struct Experiment<'a, V> {
    pub(super) runner: &'a Runner,
    pub(super) variants: Vec<(String, V)>,
    pub(super) rounds: usize,
    /// How long all runs together may take; as long as they do when absent.
    within: Option<Duration>,
    /// Numbers of neighbours that take turns in being first; empty: the order is always the same.
    groups: Vec<usize>,
}

/// A variant and the outcomes of its runs, in order.
#[derive(Clone, Debug)]
pub struct Variant<V, O> {
    /// For tables, progress and `--only`.
    pub name: String,
    /// The conditions that make up the variant.
    pub what: V,
    /// One outcome for each round.
    pub outcomes: Vec<O>,
}

/// One run of one variant.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// This is the first round: the one from which pictures are drawn.
    pub first: bool,
    /// Shows the progress of the run.
    pub progress: Progress,
}

impl<'a> Turn<'a> {
    /// A run of a variant, in one of the rounds.
    pub(super) fn new(
        runner: &Runner,
        variant: &'a str,
        (round, rounds): (usize, usize),
    ) -> Turn<'a> {
        Turn {
            variant,
            first: round == 1,
            progress: runner.progress(&format!("{variant}, {round} of {rounds}")),
        }
    }
}

impl Runner {
    /// An experiment with these variants. It has as many rounds as repetitions were asked for.
    pub fn experiment<V, N: Into<String>>(
        &self,
        variants: impl IntoIterator<Item = (N, V)>,
    ) -> Experiment<'_, V> {
        let variants = variants.into_iter();
        Experiment {
            runner: self,
            variants: variants.map(|(name, what)| (name.into(), what)).collect(),
            rounds: self.repeat(),
            within: None,
            groups: Vec::new(),
        }
    }
}

impl<V> Experiment<'_, V> {
    /// Drops the variants that `--only` does not name.
    pub fn wanted(mut self) -> Self {
        self.variants.retain(|(name, _)| self.runner.wants(name));
        self
    }

    /// Sets one round, however many repetitions were asked for.
    pub fn once(mut self) -> Self {
        self.rounds = 1;
        self
    }

    /// Begins no run after this time, and no round that would take longer than what is left of it: fewer
    /// repetitions, and variants that did not run at all are left out. Not for lanes.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Neighbours with the same key take turns in being first: each round begins with the next of them,
    /// so that what one leaves behind meets each of the others.
    pub fn rotating<K: PartialEq>(mut self, key: impl Fn(&V) -> K) -> Self {
        let mut group = 0;
        self.groups = vec![0; self.variants.len()];
        for index in 1..self.variants.len() {
            let same = key(&self.variants[index].1) == key(&self.variants[index - 1].1);
            group += usize::from(!same);
            self.groups[index] = group;
        }
        self
    }

    /// Runs every variant in every round; `run` does a single run.
    ///
    /// # Errors
    /// The first error of `run`; an error too if a signal came.
    pub fn run<O>(
        self,
        mut run: impl FnMut(&V, &Turn<'_>) -> Result<O>,
    ) -> Result<Vec<Variant<V, O>>> {
        let fresh = |(name, what)| Variant {
            name,
            what,
            outcomes: Vec::new(),
        };
        let mut variants: Vec<_> = self.variants.into_iter().map(fresh).collect();
        let mut time = Time::new(self.within);
        'rounds: for round in 1..=self.rounds {
            if !time.has_a_round() {
                break;
            }
            for index in order(&self.groups, variants.len(), round) {
                if time.is_over() {
                    break 'rounds;
                }
                let Variant {
                    name,
                    what,
                    outcomes,
                } = &mut variants[index];
                interrupt::check()?;
                let turn = Turn::new(self.runner, name, (round, self.rounds));
                outcomes.push(run(&*what, &turn)?);
            }
        }
        variants.retain(|variant| !variant.outcomes.is_empty() || self.within.is_none());
        Ok(variants)
    }
}

/// The time that the runs of an experiment may take.
struct Time {
    within: Option<Duration>,
    begun: Instant,
    /// When the round began, if one did, and how long the longest took.
    round: Option<Instant>,
    longest: Duration,
}

impl Time {
    fn new(within: Option<Duration>) -> Time {
        Time {
            within,
            begun: Instant::now(),
            round: None,
            longest: Duration::ZERO,
        }
    }

    fn left(&self) -> Option<Duration> {
        Some(self.within?.saturating_sub(self.begun.elapsed()))
    }

    fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Called when a round begins: whether there is time for it.
    fn has_a_round(&mut self) -> bool {
        let before = self.round.replace(Instant::now());
        let took = before.map_or(Duration::ZERO, |began| began.elapsed());
        self.longest = self.longest.max(took);
        self.left().is_none_or(|left| left >= self.longest)
    }
}

/// The order of a round, 1 at least.
fn order(groups: &[usize], count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if groups.len() == count {
        for group in order.chunk_by_mut(|a, b| groups[*a] == groups[*b]) {
            let by = (round - 1) % group.len().max(1);
            group.rotate_left(by);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Options;

    fn runner(only: Option<&str>) -> Runner {
        let options = Options {
            repeat: 3,
            only: only.map(str::to_owned),
            slice: false,
            seed: None,
            record: false,
        };
        Runner::new("test", options)
    }

    #[test]
    fn variants_take_turns() {
        let mut seen = Vec::new();
        let variants = runner(None)
            .experiment([("a", 1), ("b", 2)])
            .run(|what, turn| {
                seen.push((*what, turn.variant.to_owned(), turn.first));
                Ok(seen.len())
            })
            .unwrap();
        let order: Vec<i32> = seen.iter().map(|(what, ..)| *what).collect();
        assert_eq!(order, [1, 2, 1, 2, 1, 2]);
        assert_eq!(seen[1], (2, "b".to_owned(), true));
        assert!(!seen[2].2);
        assert_eq!(variants[0].outcomes, [1, 3, 5]);
        assert_eq!(variants[1].outcomes, [2, 4, 6]);
    }

    #[test]
    fn what_does_not_fit_into_the_time_is_left_out() {
        let rounds = |within| {
            let runner = runner(None);
            let both = runner.experiment([("a", ()), ("b", ())]).within(within);
            let ran = both.run(|(), _| Ok(())).unwrap();
            ran.iter().map(|v| v.outcomes.len()).collect::<Vec<_>>()
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(rounds(hour), [3, 3]);
        assert_eq!(rounds(Duration::ZERO), [0; 0], "they are left out");
        let mut time = Time::new(Some(hour));
        assert!(time.has_a_round() && time.has_a_round());
        time.longest = 2 * hour;
        assert!(
            !time.has_a_round() && !time.is_over(),
            "a round would not fit"
        );
    }

    #[test]
    fn neighbours_take_turns_in_being_first() {
        let mut order = String::new();
        let variants = [("a", 1), ("b", 1), ("c", 1), ("d", 2), ("e", 2)];
        let ran = runner(None)
            .experiment(variants)
            .rotating(|key| *key)
            .run(|_, turn| {
                order.push_str(turn.variant);
                Ok(())
            })
            .unwrap();
        assert_eq!(order, "abcde".to_owned() + "bcaed" + "cabde");
        assert!(ran.iter().all(|variant| variant.outcomes.len() == 3));
    }

    #[test]
    fn only_what_is_wanted_runs_and_an_error_ends_it() {
        let runner = runner(Some("b,x"));
        let all = || {
            runner
                .experiment([("a", ()), ("bc", ()), ("b", ())])
                .wanted()
        };
        let ran = all().once().run(|(), _| Ok(())).unwrap();
        assert_eq!(ran.iter().map(|v| v.outcomes.len()).sum::<usize>(), 2);
        let mut runs = 0;
        let failed = all().run(|(), turn| {
            runs += 1;
            match turn.variant {
                "b" => Err(crate::Error::program("b", "failed")),
                _ => Ok(()),
            }
        });
        assert!(failed.is_err() && runs == 2);
    }
}
