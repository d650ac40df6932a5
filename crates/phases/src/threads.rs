//! The threads of one machine, and what each did since the last look.

use crate::parameters::Held;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::sched::{Ran, ThreadClock};
use plimsoll_kernel::{Error, Result};
use plimsoll_map::runtimes::hotspot::allocation::Allocation;
use plimsoll_policy::phases::{Thread, Used};
use plimsoll_unit::{Bytes, Nanos};
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::sync::Arc;

/// Descriptors that are left for all else, such as the lists of threads that undo what was set.
const SPARE: u64 = 32;
/// Looks after which the list of threads is compared even if none of them ran.
const COMPARE: u32 = 64;

/// A Java thread that is followed.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) tid: i32,
    clock: ThreadClock,
    /// At the last look.
    ran: Ran,
    /// At the last look after it ran; `None` before.
    bytes: Option<u64>,
    /// Its place in the list of the machine.
    index: usize,
    /// Its use between the last two samples.
    pub(crate) used: Used,
    /// How long it waited for a processor, as far as is known at the last look, nanoseconds.
    pub(crate) waited: u64,
    /// It has allocated something. Threads that never do are not ordered: compilers and the like.
    pub(crate) allocates: bool,
    /// Its number in the present order, if it has one.
    pub(crate) thread: Option<Thread>,
    /// Its parameters, once they were looked at.
    pub(crate) held: Option<Held>,
    /// It has ended, or is none of the machine's threads any more.
    gone: bool,
}

/// The threads of one machine.
#[derive(Debug)]
pub(crate) struct Threads {
    process: Arc<Process>,
    allocation: Allocation,
    followed: Vec<Followed>,
    /// Threads of the list that could not be followed.
    left: usize,
    /// Looks until the list is compared in any case.
    compare: u32,
    /// Places in the list of the threads that ran; kept so that a look need not allocate.
    which: Vec<usize>,
}

impl Threads {
    pub(crate) fn new(process: &Arc<Process>, allocation: Allocation) -> Threads {
        Threads {
            process: Arc::clone(process),
            allocation,
            followed: Vec::new(),
            left: 0,
            compare: 0,
            which: Vec::new(),
        }
    }

    pub(crate) fn threads(&self) -> &[Followed] {
        &self.followed
    }

    pub(crate) fn threads_mut(&mut self) -> &mut [Followed] {
        &mut self.followed
    }

    /// Threads of the list that could not be followed when it was read last.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Reads the clocks of all threads and the allocation of those that ran. Those that have ended are given
    /// to `ended`, in no order.
    ///
    /// # Errors
    /// [`Error::Gone`] when the process has ended; [`Error::NotPermitted`].
    pub(crate) fn look(&mut self, ended: &mut dyn FnMut(Followed)) -> Result<()> {
        let mut any = false;
        for followed in &mut self.followed {
            match followed.clock.read() {
                Ok(now) => {
                    followed.used = Used {
                        time: now.ran - followed.ran.ran,
                        bytes: Bytes::ZERO,
                    };
                    followed.waited = (now.waited - followed.ran.waited).0;
                    followed.ran = now;
                    any |= followed.used.time > Nanos::ZERO;
                }
                Err(_) => followed.gone = true,
            }
        }
        self.sweep(ended);
        self.compare = self.compare.saturating_sub(1);
        // A machine in which nothing runs may be in swap, where it is to stay.
        if (any || self.compare == 0) && self.allocation.is_changed()? {
            self.list()?;
            self.sweep(ended);
        }
        if self.compare == 0 {
            self.compare = COMPARE;
        }
        if !self.process.alive() {
            return Err(Error::Gone {
                pid: self.process.pid(),
            });
        }
        self.read()
    }

    fn read(&mut self) -> Result<()> {
        self.which.clear();
        let ran = |followed: &&Followed| followed.used.time > Nanos::ZERO;
        let places = self
            .followed
            .iter()
            .filter(ran)
            .map(|followed| followed.index);
        self.which.extend(places);
        self.allocation.read(&self.which)?;
        let list = self.allocation.threads();
        for followed in self
            .followed
            .iter_mut()
            .filter(|it| it.used.time > Nanos::ZERO)
        {
            let Some(thread) = list.get(followed.index).filter(|it| it.tid == followed.tid) else {
                continue;
            };
            let before = followed.bytes.replace(thread.bytes);
            followed.used.bytes =
                Bytes(thread.bytes.saturating_sub(before.unwrap_or(thread.bytes)));
            followed.allocates |= thread.bytes > 0;
        }
        Ok(())
    }

    /// Reads the list of threads, unless it changes meanwhile; then the next look will.
    fn list(&mut self) -> Result<()> {
        if !self.allocation.list()? {
            return Ok(());
        }
        let known: HashMap<i32, usize> = (self.followed.iter().enumerate())
            .map(|(index, followed)| (followed.tid, index))
            .collect();
        let mut new = Vec::new();
        let limit = getrlimit(Resource::Nofile).current;
        let most = limit.map_or(usize::MAX, |limit| limit.saturating_sub(SPARE) as usize);
        self.left = 0;
        for followed in &mut self.followed {
            followed.gone = true;
        }
        for (index, thread) in self.allocation.threads().iter().enumerate() {
            if let Some(&place) = known.get(&thread.tid) {
                let followed = &mut self.followed[place];
                followed.index = index;
                followed.gone = false;
                continue;
            }
            // Those that have ended are still among the followed ones.
            if self.followed.len() + new.len() >= most {
                self.left += 1;
                continue;
            }
            let clock = ThreadClock::open(&self.process, thread.tid);
            let read = clock.and_then(|clock| Ok((clock.read()?, clock)));
            match read {
                Ok((ran, clock)) => new.push(Followed {
                    tid: thread.tid,
                    clock,
                    ran,
                    bytes: None,
                    index,
                    used: Used::default(),
                    waited: 0,
                    allocates: false,
                    thread: None,
                    held: None,
                    gone: false,
                }),
                // It ended meanwhile.
                Err(error) if error.is_gone() || error.is_absent() => {}
                Err(_) => self.left += 1,
            }
        }
        self.followed.append(&mut new);
        Ok(())
    }

    fn sweep(&mut self, ended: &mut dyn FnMut(Followed)) {
        let mut index = 0;
        while index < self.followed.len() {
            if self.followed[index].gone {
                ended(self.followed.swap_remove(index));
            } else {
                index += 1;
            }
        }
    }
}
