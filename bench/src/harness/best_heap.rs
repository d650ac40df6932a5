//! The best fixed heap in the same memory: a short search over its size, as somebody would do it who knows
//! the program, its collector and the memory.

use crate::Result;
use crate::report::statistics::spread;

/// A size whose first run takes at most this many times as long as the shortest one is tried again.
const NEAR: f64 = 1.25;
/// Runs of a size that is tried again, with the first.
const RUNS: usize = 3;

/// The sizes among which the best is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The sizes, in the order in which they are tried.
    pub sizes: &'a [u64],
    /// Seconds after which a run is given up.
    pub longest: f64,
    /// Seconds that a run takes besides the program, at most.
    pub beside: f64,
}

impl Search<'_> {
    /// The size whose median time is the least of those with which all runs finish; `None` if there is none.
    /// `time` runs the program with a size, for at most that many seconds, and returns how many the
    /// program took, `None` if it did not finish.
    ///
    /// # Errors
    /// As `time`.
    pub fn best(
        &self,
        mut time: impl FnMut(u64, f64) -> Result<Option<f64>>,
    ) -> Result<Option<u64>> {
        let mut least = f64::INFINITY;
        let mut found = Vec::new();
        for &size in self.sizes {
            if let Some(took) = time(size, self.given_up(least))? {
                least = least.min(took);
                found.push((size, took));
            }
        }
        let mut best: Option<(u64, f64)> = None;
        for (size, first) in found {
            if first > least * NEAR {
                continue;
            }
            let mut times = vec![first];
            while times.len() < RUNS {
                let Some(took) = time(size, self.longest)? else {
                    break;
                };
                times.push(took);
            }
            let median = spread(&times).median;
            if times.len() == RUNS && best.is_none_or(|(_, shortest)| median < shortest) {
                best = Some((size, median));
            }
        }
        Ok(best.map(|(size, _)| size))
    }

    /// Seconds after which a first run is given up, where the shortest one took `least`: it is not near.
    fn given_up(&self, least: f64) -> f64 {
        (least * NEAR + self.beside).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search {
        sizes: &[48, 64, 80, 96, 112, 224],
        longest: 12.0,
        beside: 2.0,
    };

    /// The size that is found where a program takes `of(size, run)` seconds, and how many runs that took.
    fn found(of: impl Fn(u64, usize) -> Option<f64>) -> (Option<u64>, usize) {
        let mut runs = Vec::new();
        let best = SEARCH.best(|size, longest| {
            let run = runs.iter().filter(|ran| **ran == size).count();
            runs.push(size);
            Ok(of(size, run).filter(|took| *took <= longest))
        });
        (best.expect("nothing fails"), runs.len())
    }

    #[test]
    fn the_size_with_the_least_median_is_found() {
        let valley = |size: u64| 1.0 + size.abs_diff(96) as f64 / 32.0;
        assert_eq!(found(|size, _| Some(valley(size))), (Some(96), 6 + 2));
        // One lucky run does not make a size the best.
        let lucky = |size, run| match (size, run) {
            (96, 0) => Some(0.9),
            (96, _) => Some(1.4),
            (112, _) => Some(1.0),
            _ => Some(3.0),
        };
        assert_eq!(found(lucky), (Some(112), 6 + 4));
    }

    #[test]
    fn a_size_with_which_a_run_does_not_finish_is_not_the_best() {
        let killed = |size, run| match (size, run) {
            (64, 2) => None,
            (64, _) => Some(1.0),
            (80, _) => Some(1.2),
            _ => None,
        };
        assert_eq!(found(killed), (Some(80), 6 + 4));
        assert_eq!(found(|_, _| None), (None, 6));
    }

    #[test]
    fn a_run_is_given_up_once_it_cannot_be_near_the_best() {
        assert_eq!(SEARCH.given_up(f64::INFINITY), 12.0);
        assert_eq!(SEARCH.given_up(1.0), 3.25);
    }
}
