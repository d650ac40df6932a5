//! Looks for the static heap size with the most work: a walk in steps, upwards or downwards, until the best
//! has a neighbour on both sides that is worse.

use crate::Result;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Where the walk begins, in percent of what an even split leaves for the heap of each service.
pub(super) const BEGIN: u64 = 95;
/// The length of a step, percentage points.
pub(super) const STEP: u64 = 10;
/// The sizes between which it looks, in the same percent. Both are whole steps from the begin.
pub(super) const BOUNDS: RangeInclusive<u64> = 65..=165;

/// The sizes that were tried, each with what came of it, in the order of the walk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tried<O>(Vec<(u64, O, f64)>);

impl<O> Tried<O> {
    /// Tries sizes until the best is found. `run` has the size in percent, and returns the outcome and the
    /// work of a run: 0 if a service died. While nothing lives the walk goes upwards, because a heap dies for
    /// being too small. So of sizes with equal work the largest counts as the best.
    ///
    /// # Errors
    /// The first error of `run`.
    pub(super) fn search(mut run: impl FnMut(u64) -> Result<(O, f64)>) -> Result<Tried<O>> {
        let mut tried = Tried(Vec::new());
        let mut next = Some(BEGIN);
        while let Some(size) = next {
            let (outcome, work) = run(size)?;
            tried.0.push((size, outcome, work));
            next = tried.next();
        }
        Ok(tried)
    }

    /// The neighbour of the best that is not tried yet, the larger one first.
    fn next(&self) -> Option<u64> {
        let best = self.best()?.0;
        let new = |size: &u64| BOUNDS.contains(size) && self.0.iter().all(|one| one.0 != *size);
        [best + STEP, best - STEP].into_iter().find(new)
    }

    /// The size with the most work, percent, with its outcome and its work.
    pub(super) fn best(&self) -> Option<(u64, &O, f64)> {
        let order =
            |a: &&(u64, O, f64), b: &&(u64, O, f64)| (a.2.total_cmp(&b.2)).then(a.0.cmp(&b.0));
        let best = self.0.iter().max_by(order);
        best.map(|(size, outcome, work)| (*size, outcome, *work))
    }

    /// Number of sizes that were tried.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// For tables: the best size, and whether it stands at a bound, where a better one may be beyond.
    pub(super) fn label(&self) -> String {
        match self.best() {
            Some((size, _, work)) if work > 0.0 => {
                let at_a_bound = size == *BOUNDS.start() || size == *BOUNDS.end();
                format!("{size} %{}", if at_a_bound { ", a bound" } else { "" })
            }
            _ => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with made-up work, and returns the sizes in order of trial and what stands in the table.
    fn walk(work: impl Fn(u64) -> f64) -> (Vec<u64>, String) {
        let tried = Tried::search(|size| Ok(((), work(size)))).expect("no run fails");
        let sizes: Vec<u64> = tried.0.iter().map(|one| one.0).collect();
        assert_eq!(sizes.len(), tried.count());
        (sizes, tried.label())
    }

    /// Work with its top at a size.
    fn hill(top: u64) -> impl Fn(u64) -> f64 {
        move |size| 1000.0 - size.abs_diff(top) as f64
    }

    #[test]
    fn it_walks_towards_more_work_until_the_best_is_inside() {
        for (top, sizes) in [
            (95, vec![95, 105, 85]),
            (105, vec![95, 105, 115]),
            (125, vec![95, 105, 115, 125, 135]),
            (85, vec![95, 105, 85, 75]),
            // Between two sizes the larger one is nearer.
            (112, vec![95, 105, 115, 125]),
        ] {
            let best = if top == 112 { 115 } else { top };
            assert_eq!(walk(hill(top)), (sizes, format!("{best} %")));
        }
    }

    #[test]
    fn a_best_at_a_bound_is_called_so_and_nothing_beyond_is_tried() {
        let (sizes, label) = walk(hill(1000));
        assert_eq!((sizes.len(), label.as_str()), (8, "165 %, a bound"));
        let (sizes, label) = walk(hill(0));
        assert_eq!((sizes.len(), label.as_str()), (5, "65 %, a bound"));
        assert!(BOUNDS.contains(&sizes[4]));
    }

    #[test]
    fn what_dies_is_worse_and_larger_heaps_are_tried_until_one_lives() {
        let (sizes, label) = walk(|size| if size < 125 { 0.0 } else { hill(105)(size) });
        assert_eq!(sizes, [95, 105, 115, 125, 135]);
        assert_eq!(label, "125 %");
        let (sizes, label) = walk(|_| 0.0);
        assert_eq!((sizes.len(), label.as_str()), (8, "none"));
        // The larger one dies: it goes down.
        let (sizes, label) = walk(|size| if size > 95 { 0.0 } else { hill(95)(size) });
        assert_eq!((sizes, label.as_str()), (vec![95, 105, 85], "95 %"));
    }

    #[test]
    fn an_error_ends_it() {
        let mut runs = 0;
        let failed = Tried::search(|_| {
            runs += 1;
            match runs {
                2 => Err(crate::Error::program("a service", "failed")),
                _ => Ok(((), 1.0)),
            }
        });
        assert!(failed.is_err() && runs == 2);
    }
}
