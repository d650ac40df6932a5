//! The whole: looks, decides and holds, a bounded piece of it in each tick.
//!
//! | module | is |
//! |---|---|
//! | `scan` | rounds of looks at the programs |
//! | `skipped` | processes that are passed over, and why |
//! | `known` | states of files, and the programs that map them |
//! | `decide` | which ranges are held |
//! | `limits` | which limits of ours are reached |

mod decide;
mod known;
mod limits;
mod scan;
mod skipped;

use crate::allowance::{Allowance, Bound, Margins};
use crate::cost::Costs;
use crate::error::PinError;
use crate::locked_files::Holder;
use crate::options::{Options, Programs};
use crate::pages::Run;
use crate::refaults::Evidence;
use crate::report::{Held, Passed, Report, State};
use decide::{Domains, Why};
use known::Known;
use limits::Reached;
use plimsoll_kernel::clock;
use plimsoll_kernel::pin::lockable;
use plimsoll_kernel::process::{Process, page_size};
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::SECOND;
use scan::Gather;
use std::collections::BTreeMap;
use std::mem::take;

/// Longest work of one tick on looks, and again on locks, ns.
const SLICE: u64 = 20_000_000;
/// From one look at the margins to the next while pages are held, ns.
const MARGIN_EVERY: u64 = SECOND / 4;
/// The time between two readings of the margins of the programs' groups, ns: there may be many groups.
const GROUPS_EVERY: u64 = SECOND / 10;
/// The most things that are passed over and reported.
const MAX_PASSED: usize = 64;
/// The most processes that are named with a range.
const MAX_NAMED: usize = 64;

/// Watches programs and holds the file pages that they lose and read again.
///
/// Call [`Pinner::tick`] at [`Pinner::due_ns`], from one thread. Dropping it releases everything.
#[derive(Debug)]
pub struct Pinner {
    options: Options,
    gather: Gather,
    evidence: Evidence,
    holder: Holder,
    margins: Margins,
    /// Why each block is held, or would be.
    why: BTreeMap<(FileKey, u64), Why>,
    /// Files that may not be held, since the last round; and those that could not be, since the last
    /// choice.
    passed: BTreeMap<FileKey, String>,
    failed: BTreeMap<FileKey, String>,
    /// Files that did not let themselves be opened in time, and until when they are left alone.
    late: BTreeMap<FileKey, u64>,
    costs: Costs,
    known: Known,
    domains: Domains,
    started_ns: u64,
    decide_at_ns: u64,
    /// When the groups' margins are read next, monotonic ns.
    groups_at_ns: u64,
    /// How often was chosen.
    chosen: u64,
    /// Something was chosen.
    decided: bool,
    working: bool,
    allowance: Allowance,
    capacity: u64,
    budget: u64,
    rounds: u64,
    present: u64,
    majors_before: Option<f64>,
    spent_ns: u64,
    /// Processor time of this thread since the last round, ns: on that round and on choices, and on the
    /// margins.
    round_ns: u64,
    margins_ns: u64,
    /// Limits that are reached.
    reached: Reached,
}

/// Records why files are not held, up to a bound; false when there were more.
fn record_reasons(
    reasons: &mut BTreeMap<FileKey, String>,
    errors: Vec<(FileKey, PinError)>,
) -> bool {
    let mut all = true;
    for (key, error) in errors {
        if reasons.len() < MAX_PASSED || reasons.contains_key(&key) {
            reasons.insert(key, error.to_string());
        } else {
            all = false;
        }
    }
    all
}

impl Pinner {
    /// Starts to watch at `now_ns` (monotonic). Holds nothing before the first window is over.
    ///
    /// # Errors
    /// [`PinError::Kernel`] when our own memory domain cannot be read.
    pub fn new(options: Options, programs: Programs, now_ns: u64) -> Result<Pinner, PinError> {
        let options = Options {
            window_ns: options.window_ns.max(SECOND),
            ..options
        };
        let mut pinner = Pinner {
            options,
            gather: Gather::new(programs, options, now_ns),
            evidence: Evidence::new(options.window_ns, now_ns),
            holder: Holder::default(),
            margins: Margins::new()?,
            why: BTreeMap::new(),
            passed: BTreeMap::new(),
            failed: BTreeMap::new(),
            late: BTreeMap::new(),
            costs: Costs::new(),
            known: Known::default(),
            domains: Domains::default(),
            started_ns: now_ns,
            decide_at_ns: now_ns.saturating_add(options.window_ns),
            groups_at_ns: 0,
            chosen: 0,
            decided: false,
            working: false,
            allowance: Allowance {
                bytes: 0,
                bound: Bound::Budget,
            },
            capacity: 0,
            budget: 0,
            rounds: 0,
            present: 0,
            majors_before: None,
            spent_ns: 0,
            round_ns: 0,
            margins_ns: 0,
            reached: Reached::default(),
        };
        pinner.heed_margins()?;
        Ok(pinner)
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
    pub fn tick(&mut self, now_ns: u64) -> Result<Report, PinError> {
        let start = clock::thread_cpu().0;
        if let Err(error) = self.heed_margins() {
            self.release();
            return Err(error);
        }
        self.holder.check();
        let heeded = clock::thread_cpu().0;
        let finished = !(self.options.once && self.decided) && self.gather(now_ns);
        let due = now_ns >= self.decide_at_ns && !self.gather.is_amid() && self.rounds > 1;
        if due && !(self.options.once && self.decided) {
            self.decide(now_ns);
        }
        self.margins_ns += heeded.saturating_sub(start);
        self.round_ns += clock::thread_cpu().0.saturating_sub(heeded);
        if finished {
            let (here, margins) = (take(&mut self.round_ns), take(&mut self.margins_ns));
            self.gather
                .pace(self.evidence.majors_per_second(), here, margins);
        }
        if !self.options.dry_run {
            let until = clock::now().0.saturating_add(SLICE);
            let (done, failures) = self.holder.work(self.allowance.bytes, until);
            self.working = !done;
            self.note_failures(failures);
        }
        self.spent_ns += clock::thread_cpu().0.saturating_sub(start);
        Ok(self.report(now_ns))
    }

    /// When the next tick is due, monotonic ns.
    pub fn due_ns(&self, now_ns: u64) -> u64 {
        if self.working || self.gather.is_amid() {
            return now_ns.saturating_add(SLICE / 4);
        }
        let margins = match self.holder.bytes() {
            0 => SECOND,
            _ => MARGIN_EVERY,
        };
        let next = now_ns.saturating_add(margins);
        if self.options.once && self.decided {
            return next;
        }
        next.min(self.gather.due_ns()).max(now_ns)
    }

    /// Releases everything. The evidence stays.
    pub fn release(&mut self) {
        self.holder.release_all();
        self.why.clear();
    }

    /// Whether none of the given programs runs any more.
    pub fn is_alone(&self) -> bool {
        self.gather.is_alone()
    }

    /// Whether it has chosen what to hold, be it nothing.
    pub fn has_decided(&self) -> bool {
        self.chosen > 0
    }

    /// Whether it has chosen, and holds all that it can of that.
    pub fn is_settled(&self) -> bool {
        self.has_decided() && !self.working
    }

    /// The ranges that are held (with `dry_run`, would be), most saved first, at most `max` of them.
    pub fn held(&self, max: usize) -> Vec<Held> {
        let mut held = self.why.clone();
        if !self.options.dry_run {
            held.retain(|(key, block), why| {
                why.pages &= self.holder.held(key).map_or(0, |set| set.of_block(*block));
                why.pages != 0
            });
        }
        let mut ranges = decide::ranges(&held);
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
        let files = self.failed.values().chain(self.passed.values());
        let files = files.map(|reason| Passed {
            pid: None,
            reason: reason.clone(),
        });
        self.gather.passed().chain(files).take(MAX_PASSED).collect()
    }

    /// Reads the margins, and releases what is too much.
    fn heed_margins(&mut self) -> Result<(), PinError> {
        let held = self.holder.bytes();
        let options = self.options;
        let (capacity, mut allowance) = self.margins.own(
            |capacity| options.budget(capacity),
            held,
            options.without_swap,
        )?;
        self.capacity = capacity;
        self.budget = options.budget(capacity);
        if let Some(most) = self.lock_limit()
            && most < allowance.bytes
        {
            allowance = Allowance {
                bytes: most,
                bound: Bound::LockLimit,
            };
        }
        self.allowance = allowance;
        let now_ns = clock::now().0;
        if now_ns >= self.groups_at_ns {
            self.groups_at_ns = now_ns.saturating_add(GROUPS_EVERY);
            self.heed_groups();
        }
        if self.holder.bytes() > self.allowance.bytes {
            let order = decide::worst_first(&self.why, &self.holder);
            self.shrink(self.allowance.bytes, &order);
        }
        Ok(())
    }

    /// The bytes that this process may lock for pages; `None` if without bound.
    fn lock_limit(&self) -> Option<u64> {
        let most = lockable()?;
        let locked = Process::own().and_then(|own| own.memory());
        let others = locked.map_or(0, |memory| {
            memory.locked.saturating_sub(self.holder.bytes())
        });
        Some(most.saturating_sub(others))
    }

    /// Releases pages until at most `bytes` are held of all that is held.
    fn shrink(&mut self, bytes: u64, worst_first: &[(FileKey, Run)]) {
        self.holder.shrink(bytes, worst_first);
        self.forget_released();
    }

    /// Keeps reasons only of what is held.
    fn forget_released(&mut self) {
        if self.options.dry_run {
            return;
        }
        let holder = &self.holder;
        self.why.retain(|(file, block), why| {
            let wanted = holder.wanted(file).map_or(0, |set| set.of_block(*block));
            why.pages &= wanted;
            why.pages != 0
        });
    }

    /// Records why files cannot be held. If there are too many, only one of them says so.
    fn note_failures(&mut self, mut failures: Vec<(FileKey, PinError)>) {
        failures.retain(|(_, error)| match error {
            PinError::TooManyFiles { most } => self.reached.held_files.replace(*most).is_none(),
            _ => true,
        });
        self.reached.failures |= !record_reasons(&mut self.failed, failures);
    }

    fn report(&self, now_ns: u64) -> Report {
        let held = if self.options.dry_run {
            decide::bytes(&self.why)
        } else {
            self.holder.bytes()
        };
        let state = match (self.allowance.bound, self.allowance.bytes, held) {
            (Bound::NoSwap, ..) => State::Refused,
            _ if self.domains.all_refused() => State::Refused,
            (_, 0, _) => State::Short,
            (_, _, 0) if self.domains.all_barred() => State::Short,
            (_, _, 0) => State::Watching,
            _ => State::Holding,
        };
        let elapsed = now_ns.saturating_sub(self.started_ns).max(1);
        Report {
            state,
            other_faults: self.evidence.part_of_others(),
            capacity: self.capacity,
            budget: self.budget,
            allowance: self.allowance.bytes,
            bound: Some(self.allowance.bound),
            held,
            processes: self.gather.processes(),
            files: self.evidence.files().len(),
            present: self.present.saturating_mul(page_size()),
            rounds: self.rounds,
            refaults_per_second: self.evidence.refaults_per_second(),
            major_faults_per_second: self.evidence.majors_per_second(),
            major_faults_before: self.majors_before,
            processor: (self.spent_ns + self.gather.spent_ns()) as f64 / elapsed as f64,
            groups: self.domains.report(),
            truncated: self.evidence.is_full()
                || self.gather.limits().next().is_some()
                || self.domains.is_full(),
            limits: self.limits(),
        }
    }
}
