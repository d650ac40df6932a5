//! The work of collectors beside the program: ZGC, Shenandoah. Their pauses are next to nothing, whatever they
//! cost, so the processor time of their threads is counted. Otherwise no such program would ever seem to miss
//! memory, and the broker would lend nearly all of it to others.

use crate::process::Process;
use std::collections::BTreeMap;

/// How the names of these threads begin. The kernel keeps 15 bytes of a name. With X: ZGC without generations,
/// from JDK 21 on.
const NAMES: [&[u8]; 5] = [
    b"ZWorker",
    b"ZDriver",
    b"XWorker",
    b"XDriver",
    b"Shenandoah GC",
];

/// The work of one machine's collector so far. Used by the steering loop's thread alone.
#[derive(Debug)]
pub(super) struct Beside {
    /// How many threads collect while the program is stopped.
    threads: u64,
    /// The threads that collect, and the processor time of each so far, nanoseconds.
    known: BTreeMap<i32, u64>,
    /// The processor time of all so far, of those that have ended too, nanoseconds.
    spent_ns: u64,
    /// Pauses of the machine at the last look.
    pauses: u64,
}

impl Beside {
    /// Of a machine that collects with `threads` threads when it stops the program (`ParallelGCThreads`:
    /// HotSpot derives it from the processors that it may use, by quotas as well).
    pub(super) fn new(threads: u64) -> Beside {
        Beside {
            threads: threads.max(1),
            known: BTreeMap::new(),
            spent_ns: 0,
            pauses: 0,
        }
    }

    /// Looks for threads: a collector starts some only when it needs them. Takes time where there are
    /// thousands.
    pub(super) fn find(&mut self, process: &Process) {
        let found = process.threads_named(is_collector).collect::<Vec<_>>();
        self.known.retain(|tid, _| found.contains(tid));
        for tid in found {
            self.known.entry(tid).or_insert(0);
        }
    }

    /// Reads the threads' times, if the machine had pauses since the last look: each cycle has some.
    pub(super) fn look(&mut self, process: &Process, pauses: u64) {
        if std::mem::replace(&mut self.pauses, pauses) == pauses {
            return;
        }
        for (&tid, last) in &mut self.known {
            let Some(now) = process.thread_processor_ns(tid) else {
                continue;
            };
            let before = std::mem::replace(last, now);
            self.spent_ns = self.spent_ns.saturating_add(now.saturating_sub(before));
        }
    }

    /// How long the program would have been stopped so far if the same work had been done in pauses,
    /// nanoseconds.
    pub(super) fn as_pauses_ns(&self) -> u64 {
        self.spent_ns / self.threads
    }
}

fn is_collector(name: &[u8]) -> bool {
    NAMES.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of ours of this name works for a while. Returns the work after one look, and after another
    /// without and with a further pause.
    fn works(name: &str) -> [u64; 3] {
        let own = Process::new(std::process::id()).unwrap();
        let mut beside = Beside::new(2);
        let thread = std::thread::Builder::new().name(name.into());
        let (tell, told) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let worker = thread.spawn(move || {
            let start = plimsoll_kernel::clock::thread_cpu_ns();
            while plimsoll_kernel::clock::thread_cpu_ns() - start < 20_000_000 {}
            tell.send(()).unwrap();
            let _ = wait.recv();
        });
        told.recv().unwrap();
        let looks = [(0, false), (0, true), (1, true)].map(|(pauses, find)| {
            if find {
                beside.find(&own);
            }
            beside.look(&own, pauses);
            beside.as_pauses_ns()
        });
        drop(done);
        worker.unwrap().join().unwrap();
        looks
    }

    /// One test, because both look at the threads of this process.
    #[test]
    fn the_work_of_collectors_counts_as_if_the_threads_of_a_pause_had_shared_it() {
        assert_eq!(works("Worker#0"), [0; 3]);
        let [none, unread, read] = works("ZWorkerYoung#0");
        assert_eq!((none, unread), (0, 0));
        assert!((10_000_000..1_000_000_000).contains(&read), "{read}");
    }

    #[test]
    fn collectors_are_told_by_the_names_that_the_kernel_keeps() {
        for name in ["Shenandoah GC T", "ZDriverMajor", "XWorker#1"] {
            assert!(is_collector(name.as_bytes()), "{name}");
        }
        assert!(!is_collector(b"G1 Conc#0"));
    }
}
