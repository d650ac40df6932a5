//! Every decision of the adapter, as pure functions of measured values. Sizes in bytes, times in
//! nanoseconds.

use crate::own_memory::Memory;

/// The smallest guard, in bytes.
pub const MIN_GUARD: u64 = 1 << 20;

/// The heap grows by at most one part in `DIVISOR` at a time.
const DIVISOR: usize = 16;

/// libgc's smallest increment (`MINHINCR`, 16 blocks).
const MIN_INCREMENT: u64 = 64 << 10;

/// Bytes that a program must be allowed to allocate between two collections: as many as it
/// allocates in the time of one collection, so that at worst half of the time goes to collecting;
/// at least 1/64 and at most 2/3 of the live data. libgc's own rule is about 2/3. `rate` is in
/// bytes per second.
pub fn guard(used_after: u64, rate: u64, collection_ns: u64) -> u64 {
    let fair = u128::from(rate) * u128::from(collection_ns) / 1_000_000_000;
    let fair = u64::try_from(fair).unwrap_or(u64::MAX);
    fair.clamp(used_after / 64, used_after / 3 * 2 + 1)
        .max(MIN_GUARD)
}

/// The size that the heap may grow to before the next collection.
pub fn ceiling(target: u64, used_after: u64, guard: u64) -> u64 {
    target.max(used_after.saturating_add(guard))
}

/// The highest bound for a program that set a maximum of its own (0: none): far enough below that maximum for
/// the next increment to fit.
pub fn most(maximum: u64) -> u64 {
    match maximum {
        0 => u64::MAX,
        _ => maximum.saturating_sub((maximum / 16).max(1 << 20)),
    }
}

/// The free space divisor: libgc grows by 1/divisor of its heap (8 MiB at most) and by what it
/// needs just now. Here a sixteenth, and never beyond the ceiling.
pub fn divisor(heap: u64, room: u64) -> usize {
    let least = heap.div_ceil(room.max(MIN_INCREMENT));
    usize::try_from(least).unwrap_or(usize::MAX).max(DIVISOR)
}

/// The process's memory that is not heap, updated from the value known so far. `heap` is mapped,
/// `idle` bytes of it are free.
///
/// The difference between resident memory and the heap is a lower bound: parts of the heap may be
/// untouched, or swapped out. If hardly any of the heap is free, all of it was touched, and then
/// the difference including swap is also an upper bound.
pub fn other(known: u64, memory: Memory, heap: u64, idle: u64) -> u64 {
    let low = memory.resident.0.saturating_sub(heap);
    let high = (memory.resident + memory.swapped).0.saturating_sub(heap);
    let full = idle <= (heap / 64).max(1 << 20);
    known.max(low).min(if full { high } else { u64::MAX })
}

/// The state of the process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Heap that the program can use without a collection: full and free blocks, resident or not.
    pub extent: u64,
    /// Heap in blocks with objects.
    pub used: u64,
    /// Heap in ballast.
    pub ballast: u64,
    /// Bytes allocated since the last collection.
    pub since: u64,
    /// The intended size of the extent.
    pub target: u64,
    /// The most that the extent may be: at least what the live data need.
    pub ceiling: u64,
    /// Bytes to allocate at least between collections.
    pub guard: u64,
    /// The size that the extent is to shrink to, because the process's use is too high
    /// (`Govern::release_to`).
    pub release_to: Option<u64>,
    /// Whether a release would help (`Govern::may_release`).
    pub may_release: bool,
}

/// The helper's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Rest,
    /// Give this many bytes of ballast back to the program, which may grow.
    Grow(u64),
    /// Discard free heap, and collect if that is not enough, until the extent is at most this many
    /// bytes.
    Shrink(u64),
}

/// Deviations from the ceiling, in bytes, that are too small to act on.
fn tolerance(ceiling: u64) -> u64 {
    (ceiling / 64).clamp(1 << 20, 32 << 20)
}

/// Decides what the helper does next.
pub fn decide(view: &View) -> Act {
    let tolerance = tolerance(view.ceiling);
    if let Some(goal) = view.release_to {
        return Act::Shrink(goal);
    }
    if view.extent > view.ceiling.saturating_add(tolerance) && view.may_release {
        return Act::Shrink(view.ceiling);
    }
    if view.used > view.target.saturating_add(tolerance) && view.since >= view.guard {
        // Partly live blocks cannot be given back, and the program fills their holes without asking
        // for more memory. Only collections empty such blocks.
        return Act::Shrink(view.target);
    }
    let room = view.ceiling.saturating_sub(view.extent);
    if view.ballast > 0 && room > tolerance {
        return Act::Grow(room.min(view.ballast));
    }
    Act::Rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Bytes;

    use plimsoll_unit::MIB;

    fn view() -> View {
        View {
            extent: 860 * MIB,
            used: 500 * MIB,
            ballast: 0,
            since: 0,
            target: 860 * MIB,
            ceiling: 860 * MIB,
            guard: 4 * MIB,
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
            release_to: Some(700 * MIB),
            extent: 900 * MIB,
            ..view()
        };
        assert_eq!(decide(&over), Act::Shrink(700 * MIB));
    }

    #[test]
    fn an_extent_beyond_the_ceiling_waits_after_a_release_that_did_not_help() {
        let beyond = View {
            extent: 900 * MIB,
            may_release: false,
            ..view()
        };
        assert_eq!(decide(&beyond), Act::Rest);
    }

    #[test]
    fn an_extent_beyond_the_ceiling_is_shrunk_and_one_below_grows_from_ballast() {
        let beyond = View {
            extent: 900 * MIB,
            ..view()
        };
        assert_eq!(decide(&beyond), Act::Shrink(860 * MIB));
        let below = View {
            extent: 400 * MIB,
            ballast: 100 * MIB,
            ..view()
        };
        assert_eq!(decide(&below), Act::Grow(100 * MIB));
        let none = View {
            ballast: 0,
            ..below
        };
        assert_eq!(decide(&none), Act::Rest);
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
        assert_eq!(decide(&stuck), Act::Rest);
        let ripe = View {
            since: 4 * MIB,
            ..stuck
        };
        assert_eq!(decide(&ripe), Act::Shrink(400 * MIB));
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
        let all_in = memory(Bytes::mib(130), Bytes::ZERO);
        assert_eq!(other(0, all_in, 100 * MIB, 0), 30 * MIB);
        assert_eq!(other(40 * MIB, all_in, 100 * MIB, 0), 30 * MIB);
        let half_out = memory(Bytes::mib(60), Bytes::mib(70));
        assert_eq!(other(30 * MIB, half_out, 100 * MIB, 0), 30 * MIB);
        assert_eq!(other(40 * MIB, half_out, 100 * MIB, 0), 30 * MIB);
        let untouched = memory(Bytes::mib(80), Bytes::ZERO);
        assert_eq!(other(30 * MIB, untouched, 100 * MIB, 50 * MIB), 30 * MIB);
        assert_eq!(other(30 * MIB, all_in, 90 * MIB, 50 * MIB), 40 * MIB);
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let most = u64::MAX;
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
        for view in [all, View::default(), View { ceiling: 0, ..all }] {
            let _ = decide(&view);
        }
        assert!(guard(most, most, most) >= MIN_GUARD);
    }
}
