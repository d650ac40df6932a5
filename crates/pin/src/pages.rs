//! Runs and sets of pages of a file.

use std::ops::Range;

/// Pages of a block.
pub const BLOCK: u64 = 16;

/// Consecutive pages of a file, numbered from its beginning.
pub type Run = Range<u64>;

/// A set of pages of a file: runs in order, none empty, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSet(Vec<Run>);

impl PageSet {
    /// The set of all pages in these runs, which may overlap and be in any order.
    pub fn of(mut runs: Vec<Run>) -> PageSet {
        runs.retain(|run| run.start < run.end);
        runs.sort_unstable_by_key(|run| run.start);
        let mut set: Vec<Run> = Vec::with_capacity(runs.len());
        for run in runs {
            match set.last_mut() {
                Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
                _ => set.push(run),
            }
        }
        PageSet(set)
    }

    /// Its runs, in order.
    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    /// How many pages are in it.
    pub fn pages(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    /// Whether no page is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a run.
    pub fn add(&mut self, run: Run) {
        if run.start >= run.end {
            return;
        }
        let from = self.0.partition_point(|known| known.end < run.start);
        let to = self.0.partition_point(|known| known.start <= run.end);
        let mut whole = run;
        if from < to {
            whole.start = whole.start.min(self.0[from].start);
            whole.end = whole.end.max(self.0[to - 1].end);
        }
        self.0.splice(from..to, [whole]);
    }

    /// Takes a run out.
    pub fn remove(&mut self, run: &Run) {
        if run.start >= run.end {
            return;
        }
        let from = self.0.partition_point(|known| known.end <= run.start);
        let to = self.0.partition_point(|known| known.start < run.end);
        if from >= to {
            return;
        }
        let before = self.0[from].start..run.start;
        let after = run.end..self.0[to - 1].end;
        let rest = [before, after].into_iter().filter(|r| r.start < r.end);
        self.0.splice(from..to, rest);
    }

    /// The pages that are in this set and not in the other.
    pub fn without(&self, other: &PageSet) -> PageSet {
        let mut out = Vec::new();
        let mut next = 0;
        for run in &self.0 {
            let mut start = run.start;
            while next < other.0.len() && other.0[next].end <= start {
                next += 1;
            }
            let mut at = next;
            while at < other.0.len() && other.0[at].start < run.end {
                if start < other.0[at].start {
                    out.push(start..other.0[at].start);
                }
                start = start.max(other.0[at].end);
                at += 1;
            }
            if start < run.end {
                out.push(start..run.end);
            }
        }
        PageSet(out)
    }

    /// Which pages of a block are in it: bit `n` for the block's page `n`.
    pub fn of_block(&self, block: u64) -> u16 {
        let Some(start) = block.checked_mul(BLOCK) else {
            return 0;
        };
        let from = self.0.partition_point(|run| run.end <= start);
        let near = self.0[from..].iter();
        near.take_while(|run| run.start < start.saturating_add(BLOCK))
            .fold(0, |mask, run| mask | bits(block, run))
    }
}

/// Which pages of a block are in a run: bit `n` for the block's page `n`.
pub fn bits(block: u64, run: &Run) -> u16 {
    let start = block.saturating_mul(BLOCK);
    let from = run.start.saturating_sub(start).min(BLOCK);
    let to = run.end.saturating_sub(start).min(BLOCK);
    if from >= to {
        return 0;
    }
    let below = |n: u64| ((1u32 << n) - 1) as u16;
    below(to) & !below(from)
}

/// The blocks that a run reaches into.
pub fn blocks(run: &Run) -> Range<u64> {
    if run.start >= run.end {
        return 0..0;
    }
    run.start / BLOCK..(run.end - 1) / BLOCK + 1
}

/// The runs of pages that a mask of a block has.
pub fn runs_of(block: u64, mask: u16) -> impl Iterator<Item = Run> {
    let start = block.saturating_mul(BLOCK);
    let mut at = 0u64;
    std::iter::from_fn(move || {
        let rest = u64::from(mask) >> at;
        if rest == 0 {
            return None;
        }
        let from = at + u64::from(rest.trailing_zeros());
        let to = from + u64::from((u64::from(mask) >> from).trailing_ones());
        at = to;
        Some(start + from..start + to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn run() -> impl Strategy<Value = Run> {
        (0u64..200, 0u64..40).prop_map(|(start, length)| start..start + length)
    }

    fn listed(set: &PageSet) -> BTreeSet<u64> {
        set.runs().iter().cloned().flatten().collect()
    }

    fn in_order(set: &PageSet) -> bool {
        set.runs().iter().all(|run| run.start < run.end)
            && set.runs().windows(2).all(|two| two[0].end < two[1].start)
    }

    proptest! {
        #[test]
        fn sets_behave_like_sets(
            first in proptest::collection::vec(run(), 0..20),
            second in proptest::collection::vec(run(), 0..20),
            one in run(),
        ) {
            let (a, b) = (PageSet::of(first.clone()), PageSet::of(second.clone()));
            let (mut x, y): (BTreeSet<u64>, BTreeSet<u64>) =
                (first.into_iter().flatten().collect(), second.into_iter().flatten().collect());
            prop_assert!(in_order(&a) && in_order(&b));
            prop_assert_eq!(&listed(&a), &x);
            prop_assert_eq!(a.pages(), x.len() as u64);
            prop_assert_eq!(listed(&a.without(&b)), x.difference(&y).copied().collect());
            prop_assert!(in_order(&a.without(&b)));
            let mut added = a.clone();
            added.add(one.clone());
            x.extend(one.clone());
            prop_assert!(in_order(&added));
            prop_assert_eq!(&listed(&added), &x);
            added.remove(&one);
            x.retain(|page| !one.contains(page));
            prop_assert!(in_order(&added));
            prop_assert_eq!(&listed(&added), &x);
        }

        #[test]
        fn masks_are_the_pages_of_a_block(runs in proptest::collection::vec(run(), 0..20)) {
            let set = PageSet::of(runs);
            let mut back = Vec::new();
            for block in 0..20 {
                back.extend(runs_of(block, set.of_block(block)));
            }
            prop_assert_eq!(PageSet::of(back), set);
        }
    }

    #[test]
    fn the_last_page_of_all_is_no_trouble() {
        let last = u64::MAX - 1..u64::MAX;
        assert_eq!(blocks(&last), u64::MAX / BLOCK..u64::MAX / BLOCK + 1);
        let mut set = PageSet::of(vec![last.clone()]);
        assert_eq!(set.of_block(u64::MAX / BLOCK), 1 << 14);
        assert_eq!(set.of_block(u64::MAX), 0);
        set.remove(&last);
        assert!(set.is_empty());
    }
}
