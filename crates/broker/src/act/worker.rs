//! The worker thread: a bounded queue of jobs in which users take turns, a list of outcomes, and an
//! eventfd that signals new outcomes.

use super::cgroups::Home;
use super::job::{Job, Outcome, Running};
use crate::background::{Bell, Companion, Monitor, Next};
use crate::error::Error;
use crate::fair_queue::FairQueue;
use crate::user_quota::Held;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Id;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Most waiting jobs, in all and per user. When a bound is reached, one job is given up: of the
/// same user for the bound per user, otherwise of the user with the most jobs.
const MAX_QUEUED: usize = 1024;
const MAX_OF_USER: usize = 256;
/// Cgroups removed between two turns of jobs.
const RETIRED_AT_ONCE: usize = 64;

/// State that the deciding thread and the worker share.
#[derive(Debug, Default)]
struct Shared {
    /// Jobs that wait for the worker, by user.
    queue: FairQueue<Running>,
    /// Each cgroup with the descriptors it holds; they count against its user until they are
    /// closed.
    retired: FairQueue<(Home, Held)>,
    /// Outcomes that the deciding thread has not taken yet.
    outcomes: Vec<Outcome>,
}

/// Handle of the worker thread and its queue.
#[derive(Debug)]
pub struct Worker {
    thread: Companion<Shared>,
    bell: Arc<Bell>,
}

impl Worker {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::System`] when a thread or descriptor cannot be created.
    pub fn start() -> Result<Worker, Error> {
        let bell = Bell::new()?;
        let theirs = Arc::clone(&bell);
        let thread = Companion::start("plimsoll-act", move |monitor| work(&monitor, &theirs))?;
        Ok(Worker { thread, bell })
    }

    /// Queues a job for a principal of user `uid`. It replaces a waiting job for the same principal
    /// that it makes pointless. Returns the job that was given up for lack of room: preferably the
    /// oldest that takes bytes, because a lost bound is only corrected by a later one.
    pub fn order(&self, uid: u32, job: Job) -> Option<Job> {
        let mut shared = self.thread.lock();
        let waiting = shared
            .queue
            .iter_mut()
            .find(|old| old.job.is_replaced_by(&job));
        if let Some(old) = waiting {
            *old = Running::new(job);
            return None;
        }
        let full = match shared.queue.of(uid) >= MAX_OF_USER {
            true => Some(uid),
            false if shared.queue.len() >= MAX_QUEUED => shared.queue.busiest(),
            false => None,
        };
        let takes = |running: &Running| running.job.order.takes();
        let given_up = full.and_then(|full| shared.queue.give_up(full, takes));
        shared.queue.push(uid, Running::new(job));
        self.thread.wake();
        given_up.map(|running| running.job)
    }

    /// Lowers each waiting order that takes bytes to what its principal owes by now (`owed`). Calls
    /// `over` with each principal from which nothing is to be taken any more.
    pub fn revise(&self, owed: impl Fn(Id) -> Bytes, mut over: impl FnMut(Id)) {
        self.thread.lock().queue.retain_mut(|running| {
            let id = running.job.id;
            // Bytes taken in earlier turns are no longer owed.
            let most = match owed(id) {
                Bytes::ZERO => Bytes::ZERO,
                owed => owed + running.done,
            };
            let left = running.job.order.at_most(most);
            match left {
                Some(order) => running.job.order = order,
                None => over(id),
            }
            left.is_some()
        });
    }

    /// Drops the waiting jobs of a principal that is gone.
    pub fn forget(&self, id: Id) {
        let of_others = |running: &mut Running| running.job.id != id;
        self.thread.lock().queue.retain_mut(of_others);
    }

    /// Queues the removal of a cgroup whose principal (of user `uid`) is gone. The worker does it
    /// because the kernel may block.
    pub fn retire(&self, uid: u32, home: Home, held: Held) {
        self.thread.lock().retired.push(uid, (home, held));
        self.thread.wake();
    }

    /// Takes the outcomes since the last call.
    pub fn take_outcomes(&self) -> Vec<Outcome> {
        self.bell.silence();
        std::mem::take(&mut self.thread.lock().outcomes)
    }
}

impl AsFd for Worker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Runs until it must end and no cgroup is left to remove. Jobs are then left undone.
fn work(monitor: &Monitor<Shared>, bell: &Bell) {
    loop {
        let (job, retired) = monitor.wait(|shared, stop| {
            if stop {
                shared.queue.clear();
            }
            let job = shared.queue.next_of(|_| true);
            let next = |_| shared.retired.next_of(|_| true);
            let retired: Vec<_> = (0..RETIRED_AT_ONCE).map_while(next).collect();
            if job.is_none() && retired.is_empty() && !stop {
                Next::Sleep(None)
            } else {
                Next::Do((job, retired))
            }
        });
        if job.is_none() && retired.is_empty() {
            return;
        }
        drop(retired);
        if let Some((uid, running)) = job {
            go_on(monitor, bell, uid, running);
        }
    }
}

/// Runs one turn of a job. The rest of it queues behind the work of others, unless a newer order
/// replaces it.
fn go_on(monitor: &Monitor<Shared>, bell: &Bell, uid: u32, mut running: Running) {
    let outcome = running.turn();
    let mut shared = monitor.lock();
    match outcome {
        Some(outcome) => {
            shared.outcomes.push(outcome);
            bell.ring();
        }
        None => {
            let newer = |newer: &mut Running| running.job.is_replaced_by(&newer.job);
            if !shared.queue.iter_mut().any(newer) {
                shared.queue.push(uid, running);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::Order;
    use std::time::{Duration, Instant};

    #[test]
    fn orders_are_carried_out_and_told() {
        let worker = Worker::start().unwrap();
        let job = Job {
            id: 3,
            order: Order::PageOut(Bytes(4096)),
            processes: vec![(i32::MAX, 1)],
            cgroup: None,
            swappiness: None,
        };
        worker.order(USER, job);
        let until = Instant::now() + Duration::from_secs(60);
        let mut outcomes = Vec::new();
        while outcomes.is_empty() && Instant::now() < until {
            outcomes = worker.take_outcomes();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((outcomes[0].id, outcomes[0].bytes), (3, Bytes::ZERO));
    }

    const USER: u32 = 7;

    /// A worker without a thread: all jobs stay in the queue.
    fn idle() -> Worker {
        Worker {
            thread: Companion::without_thread(),
            bell: Bell::new().unwrap(),
        }
    }

    fn job(id: Id, order: Order) -> Job {
        Job {
            id,
            order,
            processes: Vec::new(),
            cgroup: None,
            swappiness: None,
        }
    }

    #[test]
    fn the_queue_is_bounded_and_newer_orders_replace_older_ones() {
        let worker = idle();
        let given_up = |uid, id, order| {
            let given_up = worker.order(uid, job(id, order));
            given_up.map(|job| (job.id, job.order))
        };
        assert_eq!(given_up(USER, 0, Order::Bound(Bytes::MAX)), None);
        assert_eq!(given_up(USER, 1, Order::PageOut(Bytes(1))), None);
        assert_eq!(given_up(USER, 1, Order::Take(Bytes(2))), None);
        assert_eq!(worker.thread.lock().queue.len(), 2);
        for id in 2..MAX_OF_USER as u64 {
            assert_eq!(given_up(USER, id, Order::Take(Bytes(1))), None);
        }
        assert_eq!(
            given_up(USER, 9999, Order::Take(Bytes(1))),
            Some((1, Order::Take(Bytes(2))))
        );
        worker.forget(9999);
        assert_eq!(worker.thread.lock().queue.len(), MAX_OF_USER - 1);
        // Other users have room; when the whole queue is full, the user with the most jobs loses
        // one.
        let others = (1u32..).take(2 * MAX_QUEUED).map(|n| 100 + n % 8);
        for (uid, id) in others.zip(10_000..) {
            if worker.thread.lock().queue.len() < MAX_QUEUED {
                assert_eq!(given_up(uid, id, Order::Take(Bytes(1))), None);
            }
        }
        assert_eq!(
            given_up(200, 20_000, Order::Take(Bytes(1))),
            Some((2, Order::Take(Bytes(1))))
        );
        assert_eq!(worker.thread.lock().queue.len(), MAX_QUEUED);
        assert_eq!(worker.thread.lock().queue.of(200), 1);
    }

    #[test]
    fn who_has_paid_meanwhile_is_let_be() {
        let worker = idle();
        for (id, order) in [
            (1, Order::PageOut(Bytes(100))),
            (2, Order::Take(Bytes(100))),
            (3, Order::Bound(Bytes(7))),
        ] {
            worker.order(USER, job(id, order));
        }
        let mut over = Vec::new();
        worker.revise(
            |id| if id == 2 { Bytes(30) } else { Bytes::ZERO },
            |id| over.push(id),
        );
        assert_eq!(over, [1]);
        let left: Vec<Order> = worker
            .thread
            .lock()
            .queue
            .iter_mut()
            .map(|running| running.job.order)
            .collect();
        assert_eq!(left, [Order::Take(Bytes(30)), Order::Bound(Bytes(7))]);
    }
}
