//! Time: which program goes on, and what happens between its slices.
//!
//! The program that is furthest behind goes on for a slice, and never beyond the next thing that concerns
//! others: an arrival, an end, a hog's block, memory given back, a look of the broker, a point of the record.
//! Among programs that are equally far, the first goes on. So all happens in the order of time, to the length
//! of a slice, and in the same order in each run.

use super::broker::{Broker, Order, Word};
use super::hog::Taking;
use super::outcome::{self, Outcome, Point, Waits};
use super::record::{Pace, Record, thin};
use super::seat::{Below, Room};
use super::settings::{Entrant, Refusal, Setup};
use crate::paging::Wait;
use crate::threads::{self, Log, Program, Running, SimError};
use plimsoll_unit::{Bytes, Nanos};
use std::cell::RefCell;
use std::rc::Rc;

/// How long a program goes on before others do that are behind it.
const SLICE: Nanos = Nanos::millis(1);

/// Why several programs have no outcome.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{name}: {source}")]
    Program { name: String, source: SimError },
    #[error(transparent)]
    Broker(#[from] plimsoll_decide::Refusal),
}

/// Where a program is.
enum Stage<'a, L> {
    /// Only while it goes from one to the next.
    Between,
    /// It has not begun.
    Before(&'a mut dyn Program, &'a mut L),
    /// It runs. When it does something next, since its own beginning.
    Runs(Box<Running<'a, L, Below>>, Nanos),
    /// It is over. When, since the beginning of all, and whether it was stopped.
    Over(Box<threads::Outcome>, Nanos, bool),
}

/// All of a simulation.
pub(super) struct World<'a, L> {
    setup: &'a Setup,
    room: Rc<RefCell<Room>>,
    stages: Vec<Stage<'a, L>>,
    records: Vec<Record>,
    broker: Option<Broker>,
    hogs: Vec<Taking>,
    pace: Pace,
    now: Nanos,
    outcome: Outcome,
    /// Scratch memory of a look.
    words: Vec<(usize, Word)>,
}

impl<'a, L: Log> World<'a, L> {
    pub(super) fn new(
        setup: &'a Setup,
        programs: Vec<(&'a mut dyn Program, &'a mut L)>,
    ) -> Result<World<'a, L>, Error> {
        setup.check()?;
        let (entrants, count) = (setup.entrants.len(), programs.len());
        if entrants != count {
            let programs = count;
            return Err(Refusal::Unequal { entrants, programs }.into());
        }
        let stages = programs.into_iter();
        let block = setup.block();
        Ok(World {
            setup,
            room: Rc::new(RefCell::new(Room::new(setup))),
            stages: stages.map(|(it, log)| Stage::Before(it, log)).collect(),
            records: vec![Record::default(); setup.entrants.len()],
            broker: Broker::new(setup.policy, setup.entrants.len()),
            hogs: setup
                .hogs
                .iter()
                .map(|hog| Taking::new(*hog, block))
                .collect(),
            pace: Pace::new(),
            now: Nanos::ZERO,
            outcome: Outcome {
                policy: setup.policy,
                memory: setup.memory.0,
                block: block.0,
                ended: 0,
                most_granted: 0,
                ticks: 0,
                programs: Vec::new(),
                hogs: Vec::new(),
            },
            words: Vec::new(),
        })
    }

    pub(super) fn run(mut self) -> Result<Outcome, Error> {
        while !self.stages.iter().all(|it| matches!(it, Stage::Over(..))) {
            let due = self.due();
            match self.behind() {
                Some((index, at)) if at < due => self.slice(index, at, due)?,
                _ => self.at(due)?,
            }
        }
        self.point();
        Ok(self.finish())
    }

    /// The running program that is furthest behind, and when it does something next.
    fn behind(&self) -> Option<(usize, Nanos)> {
        let running = self.stages.iter().enumerate().filter_map(|(index, stage)| {
            let Stage::Runs(_, next) = stage else {
                return None;
            };
            Some((index, self.on_clock(index, *next)))
        });
        running.min_by_key(|(_, at)| *at)
    }

    /// A program's own time on the clock of all.
    fn on_clock(&self, index: usize, time: Nanos) -> Nanos {
        self.setup.entrants[index].start + time
    }

    /// When the next thing happens that concerns others.
    fn due(&self) -> Nanos {
        let entrants = self.stages.iter().zip(&self.setup.entrants);
        let ends = entrants.filter_map(|(stage, entrant)| match stage {
            Stage::Before(..) => Some(entrant.start),
            Stage::Runs(..) => entrant.stop,
            Stage::Between | Stage::Over(..) => None,
        });
        let hogs = self.hogs.iter().filter_map(Taking::due);
        let release = self.room.borrow().next_release();
        let looks = self.broker.as_ref().map(|broker| broker.due());
        let all = ends.chain(hogs).chain(release).chain(looks);
        all.fold(self.pace.due(), Nanos::min)
    }

    /// A program goes on, at most until `due`.
    fn slice(&mut self, index: usize, at: Nanos, due: Nanos) -> Result<(), Error> {
        let start = self.setup.entrants[index].start;
        let until = (at + SLICE).min(due) - start;
        let Stage::Runs(running, next) = &mut self.stages[index] else {
            return Ok(());
        };
        match running.advance(until) {
            Ok(Some(time)) => {
                *next = time;
                Ok(())
            }
            Ok(None) => self.over(index, false, at),
            Err(source) => Err(self.failed(index, source)),
        }
    }

    fn failed(&self, index: usize, source: SimError) -> Error {
        Error::Program {
            name: self.setup.entrants[index].name.clone(),
            source,
        }
    }

    /// All that happens at a time.
    fn at(&mut self, now: Nanos) -> Result<(), Error> {
        self.now = now;
        if self.room.borrow_mut().release(now) {
            self.note();
        }
        self.step_hogs();
        for index in 0..self.stages.len() {
            let Entrant { start, stop, .. } = self.setup.entrants[index];
            match self.stages[index] {
                Stage::Before(..) if start <= now => self.begin(index)?,
                Stage::Runs(..) if stop.is_some_and(|stop| stop <= now) => {
                    self.over(index, true, now)?;
                }
                _ => {}
            }
        }
        self.look();
        if self.pace.due() <= now {
            self.point();
        }
        Ok(())
    }

    fn step_hogs(&mut self) {
        let mut room = self.room.borrow_mut();
        for hog in &mut self.hogs {
            while hog.due().is_some_and(|due| due <= self.now) {
                hog.step(self.now, &mut room.memory);
            }
        }
    }

    fn held(&self) -> Bytes {
        let blocks: u64 = self.hogs.iter().map(Taking::holds).sum();
        self.setup.block() * blocks
    }

    /// A program begins.
    fn begin(&mut self, index: usize) -> Result<(), Error> {
        let room = Rc::clone(&self.room);
        let entrant = &self.setup.entrants[index];
        let stage = std::mem::replace(&mut self.stages[index], Stage::Between);
        let Stage::Before(program, log) = stage else {
            return Ok(());
        };
        let below = Below { room, seat: index };
        let mut running = Running::new(program, &entrant.settings, log, below)
            .map_err(|source| self.failed(index, source))?;
        running.resize(self.room.borrow().seats[index].heap.size());
        self.stages[index] = Stage::Runs(Box::new(running), Nanos::ZERO);
        self.records[index].begin(self.now);
        if let Some(broker) = &mut self.broker {
            broker.join(index, entrant, self.now)?;
        }
        Ok(())
    }

    /// A program is over: at its end, or because it is stopped. `at` is a time that it has reached.
    fn over(&mut self, index: usize, stopped: bool, at: Nanos) -> Result<(), Error> {
        let stage = std::mem::replace(&mut self.stages[index], Stage::Between);
        let Stage::Runs(running, _) = stage else {
            return Ok(());
        };
        let outcome = if stopped {
            running.so_far()
        } else {
            running
                .finish()
                .map_err(|source| self.failed(index, source))?
        };
        let ended = if stopped {
            at
        } else {
            self.on_clock(index, Nanos(outcome.elapsed))
        };
        self.stages[index] = Stage::Over(Box::new(outcome), ended, stopped);
        self.now = self.now.max(at);
        let last = self.point_of(index);
        self.records[index].note(Point {
            at: self.now.0,
            ..last
        });
        self.records[index].end(self.now);
        self.room.borrow_mut().leave(index);
        if let Some(broker) = &mut self.broker {
            broker.leave(index, self.now);
        }
        self.outcome.ended = self.outcome.ended.max(ended.0);
        Ok(())
    }

    /// The broker looks, if it is time.
    fn look(&mut self) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        if broker.due() > self.now {
            return;
        }
        let (capacity, entrants) = (self.setup.memory, &self.setup.entrants);
        let mut words = std::mem::take(&mut self.words);
        broker.look(
            self.now,
            capacity,
            &self.room.borrow(),
            entrants,
            &mut words,
        );
        self.outcome.ticks += u64::from(!words.is_empty());
        for (index, word) in words.drain(..) {
            match word {
                Word::Page(numbers, wake) => {
                    self.records[index].read(self.now, numbers);
                    self.follow(index, Bytes(numbers.limit), wake);
                }
                Word::Order(order) => self.obey(index, order),
            }
        }
        self.words = words;
        let granted = self.records.iter().map(|it| it.page.limit);
        self.outcome.most_granted = self.outcome.most_granted.max(granted.sum());
        self.note();
    }

    /// A program follows its limit. One that is woken and owes collects at once.
    fn follow(&mut self, index: usize, limit: Bytes, wake: bool) {
        let Stage::Runs(running, next) = &mut self.stages[index] else {
            return;
        };
        let heap = self.room.borrow_mut().grant(index, limit);
        running.resize(heap);
        if wake && self.room.borrow_mut().owes(index, self.now) {
            let start = self.setup.entrants[index].start;
            let began = self.now.max(start + *next);
            let ended = running.collect(began - start) + start;
            self.room.borrow_mut().paid(index, began, ended);
            *next = (*next).max(ended - start);
        }
    }

    /// The ladder acts against a program.
    fn obey(&mut self, index: usize, order: Order) {
        let revocations = &mut self.records[index].revocations;
        let mut room = self.room.borrow_mut();
        match order {
            Order::PageOut(bytes) => {
                revocations.paged_out = revocations.paged_out.saturating_add(bytes.0);
                room.page_out(index, bytes);
            }
            Order::Bound(bytes) => {
                revocations.bounds += u64::from(bytes != Bytes::MAX);
                room.bound(index, bytes);
            }
        }
        if let Some(broker) = &mut self.broker {
            broker.acted(index, order);
        }
    }

    /// Brings the averages up to date.
    fn note(&mut self) {
        for index in 0..self.stages.len() {
            if matches!(self.stages[index], Stage::Runs(..)) {
                let point = self.point_of(index);
                self.records[index].note(point);
            }
        }
    }

    /// Takes a point of each program that runs.
    fn point(&mut self) {
        self.note();
        let mut most = self.outcome.hogs.len();
        for index in 0..self.stages.len() {
            if matches!(self.stages[index], Stage::Runs(..)) {
                let point = self.point_of(index);
                self.records[index].points.push(point);
            }
            most = most.max(self.records[index].points.len());
        }
        if !self.hogs.is_empty() {
            self.outcome.hogs.push((self.now.0, self.held().0));
        }
        if self.pace.taken(self.now, most) {
            thin(&mut self.outcome.hogs);
            for record in &mut self.records {
                thin(&mut record.points);
            }
        }
    }

    /// The memory of a program now.
    fn point_of(&self, index: usize) -> Point {
        let room = self.room.borrow();
        let page = self.records[index].page;
        Point {
            at: self.now.0,
            uses: room.uses(index).0,
            swapped: room.swapped(index).0,
            heap: room.seats[index].heap.size().0,
            limit: page.limit,
            available: page.available,
            share: page.share,
            ideal: self.ideal(index).0,
            allocated: room.seats[index].sums.allocated.0,
        }
    }

    /// The part by weight of a program of what is shared out, among those that run.
    fn ideal(&self, index: usize) -> Bytes {
        let budget = match &self.broker {
            Some(broker) => broker.budget(),
            None => self.setup.memory - self.held(),
        };
        let running = self.stages.iter().zip(&self.setup.entrants);
        let running = running.filter(|(stage, _)| matches!(stage, Stage::Runs(..)));
        let own = &self.setup.entrants[index];
        let mut weights = 0u64;
        for (_, other) in running {
            if other.priority > own.priority {
                return Bytes::ZERO;
            }
            if other.priority == own.priority {
                weights += u64::from(other.weight.get());
            }
        }
        budget.part(u64::from(own.weight.get()), weights.max(1))
    }

    fn finish(mut self) -> Outcome {
        let room = self.room.borrow();
        let all = self.stages.into_iter().zip(self.records).enumerate();
        for (index, (stage, record)) in all {
            let Stage::Over(outcome, ended, stopped) = stage else {
                continue;
            };
            let (entrant, seat) = (&self.setup.entrants[index], &room.seats[index]);
            self.outcome.programs.push(outcome::Program {
                name: entrant.name.clone(),
                weight: entrant.weight.get(),
                priority: entrant.priority.get(),
                began: entrant.start.0,
                ended: ended.0,
                stopped,
                outcome: *outcome,
                inside: waits(seat.waits.inside),
                outside: waits(seat.waits.outside),
                share: record.share(),
                revocations: record.revocations,
                points: record.points,
            });
        }
        self.outcome
    }
}

fn waits(wait: Wait) -> Waits {
    Waits {
        stalls: wait.stalls,
        stalled: wait.stalled.0,
        faults: wait.faults,
        faulted: wait.faulted.0,
    }
}
