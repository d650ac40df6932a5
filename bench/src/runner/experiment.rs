//! Variants that are compared.

use super::Runner;
use super::elsewhere::{self, Elsewhere};
use crate::harness::interrupt;
use crate::progress::Progress;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Variants to compare. Each round runs all of them once, so that disturbances on the machine affect all
/// alike. The outcome of a run is kept at once: a run that is kept is not made again.
pub struct Experiment<'a, V> {
    pub(super) runner: &'a Runner,
    pub(super) variants: Vec<(String, V)>,
    pub(super) rounds: usize,
    /// Which variants are wanted, and whether there is a result without the others.
    wanted: Vec<bool>,
    is_part_enough: bool,
    /// How long all runs together may take; as long as they do when absent.
    within: Option<Duration>,
    /// The number of each variant's group: neighbours that take turns in being first.
    groups: Vec<usize>,
    is_by_group: bool,
    /// The other machine, and which variants run there.
    elsewhere: Option<(Elsewhere, Vec<bool>)>,
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
        let variants: Vec<_> = variants.map(|(name, what)| (name.into(), what)).collect();
        Experiment {
            runner: self,
            rounds: self.repeat(),
            wanted: vec![true; variants.len()],
            is_part_enough: false,
            within: None,
            groups: (0..variants.len()).collect(),
            is_by_group: false,
            elsewhere: None,
            variants,
        }
    }
}

impl<V> Experiment<'_, V> {
    /// Runs only the variants that `--only` names. The result has those of the others that are kept.
    pub fn wanted(self) -> Self {
        let named: Vec<String> = self.variants.iter().map(|one| one.0.clone()).collect();
        let mut names = named.into_iter();
        self.wanted_by(|_| names.next().unwrap_or_default())
    }

    /// The same, where `--only` names what `name` gives for a variant.
    pub fn wanted_by(mut self, mut name: impl FnMut(&V) -> String) -> Self {
        let wanted = self
            .variants
            .iter()
            .map(|one| self.runner.wants(&name(&one.1)));
        self.wanted = wanted.collect();
        self.is_part_enough = true;
        self
    }

    /// Sets one round, however many repetitions were asked for.
    pub fn once(mut self) -> Self {
        self.rounds = 1;
        self
    }

    /// Begins no run after this time, and no round that would take longer than what is left of it: fewer
    /// repetitions, and variants that did not run at all are left out. Not for lanes, and not by group.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self.is_part_enough = true;
        self
    }

    /// Runs all rounds of a group before the next group. The groups are those of [`Experiment::rotating`],
    /// or single variants. Rows are complete one after the other, also in a recording that is cut. For groups
    /// that are not compared with each other.
    pub fn by_group(mut self) -> Self {
        self.is_by_group = true;
        self
    }

    /// Neighbours with the same key take turns in being first: each round begins with the next of them,
    /// so that what one leaves behind meets each of the others.
    pub fn rotating<K: PartialEq>(mut self, key: impl Fn(&V) -> K) -> Self {
        let mut group = 0;
        self.groups.fill(0);
        for index in 1..self.variants.len() {
            let same = key(&self.variants[index].1) == key(&self.variants[index - 1].1);
            group += usize::from(!same);
            self.groups[index] = group;
        }
        self
    }

    /// Runs those variants that `which` picks on another machine. `run` is called there.
    pub fn elsewhere(mut self, machine: Elsewhere, which: impl Fn(&V) -> bool) -> Self {
        let which = self.variants.iter().map(|one| which(&one.1)).collect();
        self.elsewhere = Some((machine, which));
        self
    }

    /// Runs every variant in every round; `run` does a single run. Ends when the time of `--minutes` is over.
    ///
    /// # Errors
    /// The first error of `run`; an error too if a signal came, if an outcome cannot be kept, and if no time
    /// was left for variants without a kept row.
    pub fn run<O: Serialize + DeserializeOwned>(
        self,
        mut run: impl FnMut(&V, &Turn<'_>) -> Result<O>,
    ) -> Result<Vec<Variant<V, O>>> {
        let took = self
            .variants
            .iter()
            .map(|one| self.runner.ledger().took(&one.0));
        let mut time = Time::new(self.within, took.sum());
        'rounds: for (round, mut order) in self.schedule() {
            order.retain(|&index| self.is_to_do(index, round));
            if order.is_empty() {
                continue;
            }
            let searched = self.runner.ledger().searched;
            if !time.has_a_round(searched) {
                break;
            }
            for index in order {
                if time.is_over() || !self.runner.has_time() {
                    break 'rounds;
                }
                self.run_one(index, round, &mut run)?;
            }
        }
        self.ran()
    }

    /// The rounds, each with the variants in their order.
    fn schedule(&self) -> Vec<(usize, Vec<usize>)> {
        let all: Vec<usize> = (0..self.variants.len()).collect();
        let blocks: Vec<&[usize]> = if self.is_by_group && self.within.is_none() {
            all.chunk_by(|a, b| self.groups[*a] == self.groups[*b])
                .collect()
        } else {
            vec![&all]
        };
        let rounds = blocks.into_iter().flat_map(|block| {
            let rounds = 1..=self.rounds;
            rounds.map(|round| (round, order(&self.groups, block, round)))
        });
        rounds.collect()
    }

    /// Whether a run of a variant is wanted, and not kept.
    pub(super) fn is_to_do(&self, index: usize, round: usize) -> bool {
        let name = &self.variants[index].0;
        match &self.runner.options.inside {
            Some(asked) => *asked == elsewhere::word(name),
            None => self.wanted[index] && self.runner.ledger().done(name) < round,
        }
    }

    /// Does one run, and keeps what it comes to.
    pub(super) fn run_one<O: Serialize + DeserializeOwned>(
        &self,
        index: usize,
        round: usize,
        run: &mut impl FnMut(&V, &Turn<'_>) -> Result<O>,
    ) -> Result<()> {
        interrupt::check()?;
        let (name, what) = &self.variants[index];
        let turn = Turn::new(self.runner, name, (round, self.rounds));
        let begun = Instant::now();
        if self.runner.options.inside.is_some() {
            elsewhere::answer(&run(what, &turn)?);
            return Err(Error::Answered);
        }
        let outcome = match self.machine(index) {
            Some(machine) => machine.ask(self.runner, name, &turn.progress)?,
            None => run(what, &turn)?,
        };
        self.runner.ledger().keep(name, begun.elapsed(), &outcome)
    }

    /// The machine on which a variant runs; `None` for this one.
    fn machine(&self, index: usize) -> Option<&Elsewhere> {
        let (machine, which) = self.elsewhere.as_ref()?;
        which[index].then_some(machine)
    }

    /// The variants with all that is kept of them.
    pub(super) fn ran<O: DeserializeOwned>(self) -> Result<Vec<Variant<V, O>>> {
        let mut ledger = self.runner.ledger();
        let mut all = Vec::new();
        let fewer = self.within.is_some() && !ledger.is_cut;
        for ((name, what), wanted) in self.variants.into_iter().zip(self.wanted) {
            ledger.asked += 1;
            ledger.wanted += usize::from(wanted);
            let least = if fewer { 1 } else { self.rounds };
            let is_done = ledger.done(&name) >= least;
            match ledger.outcomes::<O>(&name, is_done)? {
                Some(outcomes) => {
                    if self.rounds == self.runner.repeat() {
                        let runs = outcomes.len();
                        ledger.fewest = Some(ledger.fewest.map_or(runs, |least| least.min(runs)));
                    }
                    all.push(Variant {
                        name,
                        what,
                        outcomes,
                    });
                }
                None if !fewer => ledger.missing.push(name),
                None => {}
            }
        }
        if self.is_part_enough || ledger.missing.is_empty() {
            Ok(all)
        } else {
            Err(self.runner.unfinished())
        }
    }
}

/// The time that the runs of an experiment may take.
struct Time {
    within: Option<Duration>,
    begun: Instant,
    /// When the round began, if one did, with how long all searches had taken by then.
    round: Option<(Instant, Duration)>,
    /// How long the longest round took, without searches: those are made once.
    longest: Duration,
}

impl Time {
    /// The time of runs that have taken some time before.
    fn new(within: Option<Duration>, took: Duration) -> Time {
        Time {
            within: within.map(|within| within.saturating_sub(took)),
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

    /// Called when a round begins, with how long all searches took so far: whether there is time for it.
    fn has_a_round(&mut self, searched: Duration) -> bool {
        let before = self.round.replace((Instant::now(), searched));
        let took = before.map_or(Duration::ZERO, |(began, before)| {
            let searches = searched.saturating_sub(before);
            began.elapsed().saturating_sub(searches)
        });
        self.longest = self.longest.max(took);
        self.left().is_none_or(|left| left >= self.longest)
    }
}

/// The order of variants in a round, 1 at least.
fn order(groups: &[usize], variants: &[usize], round: usize) -> Vec<usize> {
    let mut order = variants.to_vec();
    for group in order.chunk_by_mut(|a, b| groups[*a] == groups[*b]) {
        let by = (round - 1) % group.len();
        group.rotate_left(by);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Options;

    fn runner(only: Option<&str>) -> Runner {
        let options = Options {
            only: only.map(str::to_owned),
            ..Options::of(3)
        };
        Runner::new("test", options).expect("nothing is read")
    }

    #[test]
    fn a_guest_makes_one_run_of_the_variant_that_it_was_asked_for() {
        let asked = |variant: &str| {
            let options = Options {
                inside: Some(variant.to_owned()),
                ..Options::of(3)
            };
            let runner = Runner::new("test", options).expect("nothing is read");
            let mut ran = Vec::new();
            let experiment = runner.experiment([("a", 1), ("b, v2", 2)]);
            let experiment = experiment.elsewhere(Elsewhere::user_mode(), |what| *what == 2);
            let ended = experiment.wanted().run(|what, _| {
                ran.push(*what);
                Ok(())
            });
            (ran, matches!(ended, Err(Error::Answered)))
        };
        assert_eq!(asked("b,_v2"), (vec![2], true));
        assert_eq!(asked("c"), (Vec::new(), false));
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
        let mut time = Time::new(Some(hour), Duration::ZERO);
        let none = Duration::ZERO;
        assert!(time.has_a_round(none) && time.has_a_round(none));
        time.longest = 2 * hour;
        assert!(
            !time.has_a_round(none) && !time.is_over(),
            "a round would not fit"
        );
        let mut time = Time::new(Some(hour), none);
        time.round = Some((Instant::now(), none));
        assert!(time.has_a_round(hour) && time.longest.is_zero());
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
