//! Runs several variants at the same time, for programs that need less than a processor each.

use super::experiment::{Experiment, Turn, Variant};
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::atomic::{AtomicUsize, Ordering};

impl<V: Sync> Experiment<'_, V> {
    /// Runs as many variants at once as there are lanes: each lane prepares its ground, takes the next
    /// variant, and does all of its rounds. `run` does a single run on the ground of its lane. Ends when the
    /// time of `--minutes` is over.
    ///
    /// # Errors
    /// The first error of `prepare` or `run`, when a run panicked, and those of [`Experiment::run`].
    pub fn run_in_lanes<G, O: Serialize + DeserializeOwned>(
        self,
        lanes: usize,
        prepare: impl Fn(usize) -> Result<G> + Sync,
        run: impl Fn(&G, &V, &Turn<'_>) -> Result<O> + Sync,
    ) -> Result<Vec<Variant<V, O>>> {
        let (next, all) = (AtomicUsize::new(0), self.variants.len());
        let this = &self;
        let lane = |number: usize| -> Result<()> {
            let ground = prepare(number)?;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= all {
                    return Ok(());
                }
                for round in (1..=this.rounds).filter(|&round| this.is_to_do(at, round)) {
                    if !this.runner.has_time() {
                        return Ok(());
                    }
                    this.run_one(at, round, &mut |what, turn| {
                        turn.progress
                            .tell(format_args!("variant {} of {all}", at + 1));
                        run(&ground, what, turn)
                    })?;
                }
            }
        };
        let lane = &lane;
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..lanes)
                .map(|number| scope.spawn(move || lane(number)))
                .collect();
            let ended = |_| Err(Error::Panicked("a lane of runs"));
            let mut lanes = lanes.into_iter().map(|one| one.join());
            lanes.try_for_each(|one| one.unwrap_or_else(ended))
        })?;
        self.ran()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{Options, Runner};

    fn runner() -> Runner {
        Runner::new("test", Options::of(2)).expect("nothing is read")
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
