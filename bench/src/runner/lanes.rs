//! Runs several variants at the same time, for programs that need less than a processor each.

use super::experiment::{Experiment, Turn, Variant};
use crate::harness::interrupt;
use crate::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

impl<V: Sync> Experiment<'_, V> {
    /// Runs as many variants at once as there are lanes: each lane prepares its ground, takes the next
    /// variant, and does all of its rounds. `run` does a single run on the ground of its lane.
    ///
    /// # Errors
    /// The first error of `prepare` or `run`, when a run panicked, and when a signal came.
    pub fn run_in_lanes<G, O: Send>(
        self,
        lanes: usize,
        prepare: impl Fn(usize) -> Result<G> + Sync,
        run: impl Fn(&G, &V, &Turn<'_>) -> Result<O> + Sync,
    ) -> Result<Vec<Variant<V, O>>> {
        let (next, all) = (AtomicUsize::new(0), self.variants.len());
        let lane = |number: usize| -> Result<Vec<(usize, Vec<O>)>> {
            let ground = prepare(number)?;
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((name, what)) = self.variants.get(at) else {
                    return Ok(done);
                };
                let mut outcomes = Vec::new();
                for round in 1..=self.rounds {
                    interrupt::check()?;
                    let turn = Turn::new(self.runner, name, (round, self.rounds));
                    turn.progress
                        .tell(format_args!("variant {} of {all}", at + 1));
                    outcomes.push(run(&ground, what, &turn)?);
                }
                done.push((at, outcomes));
            }
        };
        let lane = &lane;
        let done = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..lanes)
                .map(|number| scope.spawn(move || lane(number)))
                .collect();
            let ended = |_| Err(Error::Panicked("a lane of runs"));
            let lanes = lanes.into_iter().map(|one| one.join());
            lanes
                .map(|one| one.unwrap_or_else(ended))
                .collect::<Result<Vec<_>>>()
        })?;
        let mut done: Vec<_> = done.into_iter().flatten().collect();
        done.sort_by_key(|(at, _)| *at);
        let pairs = self.variants.into_iter().zip(done);
        let variant = |((name, what), (_, outcomes))| Variant {
            name,
            what,
            outcomes,
        };
        Ok(pairs.map(variant).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{Options, Runner};

    fn runner() -> Runner {
        let options = Options {
            repeat: 2,
            only: None,
            slice: false,
            seed: None,
            record: false,
        };
        Runner::new("test", options)
    }

    #[test]
    fn every_variant_runs_on_one_lane_and_comes_back_in_its_place() {
        let runner = runner();
        let variants: Vec<(String, usize)> = (0..9).map(|at| (at.to_string(), at)).collect();
        let ran = runner
            .experiment(variants)
            .run_in_lanes(3, Ok, |lane, what, _| Ok((*lane, *what)))
            .unwrap();
        for (at, variant) in ran.iter().enumerate() {
            let lane = variant.outcomes[0].0;
            assert_eq!(variant.name, at.to_string());
            assert_eq!(variant.outcomes, [(lane, at), (lane, at)]);
        }
        assert_eq!(ran.len(), 9);
    }

    #[test]
    fn a_ground_that_is_missing_is_an_error() {
        let runner = runner();
        let none = |_| Err::<(), _>(Error::program("a ground", "there is none"));
        let ran = runner
            .experiment([("a", ())])
            .run_in_lanes(2, none, |(), (), _| Ok(()));
        assert!(ran.is_err());
    }
}
