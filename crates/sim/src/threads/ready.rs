//! The threads that can run, in the order of a discipline of `policy::phases`.

use plimsoll_policy::phases::{Priority, Quantum, ReadyQueue, Thread, Used};

/// The ready queue, and which thread of the simulation has which number there.
pub(super) struct Ready {
    queue: ReadyQueue,
    quantum: Quantum,
    /// The thread of each number in the queue.
    threads: Vec<usize>,
}

impl Ready {
    pub(super) fn new(queue: ReadyQueue) -> Ready {
        Ready {
            quantum: queue.quantum(),
            queue,
            threads: Vec::new(),
        }
    }

    /// The time and the bytes after which a thread is preempted.
    #[inline]
    pub(super) fn quantum(&self) -> Quantum {
        self.quantum
    }

    /// Whether no thread is ready.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A new thread, which is not ready yet. Returns its number in the queue.
    pub(super) fn admit(&mut self, thread: usize, priority: Priority) -> Thread {
        let slot = self.queue.admit(priority);
        if self.threads.len() <= slot.index() {
            self.threads.resize(slot.index() + 1, 0);
        }
        self.threads[slot.index()] = thread;
        slot
    }

    /// A thread can run, after it used this much.
    pub(super) fn insert(&mut self, slot: Thread, used: Used) {
        self.queue.ready(slot, used);
    }

    /// Takes the next thread out of the queue.
    pub(super) fn dispatch(&mut self) -> Option<usize> {
        let slot = self.queue.dispatch()?;
        Some(self.threads[slot.index()])
    }

    /// Dispatches a thread many times in a row, if no other one could be dispatched; else false.
    pub(super) fn runs_on(&mut self, slot: Thread, used: Used, times: u64) -> bool {
        self.queue.runs_on(slot, used, times)
    }

    /// A thread has ended.
    pub(super) fn leave(&mut self, slot: Thread) {
        self.queue.leave(slot);
    }
}
