//! Bits in words: finding runs and setting them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The first bit in `at..end` that equals `set`.
pub(crate) fn first(bits: &[AtomicU64], mut at: usize, end: usize, set: bool) -> Option<usize> {
    while at < end {
        let word = bits[at / 64].load(Relaxed) ^ if set { 0 } else { u64::MAX };
        let rest = word >> (at % 64);
        if rest != 0 {
            let found = at + rest.trailing_zeros() as usize;
            return (found < end).then_some(found);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

/// How many of the first `end` bits are set. No bit from `end` on may be set.
pub(crate) fn count(bits: &[AtomicU64], end: usize) -> usize {
    let words = bits[..end.div_ceil(64)].iter();
    words
        .map(|word| word.load(Relaxed).count_ones() as usize)
        .sum()
}

/// How many of the bits `start..end` are clear.
pub(crate) fn clear(bits: &[AtomicU64], start: usize, end: usize) -> usize {
    words(start, end)
        .map(|(at, mask)| (!bits[at].load(Relaxed) & mask).count_ones() as usize)
        .sum()
}

/// The end of the shortest stretch of bits from `start` on that has `most` clear ones, and how many it
/// has; it ends at `end` if there are no more than that.
pub(crate) fn stretch(bits: &[AtomicU64], start: usize, end: usize, most: usize) -> (usize, usize) {
    let all = clear(bits, start, end);
    if all <= most {
        return (end, all);
    }
    let mut few = 0;
    for (from, to) in runs(bits, start, end, false) {
        if few + (to - from) >= most {
            return (from + most - few, most);
        }
        few += to - from;
    }
    (end, few)
}

/// The runs of bits in `start..end` that equal `set`, each as its first bit and the bit after its
/// last.
pub(crate) fn runs(
    bits: &[AtomicU64],
    start: usize,
    end: usize,
    set: bool,
) -> impl Iterator<Item = (usize, usize)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let begin = first(bits, at, end, set)?;
        at = first(bits, begin, end, !set).unwrap_or(end);
        Some((begin, at))
    })
}

/// The first bit in `start..end` at which `count` set bits in a row begin, all before `end`. No bit
/// from `end` on may be set. This looks at whole words, so short runs cost nothing extra, however
/// many there are.
pub(crate) fn first_run(
    bits: &[AtomicU64],
    start: usize,
    end: usize,
    count: usize,
) -> Option<usize> {
    if count == 1 {
        return first(bits, start, end, true);
    }
    // Set bits in a row that end where the next word begins.
    let mut before = 0;
    for (at, mask) in words(start, end) {
        let word = bits[at].load(Relaxed) & mask;
        if before + word.trailing_ones() as usize >= count {
            return Some(at * 64 - before);
        }
        if word == u64::MAX {
            before += 64;
            continue;
        }
        if count < 64 {
            let begins = begin_runs(word, count);
            if begins != 0 {
                return Some(at * 64 + begins.trailing_zeros() as usize);
            }
        }
        before = word.leading_ones() as usize;
    }
    None
}

/// The bits of a word at which `count` set bits in a row begin, all in this word.
fn begin_runs(word: u64, count: usize) -> u64 {
    let (mut runs, mut long) = (word, 1);
    while long < count && runs != 0 {
        let more = long.min(count - long);
        runs &= runs >> more;
        long += more;
    }
    runs
}

/// How many set bits in a row end just before `end`.
pub(crate) fn run_before(bits: &[AtomicU64], end: usize) -> usize {
    let mut begin = end;
    while begin > 0 {
        let at = (begin - 1) / 64;
        let ones = (bits[at].load(Relaxed) << (63 - (begin - 1) % 64)).leading_ones() as usize;
        begin -= ones;
        if ones == 0 || !begin.is_multiple_of(64) {
            break;
        }
    }
    end - begin
}

/// The words that hold the bits `start..end`, each with a mask of those bits.
pub(crate) fn words(start: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
    let of = if start < end {
        start / 64..end.div_ceil(64)
    } else {
        0..0
    };
    of.map(move |at| {
        let (from, to) = (
            start.max(at * 64) - at * 64,
            end.min(at * 64 + 64) - at * 64,
        );
        (at, u64::MAX >> (64 - (to - from)) << from)
    })
}

/// Sets `count` bits from `start` to `to`. Not atomic: only one thread may write at a time.
pub(crate) fn fill(bits: &[AtomicU64], start: usize, count: usize, to: bool) {
    for (at, mask) in words(start, start + count) {
        let word = bits[at].load(Relaxed);
        let word = if to { word | mask } else { word & !mask };
        bits[at].store(word, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_run_that_is_long_enough_is_the_first_of_all_runs_that_are(
            changes in proptest::collection::vec((0usize..400, 1usize..150, any::<bool>()), 0..20),
            start in 0usize..400,
            end in 0usize..400,
            count in 1usize..200,
        ) {
            let bits: Vec<AtomicU64> = (0..9).map(|_| AtomicU64::new(0)).collect();
            for (at, count, to) in changes {
                fill(&bits, at, count, to);
            }
            let found = runs(&bits, start, end, true).find(|(begin, end)| end - begin >= count);
            prop_assert_eq!(first_run(&bits, start, end, count), found.map(|(begin, _)| begin));
            let last = runs(&bits, 0, end, true).last().filter(|run| run.1 == end);
            prop_assert_eq!(run_before(&bits, end), last.map_or(0, |(begin, end)| end - begin));
        }

        #[test]
        fn a_stretch_has_as_many_clear_bits_as_wanted(
            changes in proptest::collection::vec((0usize..400, 1usize..150, any::<bool>()), 0..20),
            start in 0usize..400,
            end in 0usize..400,
            most in 1usize..300,
        ) {
            let bits: Vec<AtomicU64> = (0..9).map(|_| AtomicU64::new(0)).collect();
            for (at, count, to) in changes {
                fill(&bits, at, count, to);
            }
            let is_clear = |&at: &usize| bits[at / 64].load(Relaxed) >> (at % 64) & 1 == 0;
            let all: Vec<usize> = (start..end).filter(is_clear).collect();
            prop_assert_eq!(clear(&bits, start, end), all.len());
            let expected = match all.get(most - 1) {
                Some(last) if all.len() > most => (last + 1, most),
                _ => (end, all.len()),
            };
            prop_assert_eq!(stretch(&bits, start, end, most), expected);
        }

        #[test]
        fn runs_are_the_runs_of_a_list(
            changes in proptest::collection::vec((0usize..300, 1usize..80, any::<bool>()), 0..20),
            start in 0usize..300,
            set in any::<bool>(),
        ) {
            let bits: Vec<AtomicU64> = (0..6).map(|_| AtomicU64::new(0)).collect();
            let mut list = [false; 384];
            for (at, count, to) in changes {
                fill(&bits, at, count, to);
                list[at..at + count].fill(to);
            }
            let mut expected = Vec::new();
            let mut at = start;
            while at < 300 {
                let begin = at;
                while at < 300 && list[at] == set {
                    at += 1;
                }
                if at > begin {
                    expected.push((begin, at));
                } else {
                    at += 1;
                }
            }
            prop_assert_eq!(runs(&bits, start, 300, set).collect::<Vec<_>>(), expected);
        }
    }
}
