//! Deciding what to hold.

use super::page_states::OPENING;
use super::{Pinner, SLICE};
use crate::error::PinError;
use crate::locked_files::MAX_RUNS;
use crate::open_mapped::{open_in_time, too_late};
use crate::options::Options;
use crate::pages::PageSet;
use crate::rank::{Bounds, Candidate, choose};
use crate::refaults::Tracked;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::{Bytes, Nanos};
use std::collections::BTreeMap;

/// Refaults of a block within a window from which on it is a candidate, pages.
const LEAST: f32 = 0.5;
/// A held block whose refaults have faded to less is no candidate any more, pages. If a program still
/// needs it, it refaults and comes back.
const LEFT: f32 = 0.02;

/// When is chosen what to hold, and what came of it.
#[derive(Debug)]
pub(super) struct Choices {
    /// Nothing is chosen any more once something was.
    once: bool,
    /// The time from one choice to the next.
    every: Nanos,
    next: Nanos,
    count: u64,
    /// Something was chosen.
    any: bool,
    /// The last choice has as many ranges as may be held.
    most_ranges: bool,
    /// The programs' major faults a second when something was first chosen.
    majors_before: Option<f64>,
}

impl Choices {
    pub(super) fn new(options: &Options, now: Nanos) -> Choices {
        Choices {
            once: options.once,
            every: (options.window / 3).max(Nanos::seconds(2)),
            next: now + options.window,
            count: 0,
            any: false,
            most_ranges: false,
            majors_before: None,
        }
    }

    /// Whether there will be no other.
    pub(super) fn are_over(&self) -> bool {
        self.once && self.any
    }

    pub(super) fn are_due(&self, now: Nanos) -> bool {
        now >= self.next && !self.are_over()
    }

    /// Whether there was one, be it of nothing.
    pub(super) fn are_begun(&self) -> bool {
        self.count > 0
    }

    pub(super) fn begin(&mut self, now: Nanos) {
        self.next = now + self.every;
    }

    /// Notes that so many ranges were chosen, at so many major faults a second.
    pub(super) fn made(&mut self, ranges: usize, majors: f64) {
        self.count += 1;
        self.most_ranges = ranges >= MAX_RUNS;
        if ranges > 0 {
            self.any = true;
            self.majors_before.get_or_insert(majors);
        }
    }

    /// Whether as many ranges were chosen as may be held.
    pub(super) fn most_ranges(&self) -> bool {
        self.most_ranges
    }

    /// The programs' major faults a second when something was first chosen.
    pub(super) fn majors_before(&self) -> Option<f64> {
        self.majors_before
    }
}

impl Pinner {
    /// Goes on looking; takes in a round that is finished, and returns whether one is.
    pub(super) fn gather(&mut self, now: Nanos) -> bool {
        let Some(finished) = self.gather.step(now, SLICE, &mut self.evidence) else {
            return false;
        };
        let mut states = self.queried.states(&self.holder);
        let round = self.evidence.end(now, finished.majors, &mut states);
        // Where frames are shown, they show what was read again.
        let left_out = states.left_out() && !self.evidence.sees_frames();
        self.queried.end_round(&self.evidence, left_out);
        self.rounds += 1;
        self.present = round.present;
        self.not_held
            .end_round(finished.passed, finished.more_passed);
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
            self.reasons.forget(key);
        }
    }

    /// Reads the margins of the programs' groups, and releases what is too much there.
    pub(super) fn heed_groups(&mut self) {
        let held = self.domains.held_of_groups(&self.holder);
        for (group, held) in held.into_iter().enumerate() {
            let Some(most) = self.domains.read_group(group, held) else {
                continue;
            };
            if let Some(surplus) = held.above(most) {
                let mut order = self.reasons.worst_first(&self.holder);
                order.retain(|(key, _)| self.domains.group_of(key) == Some(group));
                self.shrink(self.holder.bytes() - surplus, &order);
            }
            // Pages that are still to be locked count too: they would only be released again.
            let files = self.domains.files_of(group);
            if self.holder.want_at_most(most, &files) {
                self.forget_released();
            }
        }
    }

    fn find_domains(&mut self) {
        self.domains
            .find(&self.gather, &self.evidence, &self.holder);
    }

    /// Ranks what was seen, and has the best of it held.
    pub(super) fn decide(&mut self, now: Nanos) {
        self.choices.begin(now);
        self.holder.find_lost();
        self.queried.close();
        self.costs.measure(self.evidence.files().keys());
        self.not_held.begin_choice();
        self.find_domains();
        let candidates = self.candidates();
        let pages = |bytes: Bytes| bytes.0 / page_size();
        let all = pages(self.domains.own().bytes);
        let mut domains: Vec<u64> = self.domains.allowances().map(pages).collect();
        // Files of processes without a group.
        domains.push(all);
        let bounds = Bounds {
            pages: all,
            runs: MAX_RUNS,
            domains,
        };
        let chosen = choose(&candidates, &bounds);
        let runs = chosen.values().map(|set| set.runs().len()).sum();
        self.choices.made(runs, self.evidence.majors_per_second());
        let scale = self.evidence.scale();
        self.reasons
            .replace(&candidates, &chosen, scale, &self.costs);
        if self.options.dry_run {
            return;
        }
        let failures = self.want(chosen, now);
        self.not_held.add_failures(failures);
        self.forget_released();
    }

    /// Has the chosen pages held. A file that cannot be opened in time is left alone for a while.
    fn want(&mut self, chosen: BTreeMap<FileKey, PageSet>, now: Nanos) -> Vec<(FileKey, PinError)> {
        let (evidence, not_held) = (&self.evidence, &mut self.not_held);
        not_held.tidy_late(now);
        let end = clock::now() + OPENING;
        self.holder.want(chosen, &mut |key| {
            let gone = || PinError::Replaced {
                path: String::new(),
                key: *key,
            };
            let file = evidence.file(key).ok_or_else(gone)?;
            let (pid, addresses) = file.seen_at.as_ref().ok_or_else(gone)?;
            if clock::now() >= end || not_held.is_late(key) {
                return Err(too_late(&file.path));
            }
            let opened = open_in_time(*pid, addresses, *key, &file.path);
            if opened.as_ref().is_err_and(PinError::is_late) {
                not_held.set_late(*key, now);
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
        let elsewhere = self.domains.count().0;
        let users = self.users();
        let mut all = Vec::new();
        for (key, file) in self.evidence.files().iter().filter(|(_, f)| f.is_mapped()) {
            let domain = self.domains.group_of(key).unwrap_or(elsewhere);
            let read_ns = self.costs.read_ns(key);
            for (number, block) in &file.blocks {
                let why = self.reasons.of(*key, *number);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Run;

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
        let mut pinner = Pinner::new(crate::Options::default(), programs, Nanos::ZERO).unwrap();
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
            let now = Nanos::seconds(second);
            pinner.evidence.end(now, majors, &mut Nothing);
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
}
