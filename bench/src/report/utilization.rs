//! The part of the time in which a program itself runs, between pauses for collections.
//!
//! *Bounded mutator utilization* (Sachindran, Moss and Berger, 2004): for a window size, the
//! smallest part of the time that the program had in any window of at least that size. It never
//! falls as windows grow. The size at which it leaves 0 is the longest pause.

/// A run, and the pauses in which its program stood still.
#[derive(Clone, Debug)]
pub struct Utilization {
    /// `(begin, end)` of each pause: in order, disjoint, within the run.
    pauses: Vec<(f64, f64)>,
    /// For each pause, the seconds of all pauses before it; as the last entry, the seconds of all pauses.
    before: Vec<f64>,
    whole: f64,
}

impl Utilization {
    /// The utilization of a run of `whole` seconds with pauses `(begin, length)` in seconds, in the order of
    /// their beginnings.
    pub fn new(pauses: impl IntoIterator<Item = (f64, f64)>, whole: f64) -> Utilization {
        let mut disjoint: Vec<(f64, f64)> = Vec::new();
        let mut before = vec![0.0];
        let mut last = 0.0;
        for (begin, length) in pauses {
            let (from, to) = (
                begin.clamp(last, whole),
                (begin + length).clamp(last, whole),
            );
            if from < to {
                disjoint.push((from, to));
                before.push(before[before.len() - 1] + to - from);
                last = to;
            }
        }
        Utilization {
            pauses: disjoint,
            before,
            whole,
        }
    }

    /// Seconds paused from the start of the run until `until`.
    fn paused(&self, until: f64) -> f64 {
        let begun = self.pauses.partition_point(|(begin, _)| *begin < until);
        match begun.checked_sub(1) {
            None => 0.0,
            Some(last) => self.before[last] + until.min(self.pauses[last].1) - self.pauses[last].0,
        }
    }

    /// The part of `[from, to)` in which the program ran, from 0 to 1.
    fn of(&self, from: f64, to: f64) -> f64 {
        let part = 1.0 - (self.paused(to) - self.paused(from)) / (to - from);
        part.clamp(0.0, 1.0)
    }

    /// The smallest utilization in any window of exactly this size. It is enough to look at windows that
    /// begin or end with a pause or with the run.
    fn minimum(&self, window: f64) -> f64 {
        let last = self.whole - window;
        let begins = self.pauses.iter().map(|(begin, _)| *begin);
        let ends = self.pauses.iter().map(|(_, end)| end - window);
        let edges = begins.chain(ends).chain([0.0, last]);
        let parts = edges.map(|from| from.clamp(0.0, last));
        parts
            .map(|from| self.of(from, from + window))
            .fold(1.0, f64::min)
    }

    /// The bounded utilization of each window size. The sizes (in seconds) are in ascending order; the last
    /// is at most that of the whole run.
    pub fn bounded(&self, windows: &[f64]) -> Vec<f64> {
        let mut least: Vec<f64> = windows.iter().map(|w| self.minimum(*w)).collect();
        // The worst windows of more than the given size run from the beginning of a pause to the
        // end of a pause.
        for (first, (from, _)) in self.pauses.iter().enumerate() {
            for (_, to) in &self.pauses[first..] {
                let fitting = windows.partition_point(|w| *w <= to - from);
                if let Some(index) = fitting.checked_sub(1) {
                    least[index] = least[index].min(self.of(*from, *to));
                }
            }
        }
        for index in (1..least.len()).rev() {
            least[index - 1] = least[index - 1].min(least[index]);
        }
        least
    }

    /// The curve from a millisecond to the whole run: `(seconds, utilization)`.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        const POINTS: i32 = 80;
        /// The first point of the curve, seconds.
        const FIRST: f64 = 1e-3;
        if self.whole <= FIRST {
            return Vec::new();
        }
        let step = (self.whole / FIRST).ln() / f64::from(POINTS);
        let mut windows: Vec<f64> = (0..POINTS)
            .map(|point| FIRST * (f64::from(point) * step).exp())
            .collect();
        windows.push(self.whole);
        let parts = self.bounded(&windows);
        windows.into_iter().zip(parts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pause_takes_small_windows_whole() {
        let run = Utilization::new([(4.0, 1.0)], 10.0);
        let found = run.bounded(&[0.5, 1.0, 2.0, 4.0, 10.0]);
        assert_eq!(found, [0.0, 0.0, 0.5, 0.75, 0.9]);
    }

    #[test]
    fn a_larger_window_may_do_worse() {
        // From the beginning of the first to the end of the second are 3 seconds.
        let run = Utilization::new([(2.0, 1.0), (4.0, 1.0)], 10.0);
        let exactly = run.minimum(2.4);
        let bounded = run.bounded(&[2.4, 3.0]);
        assert!(exactly > 1.0 / 3.0, "{exactly}");
        assert!((bounded[1] - 1.0 / 3.0).abs() < 1e-9, "{bounded:?}");
        assert_eq!(bounded[0], bounded[1]);
    }

    #[test]
    fn without_pauses_and_with_nothing_else() {
        assert_eq!(Utilization::new([], 1.0).bounded(&[0.1, 1.0]), [1.0, 1.0]);
        assert_eq!(
            Utilization::new([(0.0, 5.0)], 1.0).bounded(&[0.1, 1.0]),
            [0.0, 0.0]
        );
        assert!(Utilization::new([], 0.0).curve().is_empty());
    }

    /// Compares with a search over all windows with integer ends. The pauses have integer ends too.
    #[test]
    fn it_is_what_a_look_at_every_window_finds() {
        const WHOLE: usize = 40;
        let mut state = 7u64;
        for _ in 0..200 {
            let mut busy = [true; WHOLE];
            busy.iter_mut().for_each(|busy| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *busy = state >> 62 != 0;
            });
            let pauses = (0..WHOLE).filter(|&at| !busy[at]);
            let run = Utilization::new(pauses.map(|at| (at as f64, 1.0)), WHOLE as f64);
            let windows: Vec<f64> = (1..=WHOLE).map(|w| w as f64).collect();
            let found = run.bounded(&windows);
            for (index, found) in found.iter().enumerate() {
                let sizes = index + 1..=WHOLE;
                let all = sizes.flat_map(|size| busy.windows(size));
                let part = |window: &[bool]| {
                    window.iter().filter(|&&busy| busy).count() as f64 / window.len() as f64
                };
                let least = all.map(part).fold(1.0, f64::min);
                assert!((found - least).abs() < 1e-9, "{found} {least}");
            }
        }
    }

    #[test]
    fn the_curve_rises_to_the_whole_run() {
        let run = Utilization::new([(0.5, 0.1), (1.5, 0.2)], 3.0);
        let curve = run.curve();
        assert!(curve.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        let (window, part) = curve[curve.len() - 1];
        assert!(window == 3.0 && (part - 0.9).abs() < 1e-9);
    }
}
