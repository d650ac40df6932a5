//! The sampling thread: working sets and files by reference bits, shared memory by access frequency, and the
//! processor time that programs want. Its cost is bounded as a share of one processor; an idle process is
//! sampled less and less often.

use super::file_window::FileWindow;
use super::samples::{Exchange, Probe, Probes, Sampled, Subject, wanted};
use super::shared::SharedMemory;
use crate::background::{Companion, Monitor, Periodic};
use crate::descriptors::probes;
use crate::error::Error;
use crate::fair_queue::FairQueue;
use crate::principals::Members;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced::{self, Pace, Step};
use plimsoll_kernel::sched;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Id;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the daemon and the thread exchange results.
const EXCHANGE: Nanos = Nanos::seconds(2);
/// As [`EXCHANGE`], while shared memory grows or shrinks. A new result about shared memory is
/// exchanged at once.
const HURRIED: Nanos = Nanos::millis(500);
/// Interval at which the thread checks what is due, unless it is woken.
const ROUND: Duration = Duration::from_secs(2);
/// Share of one processor that all sampling of working sets may take.
const SHARE: f64 = 0.01;
/// Threads whose processor time is read in a round, at most: a few milliseconds. Processes beyond that are
/// not known to want more than they get.
const THREADS: usize = 512;

/// The thread and the data exchanged with the daemon.
#[derive(Debug)]
pub struct Sampler {
    thread: Periodic<Exchange>,
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
        let run = move |monitor| Thread::new(monitor, working_sets, sharing).run();
        let thread = Companion::start("plimsoll-sense", run)?;
        Ok(Some(Sampler {
            thread: Periodic::new(thread, EXCHANGE),
        }))
    }

    /// Gives the thread the current principals and takes its results. Does so every other second,
    /// sooner while shared memory changes, and only when the thread does not hold the lock.
    pub fn exchange(&mut self, members: &mut Members, now: Nanos) {
        let hurry = members.iter().any(|member| member.memory.is_shared_anew());
        let sooner = |exchange: &Exchange| {
            if hurry || exchange.news {
                EXCHANGE - HURRIED
            } else {
                Nanos::ZERO
            }
        };
        let Some(mut exchange) = self.thread.exchange(now, sooner) else {
            return;
        };
        exchange.news = false;
        for member in members.iter_mut() {
            if let Some(found) = exchange.found.get(&member.id) {
                member.memory.take_over(found);
            }
        }
        // If not all processes can be sampled, users take turns.
        let mut turns = FairQueue::default();
        for member in members.iter_mut() {
            let shmem = member.memory.tell_shared();
            if member.memory.is_worthwhile() {
                let subject = Subject {
                    id: member.id,
                    processes: member.memory.instances().collect(),
                    shmem,
                };
                turns.push(member.owner.uid, subject);
            }
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
            self.thread.wake();
        }
    }
}

/// State of the sampling thread, which alone uses it.
struct Thread {
    /// Shared with the deciding thread.
    monitor: Arc<Monitor<Exchange>>,
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
    fn new(monitor: Arc<Monitor<Exchange>>, working_sets: bool, sharing: bool) -> Thread {
        Thread {
            monitor,
            working_sets: working_sets && referenced::is_noted().unwrap_or(true),
            shared: sharing.then(SharedMemory::new),
            subjects: Vec::new(),
            probes: Probes::new(),
        }
    }

    fn run(mut self) {
        while self.monitor.rest_while(ROUND, |exchange| !exchange.hurry) {
            self.refresh();
            self.time();
            if self.working_sets {
                self.sample();
            }
            if let Some(shared) = &mut self.shared
                && !shared.step(&self.monitor, &self.subjects, &mut self.probes)
            {
                return;
            }
            self.tell();
        }
    }

    /// Takes over the current principals.
    fn refresh(&mut self) {
        let mut exchange = self.monitor.lock();
        exchange.hurry = false;
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
        let now = clock::now();
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
                        files: FileWindow::default(),
                        touched: None,
                        ran: None,
                        lately: None,
                    },
                );
            }
        }
    }

    /// Reads how long the threads of each process ran and waited for a processor.
    fn time(&mut self) {
        let mut left = THREADS;
        for probe in self.probes.values_mut() {
            let threads = sched::threads(&probe.process, left).unwrap_or_default();
            left -= threads.len();
            // If the last thread that may be read was, there may be others.
            let all = (left > 0 && !threads.is_empty()).then_some(&threads);
            let ran = all.map(|threads| (sched::ran(&probe.process, threads), clock::now()));
            probe.note(ran, sched::processors(&probe.process));
        }
    }

    fn sample(&mut self) {
        let files = self.shared.is_some();
        for probe in self.probes.values_mut() {
            let now = clock::now();
            let clears = matches!(probe.sampler.schedule().step(now), Step::Clear);
            let (window, process) = (&mut probe.files, &probe.process);
            let read = &mut |step| window.read(process, step, files);
            match probe.sampler.step_by(process, now, read) {
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
        let mut exchange = self.monitor.lock();
        let is_news = |(id, new): (&Id, &Sampled)| {
            let old = exchange.found.get(id);
            old.is_none_or(|old| (old.shared, old.files) != (new.shared, new.files))
        };
        exchange.news = found.iter().any(is_news);
        exchange.found = found;
    }

    fn sampled(&self, subject: &Subject) -> Sampled {
        let probes = subject
            .processes
            .iter()
            .filter_map(|key| self.probes.get(key));
        let touched = probes.clone().filter_map(|probe| probe.touched);
        Sampled {
            working_set: touched.reduce(|one, other| one + other),
            wanted: wanted(probes.filter_map(|probe| probe.lately)),
            shared: self
                .shared
                .as_ref()
                .and_then(|shared| shared.pays(subject.id)),
            files: self
                .shared
                .as_ref()
                .map_or(Bytes::ZERO, |shared| shared.pays_for_files(subject.id)),
        }
    }
}
