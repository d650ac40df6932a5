//! Why each block is held.

use crate::cost::Costs;
use crate::locked_files::Holder;
use crate::pages::{PageSet, Run, bits, blocks, runs_of};
use crate::rank::Candidate;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::Bytes;
use std::collections::BTreeMap;

/// Why a block is held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Why {
    /// Its pages that are held or wanted.
    pub(super) pages: u16,
    /// Refaults a second when it was chosen, pages.
    pub(super) refaults: f64,
    /// Reads a second that these refaults stood for.
    pub(super) reads: f64,
    /// The cost of a read of it, ns.
    pub(super) read_ns: f64,
}

impl Why {
    /// Reads a second that it stands for now, when the evidence has faded to a rate.
    pub(super) fn reads_now(&self, rate: f64) -> f64 {
        if self.refaults > 0.0 {
            self.reads * rate / self.refaults
        } else {
            self.reads
        }
    }

    fn density(&self) -> f64 {
        self.reads * self.read_ns / f64::from(self.pages.count_ones().max(1))
    }
}

/// Why each block is held, or would be, by file and number of the block. There is no reason for a page that
/// is neither held nor wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Reasons(BTreeMap<(FileKey, u64), Why>);

impl Reasons {
    /// Why a block is held.
    pub(super) fn of(&self, file: FileKey, block: u64) -> Option<&Why> {
        self.0.get(&(file, block))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets a file.
    pub(super) fn forget(&mut self, key: &FileKey) {
        self.0.retain(|(file, _), _| file != key);
    }

    /// Keeps reasons only of pages that are held or to be held.
    pub(super) fn keep_wanted(&mut self, holder: &Holder) {
        self.keep(|file| holder.wanted(file));
    }

    /// The reasons of the pages that are held by now.
    pub(super) fn of_held(&self, holder: &Holder) -> Reasons {
        let mut held = self.clone();
        held.keep(|file| holder.held(file));
        held
    }

    fn keep<'a>(&mut self, pages: impl Fn(&FileKey) -> Option<&'a PageSet>) {
        self.0.retain(|(file, block), why| {
            why.pages &= pages(file).map_or(0, |set| set.of_block(*block));
            why.pages != 0
        });
    }

    /// Notes why each chosen block is held; `scale` is the number of reads for each refault. Blocks that were
    /// held before keep their first reason, unless more of their pages came back since.
    pub(super) fn replace(
        &mut self,
        candidates: &[Candidate],
        chosen: &BTreeMap<FileKey, PageSet>,
        scale: f64,
        costs: &Costs,
    ) {
        let before = std::mem::take(&mut self.0);
        for candidate in candidates {
            let place = (candidate.file, candidate.block);
            let set = chosen.get(&candidate.file);
            let pages = set.map_or(0, |set| set.of_block(candidate.block));
            if pages == 0 {
                continue;
            }
            let read_ns = costs.read_ns(&candidate.file);
            let reads = candidate.value / read_ns;
            let why = match before.get(&place) {
                Some(why) if pages & !why.pages == 0 => Why {
                    pages,
                    read_ns,
                    ..*why
                },
                Some(why) if why.reads > 0.0 => Why {
                    pages,
                    refaults: why.refaults.max(reads * why.refaults / why.reads),
                    reads: why.reads.max(reads),
                    read_ns,
                },
                _ => Why {
                    pages,
                    refaults: reads / scale,
                    reads,
                    read_ns,
                },
            };
            self.0.insert(place, why);
        }
    }

    /// The blocks as runs over several blocks, with the sums of their reasons.
    pub(super) fn ranges(&self) -> Vec<(FileKey, Run, Why)> {
        let mut all: Vec<(FileKey, Run, Why)> = Vec::new();
        for ((key, number), why) in &self.0 {
            let count = f64::from(why.pages.count_ones().max(1));
            for run in runs_of(*number, why.pages) {
                let part = (run.end - run.start) as f64 / count;
                let (refaults, reads) = (why.refaults * part, why.reads * part);
                match all.last_mut() {
                    Some((file, last, sum)) if file == key && last.end == run.start => {
                        last.end = run.end;
                        sum.refaults += refaults;
                        sum.reads += reads;
                    }
                    _ => all.push((
                        *key,
                        run,
                        Why {
                            pages: why.pages,
                            refaults,
                            reads,
                            read_ns: why.read_ns,
                        },
                    )),
                }
            }
        }
        all
    }

    /// The bytes of all blocks.
    pub(super) fn bytes(&self) -> Bytes {
        let pages = self.0.values().map(|why| u64::from(why.pages.count_ones()));
        Bytes(page_size()) * pages.sum()
    }

    /// The runs that are held, those that save least a page first. A page that only closes a gap between
    /// two runs is worth what the block before it is.
    pub(super) fn worst_first(&self, holder: &Holder) -> Vec<(FileKey, Run)> {
        let mut all: Vec<(f64, FileKey, Run)> = Vec::new();
        for (key, held) in holder.files() {
            let mut density = 0.0;
            for run in held.runs() {
                for number in blocks(run) {
                    density = self.of(*key, number).map_or(density, Why::density);
                    let part = bits(number, run);
                    all.extend(runs_of(number, part).map(|run| (density, *key, run)));
                }
            }
        }
        all.sort_by(|a, b| {
            a.0.total_cmp(&b.0)
                .then_with(|| (a.1, a.2.start).cmp(&(b.1, b.2.start)))
        });
        all.into_iter().map(|(_, key, run)| (key, run)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_mapped::Opened;
    use plimsoll_unit::Nanos;

    #[test]
    fn what_saves_least_goes_first_and_gaps_go_with_what_is_before_them() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * page_size()).unwrap();
        let key = FileKey::default();
        let mut holder = Holder::default();
        let mut opened = Some(Opened {
            file: file.into(),
            certain: true,
            tells_cached: true,
        });
        let wanted = BTreeMap::from([(key, PageSet::of(vec![0..60]))]);
        let failures = holder.want(wanted, &mut |_| Ok((opened.take().unwrap(), String::new())));
        assert!(failures.is_empty());
        let (_, failures) = holder.work(Bytes::MAX, Nanos(u64::MAX));
        if !failures.is_empty() {
            return;
        }
        let why = |reads: f64, read_ns| Why {
            pages: 1,
            refaults: reads,
            reads,
            read_ns,
        };
        // Block 1 closes a gap; block 3 is on no better terms, but its disk is slower.
        let reasons = Reasons(BTreeMap::from([
            ((key, 0), why(2.0, 1e5)),
            ((key, 2), why(1.0, 1e5)),
            ((key, 3), why(1.0, 1e7)),
        ]));
        let order = reasons.worst_first(&holder).into_iter();
        let order: Vec<Run> = order.map(|of| of.1).collect();
        assert_eq!(order, [32..48, 0..16, 16..32, 48..60]);
    }
}
