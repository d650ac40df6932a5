//! The simulator once more, as its documentation says it and as slowly as that: objects one by one in spaces,
//! queues that are searched, one step at a time.

use crate::reference_heap::{Heap, Object, heap};
use crate::reference_monitors::{Monitor, since, stamp, until};
use crate::reference_numbers::Numbers;
use crate::reference_rules::Literal;
use plimsoll_policy::phases::Used;
use plimsoll_sim::threads::heap::Kind;
use plimsoll_sim::threads::{Quartiles, Settings, What};
use plimsoll_trace::{Event, MonitorId, ObjectId, ThreadId};
use plimsoll_unit::{Bytes, Nanos};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    New,
    Ready,
    Running,
    Contends(MonitorId),
    Waits(MonitorId),
    Joins(usize),
    Parked,
    Sleeps,
    Ended,
}

struct Thread {
    place: Place,
    next: usize,
    used: Used,
    computes: u64,
    acquires: Option<(MonitorId, u64)>,
    permit: bool,
    timer: Option<u64>,
    rank: u64,
    arrival: u64,
    dispatches_before: u64,
    priority: i32,
    ready_at: u64,
    started: u64,
    paused_before: u64,
    allocated: u64,
}

pub(crate) struct Reference<'a> {
    streams: &'a [Vec<Event>],
    is_cut: bool,
    settings: &'a Settings,
    rule: Literal,
    heap: Box<dyn Heap>,
    dead_early: Vec<ObjectId>,
    threads: Vec<Thread>,
    /// Clock, running thread, last thread.
    processors: Vec<(u64, Option<usize>, Option<usize>)>,
    monitors: BTreeMap<MonitorId, Monitor>,
    arrivals: u64,
    picoseconds: u128,
    turnarounds: Vec<u64>,
    pauses: Vec<f64>,
    pub(crate) log: Vec<(u64, What)>,
    pub(crate) numbers: Numbers,
}

impl<'a> Reference<'a> {
    pub(crate) fn new(
        streams: &'a [Vec<Event>],
        is_cut: bool,
        settings: &'a Settings,
    ) -> Reference<'a> {
        let rule = Literal {
            rule: settings.rule,
            quanta: settings.quanta,
            ties: settings.ties,
        };
        let thread = |_| Thread {
            place: Place::New,
            next: 0,
            used: Used::default(),
            computes: 0,
            acquires: None,
            permit: false,
            timer: None,
            rank: 0,
            arrival: 0,
            dispatches_before: 0,
            priority: 0,
            ready_at: 0,
            started: 0,
            paused_before: 0,
            allocated: 0,
        };
        Reference {
            streams,
            is_cut,
            settings,
            rule,
            heap: heap(settings.collector, settings.heap.0, settings.new_ratio),
            dead_early: Vec::new(),
            threads: (0..streams.len()).map(thread).collect(),
            processors: vec![(0, None, None); settings.processors],
            monitors: BTreeMap::new(),
            arrivals: 0,
            picoseconds: 0,
            turnarounds: Vec::new(),
            pauses: Vec::new(),
            log: Vec::new(),
            numbers: Numbers::default(),
        }
    }

    /// Runs to the end, or to the name of an error.
    pub(crate) fn run(&mut self) -> Result<(), &'static str> {
        for thread in 0..self.threads.len() {
            let starts = |event: &Event| match event {
                Event::Start { thread: id, .. } => id.0 as usize == thread,
                _ => false,
            };
            if !self.streams.iter().flatten().any(starts) {
                self.ready(thread, 0, true);
            }
        }
        self.dispatch(0, None);
        loop {
            let timers = (0..self.threads.len()).filter_map(|t| Some((self.threads[t].timer?, t)));
            let timer = timers.min();
            let running = (0..self.processors.len()).filter(|&p| self.processors[p].1.is_some());
            let first = running.map(|p| (self.processors[p].0, p)).min();
            match (timer, first) {
                (None, None) if !self.help() => break,
                (None, None) => {}
                (Some((time, thread)), first) if first.is_none_or(|(clock, _)| time <= clock) => {
                    self.wake(thread, time);
                    self.dispatch(time, None);
                }
                (_, Some((_, processor))) => self.step(processor)?,
                _ => unreachable!("one of the two is there"),
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<(), &'static str> {
        if self
            .threads
            .iter()
            .any(|t| !matches!(t.place, Place::New | Place::Ended))
        {
            return Err("deadlock");
        }
        if self.threads.iter().any(|t| t.place == Place::New) {
            return Err("never started");
        }
        if !self.is_cut && !self.dead_early.is_empty() {
            return Err("never born");
        }
        self.numbers.heap.unborn = self.dead_early.len() as u64;
        self.numbers.times.thread_pauses = Quartiles::of(&self.pauses);
        self.numbers.times.execution =
            self.numbers.times.computed + (self.picoseconds / 1000) as u64;
        self.numbers.times.elapsed = self.processors.iter().map(|p| p.0).max().unwrap();
        let sum: u64 = self.turnarounds.iter().sum();
        self.numbers.times.turnaround = sum / self.turnarounds.len() as u64;
        let objects = self.heap.objects().into_iter();
        self.numbers.heap.live = objects.filter(|it| it.live).map(|it| it.size).sum();
        self.numbers.heap.fragmented.0 = self.heap.fragmented();
        Ok(())
    }

    fn help(&mut self) -> bool {
        let stuck = |t: &Thread| matches!(t.place, Place::Waits(_) | Place::Parked);
        let early = |t: &Thread| match t.place {
            Place::Joins(other) => self.threads[other].place == Place::New,
            _ => false,
        };
        let first = self.threads.iter().position(stuck);
        let Some(thread) = first.or_else(|| self.threads.iter().position(early)) else {
            return false;
        };
        let now = self.processors.iter().map(|p| p.0).max().unwrap();
        self.numbers.schedule.helped += 1;
        self.wake(thread, now);
        self.dispatch(now, None);
        true
    }

    fn wake(&mut self, thread: usize, now: u64) {
        if let Place::Waits(monitor) = self.threads[thread].place {
            let monitor = self.monitors.get_mut(&monitor).unwrap();
            monitor.waiters.retain(|&waiter| waiter != thread);
        }
        self.ready(thread, now, false);
    }

    fn ready(&mut self, thread: usize, now: u64, is_new: bool) {
        self.arrivals += 1;
        let record = &mut self.threads[thread];
        record.timer = None;
        record.place = Place::Ready;
        record.rank = self.rule.rank(record.rank, record.used);
        record.arrival = self.arrivals;
        record.dispatches_before = self.numbers.schedule.dispatches;
        record.ready_at = now;
        if is_new {
            record.started = now;
            record.paused_before = self.numbers.times.paused.0;
        }
        self.log.push((now, What::Ready { thread }));
    }

    fn choose(&self) -> Option<usize> {
        let ready: Vec<usize> = (0..self.threads.len())
            .filter(|&t| self.threads[t].place == Place::Ready)
            .collect();
        let alive = |t: &&Thread| !matches!(t.place, Place::New | Place::Ended);
        let alive = self.threads.iter().filter(alive).count() as u64;
        let patience = u64::from(self.settings.patience) * alive;
        let oldest = *ready.iter().min_by_key(|&&t| self.threads[t].arrival)?;
        if self.numbers.schedule.dispatches - self.threads[oldest].dispatches_before >= patience {
            return Some(oldest);
        }
        let sign = if self.rule.newest_first() { -1 } else { 1 };
        ready.into_iter().min_by_key(|&t| {
            let record = &self.threads[t];
            (-record.priority, record.rank, sign * record.arrival as i64)
        })
    }

    fn dispatch(&mut self, now: u64, first: Option<usize>) {
        let mut order: Vec<usize> = first.into_iter().collect();
        order.extend((0..self.processors.len()).filter(|&p| Some(p) != first));
        for processor in order {
            if self.processors[processor].1.is_some() {
                continue;
            }
            let Some(thread) = self.choose() else { return };
            let record = &mut self.threads[thread];
            let passed_over = self.numbers.schedule.dispatches - record.dispatches_before;
            self.numbers.schedule.dispatches += 1;
            record.place = Place::Running;
            record.used = Used::default();
            let (clock, running, last) = &mut self.processors[processor];
            *clock = now.max(*clock).max(record.ready_at);
            let (dispatches, time) = &mut self.numbers.schedule.longest_wait;
            *dispatches = passed_over.max(*dispatches);
            *time = (*clock - record.ready_at).max(*time);
            *running = Some(thread);
            let is_switch = last.is_some_and(|last| last != thread);
            *last = Some(thread);
            if is_switch {
                self.numbers.schedule.switches += 1;
                self.charge(processor, self.settings.costs.switch);
            }
            let clock = self.processors[processor].0;
            self.log
                .push((clock, What::Dispatched { thread, processor }));
        }
    }

    /// The next whole nanoseconds of all overheads so far.
    fn whole(&mut self, picoseconds: u64) -> u64 {
        let before = self.picoseconds / 1000;
        self.picoseconds += u128::from(picoseconds);
        (self.picoseconds / 1000 - before) as u64
    }

    fn charge(&mut self, processor: usize, picoseconds: u64) {
        self.processors[processor].0 += self.whole(picoseconds);
    }

    fn leave(&mut self, processor: usize) -> u64 {
        self.processors[processor].1 = None;
        self.processors[processor].0
    }

    fn step(&mut self, processor: usize) -> Result<(), &'static str> {
        let (clock, running, _) = self.processors[processor];
        let thread = running.unwrap();
        let record = &mut self.threads[thread];
        if self.rule.is_over(record.used) {
            let now = self.leave(processor);
            self.ready(thread, now, false);
            self.dispatch(now, Some(processor));
        } else if record.computes > 0 {
            let time = record.computes.min(self.rule.time() - record.used.time.0);
            record.computes -= time;
            record.used.time += Nanos(time);
            self.processors[processor].0 += time;
            self.numbers.times.computed += time;
            self.log
                .push((clock + time, What::Computed { thread, time }));
        } else if let Some((monitor, times)) = record.acquires.take() {
            self.enter(processor, thread, monitor, times);
        } else if let Some(&event) = self.streams[thread].get(record.next) {
            record.next += 1;
            self.log.push((clock, What::Came { thread, event }));
            self.come_to(processor, thread, event)?;
        } else {
            self.cut(processor, thread)?;
        }
        Ok(())
    }

    fn cut(&mut self, processor: usize, thread: usize) -> Result<(), &'static str> {
        let now = self.processors[processor].0;
        let held = |(id, it): (&MonitorId, &Monitor)| (it.holder == Some(thread)).then_some(*id);
        let held: Vec<MonitorId> = self.monitors.iter().filter_map(held).collect();
        for monitor in held {
            let record = self.held(monitor, thread)?;
            (record.holder, record.depth) = (None, 0);
            self.release(monitor, now);
            self.dispatch(now, None);
        }
        self.numbers.schedule.cut += 1;
        self.end(processor, thread)
    }

    /// The index of a thread that an event names; nothing if it is lost.
    fn named(&self, thread: ThreadId) -> Result<Option<usize>, &'static str> {
        let index = thread.0 as usize;
        match index < self.threads.len() {
            true => Ok(Some(index)),
            false if self.is_cut => Ok(None),
            false => Err("no thread"),
        }
    }

    fn come_to(
        &mut self,
        processor: usize,
        thread: usize,
        event: Event,
    ) -> Result<(), &'static str> {
        let now = self.processors[processor].0;
        match event {
            Event::Compute { time } => self.threads[thread].computes = time,
            Event::Alloc { object, size, .. } => self.allocate(processor, thread, object, size)?,
            Event::Death { object } => self.die(object),
            Event::Enter { monitor } => self.enter(processor, thread, monitor, 1),
            Event::Exit { monitor } => {
                let record = self.held(monitor, thread)?;
                record.depth -= 1;
                if record.depth == 0 {
                    record.holder = None;
                    self.release(monitor, now);
                    self.dispatch(now, None);
                }
            }
            Event::Wait { monitor, timeout } => self.wait(processor, thread, monitor, timeout)?,
            Event::Notify { monitor, all } => self.notify(thread, monitor, all)?,
            Event::Sleep { time } => self.block(processor, thread, Place::Sleeps, Some(now + time)),
            Event::Park { timeout } => {
                let timer = is_bound(timeout).then(|| now + timeout);
                if !std::mem::take(&mut self.threads[thread].permit) {
                    self.block(processor, thread, Place::Parked, timer);
                }
            }
            Event::Unpark { thread: other } => {
                let Some(other) = self.named(other)? else {
                    return Ok(());
                };
                if self.threads[other].place == Place::Parked {
                    self.ready(other, now, false);
                    self.dispatch(now, None);
                } else {
                    self.threads[other].permit = true;
                }
            }
            Event::Start {
                thread: other,
                priority,
            } => self.start(other, priority, now)?,
            Event::Join { thread: other } => {
                let Some(other) = self.named(other)? else {
                    return Ok(());
                };
                if self.threads[other].place != Place::Ended {
                    self.block(processor, thread, Place::Joins(other), None);
                }
            }
            Event::Stamp { .. } => {}
            Event::End => {
                if self.monitors.values().any(|m| m.holder == Some(thread)) {
                    return Err("never released");
                }
                self.end(processor, thread)?;
            }
            other => panic!("these tests make no {}", other.name()),
        }
        Ok(())
    }

    fn start(&mut self, other: ThreadId, priority: u8, now: u64) -> Result<(), &'static str> {
        let Some(other) = self.named(other)? else {
            return Ok(());
        };
        if self.threads[other].place != Place::New {
            return Err("started twice");
        }
        if self.settings.priorities {
            self.threads[other].priority = i32::from(priority) - 5;
        }
        self.ready(other, now, true);
        self.dispatch(now, None);
        Ok(())
    }

    fn end(&mut self, processor: usize, thread: usize) -> Result<(), &'static str> {
        let now = self.leave(processor);
        self.log.push((now, What::Ended { thread }));
        let record = &self.threads[thread];
        if record.allocated > 0 {
            let paused = self.numbers.times.paused.0 - record.paused_before;
            self.pauses.push(paused as f64 / record.allocated as f64);
        }
        self.threads[thread].place = Place::Ended;
        self.turnarounds.push(now - self.threads[thread].started);
        // The first one to wait is the first to be ready: by the order of the log.
        let blocked = |log: &[(u64, What)], who: usize| {
            log.iter()
                .rposition(|(_, what)| *what == What::Blocked { thread: who })
        };
        let mut joiners: Vec<usize> = (0..self.threads.len())
            .filter(|&t| self.threads[t].place == Place::Joins(thread))
            .collect();
        joiners.sort_by_key(|&who| blocked(&self.log, who));
        for joiner in joiners {
            self.ready(joiner, now, false);
        }
        self.dispatch(now, Some(processor));
        Ok(())
    }

    fn allocate(
        &mut self,
        processor: usize,
        thread: usize,
        id: ObjectId,
        size: u64,
    ) -> Result<(), &'static str> {
        let early = self.dead_early.iter().position(|&dead| dead == id);
        let object = Object {
            id,
            size,
            live: early.is_none(),
        };
        let mut last = None;
        while !self.heap.place(object) {
            if last == Some(Kind::Full) {
                return Err("heap");
            }
            let collection = self.heap.collect(size, last.is_some());
            last = Some(collection.kind);
            let fragmented = self.heap.fragmented();
            self.numbers.heap.collected(&collection, fragmented);
            let now = self.processors[processor].0;
            self.log.push((now, What::Collected(collection)));
            let costs = self.settings.costs;
            let pause = self.whole(
                (collection.work - collection.marked) * costs.copied_byte
                    + collection.marked * costs.marked_byte
                    + collection.compacted * costs.compacted_byte
                    + collection.swept * costs.swept_byte,
            );
            self.numbers.times.paused(pause);
            for (clock, running, _) in &mut self.processors {
                if running.is_none() {
                    *clock = (*clock).max(now);
                }
                *clock += pause;
            }
        }
        if let Some(early) = early {
            self.dead_early.swap_remove(early);
        }
        self.numbers.heap.allocated += size;
        self.threads[thread].allocated += size;
        self.threads[thread].used.bytes += Bytes(size);
        let live = self.heap.objects().into_iter().filter(|it| it.live);
        let live: u64 = live.map(|it| it.size).sum();
        self.numbers.heap.largest_live = self.numbers.heap.largest_live.max(live);
        Ok(())
    }

    fn die(&mut self, id: ObjectId) {
        // Nobody comes back to the monitor of a dead object.
        self.monitors.retain(|monitor, it| {
            monitor.0 != id.0 || it.holder.is_some() || !it.waiters.is_empty()
        });
        let mut objects = self.heap.objects().into_iter();
        match objects.find(|object| object.id == id && object.live) {
            Some(object) => object.live = false,
            None => self.dead_early.push(id),
        }
    }

    fn held(&mut self, monitor: MonitorId, thread: usize) -> Result<&mut Monitor, &'static str> {
        let record = self.monitors.entry(monitor).or_default();
        if record.holder == Some(thread) {
            Ok(record)
        } else {
            Err("not held")
        }
    }

    fn enter(&mut self, processor: usize, thread: usize, monitor: MonitorId, times: u64) {
        let record = self.monitors.entry(monitor).or_default();
        if record.holder.is_none_or(|holder| holder == thread) {
            record.holder = Some(thread);
            record.depth += times;
            return;
        }
        record.contenders.push(thread);
        self.threads[thread].acquires = Some((monitor, times));
        self.numbers.schedule.contentions += 1;
        self.charge(processor, self.settings.costs.contention);
        self.block(processor, thread, Place::Contends(monitor), None);
    }

    fn block(&mut self, processor: usize, thread: usize, place: Place, timer: Option<u64>) {
        let now = self.leave(processor);
        self.threads[thread].place = place;
        self.threads[thread].timer = timer;
        self.log.push((now, What::Blocked { thread }));
        if let Place::Waits(monitor) = place {
            self.release(monitor, now);
        }
        self.dispatch(now, Some(processor));
    }

    fn release(&mut self, monitor: MonitorId, now: u64) {
        let record = self.monitors.get_mut(&monitor).unwrap();
        for contender in std::mem::take(&mut record.contenders) {
            self.ready(contender, now, false);
        }
    }

    fn wait(
        &mut self,
        processor: usize,
        thread: usize,
        monitor: MonitorId,
        timeout: u64,
    ) -> Result<(), &'static str> {
        let now = self.processors[processor].0;
        let (stream, wait) = (&self.streams[thread], self.threads[thread].next - 1);
        let (since, until) = (since(&stream[..wait]), until(stream, wait));
        let record = self.held(monitor, thread)?;
        if record.passes(thread, since, until) {
            self.numbers.schedule.passed += 1;
            return Ok(());
        }
        record.waiters.push(thread);
        record.holder = None;
        let depth = std::mem::take(&mut record.depth);
        self.threads[thread].acquires = Some((monitor, depth));
        let timer = is_bound(timeout).then(|| now + timeout);
        self.block(processor, thread, Place::Waits(monitor), timer);
        Ok(())
    }

    fn notify(&mut self, thread: usize, monitor: MonitorId, all: bool) -> Result<(), &'static str> {
        let stamp = stamp(&self.streams[thread][..self.threads[thread].next]);
        let record = self.held(monitor, thread)?;
        for waiter in record.notify(thread, stamp, all) {
            self.threads[waiter].place = Place::Contends(monitor);
            self.threads[waiter].timer = None;
        }
        Ok(())
    }
}

/// Whether a wait has a bound: not 0, and less than 146 years.
fn is_bound(timeout: u64) -> bool {
    timeout > 0 && timeout < 1 << 62
}
