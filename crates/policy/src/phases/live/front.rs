//! Which threads are in front.

use crate::phases::{PATIENCE, Quanta, Quantum, ReadyQueue, Rule, Thread, Ties, Used};
use plimsoll_unit::Nanos;

/// Looks in which a thread has its turn and does not run, after which it is taken to block. One is not
/// enough: the kernel may have let another program run.
const ABSENT: u32 = 2;

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front: it has its turn, or it is away.
    Front,
    /// Behind those in front.
    Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Ready,
    Turn,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// Its use since its turn began, or since it went away.
    used: Used,
    /// Time since its turn began.
    held: Nanos,
    /// Looks in a row in which it did not run.
    absent: u32,
    /// It ran since the last decision.
    ran: bool,
}

/// Which of a program's threads are in front, under one discipline: as many as there are processors, and
/// those that block.
///
/// The kernel does not say when a thread blocks or wakes. A thread that runs is ready; one that has its turn
/// and does not run is away. A thread that is put back may still run where a processor has nothing better to
/// do, so no processor idles for this.
///
/// The order of the calls: [`Front::look`] for each thread that ran, then [`Front::decide`], again and
/// again. [`Front::admit`] and [`Front::leave`] in between.
///
/// # The bound on waiting
/// While others are ready, a turn ends by the quantum, and after [`Quanta::most`] in any case. So with the
/// bound of [`ReadyQueue`] in dispatches, a thread is back for at most [`Front::longest_back`].
pub struct Front {
    queue: ReadyQueue,
    quantum: Quantum,
    /// The longest turn.
    most: Nanos,
    slots: usize,
    /// By the number of the thread.
    entries: Vec<Entry>,
    /// The threads that have a turn; at most `slots`.
    turns: Vec<Thread>,
}

impl Front {
    /// No threads yet, on this many processors.
    pub fn new(rule: Rule, quanta: Quanta, processors: usize) -> Front {
        let queue = ReadyQueue::new(rule.build(quanta, Ties::Newest), PATIENCE);
        let slots = processors.max(1);
        Front {
            quantum: queue.quantum(),
            queue,
            most: quanta.most.max(Nanos(1)),
            slots,
            entries: Vec::new(),
            turns: Vec::with_capacity(slots),
        }
    }

    /// A new thread, which is away until it is seen to run.
    pub fn admit(&mut self) -> Thread {
        let thread = self.queue.admit(0);
        let entry = Entry {
            state: State::Away,
            used: Used::default(),
            held: Nanos::ZERO,
            absent: 0,
            ran: false,
        };
        match self.entries.get_mut(thread.index()) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        thread
    }

    /// A thread has ended. Its number may be given out again.
    pub fn leave(&mut self, thread: Thread) {
        self.queue.leave(thread);
        self.turns.retain(|&other| other != thread);
        if let Some(entry) = self.entries.get_mut(thread.index()) {
            entry.state = State::Away;
        }
    }

    /// Takes a thread's use since the last sample.
    pub fn look(&mut self, thread: Thread, used: Used) {
        let Some(entry) = self.entries.get_mut(thread.index()) else {
            return;
        };
        entry.used.time += used.time;
        entry.used.bytes += used.bytes;
        entry.ran |= used.time > Nanos::ZERO;
        if entry.state == State::Away && entry.ran {
            entry.state = State::Ready;
            self.queue.ready(thread, std::mem::take(&mut entry.used));
        }
    }

    /// Ends turns and begins others. `elapsed`: since the last decision. Allocates nothing.
    pub fn decide(&mut self, elapsed: Nanos) {
        let Front {
            queue,
            entries,
            turns,
            ..
        } = self;
        let (quantum, most) = (self.quantum, self.most);
        turns.retain(|&thread| {
            let entry = &mut entries[thread.index()];
            entry.held += elapsed;
            entry.absent = if entry.ran { 0 } else { entry.absent + 1 };
            if entry.absent >= ABSENT {
                entry.state = State::Away;
            } else if quantum.is_used_up(entry.used) || entry.held >= most {
                entry.state = State::Ready;
                queue.ready(thread, std::mem::take(&mut entry.used));
            }
            entry.state == State::Turn
        });
        while turns.len() < self.slots
            && let Some(thread) = queue.dispatch()
        {
            let entry = &mut entries[thread.index()];
            *entry = Entry {
                state: State::Turn,
                used: Used::default(),
                held: Nanos::ZERO,
                absent: 0,
                ran: false,
            };
            turns.push(thread);
        }
        for entry in entries {
            entry.ran = false;
        }
    }

    /// Where a thread is.
    pub fn place(&self, thread: Thread) -> Place {
        match self.entries.get(thread.index()) {
            Some(entry) if entry.state == State::Ready => Place::Back,
            _ => Place::Front,
        }
    }

    /// Threads that are back.
    pub fn back(&self) -> usize {
        self.queue.len()
    }

    /// The longest time that a thread which is put back now stays there, if no further threads
    /// come and a look is taken every `look`.
    pub fn longest_back(&self, look: Nanos) -> Nanos {
        let turn = (self.most + look).max(look * (u64::from(ABSENT) + 1));
        let rounds = self.queue.longest_wait() / self.slots as u64 + 1;
        turn * rounds
    }
}
