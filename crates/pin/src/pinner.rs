//! The whole: looks, decides and holds, a bounded piece of it in each tick.
//!
//! | module | is |
//! |---|---|
//! | `pace` | when rounds are due, and the processor time |
//! | `skipped` | processes that are passed over, and why |
//! | `scan` | rounds of looks at the programs |
//! | `page_states` | states of pages in the holder and the page cache |
//! | `domains` | how much may be held, in all and in the programs' groups |
//! | `reasons` | why each block is held |
//! | `not_held` | files that are not held, and why |
//! | `decide` | which pages are held |
//! | `limits` | which limits of ours are reached |

mod decide;
mod domains;
mod limits;
mod not_held;
mod pace;
mod page_states;
mod reasons;
mod scan;
mod skipped;

use crate::cost::Costs;
use crate::error::PinError;
use crate::locked_files::Holder;
use crate::options::{Options, Programs};
use crate::pages::Run;
use crate::refaults::Evidence;
use crate::report::{Held, Passed, Report};
use decide::Choices;
use domains::Domains;
use not_held::{MAX_PASSED, NotHeld};
use page_states::Queried;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::{Bytes, Nanos};
use reasons::Reasons;
use scan::Gather;
use std::collections::BTreeMap;

/// Longest work of one tick on looks, and again on locks.
const SLICE: Nanos = Nanos::millis(20);
/// From one look at the margins to the next, while pages are held and while none are.
const MARGIN_EVERY: Nanos = Nanos::millis(250);
const IDLE_MARGIN_EVERY: Nanos = Nanos::seconds(1);
/// The most processes that are named with a range.
const MAX_NAMED: usize = 64;

/// Watches programs and holds the file pages that they lose and read again.
///
/// Call [`Pinner::tick`] at [`Pinner::due`], from one thread. Dropping it releases everything.
#[derive(Debug)]
pub struct Pinner {
    options: Options,
    gather: Gather,
    evidence: Evidence,
    queried: Queried,
    domains: Domains,
    costs: Costs,
    choices: Choices,
    holder: Holder,
    reasons: Reasons,
    not_held: NotHeld,
    /// Chosen pages are still to be locked.
    working: bool,
    rounds: u64,
    /// Pages of files that were present in the last round.
    present: u64,
}

impl Pinner {
    /// Starts to watch at `now` (monotonic). Holds nothing before the first window is over.
    ///
    /// # Errors
    /// [`PinError::Kernel`] when our own memory domain cannot be read.
    pub fn new(options: Options, programs: Programs, now: Nanos) -> Result<Pinner, PinError> {
        let options = Options {
            window: options.window.max(Nanos::seconds(1)),
            ..options
        };
        Ok(Pinner {
            options,
            gather: Gather::new(programs, options, now),
            evidence: Evidence::new(options.window, now),
            queried: Queried::default(),
            domains: Domains::new(options)?,
            costs: Costs::new(),
            choices: Choices::new(&options, now),
            holder: Holder::default(),
            reasons: Reasons::default(),
            not_held: NotHeld::default(),
            working: false,
            rounds: 0,
            present: 0,
        })
    }

    /// Watches other programs from the next round on.
    pub fn watch(&mut self, programs: Programs) {
        self.gather.watch(programs);
    }

    /// Does what is due, within about 50 ms of work, and returns where it stands. Where a program does
    /// not let itself be read, a look takes up to two seconds, once in a window.
    ///
    /// # Errors
    /// [`PinError::Kernel`] when our own memory domain cannot be read any more. Everything is
    /// released then.
    pub fn tick(&mut self, now: Nanos) -> Result<Report, PinError> {
        let start = clock::thread_cpu();
        if let Err(error) = self.heed_margins() {
            self.release();
            return Err(error);
        }
        self.holder.check();
        let heeded = clock::thread_cpu();
        let finished = !self.choices.are_over() && self.gather(now);
        if self.choices.are_due(now) && !self.gather.is_amid() && self.rounds > 1 {
            self.decide(now);
        }
        let pace = self.gather.pace_mut();
        pace.count_tick(heeded - start, clock::thread_cpu() - heeded);
        if finished {
            pace.set_next(self.evidence.majors_per_second());
        }
        if !self.options.dry_run {
            let until = clock::now() + SLICE;
            let (done, failures) = self.holder.work(self.domains.own().bytes, until);
            self.working = !done;
            self.not_held.add_failures(failures);
        }
        let pace = self.gather.pace_mut();
        pace.count_spent(clock::thread_cpu() - start);
        Ok(self.report(now))
    }

    /// When the next tick is due, monotonic.
    pub fn due(&self, now: Nanos) -> Nanos {
        if self.working || self.gather.is_amid() {
            return now + SLICE / 4;
        }
        let margins = if self.holder.bytes() == Bytes::ZERO {
            IDLE_MARGIN_EVERY
        } else {
            MARGIN_EVERY
        };
        let next = now + margins;
        if self.choices.are_over() {
            return next;
        }
        next.min(self.gather.pace().next()).max(now)
    }

    /// Releases everything. The evidence stays.
    pub fn release(&mut self) {
        self.holder.release_all();
        self.reasons.clear();
    }

    /// Whether none of the given programs runs any more.
    pub fn is_alone(&self) -> bool {
        self.gather.is_alone()
    }

    /// Whether it has chosen what to hold, be it nothing.
    pub fn has_decided(&self) -> bool {
        self.choices.are_begun()
    }

    /// Whether it has chosen, and holds all that it can of that.
    pub fn is_settled(&self) -> bool {
        self.has_decided() && !self.working
    }

    /// The ranges that are held (with `dry_run`, would be), most saved first, at most `max` of them.
    pub fn held(&self, max: usize) -> Vec<Held> {
        let mut ranges = if self.options.dry_run {
            self.reasons.ranges()
        } else {
            self.reasons.of_held(&self.holder).ranges()
        };
        ranges.sort_by(|a, b| b.2.reads.total_cmp(&a.2.reads));
        ranges.truncate(max);
        let mut pids: BTreeMap<FileKey, Vec<i32>> = BTreeMap::new();
        let mut all = Vec::new();
        for (key, run, why) in ranges {
            let file = self.evidence.file(&key);
            let (page, pages) = (page_size(), run.end - run.start);
            let pids = pids.entry(key).or_insert_with(|| {
                file.map_or_else(Vec::new, |file| file.pids().into_iter().collect())
            });
            all.push(Held {
                path: file.map_or_else(String::new, |file| file.path.clone()),
                deleted: file.is_some_and(|file| file.deleted),
                device: format!("{}:{}", key.major, key.minor),
                inode: key.inode,
                offset: run.start.saturating_mul(page),
                bytes: pages.saturating_mul(page),
                refaults_per_second: why.refaults,
                reads_per_second: why.reads,
                bytes_per_second: why.refaults * page as f64,
                read_ns: why.read_ns as u64,
                processes: pids.len(),
                pids: pids.iter().take(MAX_NAMED).copied().collect(),
            });
        }
        all
    }

    /// The processes that are passed over, and why.
    pub fn passed_processes(&self) -> Vec<Passed> {
        self.gather.passed().take(MAX_PASSED).collect()
    }

    /// The files and processes that are passed over, and why.
    pub fn passed(&self) -> Vec<Passed> {
        let files = self.not_held.reasons().map(|reason| Passed {
            pid: None,
            reason: reason.clone(),
        });
        self.gather.passed().chain(files).take(MAX_PASSED).collect()
    }

    /// Reads the margins, and releases what is too much.
    fn heed_margins(&mut self) -> Result<(), PinError> {
        self.domains.read_own(self.holder.bytes())?;
        if self.domains.groups_are_due(clock::now()) {
            self.heed_groups();
        }
        let most = self.domains.own().bytes;
        if self.holder.bytes() > most {
            let order = self.reasons.worst_first(&self.holder);
            self.shrink(most, &order);
        }
        Ok(())
    }

    /// Releases pages until at most `bytes` are held of all that is held.
    fn shrink(&mut self, bytes: Bytes, worst_first: &[(FileKey, Run)]) {
        self.holder.shrink(bytes, worst_first);
        self.forget_released();
    }

    /// Keeps reasons only of what is held, or would be.
    fn forget_released(&mut self) {
        if !self.options.dry_run {
            self.reasons.keep_wanted(&self.holder);
        }
    }

    fn report(&self, now: Nanos) -> Report {
        let held = if self.options.dry_run {
            self.reasons.bytes()
        } else {
            self.holder.bytes()
        };
        let allowance = self.domains.own();
        Report {
            state: self.domains.state(held),
            other_faults: self.evidence.part_of_others(),
            capacity: self.domains.capacity().0,
            budget: self.domains.budget().0,
            allowance: allowance.bytes.0,
            bound: Some(allowance.bound),
            held: held.0,
            processes: self.gather.processes(),
            files: self.evidence.files().len(),
            present: self.present.saturating_mul(page_size()),
            rounds: self.rounds,
            refaults_per_second: self.evidence.refaults_per_second(),
            major_faults_per_second: self.evidence.majors_per_second(),
            major_faults_before: self.choices.majors_before(),
            processor: self.gather.pace().processor(now),
            groups: self.domains.report(),
            truncated: self.evidence.is_full()
                || self.gather.limits().next().is_some()
                || self.domains.is_full(),
            limits: self.limits(),
        }
    }
}
