//! Scheduling parameters of real threads.

use crate::processes::{child_with_number, end};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::sched::{
    Parameters, Policy, Ran, Rights, SLICES, ThreadClock, parameters, processors, set_parameters,
};
use plimsoll_testbed::skip;
use plimsoll_unit::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ORDINARY: Parameters = Parameters {
    policy: Policy::Other,
    nice: 10,
    slice: Nanos(0),
};

fn own_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Runs `what` in a thread of its own, so that what it changes is gone with the thread.
fn aside<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(what).join().unwrap())
}

/// Makes the calling thread, and no other, one of a user without rights. False if it cannot.
fn become_nobody() -> bool {
    let nobody = 65_534;
    // SAFETY: takes numbers only. The bare system call changes the calling thread alone.
    let done = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
    done == 0
}

/// A thread that computes on the first processor until it is dropped.
struct Busy {
    tid: i32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // SAFETY: a set of zeros is valid; the call reads the stated size of it.
            unsafe {
                let mut first: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut first);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const first);
            }
            set_parameters(0, &ORDINARY).unwrap();
            tell.send(own_tid()).unwrap();
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy {
            tid: told.recv().unwrap(),
            stop,
            thread: Some(thread),
        }
    }

    fn clock(&self) -> ThreadClock {
        ThreadClock::open(&Process::own().unwrap(), self.tid).unwrap()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn what_is_set_is_what_is_read() {
    aside(|| {
        if set_parameters(0, &ORDINARY).is_err() {
            return skip("this program may not leave the idle policy");
        }
        let rights = Rights::find();
        let read = parameters(0).unwrap();
        assert_eq!((read.policy, read.nice), (Policy::Other, 10));
        let higher = Parameters {
            nice: 19,
            policy: Policy::Batch,
            ..ORDINARY
        };
        set_parameters(own_tid(), &higher).unwrap();
        let read = parameters(0).unwrap();
        assert_eq!((read.policy, read.nice), (Policy::Batch, 19));
        if rights.slices {
            for (wanted, got) in [(7_000_000, 7_000_000), (1, SLICES.start().0)] {
                let sliced = Parameters {
                    slice: Nanos(wanted),
                    ..higher
                };
                set_parameters(0, &sliced).unwrap();
                assert_eq!(parameters(0).unwrap().slice, Nanos(got));
            }
            set_parameters(0, &higher).unwrap();
            assert_eq!(
                parameters(0).unwrap().slice,
                rights.slice,
                "the kernel's again"
            );
        }
        let special = Parameters {
            policy: Policy::Special,
            ..ORDINARY
        };
        assert!(set_parameters(0, &special).is_err());
        // To find out what is allowed changed nothing here.
        assert_eq!(parameters(0).unwrap().nice, 19);
    });
}

#[test]
fn without_rights_a_nice_level_cannot_be_undone_and_a_slice_can() {
    aside(|| {
        if set_parameters(0, &ORDINARY).is_err() || !Rights::find().lower {
            return skip("we have no right to lower nice levels");
        }
        if !become_nobody() {
            return skip("no right to become another user");
        }
        let rights = Rights::find();
        assert!(!rights.lower, "{rights:?}");
        let higher = Parameters {
            nice: 11,
            ..ORDINARY
        };
        set_parameters(0, &higher).unwrap();
        let refused = set_parameters(0, &ORDINARY).unwrap_err();
        assert!(refused.is_denied() && refused.to_string().contains("RLIMIT_NICE"));
        let idle = Parameters {
            policy: Policy::Idle,
            ..higher
        };
        if rights.slices {
            for slice in [50_000_000, 0] {
                set_parameters(
                    0,
                    &Parameters {
                        slice: Nanos(slice),
                        ..higher
                    },
                )
                .unwrap();
            }
        }
        set_parameters(0, &idle).unwrap();
        assert!(set_parameters(0, &higher).unwrap_err().is_denied());
    });
}

#[test]
fn a_thread_of_another_user_is_refused() {
    aside(|| {
        let busy = Busy::start();
        if !become_nobody() {
            return skip("no right to become another user");
        }
        let refused = set_parameters(busy.tid, &ORDINARY).unwrap_err();
        assert!(refused.is_denied(), "{refused}");
        assert!(parameters(busy.tid).is_ok());
    });
}

#[test]
fn a_thread_that_is_put_back_runs_less_until_it_is_restored() {
    if !aside(|| set_parameters(0, &ORDINARY).is_ok() && Rights::find().lower) {
        return skip("we have no right to lower nice levels");
    }
    let (one, other) = (Busy::start(), Busy::start());
    let clocks = [one.clock(), other.clock()];
    // The first one's part of what both ran, in a while.
    let part = || {
        let before = [0, 1].map(|n: usize| clocks[n].read().unwrap().ran);
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let ran = [0, 1].map(|n: usize| clocks[n].read().unwrap().ran - before[n]);
            let sum = ran[0] + ran[1];
            if sum > Nanos(200_000_000) || Instant::now() > until {
                return ran[0].0 as f64 / sum.max(Nanos(1)).0 as f64;
            }
        }
    };
    let equal = part();
    let idle = Parameters {
        policy: Policy::Idle,
        ..ORDINARY
    };
    set_parameters(one.tid, &idle).unwrap();
    let less = part();
    set_parameters(one.tid, &ORDINARY).unwrap();
    let again = part();
    assert!(
        less < equal / 2.0 && less < again / 2.0,
        "{equal} {less} {again}"
    );
    let waited = clocks.each_ref().map(|clock| clock.read().unwrap());
    assert!(
        waited.iter().all(|it| it.waited > Nanos(0) && it.turns > 0),
        "{waited:?}"
    );
}

#[test]
fn a_clock_is_of_one_thread_even_if_its_number_is_given_out_again() {
    let first = child_with_number(0).expect("a process can be made");
    let process = Process::open(first).unwrap();
    let clock = ThreadClock::open(&process, first).unwrap();
    assert_ne!(
        clock.read().unwrap(),
        Ran {
            ran: Nanos(u64::MAX),
            ..Ran::default()
        }
    );
    assert!(processors(&process) >= 1);
    assert!(
        ThreadClock::open(&process, own_tid()).is_err(),
        "it is not a thread of that process"
    );
    end(first);
    assert!(clock.read().unwrap_err().is_gone());
    let Some(second) = child_with_number(first) else {
        return skip("no right to choose the number of a process");
    };
    assert!(clock.read().unwrap_err().is_gone());
    end(second);
    assert!(parameters(i32::MAX).unwrap_err().is_gone());
    assert!(set_parameters(i32::MAX, &ORDINARY).unwrap_err().is_gone());
}
