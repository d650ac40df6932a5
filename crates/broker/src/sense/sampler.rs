//! The sampling thread: working sets by reference bits, and shared memory by access frequency. Its
//! cost is bounded as a share of one processor; an idle process is sampled less and less often.

use super::shared::SharedMemory;
use crate::background;
use crate::descriptors::probes;
use crate::error::Error;
use crate::members::Members;
use crate::turns::Turns;
use plimsoll_kernel::clock::now_ns;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced::{self, Pace, Step};
use plimsoll_wire::messages::Id;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which the daemon and the thread exchange results, ns.
const EXCHANGE_NS: u64 = 2_000_000_000;
/// As [`EXCHANGE_NS`], while shared memory grows or shrinks, ns. A new result about shared memory is
/// exchanged at once.
const HURRIED_NS: u64 = 500_000_000;
/// Interval at which the thread checks what is due, unless it is woken.
const ROUND: Duration = Duration::from_secs(2);
/// Share of one processor that all sampling of working sets may take.
const SHARE: f64 = 0.01;
/// A process with less memory than this (bytes) is not sampled.
const WORTHWHILE: u64 = 8 << 20;

/// A principal to be sampled.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The principal.
    pub id: Id,
    /// Process id and start time of each of its processes.
    pub processes: Vec<(i32, u64)>,
    /// Sum of their resident shared memory, bytes.
    pub shmem: u64,
}

/// Results for a principal, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Memory touched recently.
    pub working_set: Option<u64>,
    /// Shared memory that it pays for.
    pub shared: Option<Portion>,
}

/// A principal's part of the shared memory that its processes map, bytes. It is scaled when that
/// memory grows or shrinks, until it is measured again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// Bytes that it pays
    pub pays: u64,
    /// when the sum over its processes was this many bytes; a page counts in each mapping.
    pub of: u64,
    /// Whether no other principal maps any of it.
    pub alone: bool,
}

impl Portion {
    /// Bytes that it pays when the sum over its processes is `sum`.
    #[must_use]
    pub fn now(self, sum: u64) -> u64 {
        let part = u128::from(self.pays) * u128::from(sum) / u128::from(self.of.max(1));
        u64::try_from(part).unwrap_or(u64::MAX).min(sum)
    }
}

/// Whether shared memory changed enough to be measured again. Bytes.
pub(super) fn changed(before: u64, now: u64) -> bool {
    before.abs_diff(now) > (before / 8).max(WORTHWHILE)
}

/// What the deciding thread and the sampling thread exchange, under the lock of [`Place`].
#[derive(Debug, Default)]
struct Exchange {
    /// The principals to sample. Set by the deciding thread.
    subjects: Vec<Subject>,
    /// The results. Set by the sampling thread.
    found: HashMap<Id, Sampled>,
    /// `subjects` were set and the sampling thread has not taken them over yet.
    fresh: bool,
    /// Shared memory changed a lot: the sampling thread must not sleep.
    hurry: bool,
    /// The sampling thread must end.
    stop: bool,
}

#[derive(Debug, Default)]
pub(super) struct Place {
    exchange: Mutex<Exchange>,
    /// Wakes the sampling thread.
    wake: Condvar,
    /// Time of the next exchange, ns. Used by the deciding thread only.
    next: Mutex<u64>,
    /// A result exists that the deciding thread should take soon. Set by the sampling thread, cleared by the
    /// deciding one.
    news: AtomicBool,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; returns `false` when the thread must end.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let guard = self.lock();
        let (guard, _) = self
            .wake
            .wait_timeout_while(guard, time, |exchange| !exchange.stop)
            .unwrap_or_else(PoisonError::into_inner);
        !guard.stop
    }

    /// Sleeps until there is work; returns `false` when the thread must end.
    fn rest(&self, time: Duration) -> bool {
        let guard = self.lock();
        let (mut guard, _) = self
            .wake
            .wait_timeout_while(guard, time, |exchange| !exchange.stop && !exchange.hurry)
            .unwrap_or_else(PoisonError::into_inner);
        guard.hurry = false;
        !guard.stop
    }
}

/// The thread and the data exchanged with the daemon.
#[derive(Debug)]
pub struct Sampler {
    place: Arc<Place>,
    /// The thread, until it is joined.
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread; `None` when neither measurement is wanted.
    ///
    /// # Errors
    /// [`Error::System`] when the thread cannot be created.
    pub fn start(working_sets: bool, sharing: bool) -> Result<Option<Sampler>, Error> {
        if !working_sets && !sharing {
            return Ok(None);
        }
        let place = Arc::new(Place::default());
        let theirs = Arc::clone(&place);
        let thread = background::spawn("plimsoll-sense", move || {
            Thread::new(theirs, working_sets, sharing).run()
        })?;
        Ok(Some(Sampler {
            place,
            thread: Some(thread),
        }))
    }

    /// Gives the thread the current principals and takes its results. Does so every other second,
    /// sooner while shared memory changes, and only when the thread does not hold the lock.
    pub fn exchange(&self, members: &mut Members, now: u64) {
        let mut next = self
            .place
            .next
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let hurry = members
            .iter()
            .any(|member| changed(member.shmem_told, member.figures.shmem_sum));
        let wait = match hurry || self.place.news.load(Ordering::Relaxed) {
            true => EXCHANGE_NS - HURRIED_NS,
            false => 0,
        };
        if now < next.saturating_sub(wait) {
            return;
        }
        let Ok(mut exchange) = self.place.exchange.try_lock() else {
            return;
        };
        *next = now.saturating_add(EXCHANGE_NS);
        self.place.news.store(false, Ordering::Relaxed);
        for member in members.iter_mut() {
            if let Some(found) = exchange.found.get(&member.id) {
                member.working_set = found.working_set.or(member.working_set);
                member.shared = found.shared;
            }
        }
        // If not all processes can be sampled, users take turns.
        let mut turns = Turns::default();
        for member in members.iter_mut() {
            member.shmem_told = member.figures.shmem_sum;
            let Some(tree) = member
                .tree
                .as_ref()
                .filter(|_| member.figures.anon.max(member.figures.shmem) >= WORTHWHILE)
            else {
                continue;
            };
            let processes = tree
                .processes()
                .map(|process| (process.pid(), process.start_time()))
                .collect();
            let subject = Subject {
                id: member.id,
                processes,
                shmem: member.figures.shmem_sum,
            };
            turns.push(member.uid, subject);
        }
        let in_turn = std::iter::from_fn(|| turns.next_of(|_| true));
        exchange.subjects.clear();
        exchange
            .subjects
            .extend(in_turn.map(|(_, subject)| subject));
        exchange.fresh = true;
        exchange.hurry = hurry;
        drop(exchange);
        if hurry {
            self.place.wake.notify_all();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.place.lock().stop = true;
        self.place.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A sampled process. Belongs to the sampling thread.
#[derive(Debug)]
pub(super) struct Probe {
    /// The process.
    pub(super) process: Process,
    /// Its schedule and its estimate.
    sampler: referenced::Sampler,
    /// Its reference bits were cleared for a working set and will be read; nothing else may clear
    /// them.
    pub(super) in_window: bool,
    /// Working set as estimated last, bytes; `None` before the first estimate.
    touched: Option<u64>,
}

/// Sampled processes by process id and start time.
pub(super) type Probes = HashMap<(i32, u64), Probe>;

/// State of the sampling thread, which alone uses it.
struct Thread {
    /// What it shares with the deciding thread.
    place: Arc<Place>,
    /// Whether working sets are sampled.
    working_sets: bool,
    /// The accounts of shared memory; `None` if that is not measured.
    shared: Option<SharedMemory>,
    /// The principals to sample.
    subjects: Vec<Subject>,
    /// Their processes that are sampled.
    probes: Probes,
}

impl Thread {
    fn new(place: Arc<Place>, working_sets: bool, sharing: bool) -> Thread {
        Thread {
            place,
            working_sets,
            shared: sharing.then(SharedMemory::new),
            subjects: Vec::new(),
            probes: Probes::new(),
        }
    }

    fn run(mut self) {
        while self.place.rest(ROUND) {
            self.refresh();
            if self.working_sets {
                self.sample();
            }
            if let Some(shared) = &mut self.shared
                && !shared.step(&self.place, &self.subjects, &self.probes)
            {
                return;
            }
            self.tell();
        }
    }

    /// Takes over the current principals.
    fn refresh(&mut self) {
        let mut exchange = self.place.lock();
        if !std::mem::take(&mut exchange.fresh) {
            return;
        }
        self.subjects.clone_from(&exchange.subjects);
        drop(exchange);
        // Processes of each user's first principals come first.
        let wanted: Vec<(i32, u64)> = self
            .subjects
            .iter()
            .flat_map(|subject| subject.processes.iter().copied())
            .take(probes())
            .collect();
        self.probes.retain(|key, _| wanted.contains(key));
        let pace = Pace {
            share: SHARE / wanted.len().max(2) as f64,
            ..Pace::default()
        };
        let now = now_ns();
        for key in wanted {
            if self.probes.contains_key(&key) {
                continue;
            }
            if let Ok(process) = Process::open_known(key.0, key.1) {
                let sampler = referenced::Sampler::new(pace, now);
                self.probes.insert(
                    key,
                    Probe {
                        process,
                        sampler,
                        in_window: false,
                        touched: None,
                    },
                );
            }
        }
    }

    fn sample(&mut self) {
        for probe in self.probes.values_mut() {
            let now = now_ns();
            let clears = matches!(probe.sampler.schedule().step(now), Step::Clear);
            match probe.sampler.step(&probe.process, now) {
                Ok(Some(estimate)) => {
                    probe.touched = Some(estimate.referenced);
                    probe.in_window = false;
                }
                Ok(None) => probe.in_window |= clears,
                // Denied or gone: the working set stays unknown, and the schedule backs off.
                Err(_) => probe.in_window = false,
            }
        }
    }

    fn tell(&self) {
        let found: HashMap<Id, Sampled> = self
            .subjects
            .iter()
            .map(|subject| (subject.id, self.sampled(subject)))
            .collect();
        let mut exchange = self.place.lock();
        let news = found.iter().any(|(id, new)| {
            exchange
                .found
                .get(id)
                .is_none_or(|old| old.shared != new.shared)
        });
        exchange.found = found;
        drop(exchange);
        self.place.news.store(news, Ordering::Relaxed);
    }

    fn sampled(&self, subject: &Subject) -> Sampled {
        let probes = subject
            .processes
            .iter()
            .filter_map(|key| self.probes.get(key));
        let touched = probes.filter_map(|probe| probe.touched);
        Sampled {
            working_set: touched.reduce(u64::saturating_add),
            shared: self
                .shared
                .as_ref()
                .and_then(|shared| shared.pays(subject.id)),
        }
    }
}
