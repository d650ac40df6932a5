//! Which pages are worth holding: those that cost most to lose, per byte. Pure.
//!
//! Candidates are blocks of 16 pages. The value of a block is the time that programs spend reading
//! its pages again, ns a second; its price is how many of its pages are in use. The best blocks are
//! taken until the allowance is used up. Blocks that are held already count half as much again, so
//! that equals do not take turns.
//!
//! The users whose programs map the files have equal parts of the allowance: first each gets the best of
//! its own, as far as its part goes, and then the best of all get what is left. So refaults that a program
//! makes up take nothing from the parts of others. Files that programs of several users map have a part
//! together, as if they were of one more user.

use crate::pages::{PageSet, Run, blocks, runs_of};
use plimsoll_kernel::smaps::FileKey;
use std::collections::{BTreeMap, BTreeSet};

/// How much more a block counts that is held already.
pub const LOYALTY: f64 = 1.5;

/// A block that could be held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The file.
    pub file: FileKey,
    /// Which block of it.
    pub block: u64,
    /// Its pages that would be held: bit `n` for page `n`.
    pub pages: u16,
    /// Those of them that are held already.
    pub held: u16,
    /// The cost of losing them: time spent reading them again, ns a second.
    pub value: f64,
    /// The domain whose memory they are in: an index into [`Bounds::domains`].
    pub domain: usize,
    /// Whose part it takes, a number of a user or of those who share files. A file is of one.
    pub user: usize,
}

impl Candidate {
    fn count(&self) -> u64 {
        u64::from(self.pages.count_ones())
    }

    /// The value of a page, with loyalty.
    fn density(&self) -> f64 {
        let loyalty = if self.held != 0 { LOYALTY } else { 1.0 };
        self.value * loyalty / self.count().max(1) as f64
    }
}

/// How much may be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pages in all.
    pub pages: u64,
    /// Runs of pages in all. Each takes a mapping.
    pub runs: usize,
    /// Pages in each domain.
    pub domains: Vec<u64>,
}

/// Chooses what to hold, per file. Holds: no page outside of candidates but to close gaps between
/// runs when there are too many of these; never more than the bounds.
pub fn choose(candidates: &[Candidate], bounds: &Bounds) -> BTreeMap<FileKey, PageSet> {
    let mut order: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.pages != 0 && c.value > 0.0)
        .collect();
    order.sort_by(|a, b| {
        let place = |c: &Candidate| (c.file, c.block);
        let by_worth = b.density().total_cmp(&a.density());
        by_worth.then_with(|| place(a).cmp(&place(b)))
    });
    let users: BTreeSet<usize> = order.iter().map(|candidate| candidate.user).collect();
    let part = bounds.pages / users.len().max(1) as u64;
    let mut parts: BTreeMap<usize, u64> = users.into_iter().map(|user| (user, part)).collect();
    let mut left = bounds.clone();
    let mut taken = Taken::default();
    for within_part in [true, false] {
        order.retain(|candidate| {
            let room = left.domains.get(candidate.domain).copied().unwrap_or(0);
            let of_user = parts.get_mut(&candidate.user).filter(|_| within_part);
            let count = candidate.count();
            if count > left.pages.min(room) || of_user.as_ref().is_some_and(|own| count > **own) {
                return true;
            }
            of_user.into_iter().for_each(|own| *own -= count);
            left.pages -= count;
            left.domains[candidate.domain] -= count;
            taken.add(candidate);
            false
        });
    }
    taken.close_gaps(&mut left);
    taken.drop_worst(left.runs);
    taken.sets
}

/// The pages taken so far.
#[derive(Default)]
struct Taken {
    sets: BTreeMap<FileKey, PageSet>,
    /// By file and block: value a page, and domain.
    worth: BTreeMap<(FileKey, u64), (f64, usize)>,
    /// Whose part a file takes.
    users: BTreeMap<FileKey, usize>,
}

impl Taken {
    fn add(&mut self, candidate: &Candidate) {
        let set = self.sets.entry(candidate.file).or_default();
        for run in runs_of(candidate.block, candidate.pages) {
            set.add(run);
        }
        let worth = (candidate.density(), candidate.domain);
        self.worth.insert((candidate.file, candidate.block), worth);
        self.users.insert(candidate.file, candidate.user);
    }

    fn runs(&self) -> usize {
        self.sets.values().map(|set| set.runs().len()).sum()
    }

    /// Closes the smallest gaps while there are too many runs and room for the pages between.
    fn close_gaps(&mut self, left: &mut Bounds) {
        let mut surplus = self.runs().saturating_sub(left.runs);
        if surplus == 0 {
            return;
        }
        let mut gaps: Vec<(u64, FileKey, Run)> = Vec::new();
        for (file, set) in &self.sets {
            let between = set.runs().windows(2).map(|two| two[0].end..two[1].start);
            gaps.extend(between.map(|gap| (gap.end - gap.start, *file, gap)));
        }
        gaps.sort_unstable_by_key(|(length, file, gap)| (*length, *file, gap.start));
        for (length, file, gap) in gaps {
            let before = (file, (gap.start - 1) / crate::pages::BLOCK);
            let domain = self.worth.get(&before).map_or(usize::MAX, |worth| worth.1);
            let room = left.domains.get(domain).copied().unwrap_or(0);
            if surplus == 0 || length > left.pages {
                return;
            }
            if length <= room {
                left.pages -= length;
                left.domains[domain] -= length;
                surplus -= 1;
                if let Some(set) = self.sets.get_mut(&file) {
                    set.add(gap);
                }
            }
        }
    }

    /// Gives up the runs whose pages are worth least until there are few enough: of those users that have
    /// more than their part of them.
    fn drop_worst(&mut self, most: usize) {
        let mut surplus = self.runs().saturating_sub(most);
        if surplus == 0 {
            return;
        }
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for (file, set) in &self.sets {
            *counts.entry(self.users[file]).or_default() += set.runs().len();
        }
        let part = most / counts.len();
        let mut runs: Vec<(f64, FileKey, Run)> = Vec::new();
        for (file, set) in &self.sets {
            let worth = |run: &Run| {
                let known = |block| self.worth.get(&(*file, block)).map(|worth| worth.0);
                let all = blocks(run).filter_map(known);
                all.fold(0.0, f64::max)
            };
            runs.extend(
                set.runs()
                    .iter()
                    .map(|run| (worth(run), *file, run.clone())),
            );
        }
        runs.sort_by(|a, b| {
            let place = |r: &(f64, FileKey, Run)| (r.1, r.2.start);
            a.0.total_cmp(&b.0).then_with(|| place(a).cmp(&place(b)))
        });
        for (_, file, run) in runs {
            let count = counts.entry(self.users[&file]).or_default();
            if surplus > 0
                && *count > part
                && let Some(set) = self.sets.get_mut(&file)
            {
                set.remove(&run);
                (surplus, *count) = (surplus - 1, *count - 1);
            }
        }
        self.sets.retain(|_, set| !set.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use proptest::prelude::*;

    fn candidate(inode: u64, block: u64, pages: u16, value: f64) -> Candidate {
        Candidate {
            file: key(inode),
            block,
            pages,
            held: 0,
            value,
            domain: 0,
            user: 0,
        }
    }

    fn bounds(pages: u64, runs: usize) -> Bounds {
        Bounds {
            pages,
            runs,
            domains: vec![u64::MAX],
        }
    }

    #[test]
    fn what_costs_most_a_byte_comes_first() {
        // 16 pages for 32, or one page for 3.
        let all = [candidate(1, 0, u16::MAX, 32.0), candidate(2, 0, 1, 3.0)];
        let chosen = choose(&all, &bounds(16, 10));
        assert_eq!(chosen.keys().collect::<Vec<_>>(), [&key(2)]);
        assert_eq!(choose(&all, &bounds(17, 10)).len(), 2);
        assert!(choose(&all, &bounds(0, 10)).is_empty());
        assert!(
            choose(
                &[candidate(1, 0, 0, 9.0), candidate(1, 1, 1, 0.0)],
                &bounds(9, 9)
            )
            .is_empty()
        );
    }

    #[test]
    fn equals_do_not_take_turns() {
        let mut all = [candidate(1, 0, 1, 1.0), candidate(1, 5, 1, 1.4)];
        all[0].held = 1;
        assert_eq!(choose(&all, &bounds(1, 9))[&key(1)].runs(), [0..1]);
        all[1].value = 1.6;
        assert_eq!(choose(&all, &bounds(1, 9))[&key(1)].runs(), [80..81]);
    }

    #[test]
    fn a_domain_that_is_short_gets_nothing() {
        let mut all = [candidate(1, 0, 1, 9.0), candidate(2, 0, 1, 1.0)];
        all[0].domain = 1;
        let bounds = Bounds {
            domains: vec![10, 0],
            ..bounds(10, 10)
        };
        assert_eq!(choose(&all, &bounds).keys().collect::<Vec<_>>(), [&key(2)]);
    }

    #[test]
    fn what_a_user_makes_up_takes_nothing_of_the_parts_of_others() {
        let made_up = (0..100).map(|block| Candidate {
            user: 1,
            ..candidate(1, block, 0b0101, 1e9)
        });
        let honest = (0..10).map(|block| candidate(2, block, 0b0101, 1.0));
        let all: Vec<Candidate> = made_up.chain(honest).collect();
        let pages = |bounds: &Bounds| {
            let chosen = choose(&all, bounds);
            [1, 2].map(|inode| chosen.get(&key(inode)).map_or(0, PageSet::pages))
        };
        // Half of the pages, and of the runs, are each one's part.
        assert_eq!(pages(&bounds(40, 1000)), [20, 20]);
        assert_eq!(pages(&bounds(200, 40)), [20, 20]);
        // A share that one does not want goes to the other.
        assert_eq!(pages(&bounds(100, 1000)), [80, 20]);
        assert_eq!(pages(&bounds(20, 1000)), [10, 10]);
    }

    #[test]
    fn small_gaps_are_closed_when_there_are_too_many_runs() {
        let all = [
            candidate(1, 0, 0b1, 9.0),
            candidate(1, 1, 0b1, 8.0),
            candidate(1, 9, 0b101, 7.0),
        ];
        assert_eq!(choose(&all, &bounds(100, 4))[&key(1)].runs().len(), 4);
        let three = choose(&all, &bounds(100, 3));
        assert_eq!(three[&key(1)].runs(), [0..1, 16..17, 144..147]);
        // Without room to close gaps, the worst runs go.
        let tight = choose(&all, &bounds(4, 2));
        assert_eq!(tight[&key(1)].runs(), [0..1, 16..17]);
    }

    fn any_candidate() -> impl Strategy<Value = Candidate> {
        let any = (1u64..4, 0u64..30, any::<u16>(), any::<u16>(), 0.0f64..9.0);
        any.prop_map(|(inode, block, pages, held, value)| Candidate {
            held: held & pages,
            // A file is in one domain.
            domain: inode as usize - 1,
            user: inode as usize % 2,
            ..candidate(inode, block, pages, value)
        })
    }

    /// A block is a candidate once.
    fn distinct(mut all: Vec<Candidate>) -> Vec<Candidate> {
        all.sort_by_key(|c| (c.file, c.block));
        all.dedup_by_key(|c| (c.file, c.block));
        all
    }

    proptest! {
        #[test]
        fn bounds_are_kept(
            all in proptest::collection::vec(any_candidate(), 0..80),
            pages in 0u64..600,
            runs in 0usize..40,
            domains in proptest::collection::vec(0u64..300, 0..3),
        ) {
            let once = distinct(all);
            let bounds = Bounds { pages, runs, domains };
            let chosen = choose(&once, &bounds);
            let sum: u64 = chosen.values().map(PageSet::pages).sum();
            prop_assert!(sum <= pages);
            let count: usize = chosen.values().map(|set| set.runs().len()).sum();
            prop_assert!(count <= runs);
            for domain in 0..3 {
                // With the pages that close gaps.
                let of_domain = chosen.iter().filter(|of| of.0.inode as usize - 1 == domain);
                let held: u64 = of_domain.map(|of| of.1.pages()).sum();
                let most = bounds.domains.get(domain).copied().unwrap_or(0);
                prop_assert!(held <= most);
            }
            let again = choose(&once, &bounds);
            prop_assert_eq!(chosen, again);
        }

        /// Where runs are no bound, nothing is left out that is worth more a page than what was taken
        /// and would have fitted in its place. However large a program is, a small one whose pages cost
        /// more to lose comes first.
        #[test]
        fn what_is_worth_more_comes_first(
            all in proptest::collection::vec(any_candidate(), 0..60),
            pages in 0u64..600,
        ) {
            let mut once = distinct(all);
            for c in &mut once {
                (c.domain, c.user) = (0, 0);
            }
            let chosen = choose(&once, &bounds(pages, 10_000));
            let taken = |c: &&Candidate| {
                chosen.get(&c.file).is_some_and(|set| set.of_block(c.block) & c.pages == c.pages)
            };
            let worth = |c: &&Candidate| c.pages != 0 && c.value > 0.0;
            for left in once.iter().filter(worth).filter(|c| !taken(c)) {
                let better = once.iter().filter(taken).filter(|c| c.density() >= left.density());
                let room = pages - better.map(Candidate::count).sum::<u64>();
                prop_assert!(left.count() > room, "{left:?} fits in {room}");
            }
        }

        /// Chosen pages stay chosen if nothing changes except that they are held now.
        #[test]
        fn choices_are_stable(
            all in proptest::collection::vec(any_candidate(), 0..60),
            pages in 0u64..600,
        ) {
            let mut once = distinct(all);
            for c in &mut once {
                (c.held, c.domain) = (0, 0);
            }
            let bounds = bounds(pages, 10_000);
            let first = choose(&once, &bounds);
            for c in &mut once {
                c.held = first.get(&c.file).map_or(0, |set| set.of_block(c.block));
            }
            prop_assert_eq!(choose(&once, &bounds), first);
        }
    }
}
