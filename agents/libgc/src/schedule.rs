//! Every decision of the adapter, as pure functions of what was measured. Sizes in bytes, times in
//! nanoseconds.

use crate::sense::Memory;
pub use plimsoll_policy::footprint::{low_water, threshold};

/// Smallest step between two collections.
pub const MIN_GUARD: u64 = 1 << 20;

/// The heap's increments are at most this share of it.
const DIVISOR: usize = 16;

/// libgc's smallest increment (`MINHINCR`, 16 blocks).
const MIN_INCREMENT: u64 = 64 << 10;

/// What a program must be allowed to allocate between two collections: as long as a collection takes
/// (half of the time, at worst), within 1/64 and 2/3 of the live data. libgc's own rule is about 2/3.
pub fn guard(used_after: u64, rate: u64, collection_ns: u64) -> u64 {
    let fair = u128::from(rate) * u128::from(collection_ns) / 1_000_000_000;
    let fair = u64::try_from(fair).unwrap_or(u64::MAX);
    fair.clamp(used_after / 64, used_after / 3 * 2 + 1)
        .max(MIN_GUARD)
}

/// How large the heap may grow before the next collection.
pub fn ceiling(target: u64, used_after: u64, guard: u64) -> u64 {
    target.max(used_after.saturating_add(guard))
}

/// Up to where the heap may grow before it is collected, for a program with a maximum of its own
/// (0: none): so far below it that the next increment still fits.
pub fn most(maximum: u64) -> u64 {
    match maximum {
        0 => u64::MAX,
        _ => maximum.saturating_sub((maximum / 16).max(1 << 20)),
    }
}

/// The free space divisor: libgc adds 1/divisor of its heap (8 MiB at the most) and what it needs
/// just now. A sixteenth, and never past the ceiling.
pub fn divisor(heap: u64, room: u64) -> usize {
    let least = heap.div_ceil(room.max(MIN_INCREMENT));
    usize::try_from(least).unwrap_or(usize::MAX).max(DIVISOR)
}

/// What of the process's memory is not heap, from what was known of it. `heap` is mapped, `idle` of it free.
///
/// The difference to the heap is a lower bound: heap may be untouched, or swapped out. Where hardly
/// any of it is free, all of it was touched, and with what is in swap the difference is an upper
/// bound too.
pub fn other(known: u64, memory: Memory, heap: u64, idle: u64) -> u64 {
    let low = memory.resident.saturating_sub(heap);
    let high = memory
        .resident
        .saturating_add(memory.swapped)
        .saturating_sub(heap);
    let full = idle <= (heap / 64).max(1 << 20);
    known.max(low).min(if full { high } else { u64::MAX })
}

/// What the process looks like at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// May use now.
    pub limit: u64,
    /// Must give back.
    pub owed: u64,
    /// Anonymous resident bytes of this process and its family.
    pub uses: u64,
    /// What of `uses` is not this process's heap.
    pub other: u64,
    /// Heap that the program can use without a collection: full and free blocks, resident or not.
    pub extent: u64,
    /// Heap in blocks with objects.
    pub used: u64,
    /// Heap in ballast.
    pub ballast: u64,
    /// Allocated since the last collection.
    pub since: u64,
    /// How large the extent should be.
    pub target: u64,
    /// How large it may be: no less than what the live data need.
    pub ceiling: u64,
    /// Least step between collections.
    pub guard: u64,
    /// `CLOCK_MONOTONIC`.
    pub now: u64,
}

/// What the helper shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Rest,
    /// Give this much ballast back to the program: it may grow.
    Grow(u64),
    /// Discard free heap, and collect if that is not enough, until the extent is no more than this.
    Shrink(u64),
    /// As `Shrink`, because the process uses too much: its use was over the threshold.
    Release(u64),
}

/// What came of the last release, so that a hopeless one is not repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// When it ended.
    pub at: u64,
    /// How long it took.
    pub took: u64,
    /// Use after it.
    pub uses: u64,
    /// The limit it worked for.
    pub limit: u64,
    /// Whether the use came under the threshold.
    pub reached: bool,
}

impl Released {
    /// Whether another release can be expected to bring something.
    fn allows(&self, view: &View) -> bool {
        if self.at == 0 {
            return true;
        }
        let rested = view.now.saturating_sub(self.at) >= self.took.saturating_mul(4);
        let lower = view.limit < self.limit - self.limit / 32;
        let grown = view.uses > self.uses.saturating_add(view.guard.saturating_mul(2));
        lower || (rested && (self.reached || grown))
    }
}

/// Deviations from the ceiling that are not worth an act.
fn tolerance(ceiling: u64) -> u64 {
    (ceiling / 64).clamp(1 << 20, 32 << 20)
}

/// The helper's next step.
pub fn decide(view: &View, last: &Released) -> Act {
    let slack = if view.owed > 0 {
        0
    } else {
        (view.limit - threshold(view.limit)) / 4
    };
    let tolerance = tolerance(view.ceiling);
    if view.uses > threshold(view.limit).saturating_add(slack) && last.allows(view) {
        return Act::Release(low_water(view.limit).saturating_sub(view.other));
    }
    if view.extent > view.ceiling.saturating_add(tolerance) && last.allows(view) {
        return Act::Shrink(view.ceiling);
    }
    if view.used > view.target.saturating_add(tolerance) && view.since >= view.guard {
        // Blocks that are partly live cannot be given back, and the program fills their holes
        // without asking for more: only collections let them run empty.
        return Act::Shrink(view.target);
    }
    let room = view.ceiling.saturating_sub(view.extent);
    if view.ballast > 0 && room > tolerance {
        return Act::Grow(room.min(view.ballast));
    }
    Act::Rest
}

/// How long the helper sleeps between two looks, in nanoseconds: shorter while the program
/// allocates, longer where news wake it.
pub fn nap(rate: u64, woken: bool) -> u64 {
    match (rate > 0, woken) {
        (true, _) => 50_000_000,
        (false, false) => 100_000_000,
        (false, true) => 500_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn view() -> View {
        View {
            limit: 1024 * MIB,
            owed: 0,
            uses: 900 * MIB,
            other: 100 * MIB,
            extent: 860 * MIB,
            used: 500 * MIB,
            ballast: 0,
            since: 0,
            target: 860 * MIB,
            ceiling: 860 * MIB,
            guard: 4 * MIB,
            now: 1,
        }
    }

    #[test]
    fn within_the_threshold_nothing_happens() {
        assert_eq!(decide(&view(), &Released::default()), Act::Rest);
    }

    #[test]
    fn over_the_threshold_it_releases_to_low_water() {
        let over = View {
            uses: 1010 * MIB,
            ..view()
        };
        let goal = low_water(1024 * MIB) - 100 * MIB;
        assert_eq!(decide(&over, &Released::default()), Act::Release(goal));
    }

    #[test]
    fn a_debt_leaves_no_slack() {
        let slight = View {
            uses: 1003 * MIB,
            ..view()
        };
        assert_eq!(decide(&slight, &Released::default()), Act::Rest);
        let owing = View {
            owed: MIB,
            ..slight
        };
        assert!(matches!(
            decide(&owing, &Released::default()),
            Act::Release(_)
        ));
    }

    #[test]
    fn a_hopeless_release_is_not_repeated_until_something_changed() {
        let over = View {
            uses: 1100 * MIB,
            now: 1_000_000_000,
            ..view()
        };
        let last = Released {
            at: 1,
            took: 1000,
            uses: 1100 * MIB,
            limit: 1024 * MIB,
            reached: false,
        };
        assert_eq!(decide(&over, &last), Act::Rest);
        let lower = View {
            limit: 900 * MIB,
            ..over
        };
        assert!(matches!(decide(&lower, &last), Act::Release(_)));
        let grown = View {
            uses: 1109 * MIB,
            ..over
        };
        assert!(matches!(decide(&grown, &last), Act::Release(_)));
    }

    #[test]
    fn an_extent_beyond_the_ceiling_is_shrunk_and_one_below_grows_from_ballast() {
        let beyond = View {
            extent: 900 * MIB,
            ..view()
        };
        assert_eq!(
            decide(&beyond, &Released::default()),
            Act::Shrink(860 * MIB)
        );
        let below = View {
            extent: 400 * MIB,
            ballast: 100 * MIB,
            ..view()
        };
        assert_eq!(decide(&below, &Released::default()), Act::Grow(100 * MIB));
        let none = View {
            ballast: 0,
            ..below
        };
        assert_eq!(decide(&none, &Released::default()), Act::Rest);
    }

    #[test]
    fn a_heap_of_half_empty_blocks_is_collected_at_the_pace_of_the_guard() {
        let stuck = View {
            used: 600 * MIB,
            extent: 610 * MIB,
            target: 400 * MIB,
            ceiling: 620 * MIB,
            ..view()
        };
        assert_eq!(decide(&stuck, &Released::default()), Act::Rest);
        let ripe = View {
            since: 4 * MIB,
            ..stuck
        };
        assert_eq!(decide(&ripe, &Released::default()), Act::Shrink(400 * MIB));
    }

    #[test]
    fn guard_lies_between_a_64th_and_two_thirds() {
        assert_eq!(guard(640 * MIB, 0, 0), 10 * MIB);
        assert!(guard(160 * MIB, u64::MAX, u64::MAX) <= 107 * MIB);
        assert_eq!(guard(0, 0, 0), MIN_GUARD);
    }

    #[test]
    fn an_increment_is_a_sixteenth_of_the_heap_and_ends_at_the_ceiling() {
        assert_eq!(divisor(320 * MIB, 100 * MIB), 16);
        assert_eq!(320 * MIB / divisor(320 * MIB, MIB) as u64, MIB);
        for room in [0, 1, MIN_INCREMENT] {
            assert_eq!(320 * MIB / divisor(320 * MIB, room) as u64, MIN_INCREMENT);
        }
        assert_eq!(divisor(0, 0), 16);
        assert!(divisor(u64::MAX, 0) > 16);
    }

    #[test]
    fn heap_that_is_swapped_out_does_not_make_the_rest_look_smaller() {
        let memory = |resident, swapped| Memory { resident, swapped };
        let all_in = memory(130 * MIB, 0);
        assert_eq!(other(0, all_in, 100 * MIB, 0), 30 * MIB);
        assert_eq!(other(40 * MIB, all_in, 100 * MIB, 0), 30 * MIB);
        let half_out = memory(60 * MIB, 70 * MIB);
        assert_eq!(other(30 * MIB, half_out, 100 * MIB, 0), 30 * MIB);
        assert_eq!(other(40 * MIB, half_out, 100 * MIB, 0), 30 * MIB);
        let untouched = memory(80 * MIB, 0);
        assert_eq!(other(30 * MIB, untouched, 100 * MIB, 50 * MIB), 30 * MIB);
        assert_eq!(other(30 * MIB, all_in, 90 * MIB, 50 * MIB), 40 * MIB);
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let most = u64::MAX;
        let all = View {
            limit: most,
            owed: most,
            uses: most,
            other: most,
            extent: most,
            used: most,
            ballast: most,
            since: most,
            target: most,
            ceiling: most,
            guard: most,
            now: most,
        };
        let last = Released {
            at: 1,
            took: most,
            uses: most,
            limit: most,
            reached: false,
        };
        for view in [
            all,
            View::default(),
            View { limit: 0, ..all },
            View { ceiling: 0, ..all },
        ] {
            let _ = decide(&view, &last);
            let _ = decide(&view, &Released::default());
        }
        assert!(guard(most, most, most) >= MIN_GUARD);
    }
}
