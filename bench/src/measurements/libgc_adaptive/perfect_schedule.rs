//! The least time that a program can take beside a hog: that of a schedule which always has all of the memory
//! that the hog leaves, and collects only when it is full.

/// Seconds of one step of the computation.
const STEP: f64 = 0.01;
/// Steps after which it ends in any case: an hour.
const STEPS: u32 = 360_000;

/// The times of a program that has all of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    /// All of its time, and that of its collections.
    pub(super) seconds: f64,
    pub(super) gc_seconds: f64,
}

impl Alone {
    /// How many times as long as alone it takes, if it has the part `available(t)` of the memory at each
    /// time `t` (seconds), from 0 to 1. Little lives in it, so in half of the memory it is collected
    /// twice as often; a collection takes as long as before, and nothing else takes any time.
    pub(super) fn times_beside(self, available: impl Fn(f64) -> f64) -> f64 {
        let work = self.seconds - self.gc_seconds;
        if work <= 0.0 {
            return 1.0;
        }
        let collecting = self.gc_seconds / work;
        let (mut done, mut at) = (0.0, 0.0);
        for _ in 0..STEPS {
            // The part of the time that is left to the program.
            let part = 1.0 / (1.0 + collecting / available(at).max(1e-9));
            if done + part * STEP >= work {
                at += (work - done) / part;
                break;
            }
            done += part * STEP;
            at += STEP;
        }
        at / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Alone = Alone {
        seconds: 10.0,
        gc_seconds: 1.0,
    };

    #[test]
    fn half_of_the_memory_costs_the_collections_once_more() {
        assert!((ALONE.times_beside(|_| 1.0) - 1.0).abs() < 1e-6);
        assert!((ALONE.times_beside(|_| 0.5) - 1.1).abs() < 1e-6);
        let half_of_the_time = ALONE.times_beside(|at| if at < 5.5 { 0.5 } else { 1.0 });
        assert!((half_of_the_time - 1.05).abs() < 1e-3, "{half_of_the_time}");
    }

    #[test]
    fn figures_of_nothing_end_and_lose_nothing() {
        let none = Alone {
            seconds: 0.0,
            gc_seconds: 0.0,
        };
        assert_eq!(none.times_beside(|_| 0.5), 1.0);
        let never = Alone {
            gc_seconds: 5.0,
            ..ALONE
        };
        assert!(never.times_beside(|_| 0.0).is_finite());
    }
}
