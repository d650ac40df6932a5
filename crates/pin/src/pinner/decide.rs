//! Deciding what to hold, and in which domains it may be held.

use super::known::OPENING;
use super::{Pinner, SLICE, record_reasons};
use crate::allowance::{Allowance, Bound};
use crate::error::PinError;
use crate::locked_files::{Holder, MAX_RUNS};
use crate::open_mapped::{open_in_time, too_late};
use crate::pages::{Run, bits, blocks, runs_of};
use crate::rank::{Bounds, Candidate, choose};
use crate::refaults::Tracked;
use crate::report::Group;
use plimsoll_kernel::Error;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::SECOND;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Refaults of a block within a window from which on it is a candidate, pages.
const LEAST: f32 = 0.5;
/// A held block whose refaults have faded to less is no candidate any more, pages. If a program still
/// needs it, it refaults and comes back.
const LEFT: f32 = 0.02;

/// How long a file is left alone that did not let itself be opened in time, ns, and the most such
/// files.
const LATE: u64 = 600 * SECOND;
const MAX_LATE: usize = 256;

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
    fn reads_now(&self, rate: f64) -> f64 {
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

/// A group of the programs and what may be held in it.
#[derive(Debug)]
struct Domain {
    dir: PathBuf,
    allowance: Allowance,
    /// Why its memory could not be read.
    reason: Option<String>,
    /// Bytes held in it.
    held: u64,
}

impl Domain {
    /// A group and its margin, as it was read.
    fn of(dir: PathBuf, read: Result<Option<Allowance>, Error>, held: u64) -> Domain {
        let (allowance, reason) = match read {
            Ok(Some(allowance)) => (allowance, None),
            Ok(None) => (Allowance::none(Bound::Unwatched), None),
            Err(error) => (Allowance::none(Bound::Unreadable), Some(error.to_string())),
        };
        Domain {
            dir,
            allowance,
            reason,
            held,
        }
    }
}

/// The groups of the programs.
#[derive(Debug, Default)]
pub(super) struct Domains {
    groups: Vec<Domain>,
    of_file: BTreeMap<FileKey, usize>,
    /// There are more groups than are watched: nothing is held in the others.
    full: bool,
    /// A program is in no group: its files may be held even if every group refuses.
    ungrouped: bool,
}

impl Domains {
    /// Whether all programs are in groups in which nothing can be swapped.
    pub(super) fn all_refused(&self) -> bool {
        self.is_so_of_all(|group| group.allowance.bound == Bound::NoSwap)
    }

    /// Whether all programs are in groups in which nothing may be held, for whatever reason.
    pub(super) fn all_barred(&self) -> bool {
        self.is_so_of_all(|group| group.allowance.bytes == 0)
    }

    fn is_so_of_all(&self, is_so: impl Fn(&Domain) -> bool) -> bool {
        !self.ungrouped && !self.groups.is_empty() && self.groups.iter().all(is_so)
    }

    /// Whether there are more groups than are watched.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// How many groups there are, and how many of them are watched.
    pub(super) fn count(&self) -> (usize, usize) {
        let bound = |group: &&Domain| group.allowance.bound != Bound::Unwatched;
        (self.groups.len(), self.groups.iter().filter(bound).count())
    }

    /// The files of a group.
    fn files_of(&self, group: usize) -> Vec<FileKey> {
        let of_it = self.of_file.iter().filter(|(_, of)| **of == group);
        of_it.map(|(key, _)| *key).collect()
    }

    /// The groups in which less than the budget may be held.
    pub(super) fn report(&self) -> Vec<Group> {
        let less = self
            .groups
            .iter()
            .filter(|group| group.allowance.bound != Bound::Budget);
        less.map(|group| Group {
            path: group.dir.display().to_string(),
            allowance: group.allowance.bytes,
            bound: group.allowance.bound,
            reason: group.reason.clone(),
            held: group.held,
        })
        .collect()
    }
}

impl Pinner {
    /// Goes on looking; takes in a round that is finished, and returns whether one is.
    pub(super) fn gather(&mut self, now_ns: u64) -> bool {
        let Some(finished) = self.gather.step(now_ns, SLICE, &mut self.evidence) else {
            return false;
        };
        let mut states = self.known.states(&self.holder);
        let round = self.evidence.end(now_ns, finished.majors, &mut states);
        // Where frames are shown, they show what was read again.
        self.reached.page_cache = states.left_out() && !self.evidence.sees_frames();
        self.known.tidy(&self.evidence);
        self.rounds += 1;
        self.present = round.present;
        self.passed.clear();
        let all = record_reasons(&mut self.passed, finished.passed);
        self.reached.files = !all || finished.more_passed;
        self.release_unmapped();
        if self.rounds == 1 {
            // So that a refusal is reported at once, not after a window.
            self.find_domains();
        }
        true
    }

    /// Releases files that no program has mapped any more.
    fn release_unmapped(&mut self) {
        let unmapped = |key: &FileKey| !self.evidence.file(key).is_some_and(Tracked::is_mapped);
        let held: Vec<FileKey> = self.holder.files().map(|(key, _)| *key).collect();
        for key in held.iter().filter(|key| unmapped(key)) {
            self.holder.release(key);
            self.why.retain(|(file, _), _| file != key);
        }
    }

    /// The bytes that are held of each group's files.
    fn held_of_groups(&self) -> Vec<u64> {
        let mut held = vec![0u64; self.domains.groups.len()];
        for (key, set) in self.holder.files() {
            let domain = self.domains.of_file.get(key);
            if let Some(bytes) = domain.and_then(|domain| held.get_mut(*domain)) {
                *bytes += set.pages() * page_size();
            }
        }
        held
    }

    /// Reads the margins of the programs' groups, and releases what is too much there.
    pub(super) fn heed_groups(&mut self) {
        let held = self.held_of_groups();
        for (domain, bytes) in held.into_iter().enumerate() {
            let dir = self.domains.groups[domain].dir.clone();
            let force = self.options.without_swap;
            let read = self.margins.group(&dir, self.budget, bytes, force);
            // A group that is gone has no program any more; the next round finds out.
            if read.as_ref().is_err_and(|error| error.is_absent()) {
                continue;
            }
            let read = Domain::of(dir, read, bytes);
            let allowance = read.allowance;
            self.domains.groups[domain] = read;
            if bytes > allowance.bytes {
                let mut order = worst_first(&self.why, &self.holder);
                order.retain(|(key, _)| self.domains.of_file.get(key) == Some(&domain));
                let surplus = bytes - allowance.bytes;
                self.shrink(self.holder.bytes().saturating_sub(surplus), &order);
            }
            // Pages that are still to be locked count too: they would only be released again.
            let files = self.domains.files_of(domain);
            if self.holder.want_at_most(allowance.bytes, &files) {
                self.forget_released();
            }
        }
    }

    /// Finds the groups of the programs, and of each file the group that may have least held.
    fn find_domains(&mut self) {
        let before = self.domains.groups.iter().map(|group| group.dir.clone());
        let held: BTreeMap<PathBuf, u64> = before.zip(self.held_of_groups()).collect();
        let groups = self.gather.groups().into_iter();
        let dirs: Vec<PathBuf> = groups.map(PathBuf::from).collect();
        self.domains.full = !self.margins.watch(dirs.iter().map(PathBuf::as_path));
        let force = self.options.without_swap;
        let mut groups = Vec::new();
        for dir in dirs {
            let bytes = held.get(&dir).copied().unwrap_or(0);
            let read = self.margins.group(&dir, self.budget, bytes, force);
            groups.push(Domain::of(dir, read, bytes));
        }
        self.domains.groups = groups;
        self.domains.ungrouped = self.gather.has_ungrouped();
        self.domains.of_file.clear();
        let groups = &self.domains.groups;
        for (key, file) in self.evidence.files() {
            let of = |pid| {
                let dir = self.gather.group_of(pid)?;
                groups.iter().position(|group| group.dir == dir)
            };
            let all = file.pids().into_iter().filter_map(of);
            if let Some(tightest) = all.min_by_key(|group| groups[*group].allowance.bytes) {
                self.domains.of_file.insert(*key, tightest);
            }
        }
    }

    /// Ranks what was seen, and has the best of it held.
    pub(super) fn decide(&mut self, now_ns: u64) {
        let again = (self.options.window_ns / 3).max(2 * SECOND);
        self.decide_at_ns = now_ns.saturating_add(again);
        self.holder.find_lost();
        self.known.close();
        self.costs.measure(self.evidence.files().keys());
        self.failed.clear();
        (self.reached.failures, self.reached.held_files) = (false, None);
        self.find_domains();
        let candidates = self.candidates();
        let page = page_size();
        let mut domains: Vec<u64> = self
            .domains
            .groups
            .iter()
            .map(|group| group.allowance.bytes / page)
            .collect();
        // Files of processes without a group.
        domains.push(self.allowance.bytes / page);
        let bounds = Bounds {
            pages: self.allowance.bytes / page,
            runs: MAX_RUNS,
            domains,
        };
        let chosen = choose(&candidates, &bounds);
        let runs: usize = chosen.values().map(|set| set.runs().len()).sum();
        self.reached.ranges = runs >= MAX_RUNS;
        self.chosen += 1;
        self.decided |= !chosen.is_empty();
        if !chosen.is_empty() && self.majors_before.is_none() {
            self.majors_before = Some(self.evidence.majors_per_second());
        }
        let scale = self.evidence.scale();
        self.explain(&candidates, &chosen, scale);
        if self.options.dry_run {
            return;
        }
        let failures = self.want(chosen, now_ns);
        self.note_failures(failures);
        self.forget_released();
    }

    /// Has the chosen pages held. A file that cannot be opened in time is left alone for a while: each try
    /// costs a thread, and threads are few.
    fn want(
        &mut self,
        chosen: BTreeMap<FileKey, crate::pages::PageSet>,
        now_ns: u64,
    ) -> Vec<(FileKey, PinError)> {
        let (evidence, late) = (&self.evidence, &mut self.late);
        late.retain(|_, until_ns| *until_ns > now_ns);
        let end = clock::now().0.saturating_add(OPENING);
        self.holder.want(chosen, &mut |key| {
            let gone = || PinError::Replaced {
                path: String::new(),
                key: *key,
            };
            let file = evidence.file(key).ok_or_else(gone)?;
            let (pid, addresses) = file.seen_at.as_ref().ok_or_else(gone)?;
            if clock::now().0 >= end || late.contains_key(key) {
                return Err(too_late(&file.path));
            }
            let opened = open_in_time(*pid, addresses, *key, &file.path);
            if opened.as_ref().is_err_and(PinError::is_late) && late.len() < MAX_LATE {
                late.insert(*key, now_ns.saturating_add(LATE));
            }
            Ok((opened?, file.path.clone()))
        })
    }

    /// Whose part each file takes: that of the user whose programs map it, or 0, that of several users
    /// together.
    fn users(&self) -> BTreeMap<FileKey, usize> {
        let of_file = |file: &Tracked| {
            let pids = file.pids();
            let mut users = pids.into_iter().filter_map(|pid| self.gather.user_of(pid));
            let first = users.next()?;
            users
                .all(|user| user == first)
                .then_some(first as usize + 1)
        };
        let files = self.evidence.files().iter();
        files
            .map(|(key, file)| (*key, of_file(file).unwrap_or(0)))
            .collect()
    }

    fn candidates(&self) -> Vec<Candidate> {
        let (scale, waited) = (self.evidence.scale(), self.evidence.waited());
        let elsewhere = self.domains.groups.len();
        let users = self.users();
        let mut all = Vec::new();
        for (key, file) in self.evidence.files().iter().filter(|(_, f)| f.is_mapped()) {
            let domain = *self.domains.of_file.get(key).unwrap_or(&elsewhere);
            let read_ns = self.costs.read_ns(key);
            for (number, block) in &file.blocks {
                let why = self.why.get(&(*key, *number));
                let held = why.map_or(0, |why| why.pages);
                let worth = self.evidence.worth(block);
                let pages = (worth | held) & file.mapped().of_block(*number);
                let least = if held == 0 { LEAST } else { LEFT };
                // A new file has lost nothing yet, because the old one was held.
                let in_vain = held == 0 && !waited && !block.is_inherited();
                if pages == 0 || in_vain || block.refaults < least {
                    continue;
                }
                let rate = self.evidence.rate_of(block);
                // Held pages show no refaults: their earlier refaults fade slowly.
                let reads = why.map_or(rate * scale, |why| why.reads_now(rate));
                all.push(Candidate {
                    file: *key,
                    block: *number,
                    pages,
                    held,
                    value: reads.max(f64::MIN_POSITIVE) * read_ns,
                    domain,
                    user: *users.get(key).unwrap_or(&0),
                });
            }
        }
        all
    }

    /// Notes why each chosen block is held. Blocks that were held before keep their first reason,
    /// unless more of their pages came back since.
    fn explain(
        &mut self,
        candidates: &[Candidate],
        chosen: &BTreeMap<FileKey, crate::pages::PageSet>,
        scale: f64,
    ) {
        let before = std::mem::take(&mut self.why);
        for candidate in candidates {
            let place = (candidate.file, candidate.block);
            let set = chosen.get(&candidate.file);
            let pages = set.map_or(0, |set| set.of_block(candidate.block));
            if pages == 0 {
                continue;
            }
            let read_ns = self.costs.read_ns(&candidate.file);
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
            self.why.insert(place, why);
        }
    }
}

/// The blocks that are held as runs over several blocks, with the sums of their reasons.
pub(super) fn ranges(why: &BTreeMap<(FileKey, u64), Why>) -> Vec<(FileKey, Run, Why)> {
    let mut all: Vec<(FileKey, Run, Why)> = Vec::new();
    for ((key, number), why) in why {
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

/// The bytes of all blocks that are held or chosen.
pub(super) fn bytes(why: &BTreeMap<(FileKey, u64), Why>) -> u64 {
    let pages = why.values().map(|why| u64::from(why.pages.count_ones()));
    pages.sum::<u64>() * page_size()
}

/// The runs that are held, those that save least a page first. A page that only closes a gap between
/// two runs is worth what the block before it is.
pub(super) fn worst_first(
    why: &BTreeMap<(FileKey, u64), Why>,
    holder: &Holder,
) -> Vec<(FileKey, Run)> {
    let mut all: Vec<(f64, FileKey, Run)> = Vec::new();
    for (key, held) in holder.files() {
        let mut density = 0.0;
        for run in held.runs() {
            for number in blocks(run) {
                density = why.get(&(*key, number)).map_or(density, Why::density);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_mapped::Opened;
    use crate::pages::PageSet;

    fn domain(bound: Bound) -> Domain {
        Domain {
            dir: PathBuf::from("/a"),
            allowance: Allowance::none(bound),
            reason: None,
            held: 0,
        }
    }

    /// Nothing is held or cached.
    struct Nothing;

    impl crate::refaults::PageStates for Nothing {
        fn held(&self, _: FileKey, _: u64) -> u16 {
            0
        }

        fn cached(&mut self, _: FileKey, _: &Tracked, _: &Run) -> crate::refaults::Cached {
            crate::refaults::Cached::Pages(0)
        }
    }

    #[test]
    fn a_file_at_the_path_of_another_is_chosen_before_it_is_lost() {
        let programs = crate::Programs::Processes(Vec::new());
        let mut pinner = Pinner::new(crate::Options::default(), programs, 0).unwrap();
        let mut round = |second: u64, inode, frame: u16, majors| {
            pinner.evidence.begin_round();
            pinner.evidence.saw(&crate::mapped_pages::View {
                pid: 1,
                key: crate::key(inode),
                addresses: 0x10000..0x20000,
                run: 0..16,
                seen: 16,
                present: vec![2..6],
                frames: (frame..frame + 4).collect(),
                path: "/lib/libx.so".into(),
            });
            pinner.evidence.end(second * SECOND, majors, &mut Nothing);
            let all = pinner.candidates().into_iter();
            all.map(|of| (of.file.inode, of.pages)).collect::<Vec<_>>()
        };
        for second in 1..5 {
            round(second, 7, 100 * second as u16, 0);
        }
        assert_eq!(round(5, 7, 500, 1), [(7, 0b11_1100)]);
        // No program waits any more, as where the file is held.
        for second in 6..30 {
            round(second, 7, 500, 0);
        }
        assert_eq!(round(30, 7, 500, 0), []);
        assert_eq!(round(31, 8, 900, 0), [(8, 0b11_1100)]);
    }

    #[test]
    fn beside_groups_that_are_barred_a_program_without_a_group_is_watched() {
        use crate::report::State;
        let mut pinner = Pinner::new(
            crate::Options::default(),
            crate::Programs::Processes(Vec::new()),
            0,
        )
        .unwrap();
        let mut state = |bound, ungrouped| {
            pinner.allowance = Allowance {
                bytes: 1 << 20,
                bound: Bound::Budget,
            };
            pinner.domains.groups = vec![domain(bound)];
            pinner.domains.ungrouped = ungrouped;
            pinner.report(0).state
        };
        assert_eq!(state(Bound::NoSwap, false), State::Refused);
        assert_eq!(state(Bound::Unreadable, false), State::Short);
        assert_eq!(state(Bound::NoSwap, true), State::Watching);
        assert_eq!(state(Bound::Unreadable, true), State::Watching);
    }

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
        let (_, failures) = holder.work(u64::MAX, u64::MAX);
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
        let known = BTreeMap::from([
            ((key, 0), why(2.0, 1e5)),
            ((key, 2), why(1.0, 1e5)),
            ((key, 3), why(1.0, 1e7)),
        ]);
        let order: Vec<Run> = worst_first(&known, &holder)
            .into_iter()
            .map(|of| of.1)
            .collect();
        assert_eq!(order, [32..48, 0..16, 16..32, 48..60]);
    }
}
