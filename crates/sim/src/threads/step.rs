//! The next step of a running thread, and the effect of each event.

use super::error::SimError;
use super::ground::Ground;
use super::heap::{Kind, Place};
use super::log::{Log, What};
use super::machine::Machine;
use super::monitors::{Entry, Notifying, Waiting};
use super::objects::{MOST_EARLY, Refused};
use super::thread::{On, State};
use plimsoll_policy::phases::Used;
use plimsoll_trace::{Event, MonitorId, ObjectId, ThreadId};
use plimsoll_unit::{Bytes, Nanos};

/// The longest that a thread computes at once, nanoseconds: eleven days. A longer time is damaged, and would
/// take long to simulate, because it has that many more quanta.
const LONGEST_COMPUTE: u64 = 1_000_000_000_000_000;
/// The most quanta that a thread has yet to compute when it makes room for another one. A larger number is
/// damaged, or the quantum is a mistake: it would take minutes and more to simulate.
const MOST_QUANTA: u64 = 100_000_000;
/// How often room is looked for before a program fails. A heap that is let grow by a sixteenth each time is
/// larger than any memory by then.
const MOST_TRIES: u32 = 1024;
/// The priority of a Java thread that was given none.
const NORMAL_PRIORITY: i32 = 5;

impl<L: Log, G: Ground> Machine<'_, L, G> {
    /// One step of the thread that runs on a processor: it is preempted, computes, acquires the monitor that
    /// it waited for, or comes to the next event.
    pub(super) fn step(&mut self, which: usize) -> Result<(), SimError> {
        let Some(thread) = self.processors[which].running else {
            return Ok(());
        };
        let record = &mut self.threads[thread];
        if self.ready.quantum().is_used_up(record.used) {
            let quantum = self.ready.quantum().time.0;
            if record.computes > quantum.saturating_mul(MOST_QUANTA) && !self.ready.is_empty() {
                let (at, time) = (record.position(), record.computes);
                return Err(SimError::ManyQuanta { at, time, quantum });
            }
            let now = self.give_up(which);
            self.make_ready(thread, now);
            self.dispatch(now, Some(which));
        } else if record.computes > 0 {
            return self.compute(which, thread);
        } else if let Some((monitor, times)) = record.acquires.take() {
            self.enter(which, thread, monitor, times);
        } else {
            if !record.stream.has(0) {
                self.read_on(thread)?;
            }
            let record = &self.threads[thread];
            match record.stream.get(0) {
                Some(event) => return self.come_to(which, thread, event),
                None => self.cut(which, thread),
            }
        }
        Ok(())
    }

    /// Reads the next events of a thread, behind those that it has not come to.
    fn read_on(&mut self, thread: usize) -> Result<(), SimError> {
        let stream = &mut self.threads[thread].stream;
        let read = stream.read_on(|batch| self.program.read(thread, batch));
        read.map_err(SimError::Read)
    }

    /// The next event of a thread that it has not come to, computing aside (once at most).
    fn next_deed(&mut self, thread: usize) -> Result<Option<Event>, SimError> {
        for ahead in 0..2 {
            if !self.threads[thread].stream.has(ahead) {
                self.read_on(thread)?;
            }
            match self.threads[thread].stream.get(ahead) {
                Some(Event::Compute { .. }) => {}
                other => return Ok(other),
            }
        }
        Ok(None)
    }

    /// The thread computes until it is done or its quantum is used up.
    fn compute(&mut self, which: usize, thread: usize) -> Result<(), SimError> {
        if self.threads[thread].computes > self.ready.quantum().time.0 {
            self.compute_alone(which, thread);
        }
        let record = &mut self.threads[thread];
        let time = record
            .computes
            .min((self.ready.quantum().time - record.used.time).0);
        record.computes -= time;
        record.used.time += Nanos(time);
        self.tally.computed = self.tally.computed.saturating_add(time);
        let Some(clock) = self.processors[which].clock.checked_add(time) else {
            let at = self.position(thread);
            return Err(SimError::TooLong { at });
        };
        self.processors[which].clock = clock;
        self.log.happened(clock, What::Computed { thread, time });
        Ok(())
    }

    /// Takes at once all quanta in which the thread computes and no other thread can run: in them it only
    /// makes room and is dispatched again. The rest is at most one quantum, or comes after something else
    /// happens.
    fn compute_alone(&mut self, which: usize, thread: usize) {
        let quantum = self.ready.quantum().time.0;
        let clock = self.processors[which].clock;
        let record = &mut self.threads[thread];
        let left = (record.computes - 1) / quantum;
        let times = left.min(self.stretch.left(clock).saturating_sub(1) / quantum);
        let Some(slot) = record
            .slot
            .filter(|_| times > 0 && record.used == Used::default())
        else {
            return;
        };
        let used = Used {
            time: Nanos(quantum),
            bytes: Bytes::ZERO,
        };
        if !self.ready.runs_on(slot, used, times) {
            return;
        }
        let time = times * quantum;
        record.computes -= time;
        self.processors[which].clock = clock + time;
        self.tally.computed = self.tally.computed.saturating_add(time);
        self.tally.dispatches += times;
        if L::LISTENS {
            self.tell_quanta(which, thread, clock, times);
        }
    }

    /// Tells of quanta that were taken at once.
    fn tell_quanta(&mut self, which: usize, thread: usize, clock: u64, times: u64) {
        let dispatched = What::Dispatched {
            thread,
            processor: which,
        };
        let time = self.ready.quantum().time.0;
        for end in (1..=times).map(|done| clock + done * time) {
            self.log.happened(end, What::Computed { thread, time });
            self.log.happened(end, What::Ready { thread });
            self.log.happened(end, dispatched);
        }
    }

    fn come_to(&mut self, which: usize, thread: usize, event: Event) -> Result<(), SimError> {
        self.tally.events += 1;
        let record = &mut self.threads[thread];
        record.stream.come();
        let now = self.processors[which].clock;
        self.log.happened(now, What::Came { thread, event });
        match event {
            Event::Compute { time } if time > LONGEST_COMPUTE => {
                let at = self.position(thread);
                return Err(SimError::LongCompute { at, time });
            }
            Event::Compute { time } => self.threads[thread].computes = time,
            Event::Alloc { object, size, .. } => {
                return self.allocate(which, thread, object, size);
            }
            Event::Death { object } => return self.die(thread, object),
            Event::Stamp { order } => self.threads[thread].stream.turns(order),
            Event::Enter { monitor } => self.enter(which, thread, monitor, 1),
            Event::Exit { monitor } => return self.exit(which, thread, monitor),
            Event::Wait { monitor, timeout } => return self.wait(which, thread, monitor, timeout),
            Event::Notify { monitor, all } => return self.notify(thread, monitor, all),
            Event::Sleep { time } => self.block(which, thread, On::Time, Some(time)),
            Event::Park { timeout } => {
                if !std::mem::take(&mut self.threads[thread].permit) {
                    self.block(which, thread, On::Unpark, bound(timeout));
                }
            }
            Event::Unpark { thread: id } => {
                if let Some(other) = self.directory.index(id, self.position(thread))? {
                    self.unpark(other, now);
                }
            }
            Event::Start {
                thread: id,
                priority,
            } => return self.start_other(thread, id, priority, now),
            Event::Join { thread: id } => {
                let other = self.directory.index(id, self.position(thread))?;
                if let Some(other) = other.filter(|it| self.threads[*it].state != State::Ended) {
                    self.threads[other].joiners.push(thread);
                    self.block(which, thread, On::End(other), None);
                }
            }
            Event::End => {
                if let Some(monitor) = self.held_by(thread) {
                    let at = self.position(thread);
                    return Err(SimError::NeverReleased { at, monitor });
                }
                self.end(which, thread);
            }
            Event::Store { .. } | Event::StoreStatic { .. } | Event::Use { .. } => {
                let at = self.position(thread);
                return Err(SimError::Raw { at });
            }
        }
        Ok(())
    }

    /// A thread starts another one.
    fn start_other(
        &mut self,
        thread: usize,
        id: ThreadId,
        priority: u8,
        now: u64,
    ) -> Result<(), SimError> {
        let at = self.position(thread);
        let Some(other) = self.directory.index(id, at)? else {
            return Ok(());
        };
        if self.threads[other].state != State::New {
            return Err(SimError::StartedTwice { at, thread: id });
        }
        let priority = if self.settings.priorities {
            i32::from(priority) - NORMAL_PRIORITY
        } else {
            0
        };
        self.start(other, priority, now);
        self.dispatch(now, None);
        Ok(())
    }

    fn die(&mut self, thread: usize, object: ObjectId) -> Result<(), SimError> {
        let record = &self.threads[thread];
        if !self.heap.died(object, || record.position()) {
            let (at, most) = (self.position(thread), MOST_EARLY);
            return Err(SimError::ManyUnborn { at, object, most });
        }
        self.monitors.died(MonitorId(object.0));
        Ok(())
    }

    fn allocate(
        &mut self,
        which: usize,
        thread: usize,
        object: ObjectId,
        size: u64,
    ) -> Result<(), SimError> {
        let room = self.find_room(which, size);
        let record = &mut self.threads[thread];
        record.used.bytes += Bytes(size);
        record.run.allocate(size);
        let id = record.id;
        let born = room.and_then(|place| self.heap.born(id, object, size, place));
        born.map_err(|refused| self.refused(refused, thread, object, size))?;
        let clock = &mut self.processors[which].clock;
        let now = Nanos(*clock);
        let used = Bytes(self.heap.used());
        *clock = (now + self.ground.took(now, used, Bytes(size))).0;
        Ok(())
    }

    /// Room for an object, after as many collections as it takes.
    #[inline]
    fn find_room(&mut self, which: usize, size: u64) -> Result<Place, Refused> {
        match self.heap.room(size) {
            Some(place) => Ok(place),
            None => self.make_room(which, size),
        }
    }

    #[cold]
    fn make_room(&mut self, which: usize, size: u64) -> Result<Place, Refused> {
        let mut last = None;
        for _ in 0..MOST_TRIES {
            if last == Some(Kind::Full) {
                let heap = Bytes(self.heap.size());
                let larger = self.ground.is_full(heap, Bytes(size));
                self.heap.resize(larger.ok_or(Refused::TooSmall)?.0);
            } else {
                let collection = self.heap.collect(size, last.is_some());
                self.pause(which, collection);
                last = Some(collection.kind);
            }
            if let Some(place) = self.heap.room(size) {
                return Ok(place);
            }
        }
        Err(Refused::TooSmall)
    }

    #[cold]
    fn refused(&self, refused: Refused, thread: usize, object: ObjectId, size: u64) -> SimError {
        let at = self.position(thread);
        match refused {
            Refused::Dead(died) => SimError::DiedBefore {
                at,
                object,
                died: died.event,
            },
            Refused::Reborn => SimError::Reborn { at, object },
            Refused::TooMuch => SimError::TooMuch { at },
            Refused::TooSmall => SimError::HeapTooSmall {
                at,
                size,
                heap: self.heap.size(),
                live: self.heap.count.live,
                loses: self.settings.collector.loses(),
            },
        }
    }

    /// The thread enters a monitor `times` times at once, or contends for it.
    fn enter(&mut self, which: usize, thread: usize, monitor: MonitorId, times: u64) {
        match self.monitors.enter(monitor, thread, times) {
            Entry::Again => {}
            Entry::Acquired => self.threads[thread].holds += 1,
            Entry::Contended => {
                self.threads[thread].acquires = Some((monitor, times));
                self.tally.contentions += 1;
                self.charge(which, self.settings.costs.contention);
                self.block(which, thread, On::Monitor(monitor), None);
            }
        }
    }

    fn exit(&mut self, which: usize, thread: usize, monitor: MonitorId) -> Result<(), SimError> {
        match self.monitors.exit(monitor, thread) {
            None => return Err(self.not_held(thread, monitor, "exited")),
            Some(false) => {}
            Some(true) => {
                self.threads[thread].holds -= 1;
                self.wake_contenders(monitor, self.processors[which].clock);
            }
        }
        Ok(())
    }

    fn wait(
        &mut self,
        which: usize,
        thread: usize,
        monitor: MonitorId,
        timeout: u64,
    ) -> Result<(), SimError> {
        if !self.monitors.is_held_by(monitor, thread) {
            return Err(self.not_held(thread, monitor, "waited in"));
        }
        let next = self.next_deed(thread)?;
        let stream = &self.threads[thread].stream;
        let wait = Waiting {
            thread,
            since: stream.since(),
            until: stream.until(next),
        };
        let Some(depth) = self.monitors.wait(monitor, wait) else {
            self.tally.passed += 1;
            return Ok(());
        };
        let record = &mut self.threads[thread];
        record.acquires = Some((monitor, depth));
        record.holds -= 1;
        self.block(which, thread, On::Notify(monitor), bound(timeout));
        Ok(())
    }

    fn notify(&mut self, thread: usize, monitor: MonitorId, all: bool) -> Result<(), SimError> {
        if !self.monitors.is_held_by(monitor, thread) {
            return Err(self.not_held(thread, monitor, "notified"));
        }
        let stamp = self.threads[thread].stream.stamp();
        let by = Notifying { thread, stamp };
        for notified in self.monitors.notify(monitor, by, all) {
            self.threads[notified].state = State::Blocked(On::Monitor(monitor));
            self.cancel_timer(notified);
        }
        Ok(())
    }

    fn not_held(&self, thread: usize, monitor: MonitorId, what: &'static str) -> SimError {
        SimError::NotHeld {
            at: self.position(thread),
            monitor,
            what,
        }
    }

    /// A monitor that the thread holds.
    fn held_by(&self, thread: usize) -> Option<MonitorId> {
        match self.threads[thread].holds {
            0 => None,
            _ => self.monitors.any_held_by(thread),
        }
    }

    /// The recording stops within the thread. It gives up all monitors that it holds, so that the others get
    /// as far as they were recorded.
    fn cut(&mut self, which: usize, thread: usize) {
        while let Some(monitor) = self.held_by(thread) {
            while self.monitors.exit(monitor, thread) == Some(false) {}
            self.threads[thread].holds -= 1;
            self.wake_contenders(monitor, self.processors[which].clock);
        }
        self.tally.cut += 1;
        self.end(which, thread);
    }

    /// The thread is at the end of its stream.
    fn end(&mut self, which: usize, thread: usize) {
        let now = self.give_up(which);
        self.log.happened(now, What::Ended { thread });
        let record = &mut self.threads[thread];
        record.state = State::Ended;
        record.stream.end();
        self.tally.turnarounds.push(record.run.turnaround(now));
        let pauses = record.run.pauses(self.tally.paused);
        self.tally.pauses.extend(pauses);
        if let Some(slot) = record.slot.take() {
            self.ready.leave(slot);
        }
        for joiner in std::mem::take(&mut self.threads[thread].joiners) {
            self.make_ready(joiner, now);
        }
        self.dispatch(now, Some(which));
    }
}

/// The bound of a wait, nanoseconds. 0 is none, and so are more than 146 years: Java programs give
/// `Long.MAX_VALUE` for no bound.
fn bound(timeout: u64) -> Option<u64> {
    (1..1 << 62).contains(&timeout).then_some(timeout)
}
