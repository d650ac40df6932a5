//! Processors and time: which thread runs on which processor, and until when.
//!
//! Each processor has a clock of its own. The next event is the first of the timers or, if none is due before
//! it, the next step of the running thread whose processor's clock is lowest; among equal clocks, that of the
//! lower number. So all that threads share changes in the order of time, as on a machine.

use super::directory::Directory;
use super::error::{Position, SimError, Stuck};
use super::ground::{Collected, Ground};
use super::heap::Collection;
use super::log::{Log, What};
use super::monitors::Monitors;
use super::objects::Heap;
use super::outcome::Outcome;
use super::program::Program;
use super::ready::Ready;
use super::settings::Settings;
use super::stretch::Stretch;
use super::tally::Tally;
use super::thread::{On, Run, State, Thread};
use plimsoll_policy::phases::{ReadyQueue, Used};
use plimsoll_unit::{Bytes, Nanos};
use std::collections::BTreeSet;

/// One processor. Times are nanoseconds since the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Processor {
    /// How far it has got; while it is idle, when it can run a thread again.
    pub clock: u64,
    /// The thread that runs on it.
    pub running: Option<usize>,
    /// The thread that ran on it last.
    last: Option<usize>,
}

/// All of a simulation. Threads are indices of streams.
pub(super) struct Machine<'a, L, G> {
    pub program: &'a mut dyn Program,
    pub settings: &'a Settings,
    pub log: &'a mut L,
    pub threads: Vec<Thread>,
    pub directory: Directory,
    pub processors: Vec<Processor>,
    /// The threads that can run.
    pub ready: Ready,
    /// When threads stop to wait, and which.
    pub timers: BTreeSet<(u64, usize)>,
    pub monitors: Monitors,
    pub heap: Heap,
    /// The ground below the heap.
    pub ground: G,
    pub tally: Tally,
    /// Overheads that are less than a nanosecond and not charged yet, picoseconds.
    owed: u64,
    pub stretch: Stretch,
}

/// The next event.
enum Next {
    /// The timer of a thread.
    Timer(u64, usize),
    /// A step on a processor, and more of them as long as its clock is below this.
    Step(usize, u64),
    /// Nothing.
    Nothing,
}

impl<'a, L: Log, G: Ground> Machine<'a, L, G> {
    pub(super) fn new(
        program: &'a mut dyn Program,
        settings: &'a Settings,
        log: &'a mut L,
        ground: G,
    ) -> Result<Machine<'a, L, G>, SimError> {
        let streams = program.streams();
        let threads: Vec<Thread> = streams
            .iter()
            .map(|stream| Thread::new(stream.thread, stream.is_started))
            .collect();
        let ids = threads.iter().map(|thread| thread.id);
        let directory = Directory::new(ids, program.is_cut())?;
        let discipline = settings.rule.build(settings.quanta, settings.ties);
        let queue = ReadyQueue::new(discipline, settings.patience);
        Ok(Machine {
            program,
            settings,
            log,
            threads,
            directory,
            processors: vec![Processor::default(); settings.processors.max(1)],
            ready: Ready::new(queue),
            timers: BTreeSet::new(),
            monitors: Monitors::default(),
            heap: Heap::new(settings.collector, settings.heap.0, settings.new_ratio),
            ground,
            tally: Tally::default(),
            owed: 0,
            stretch: Stretch::default(),
        })
    }

    pub(super) fn run(mut self) -> Result<Outcome, SimError> {
        self.begin()?;
        self.advance(None)?;
        self.finish()
    }

    /// Starts the threads that nobody starts.
    pub(super) fn begin(&mut self) -> Result<(), SimError> {
        if self.threads.is_empty() {
            return Err(SimError::Empty);
        }
        for thread in 0..self.threads.len() {
            if !self.threads[thread].is_started {
                self.start(thread, 0, 0);
            }
        }
        self.dispatch(0, None);
        Ok(())
    }

    /// Goes on until nothing more happens before `until`, nanoseconds since the beginning, or at all.
    /// Returns when something happens next, if anything does.
    pub(super) fn advance(&mut self, until: Option<u64>) -> Result<Option<u64>, SimError> {
        let is_late = |time: u64| until.is_some_and(|until| time >= until);
        loop {
            match self.next() {
                Next::Timer(time, _) if is_late(time) => return Ok(Some(time)),
                Next::Timer(time, thread) => {
                    self.time_out(thread, time);
                    self.dispatch(time, None);
                }
                Next::Step(processor, horizon) => {
                    let clock = self.processors[processor].clock;
                    if is_late(clock) {
                        return Ok(Some(clock));
                    }
                    self.stretch = Stretch::until(horizon.min(until.unwrap_or(u64::MAX)));
                    loop {
                        self.step(processor)?;
                        if self.stretch.is_over(self.processors[processor].clock) {
                            break;
                        }
                    }
                }
                Next::Nothing if self.help() => {}
                Next::Nothing => return Ok(None),
            }
        }
    }

    /// The next event. The horizon of a step is the time of the event after it; a processor of a lower number
    /// than another one goes first at that time itself.
    fn next(&self) -> Next {
        let running = |which: &usize| self.processors[*which].running.is_some();
        let clock = |which: usize| self.processors[which].clock;
        let first = (0..self.processors.len())
            .filter(running)
            .min_by_key(|&which| clock(which));
        let timer = self.timers.first().copied();
        match (first, timer) {
            (None, None) => Next::Nothing,
            (None, Some((time, thread))) => Next::Timer(time, thread),
            (Some(which), Some((time, thread))) if time <= clock(which) => {
                Next::Timer(time, thread)
            }
            (Some(which), _) => {
                let others = (0..self.processors.len()).filter(running);
                let horizon = others
                    .filter(|&other| other != which)
                    .map(|other| clock(other).saturating_add(u64::from(which < other)))
                    .chain(timer.map(|(time, _)| time))
                    .min();
                Next::Step(which, horizon.unwrap_or(u64::MAX))
            }
        }
    }

    /// The event that a thread came to last.
    pub(super) fn position(&self, thread: usize) -> Position {
        self.threads[thread].position()
    }

    /// Starts a thread.
    pub(super) fn start(&mut self, thread: usize, priority: i32, now: u64) {
        let slot = self.ready.admit(thread, priority);
        let record = &mut self.threads[thread];
        record.slot = Some(slot);
        record.run = Run::begin(now, self.tally.paused);
        self.make_ready(thread, now);
    }

    /// A thread can run.
    pub(super) fn make_ready(&mut self, thread: usize, now: u64) {
        let record = &mut self.threads[thread];
        record.state = State::Ready;
        record.ready_since = (self.tally.dispatches, now);
        if let Some(slot) = record.slot {
            self.ready.insert(slot, record.used);
        }
        self.log.happened(now, What::Ready { thread });
        self.stretch.disturb();
    }

    /// Gives idle processors ready threads: `first` before the others, which come by their number.
    pub(super) fn dispatch(&mut self, now: u64, first: Option<usize>) {
        let others = (0..self.processors.len()).filter(|which| Some(*which) != first);
        for which in first.into_iter().chain(others) {
            if self.ready.is_empty() {
                return;
            }
            if self.processors[which].running.is_some() {
                continue;
            }
            if let Some(thread) = self.ready.dispatch() {
                self.give(which, thread, now);
            }
        }
    }

    /// Gives an idle processor to a thread.
    fn give(&mut self, which: usize, thread: usize, now: u64) {
        let record = &mut self.threads[thread];
        record.state = State::Running;
        record.used = Used::default();
        let (dispatches, since) = record.ready_since;
        let processor = &mut self.processors[which];
        processor.clock = processor.clock.max(now).max(since);
        processor.running = Some(thread);
        let last = processor.last.replace(thread);
        let tally = &mut self.tally;
        let waited = processor.clock - since;
        tally.longest_wait = tally.longest_wait.max(tally.dispatches - dispatches);
        tally.longest_wait_time = tally.longest_wait_time.max(waited);
        tally.dispatches += 1;
        if last.is_some_and(|last| last != thread) {
            tally.switches += 1;
            self.charge(which, self.settings.costs.switch);
        }
        let time = self.processors[which].clock;
        let what = What::Dispatched {
            thread,
            processor: which,
        };
        self.log.happened(time, what);
        self.stretch.disturb();
    }

    /// The thread on a processor leaves it; another one gets it. Returns the time.
    pub(super) fn give_up(&mut self, which: usize) -> u64 {
        self.processors[which].running = None;
        self.stretch.disturb();
        self.processors[which].clock
    }

    /// Turns picoseconds into whole nanoseconds, and keeps the rest for the next time.
    fn whole(&mut self, picoseconds: u128) -> u64 {
        let sum = picoseconds + u128::from(self.owed);
        self.owed = (sum % 1000) as u64;
        u64::try_from(sum / 1000).unwrap_or(u64::MAX)
    }

    /// A processor is busy with something that is no thread's work.
    pub(super) fn charge(&mut self, which: usize, picoseconds: u64) {
        let time = self.whole(u128::from(picoseconds));
        let clock = &mut self.processors[which].clock;
        *clock = clock.saturating_add(time);
    }

    /// All processors stop for a collection that begins on one of them.
    pub(super) fn pause(&mut self, which: usize, collection: Collection) {
        let now = self.processors[which].clock;
        self.log.happened(now, What::Collected(collection));
        let pause = self.whole(self.settings.costs.pause(&collection));
        let count = &self.heap.count;
        let collected = Collected {
            collection,
            pause: Nanos(pause),
            used: Bytes(self.heap.used()),
            live: Bytes(count.live),
            allocated: Bytes(count.allocated),
        };
        let told = self.ground.collected(Nanos(now), &collected);
        if let Some(heap) = told.heap {
            self.heap.resize(heap.0);
        }
        let pause = pause.saturating_add(told.waited.0);
        self.tally.paused = self.tally.paused.saturating_add(pause);
        self.tally.greatest_pause = self.tally.greatest_pause.max(pause);
        for processor in &mut self.processors {
            let from = match processor.running {
                Some(_) => processor.clock,
                None => processor.clock.max(now),
            };
            processor.clock = from.saturating_add(pause);
        }
        self.stretch.disturb();
    }

    /// The outcome, when nothing can happen any more.
    pub(super) fn finish(self) -> Result<Outcome, SimError> {
        let stuck: Vec<Stuck> = (0..self.threads.len())
            .filter_map(|thread| self.stuck(thread))
            .collect();
        if !stuck.is_empty() {
            return Err(SimError::Deadlock { stuck });
        }
        if let Some(new) = self.threads.iter().find(|t| t.state == State::New) {
            return Err(SimError::NeverStarted(new.id));
        }
        if !self.directory.is_cut()
            && let Some((object, at, count)) = self.heap.never_born()
        {
            return Err(SimError::NeverBorn { at, object, count });
        }
        Ok(self.outcome())
    }

    /// The outcome of the program so far.
    pub(super) fn outcome(&self) -> Outcome {
        let elapsed = self.processors.iter().map(|p| p.clock).max().unwrap_or(0);
        Outcome::new(&self.tally, &self.heap, elapsed, self.settings)
    }

    /// The reason why a blocked thread waits.
    fn stuck(&self, thread: usize) -> Option<Stuck> {
        let State::Blocked(on) = self.threads[thread].state else {
            return None;
        };
        let id = |thread: usize| self.threads[thread].id;
        Some(Stuck {
            at: self.position(thread),
            monitor: match on {
                On::Monitor(monitor) | On::Notify(monitor) => {
                    Some((monitor, self.monitors.holder(monitor).map(id)))
                }
                _ => None,
            },
            thread: match on {
                On::End(other) => Some(id(other)),
                _ => None,
            },
        })
    }
}
