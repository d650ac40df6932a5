//! The lock, and the handshake by which the world is stopped, in every order in which threads can run (up to
//! a number of preemptions, or `LOOM_MAX_PREEMPTIONS`: `make model` tries more). The tests check the source
//! that ships, over atomics that loom controls and a futex made of loom's locks. Signals are not modelled: a
//! thread looks by itself whether the world is to stop.

#[path = "../src/thread/handshake.rs"]
mod handshake;
#[path = "../src/word_lock.rs"]
mod word_lock;

/// In place of the module of the same name in the room.
mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::Ordering;
    pub(crate) use rustix::time::Timespec;
    use std::ops::Deref;
    use std::sync::OnceLock;

    pub(crate) const SPINS: u32 = 1;

    /// An atomic number that is also a futex. It is made when it is first used, because loom makes none at
    /// compile time. That must be before other threads see it.
    pub(crate) struct AtomicU32 {
        begin: u32,
        made: OnceLock<Made>,
    }

    struct Made {
        number: loom::sync::atomic::AtomicU32,
        lock: loom::sync::Mutex<()>,
        changed: loom::sync::Condvar,
    }

    impl AtomicU32 {
        pub(crate) const fn new(begin: u32) -> AtomicU32 {
            let made = OnceLock::new();
            AtomicU32 { begin, made }
        }

        fn made(&self) -> &Made {
            self.made.get_or_init(|| Made {
                number: loom::sync::atomic::AtomicU32::new(self.begin),
                lock: loom::sync::Mutex::new(()),
                changed: loom::sync::Condvar::new(),
            })
        }
    }

    impl Deref for AtomicU32 {
        type Target = loom::sync::atomic::AtomicU32;

        fn deref(&self) -> &loom::sync::atomic::AtomicU32 {
            &self.made().number
        }
    }

    pub(crate) mod futex {
        use super::{AtomicU32, Ordering::SeqCst, Timespec};
        use rustix::io::Errno;

        pub(crate) use rustix::thread::futex::Flags;

        /// A wait with a time limit may end at once.
        pub(crate) fn wait(
            number: &AtomicU32,
            _: Flags,
            expected: u32,
            most: Option<&Timespec>,
        ) -> Result<(), Errno> {
            if most.is_some() {
                loom::thread::yield_now();
                return Err(Errno::TIMEDOUT);
            }
            let made = number.made();
            let held = made.lock.lock().unwrap();
            // The kernel reads it with its own lock held, too.
            if made.number.load(SeqCst) != expected {
                return Err(Errno::AGAIN);
            }
            drop(made.changed.wait(held));
            Ok(())
        }

        pub(crate) fn wake(number: &AtomicU32, _: Flags, most: u32) -> Result<usize, Errno> {
            let made = number.made();
            let _held = made.lock.lock().unwrap();
            match most {
                1 => made.changed.notify_one(),
                _ => made.changed.notify_all(),
            }
            Ok(0)
        }
    }
}

use handshake::Handshake;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use rustix::time::Timespec;
use sync::AtomicU32;
use word_lock::Word;

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// A number that loom lets only one thread at a time use, each after what the others did.
#[derive(Default)]
struct Guarded(UnsafeCell<u32>);

// SAFETY: loom ends the test if two threads use it at once.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn add(&self) -> u32 {
        self.0.with_mut(|number| {
            // SAFETY: loom checks that nobody else uses it.
            unsafe {
                *number += 1;
                *number
            }
        })
    }
}

/// Takes the lock this many times.
fn take_turns(shared: &(Word, Guarded), rounds: u32) {
    for _ in 0..rounds {
        if !shared.0.take() {
            shared.0.wait();
        }
        shared.1.add();
        shared.0.free();
    }
}

/// The lock of the collector: one holder at a time, and nobody waits for ever.
#[test]
fn one_at_a_time_has_the_lock() {
    for (threads, rounds) in [(2, 2), (3, 1)] {
        check(2, move || {
            let shared = Arc::new((Word::new(), Guarded::default()));
            shared.0.forget();
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || take_turns(&shared, rounds))
                })
                .collect();
            take_turns(&shared, rounds);
            others.into_iter().for_each(|other| other.join().unwrap());
            assert!(shared.0.take(), "it is free");
            assert_eq!(shared.1.add(), threads * rounds + 1);
        });
    }
}

/// A thread of the program, as the one that stops the world knows it.
#[derive(Default)]
struct Thread {
    /// The last stop that it answered.
    answered: Number,
    /// Not 0 while it blocks: then nobody waits for it.
    blocked: Number,
    /// Its objects, which the collector uses while the world is stopped.
    objects: Guarded,
}

struct Number(AtomicU32);

impl Default for Number {
    fn default() -> Number {
        let number = AtomicU32::new(0);
        number.store(0, Relaxed);
        Number(number)
    }
}

/// A process with these threads.
struct Process {
    handshake: Handshake,
    threads: Vec<Thread>,
}

impl Process {
    fn new(threads: usize) -> Arc<Process> {
        let handshake = Handshake::new();
        assert_eq!((handshake.current(), handshake.answers()), (None, 0));
        Arc::new(Process {
            handshake,
            threads: (0..threads).map(|_| Thread::default()).collect(),
        })
    }

    /// A thread of the program uses its objects, and stops when it is asked to. In the end it blocks.
    fn run(&self, thread: usize, most: Option<&Timespec>) {
        let this = &self.threads[thread];
        for _ in 0..2 {
            this.objects.add();
            if let Some(stop) = self.handshake.current()
                && this.answered.0.load(Relaxed) != stop
            {
                self.handshake.answer(stop, &this.answered.0);
                self.handshake.stand(stop, most);
            }
        }
        this.blocked.0.store(1, Release);
    }

    /// Waits until each thread has answered a stop, or blocks.
    fn wait_for_all(&self, stop: u32) {
        let stands = |thread: &Thread| {
            thread.answered.0.load(Acquire) == stop || thread.blocked.0.load(Acquire) != 0
        };
        loop {
            let answers = self.handshake.answers();
            if self.threads.iter().all(stands) {
                return;
            }
            // A thread that blocks says nothing: so this wait has a time limit.
            let most = Timespec::default();
            self.handshake.wait_for_more(answers, Some(&most));
        }
    }

    /// Uses the objects of all threads, which must stand still.
    fn collect(&self) {
        self.threads.iter().for_each(|thread| {
            thread.objects.add();
        });
    }
}

/// Runs `body` beside the threads of a process.
fn beside(threads: usize, most: Option<Timespec>, body: impl FnOnce(&Process)) {
    let process = Process::new(threads);
    let run = |thread| {
        let process = process.clone();
        loom::thread::spawn(move || process.run(thread, most.as_ref()))
    };
    let all: Vec<_> = (0..threads).map(run).collect();
    body(&process);
    all.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn while_the_world_stands_only_the_collector_uses_objects() {
    for (threads, stops) in [(1, 2), (2, 1)] {
        check(2, move || {
            beside(threads, None, |process| {
                for _ in 0..stops {
                    let stop = process.handshake.begin();
                    process.wait_for_all(stop);
                    process.collect();
                    process.handshake.end(stop);
                }
            });
        });
    }
}

/// The loader's lock is taken during a stop: either in time, or a stopped thread ends the stop.
#[test]
fn a_stop_that_a_thread_has_ended_is_not_used() {
    check(3, || {
        beside(1, Some(Timespec::default()), |process| {
            let stop = process.handshake.begin();
            process.wait_for_all(stop);
            process.handshake.takes(stop, 4);
            if process.handshake.took(stop) {
                process.collect();
                process.handshake.end(stop);
            }
            assert_eq!(process.handshake.current(), None);
        });
    });
}
