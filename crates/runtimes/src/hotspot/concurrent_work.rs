//! The work of collectors beside the program: ZGC, Shenandoah. Pauses do not tell what they cost, so the
//! processor time of their threads is counted. Otherwise a program with ZGC would never seem to miss memory,
//! and the broker would lend nearly all of it to others.

use super::machine::Flags;
use crate::process::Process;
use plimsoll_kernel::clock;
use plimsoll_unit::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How the names of these threads begin. The kernel keeps 15 bytes of a name. With X: ZGC without
/// generations, from JDK 21 on.
const NAMES: [&[u8]; 5] = [
    b"ZWorker",
    b"ZDriver",
    b"XWorker",
    b"XDriver",
    b"Shenandoah GC",
];

/// The pause between two searches for threads; they take at most one part in this many of the time.
const FIND: Duration = Duration::from_secs(2);
const FIND_PART: u32 = 800;

/// The work of one machine's collector so far. Used by the steering loop's thread alone.
#[derive(Debug)]
pub(super) struct Beside {
    /// How many threads the collector has at most.
    threads: u64,
    /// The threads that collect, and the processor time of each that was taken in or skipped.
    known: BTreeMap<i32, Nanos>,
    /// The processor time of all so far, of those that have ended too.
    spent: Nanos,
    /// Allocated between the last two cycles, as of the last look.
    allocated: Bytes,
    /// When threads are looked for again; `None` before the first time.
    find_at: Option<Instant>,
}

impl Beside {
    /// Begins for a machine with these flags. HotSpot derives the threads of its collector from the
    /// processors that it may use, by quotas too.
    pub(super) fn of(flags: &Flags) -> Beside {
        let threads = ["ParallelGCThreads", "ConcGCThreads"].map(|name| flags.number(name));
        Beside {
            threads: threads.into_iter().flatten().max().unwrap_or(1).max(1),
            known: BTreeMap::new(),
            spent: Nanos::ZERO,
            allocated: Bytes::ZERO,
            find_at: None,
        }
    }

    /// Takes in what the threads did, after each cycle: when `allocated`, the memory allocated between the
    /// last two cycles, has changed.
    pub(super) fn look(&mut self, process: &Process, allocated: Bytes) {
        if self.find_at.is_none_or(|at| Instant::now() >= at) {
            self.find(process);
        }
        if std::mem::replace(&mut self.allocated, allocated) != allocated {
            self.add(process);
        }
    }

    /// Takes in what the threads did since the last time.
    pub(super) fn add(&mut self, process: &Process) {
        let did = self.read(process);
        self.spent += did;
    }

    /// Forgets what the threads did since the last time: a collection was requested.
    pub(super) fn skip(&mut self, process: &Process) {
        self.read(process);
    }

    /// Processor time of all threads since the last call.
    fn read(&mut self, process: &Process) -> Nanos {
        let mut did = Nanos::ZERO;
        self.known.retain(|&tid, last| {
            let Some(now) = process.thread_processor(tid) else {
                return false;
            };
            did += now - *last;
            *last = now;
            true
        });
        did
    }

    /// Looks for further threads: a collector starts some only when it needs them. The work of a thread
    /// before it was found does not count.
    fn find(&mut self, process: &Process) {
        let start = clock::thread_cpu();
        for tid in process.threads_named(is_collector) {
            if let Some(now) = process.thread_processor(tid) {
                self.known.entry(tid).or_insert(now);
            }
        }
        let took = (clock::thread_cpu() - start).duration();
        self.find_at = Instant::now().checked_add(FIND.max(took * FIND_PART));
    }

    /// How long the program would have been stopped so far if all its collector's threads had done the same
    /// work in pauses; `None` if no work was seen.
    pub(super) fn as_pauses(&self) -> Option<Nanos> {
        (self.spent > Nanos::ZERO).then_some(self.spent / self.threads)
    }
}

fn is_collector(name: &[u8]) -> bool {
    NAMES.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Nanos;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A thread of this name works for 20 ms whenever it is told to, until the sender is dropped. It tells
    /// its number and its processor time.
    fn worker(name: &str) -> (Sender<()>, Receiver<(i32, Nanos)>) {
        let (order, orders) = channel();
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name(name.into());
        let work = move || {
            for () in orders {
                let start = clock::thread_cpu();
                while clock::thread_cpu() - start < Nanos::millis(20) {}
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                tell.send((tid, clock::thread_cpu())).unwrap();
            }
        };
        thread.spawn(work).unwrap();
        (order, told)
    }

    /// One test, because all threads of this process are looked at.
    #[test]
    fn the_work_of_collectors_counts_as_if_the_threads_of_a_pause_had_shared_it() {
        let own = Process::new(std::process::id()).unwrap();
        let flags =
            Flags::parse("uint ParallelGCThreads = 2 {product}\nuint ConcGCThreads = 1 {p}\n");
        let mut beside = Beside::of(&flags);
        let (collector, other) = (worker("ZWorkerYoung#0"), worker("Worker#0"));
        let works = |(order, told): &(Sender<()>, Receiver<(i32, Nanos)>)| {
            order.send(()).unwrap();
            let (tid, spent) = told.recv().unwrap();
            // The kernel's number for a thread that runs is as old as the last tick.
            while own.thread_processor(tid) < Some(spent) {
                std::thread::yield_now();
            }
        };
        works(&collector);
        beside.look(&own, Bytes(1));
        assert_eq!(beside.as_pauses(), None, "before it was found");
        works(&other);
        beside.look(&own, Bytes(2));
        works(&collector);
        beside.look(&own, Bytes(2));
        let ns = |beside: &Beside| beside.as_pauses().unwrap_or_default();
        assert!(
            ns(&beside) < Nanos::millis(5),
            "another's, and no cycle since"
        );
        beside.look(&own, Bytes(3));
        let first = ns(&beside);
        assert!(
            (Nanos::millis(10)..Nanos::millis(15)).contains(&first),
            "{first:?}"
        );
        works(&collector);
        beside.skip(&own);
        beside.find(&own);
        beside.look(&own, Bytes(4));
        assert!(ns(&beside) - first < Nanos::millis(5), "it was requested");
        drop(collector);
        while own.threads_named(is_collector).next().is_some() {
            std::thread::yield_now();
        }
        beside.look(&own, Bytes(5));
        assert!(beside.known.is_empty() && ns(&beside) >= first);
    }

    #[test]
    fn collectors_are_told_by_the_names_that_the_kernel_keeps() {
        for name in ["Shenandoah GC T", "ZDriverMajor", "XWorker#1"] {
            assert!(is_collector(name.as_bytes()), "{name}");
        }
        assert!(!is_collector(b"G1 Conc#0"));
    }
}
