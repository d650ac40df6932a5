//! The ready queue: threads by priority, rank and age, and nobody passed over for ever.

use super::{Discipline, Quantum, Ties, Used};

/// The place of no thread in lists and in the heap.
const NONE: u32 = u32::MAX;

/// A thread, as the queue knows it. Numbers of threads that have left are given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread(u32);

impl Thread {
    /// Its number: below the most threads that there were at once.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A priority class: ready threads of a higher class are dispatched first, as long as nobody has been passed
/// over too often.
pub type Priority = i32;

/// A thread in the queue.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Whether the number is given out.
    admitted: bool,
    /// Its class; constant while it is admitted.
    priority: Priority,
    /// By the discipline, after its last run.
    rank: u64,
    /// Number of its last arrival in the queue: arrivals are counted.
    arrival: u64,
    /// Dispatches before that arrival.
    since: u64,
    /// Its place in the heap; [`NONE`] while it is not ready.
    at: u32,
    /// The ready thread that arrived just before it, or [`NONE`].
    older: u32,
    /// The ready thread that arrived just after it, or [`NONE`].
    younger: u32,
}

/// The ready queue of any number of processors, under one discipline.
///
/// The order of the calls for one thread: [`ReadyQueue::admit`]; then [`ReadyQueue::ready`] and its turn in
/// [`ReadyQueue::dispatch`], again and again, with whatever blocks it in between; then
/// [`ReadyQueue::leave`], at any time. A call out of order is ignored. Only `admit` allocates, for more
/// threads than there ever were.
///
/// # The bound on waiting
/// With `n` the most threads that were admitted at once while a thread waited, at most
/// `(patience + 1) * n - 1` other dispatches come between its arrival and its own: a thread that has been
/// passed over for `patience * n` dispatches is overdue, and of the overdue threads, whatever their ranks
/// and priorities, the oldest is next. Fewer than `n` are older. So on one processor a thread waits at most
/// that many quanta.
pub struct ReadyQueue {
    discipline: Box<dyn Discipline + Send>,
    patience: u32,
    records: Vec<Record>,
    /// Numbers that threads left behind.
    free: Vec<u32>,
    /// Numbers of the ready threads: a binary heap with the next one first, or in no order while `in_turn`.
    heap: Vec<u32>,
    /// Whether the oldest ready thread is always next, so that nobody has to be compared: ties go to the
    /// oldest, all ranks are 0, and all priorities are equal. Once that has ended, it stays so.
    in_turn: bool,
    /// The priority of the first thread.
    priority: Option<Priority>,
    /// Which of equal ranks goes first.
    ties: Ties,
    /// Ends of the list of ready threads by arrival.
    oldest: u32,
    youngest: u32,
    arrivals: u64,
    dispatches: u64,
}

impl ReadyQueue {
    /// An empty queue.
    pub fn new(discipline: Box<dyn Discipline + Send>, patience: u32) -> ReadyQueue {
        let ties = discipline.ties();
        ReadyQueue {
            discipline,
            patience,
            records: Vec::new(),
            free: Vec::new(),
            heap: Vec::new(),
            in_turn: ties == Ties::Oldest,
            priority: None,
            ties,
            oldest: NONE,
            youngest: NONE,
            arrivals: 0,
            dispatches: 0,
        }
    }

    /// How long a dispatched thread runs.
    pub fn quantum(&self) -> Quantum {
        self.discipline.quantum()
    }

    /// Threads that are admitted: ready, running or blocked.
    pub fn admitted(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Threads that are ready.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no thread is ready.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The most dispatches of others that come before that of a thread which becomes ready now, if no
    /// further threads are admitted.
    pub fn longest_wait(&self) -> u64 {
        (u64::from(self.patience) + 1) * self.admitted() as u64 - u64::from(self.admitted() > 0)
    }

    /// The rank of a thread after its last run: under LARF, its allocation rate in bytes per quantum.
    pub fn rank(&self, thread: Thread) -> Option<u64> {
        let record = self.records.get(thread.index())?;
        record.admitted.then_some(record.rank)
    }

    /// A new thread, which is not ready yet.
    pub fn admit(&mut self, priority: Priority) -> Thread {
        if *self.priority.get_or_insert(priority) != priority {
            self.compare();
        }
        let record = Record {
            admitted: true,
            priority,
            rank: 0,
            arrival: 0,
            since: 0,
            at: NONE,
            older: NONE,
            younger: NONE,
        };
        if let Some(number) = self.free.pop() {
            self.records[number as usize] = record;
            return Thread(number);
        }
        let number = self.records.len() as u32;
        assert!(number < NONE, "fewer threads than a machine has bytes");
        self.records.push(record);
        // So that neither a thread that becomes ready nor one that leaves needs an allocation.
        self.heap.reserve(self.records.len() - self.heap.len());
        self.free.reserve(self.records.len());
        Thread(number)
    }

    /// A thread has ended. Its number may be given out again.
    pub fn leave(&mut self, thread: Thread) {
        if !self.is_admitted(thread) {
            return;
        }
        self.take(thread.0);
        self.records[thread.index()].admitted = false;
        self.free.push(thread.0);
    }

    /// A thread can run: it is new, it woke up, or its quantum is used up. `used` is what it used since it
    /// was dispatched, all zero for a new one.
    pub fn ready(&mut self, thread: Thread, used: Used) {
        if !self.is_admitted(thread) || self.records[thread.index()].at != NONE {
            return;
        }
        let rank = self
            .discipline
            .rank(self.records[thread.index()].rank, used);
        if rank != 0 {
            self.compare();
        }
        self.arrivals += 1;
        let youngest = std::mem::replace(&mut self.youngest, thread.0);
        match youngest {
            NONE => self.oldest = thread.0,
            youngest => self.records[youngest as usize].younger = thread.0,
        }
        let record = &mut self.records[thread.index()];
        record.rank = rank;
        record.arrival = self.arrivals;
        record.since = self.dispatches;
        record.older = youngest;
        record.younger = NONE;
        record.at = self.heap.len() as u32;
        self.heap.push(thread.0);
        if !self.in_turn {
            self.rise(self.heap.len() - 1);
        }
    }

    /// A thread that was dispatched uses a whole quantum, becomes ready and is dispatched again, `times`
    /// times. The same as `times` calls of [`ReadyQueue::ready`] with this use, each followed by a dispatch.
    /// Returns false, and does nothing, if another thread is ready or the rank of this one would change.
    pub fn runs_on(&mut self, thread: Thread, used: Used, times: u64) -> bool {
        let Some(record) = self.records.get(thread.index()) else {
            return false;
        };
        let is_alone = record.admitted && record.at == NONE && self.heap.is_empty();
        if !is_alone || self.discipline.rank(record.rank, used) != record.rank {
            return false;
        }
        self.arrivals += times;
        self.dispatches += times;
        true
    }

    /// Takes the thread that runs next.
    pub fn dispatch(&mut self) -> Option<Thread> {
        let first = *self.heap.first()?;
        let chosen = if self.in_turn || self.is_overdue(self.oldest) {
            self.oldest
        } else {
            first
        };
        self.take(chosen);
        self.dispatches += 1;
        Some(Thread(chosen))
    }

    fn is_admitted(&self, thread: Thread) -> bool {
        self.records
            .get(thread.index())
            .is_some_and(|record| record.admitted)
    }

    fn is_overdue(&self, number: u32) -> bool {
        let waited = self.dispatches - self.records[number as usize].since;
        waited >= u64::from(self.patience) * self.admitted() as u64
    }

    /// Takes a thread out of the heap and the list, if it is ready.
    fn take(&mut self, number: u32) {
        let Record {
            at, older, younger, ..
        } = self.records[number as usize];
        if at == NONE {
            return;
        }
        match older {
            NONE => self.oldest = younger,
            older => self.records[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.records[younger as usize].older = older,
        }
        self.records[number as usize].at = NONE;
        let at = at as usize;
        self.heap.swap_remove(at);
        if let Some(&moved) = self.heap.get(at) {
            self.records[moved as usize].at = at as u32;
            if !self.in_turn {
                self.sink(at);
                self.rise(at);
            }
        }
    }

    /// The oldest is no longer always next: the ready threads are put into the order of a heap.
    fn compare(&mut self) {
        if std::mem::replace(&mut self.in_turn, false) {
            for at in (0..self.heap.len() / 2).rev() {
                self.sink(at);
            }
        }
    }

    /// Whether one ready thread goes before another that is not overdue.
    fn before(&self, one: u32, other: u32) -> bool {
        let newest_first = self.ties == Ties::Newest;
        let key = |number: u32| {
            let record = &self.records[number as usize];
            let age = if newest_first {
                u64::MAX - record.arrival
            } else {
                record.arrival
            };
            (std::cmp::Reverse(record.priority), record.rank, age)
        };
        key(one) < key(other)
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.before(self.heap[at], self.heap[parent]) {
                return;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut best = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.before(self.heap[child], self.heap[best]) {
                    best = child;
                }
            }
            if best == at {
                return;
            }
            self.swap(at, best);
            at = best;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.records[self.heap[one] as usize].at = one as u32;
        self.records[self.heap[other] as usize].at = other as u32;
    }
}
