//! Every decision of the adapter, as pure functions of measured values.

use crate::own_memory::Memory;
use plimsoll_unit::{Bytes, Nanos, SECOND};

/// The smallest guard.
pub const MIN_GUARD: Bytes = Bytes::mib(1);

/// The heap grows by at most one part in `DIVISOR` at a time.
const DIVISOR: usize = 16;

/// libgc's smallest increment (`MINHINCR`, 16 blocks).
const MIN_INCREMENT: Bytes = Bytes(64 << 10);

/// The memory that a program must be allowed to allocate between two collections: as much as it
/// allocates in the time of one collection, so that at worst half of the time goes to collecting;
/// at least 1/64 and at most 2/3 of the live data. libgc's own rule is about 2/3. `rate` is in
/// bytes per second.
pub fn guard(used_after: Bytes, rate: u64, collection: Nanos) -> Bytes {
    let fair = u128::from(rate) * u128::from(collection.0) / u128::from(SECOND);
    let fair = u64::try_from(fair).map_or(Bytes::MAX, Bytes);
    fair.clamp(used_after / 64, used_after / 3 * 2 + Bytes(1))
        .max(MIN_GUARD)
}

/// The size that the heap may grow to before the next collection.
pub fn ceiling(target: Bytes, used_after: Bytes, guard: Bytes) -> Bytes {
    target.max(used_after + guard)
}

/// The highest bound for a program that set a maximum of its own (0: none): far enough below that maximum for
/// the next increment to fit.
pub fn most(maximum: Bytes) -> Bytes {
    match maximum {
        Bytes::ZERO => Bytes::MAX,
        _ => maximum - (maximum / 16).max(Bytes::mib(1)),
    }
}

/// The free space divisor: libgc grows by 1/divisor of its heap (8 MiB at most) and by what it
/// needs just now. Here a sixteenth, and never beyond the ceiling.
pub fn divisor(heap: Bytes, room: Bytes) -> usize {
    let least = heap.0.div_ceil(room.max(MIN_INCREMENT).0);
    usize::try_from(least).unwrap_or(usize::MAX).max(DIVISOR)
}

/// The process's memory that is not heap, updated from the value known so far. `heap` is mapped,
/// `idle` of it is free.
///
/// The difference between resident memory and the heap is a lower bound: parts of the heap may be
/// untouched, or swapped out. If hardly any of the heap is free, all of it was touched, and then
/// the difference including swap is also an upper bound.
pub fn other(known: Bytes, memory: Memory, heap: Bytes, idle: Bytes) -> Bytes {
    let low = memory.resident - heap;
    let high = memory.resident + memory.swapped - heap;
    let full = idle <= (heap / 64).max(Bytes::mib(1));
    known.max(low).min(if full { high } else { Bytes::MAX })
}

/// The state of the process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Heap that the program can use without a collection: full and free blocks, resident or not.
    pub extent: Bytes,
    /// Heap in blocks with objects.
    pub used: Bytes,
    /// Heap in ballast.
    pub ballast: Bytes,
    /// The memory allocated since the last collection.
    pub since: Bytes,
    /// The intended size of the extent.
    pub target: Bytes,
    /// The most that the extent may be: at least what the live data need.
    pub ceiling: Bytes,
    /// The memory to allocate at least between collections.
    pub guard: Bytes,
    /// The size that the extent is to shrink to, because the process's use is too high
    /// (`Govern::release_to`).
    pub release_to: Option<Bytes>,
    /// Whether a release would help (`Govern::may_release`).
    pub may_release: bool,
}

/// The helper's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Rest,
    /// Give this much ballast back to the program, which may grow.
    Grow(Bytes),
    /// Discard free heap, and collect if that is not enough, until the extent is at most this.
    Shrink(Bytes),
}

/// Deviations from the ceiling that are too small to act on.
fn tolerance(ceiling: Bytes) -> Bytes {
    (ceiling / 64).clamp(Bytes::mib(1), Bytes::mib(32))
}

/// Decides what the helper does next.
pub fn decide(view: &View) -> Act {
    let tolerance = tolerance(view.ceiling);
    if let Some(goal) = view.release_to {
        return Act::Shrink(goal);
    }
    if view.extent > view.ceiling + tolerance && view.may_release {
        return Act::Shrink(view.ceiling);
    }
    if view.used > view.target + tolerance && view.since >= view.guard {
        // Partly live blocks cannot be given back, and the program fills their holes without asking
        // for more memory. Only collections empty such blocks.
        return Act::Shrink(view.target);
    }
    let room = view.ceiling - view.extent;
    if view.ballast > Bytes::ZERO && room > tolerance {
        return Act::Grow(room.min(view.ballast));
    }
    Act::Rest
}

#[cfg(test)]
mod tests {
    use super::*;
    fn view() -> View {
        View {
            extent: Bytes::mib(860),
            used: Bytes::mib(500),
            ballast: Bytes::ZERO,
            since: Bytes::ZERO,
            target: Bytes::mib(860),
            ceiling: Bytes::mib(860),
            guard: Bytes::mib(4),
            release_to: None,
            may_release: true,
        }
    }

    #[test]
    fn at_the_ceiling_nothing_happens() {
        assert_eq!(decide(&view()), Act::Rest);
    }

    #[test]
    fn a_use_that_is_too_high_comes_first() {
        let over = View {
            release_to: Some(Bytes::mib(700)),
            extent: Bytes::mib(900),
            ..view()
        };
        assert_eq!(decide(&over), Act::Shrink(Bytes::mib(700)));
    }

    #[test]
    fn an_extent_beyond_the_ceiling_waits_after_a_release_that_did_not_help() {
        let beyond = View {
            extent: Bytes::mib(900),
            may_release: false,
            ..view()
        };
        assert_eq!(decide(&beyond), Act::Rest);
    }

    #[test]
    fn an_extent_beyond_the_ceiling_is_shrunk_and_one_below_grows_from_ballast() {
        let beyond = View {
            extent: Bytes::mib(900),
            ..view()
        };
        assert_eq!(decide(&beyond), Act::Shrink(Bytes::mib(860)));
        let below = View {
            extent: Bytes::mib(400),
            ballast: Bytes::mib(100),
            ..view()
        };
        assert_eq!(decide(&below), Act::Grow(Bytes::mib(100)));
        let none = View {
            ballast: Bytes::ZERO,
            ..below
        };
        assert_eq!(decide(&none), Act::Rest);
    }

    #[test]
    fn a_heap_of_half_empty_blocks_is_collected_at_the_pace_of_the_guard() {
        let stuck = View {
            used: Bytes::mib(600),
            extent: Bytes::mib(610),
            target: Bytes::mib(400),
            ceiling: Bytes::mib(620),
            ..view()
        };
        assert_eq!(decide(&stuck), Act::Rest);
        let ripe = View {
            since: Bytes::mib(4),
            ..stuck
        };
        assert_eq!(decide(&ripe), Act::Shrink(Bytes::mib(400)));
    }

    #[test]
    fn guard_lies_between_a_64th_and_two_thirds() {
        assert_eq!(guard(Bytes::mib(640), 0, Nanos::ZERO), Bytes::mib(10));
        assert!(guard(Bytes::mib(160), u64::MAX, Nanos(u64::MAX)) <= Bytes::mib(107));
        assert_eq!(guard(Bytes::ZERO, 0, Nanos::ZERO), MIN_GUARD);
    }

    #[test]
    fn an_increment_is_a_sixteenth_of_the_heap_and_ends_at_the_ceiling() {
        assert_eq!(divisor(Bytes::mib(320), Bytes::mib(100)), 16);
        assert_eq!(
            Bytes::mib(320) / divisor(Bytes::mib(320), Bytes::mib(1)) as u64,
            Bytes::mib(1)
        );
        for room in [Bytes(0), Bytes(1), MIN_INCREMENT] {
            assert_eq!(
                Bytes::mib(320) / divisor(Bytes::mib(320), room) as u64,
                MIN_INCREMENT
            );
        }
        assert_eq!(divisor(Bytes::ZERO, Bytes::ZERO), 16);
        assert!(divisor(Bytes::MAX, Bytes::ZERO) > 16);
    }

    #[test]
    fn heap_that_is_swapped_out_does_not_make_the_rest_look_smaller() {
        let memory = |resident: Bytes, swapped: Bytes| Memory { resident, swapped };
        let all_in = memory(Bytes::mib(130), Bytes::ZERO);
        assert_eq!(
            other(Bytes::ZERO, all_in, Bytes::mib(100), Bytes::ZERO),
            Bytes::mib(30)
        );
        assert_eq!(
            other(Bytes::mib(40), all_in, Bytes::mib(100), Bytes::ZERO),
            Bytes::mib(30)
        );
        let half_out = memory(Bytes::mib(60), Bytes::mib(70));
        assert_eq!(
            other(Bytes::mib(30), half_out, Bytes::mib(100), Bytes::ZERO),
            Bytes::mib(30)
        );
        assert_eq!(
            other(Bytes::mib(40), half_out, Bytes::mib(100), Bytes::ZERO),
            Bytes::mib(30)
        );
        let untouched = memory(Bytes::mib(80), Bytes::ZERO);
        assert_eq!(
            other(Bytes::mib(30), untouched, Bytes::mib(100), Bytes::mib(50)),
            Bytes::mib(30)
        );
        assert_eq!(
            other(Bytes::mib(30), all_in, Bytes::mib(90), Bytes::mib(50)),
            Bytes::mib(40)
        );
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let most = Bytes::MAX;
        let all = View {
            extent: most,
            used: most,
            ballast: most,
            since: most,
            target: most,
            ceiling: most,
            guard: most,
            release_to: None,
            may_release: true,
        };
        for view in [
            all,
            View::default(),
            View {
                ceiling: Bytes::ZERO,
                ..all
            },
        ] {
            let _ = decide(&view);
        }
        assert!(guard(most, u64::MAX, Nanos(u64::MAX)) >= MIN_GUARD);
    }
}
