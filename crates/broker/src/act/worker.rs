//! The thread that works: a bounded queue in, outcomes out, an eventfd that says so.

use super::cgroups::Home;
use super::job::{Job, Outcome};
use crate::error::Error;
use plimsoll_wire::messages::Id;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Jobs that wait at most; with more, the oldest is given up.
const MAX_QUEUED: usize = 1024;
/// Stack of the thread, bytes.
const STACK: usize = 256 * 1024;

#[derive(Debug, Default)]
struct Shared {
    queue: VecDeque<Job>,
    retired: Vec<Home>,
    outcomes: Vec<Outcome>,
    stop: bool,
}

#[derive(Debug)]
struct Place {
    shared: Mutex<Shared>,
    work: Condvar,
    ready: OwnedFd,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread and its queue.
#[derive(Debug)]
pub struct Worker {
    place: Arc<Place>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::System`] when there is no thread or descriptor to be had.
    pub fn start() -> Result<Worker, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ready = eventfd(0, flags).map_err(Error::system(
            "eventfd failed; raise the limit of open files",
        ))?;
        let place = Arc::new(Place {
            shared: Mutex::default(),
            work: Condvar::new(),
            ready,
        });
        let theirs = Arc::clone(&place);
        let thread = std::thread::Builder::new()
            .name("plimsoll-act".into())
            .stack_size(STACK)
            .spawn(move || work(&theirs))
            .map_err(|source| Error::System {
                what: "a thread could not be started; raise the limit of tasks",
                source,
            })?;
        Ok(Worker {
            place,
            thread: Some(thread),
        })
    }

    /// Queues a job. One for the same principal that it makes pointless and that still waits is replaced.
    /// Returns the job that had to be given up for it: the oldest that takes; bounds are lifted by none but a later one.
    pub fn order(&self, job: Job) -> Option<Job> {
        let mut shared = self.place.lock();
        let waiting = shared
            .queue
            .iter_mut()
            .find(|old| old.id == job.id && job.order.replaces(old.order));
        if let Some(old) = waiting {
            *old = job;
            return None;
        }
        let given_up = match shared.queue.len() >= MAX_QUEUED {
            true => {
                let oldest = shared.queue.iter().position(|job| job.order.takes());
                shared.queue.remove(oldest.unwrap_or(0))
            }
            false => None,
        };
        shared.queue.push_back(job);
        self.place.work.notify_one();
        given_up
    }

    /// Looks through what waits to be taken: from each no more than it owes by now. `over` is told of whom nothing is taken
    /// any more.
    pub fn revise(&self, owed: impl Fn(Id) -> u64, mut over: impl FnMut(Id)) {
        self.place.lock().queue.retain_mut(|job| {
            let left = job.order.at_most(owed(job.id));
            match left {
                Some(order) => job.order = order,
                None => over(job.id),
            }
            left.is_some()
        });
    }

    /// Forgets what waits for a principal that is gone.
    pub fn forget(&self, id: Id) {
        self.place.lock().queue.retain(|job| job.id != id);
    }

    /// Removes the cgroup of a principal that is gone; the kernel may make that wait.
    pub fn retire(&self, home: Home) {
        self.place.lock().retired.push(home);
        self.place.work.notify_one();
    }

    /// What was done since the last call.
    pub fn take_outcomes(&self) -> Vec<Outcome> {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.place.ready, &mut counter);
        std::mem::take(&mut self.place.lock().outcomes)
    }
}

impl AsFd for Worker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.place.ready.as_fd()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut shared = self.place.lock();
        shared.stop = true;
        shared.queue.clear();
        drop(shared);
        self.place.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(place: &Place) {
    loop {
        let mut shared = place.lock();
        while shared.queue.is_empty() && shared.retired.is_empty() && !shared.stop {
            shared = place
                .work
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let job = shared.queue.pop_front();
        let retired = std::mem::take(&mut shared.retired);
        let leave = shared.stop && job.is_none();
        drop(shared);
        drop(retired);
        if leave {
            return;
        }
        if let Some(job) = job {
            let outcome = job.run();
            place.lock().outcomes.push(outcome);
            let _ = rustix::io::write(&place.ready, &1u64.to_ne_bytes());
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
        worker.order(Job {
            id: 3,
            order: Order::PageOut(4096),
            processes: vec![(i32::MAX, 1)],
            cgroup: None,
        });
        let until = Instant::now() + Duration::from_secs(10);
        let mut outcomes = Vec::new();
        while outcomes.is_empty() && Instant::now() < until {
            outcomes = worker.take_outcomes();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((outcomes[0].id, outcomes[0].bytes), (3, 0));
    }

    /// One whose thread never came: all that is ordered waits.
    fn idle() -> Worker {
        let place = Place {
            shared: Mutex::default(),
            work: Condvar::new(),
            ready: eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        };
        Worker {
            place: Arc::new(place),
            thread: None,
        }
    }

    fn job(id: Id, order: Order) -> Job {
        Job {
            id,
            order,
            processes: Vec::new(),
            cgroup: None,
        }
    }

    #[test]
    fn the_queue_is_bounded_and_newer_orders_replace_older_ones() {
        let worker = idle();
        let given_up = |id, order| worker.order(job(id, order)).map(|job| (job.id, job.order));
        assert_eq!(given_up(1, Order::PageOut(1)), None);
        assert_eq!(given_up(1, Order::Take(2)), None);
        assert_eq!(worker.place.lock().queue.len(), 1);
        assert_eq!(given_up(0, Order::Bound(u64::MAX)), None);
        worker.place.lock().queue.rotate_left(1);
        for id in 2..MAX_QUEUED as u64 {
            assert_eq!(given_up(id, Order::Take(1)), None);
        }
        assert_eq!(given_up(9999, Order::Take(1)), Some((1, Order::Take(2))));
        worker.forget(9999);
        assert_eq!(worker.place.lock().queue.len(), MAX_QUEUED - 1);
    }

    #[test]
    fn who_has_paid_meanwhile_is_let_be() {
        let worker = idle();
        for (id, order) in [
            (1, Order::PageOut(100)),
            (2, Order::Take(100)),
            (3, Order::Bound(7)),
        ] {
            worker.order(job(id, order));
        }
        let mut over = Vec::new();
        worker.revise(|id| if id == 2 { 30 } else { 0 }, |id| over.push(id));
        assert_eq!(over, [1]);
        let left: Vec<Order> = worker
            .place
            .lock()
            .queue
            .iter()
            .map(|job| job.order)
            .collect();
        assert_eq!(left, [Order::Take(30), Order::Bound(7)]);
    }
}
