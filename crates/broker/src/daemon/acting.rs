//! Acts on programs: the ladder, cgroups, the balance of reclaim, held file pages.

use super::settings::Settings;
use crate::act::{Cgroups, Home, Job, Order, Outcome, Rights, Worker};
use crate::balance::Balancer;
use crate::decide::{Action, Core};
use crate::error::Error;
use crate::pinning::{self, Pinning};
use crate::principals::Members;
use crate::state::KeptHome;
use crate::user_quota::Held;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Pinned, Refaulted};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Shortest time between two attempts to start the thread that holds file pages.
const PINNING: Nanos = Nanos::seconds(10);

/// The hands. Belongs to the deciding thread; `worker`, `balancer` and `pinning` are handles of other
/// threads.
pub(super) struct Acting {
    /// The thread that pages out and sets bounds.
    worker: Worker,
    /// Makes cgroups for principals.
    cgroups: Cgroups,
    /// Which missing rights were logged.
    rights: Rights,
    /// The thread that measures refaults and shifts reclaim; `None` if `[balance]` wants neither.
    balancer: Option<Balancer>,
    /// Absent while `[pin]` is off.
    pinning: Option<Pinning>,
    /// Earliest time to start that thread.
    pinning_at: Nanos,
}

impl Acting {
    /// Starts the threads. `tag` is the broker's, and `kept` are the cgroups that an earlier one made.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(super) fn start(
        settings: &Settings,
        tag: u32,
        kept: impl Iterator<Item = KeptHome>,
    ) -> Result<Acting, Error> {
        let measures = settings.config.balance.measure;
        Ok(Acting {
            worker: Worker::start()?,
            cgroups: Cgroups::new(tag, kept),
            rights: Rights::default(),
            balancer: measures.then(Balancer::start).transpose()?,
            pinning: None,
            pinning_at: Nanos::ZERO,
        })
    }

    /// Exchanges what is known with the thread that measures refaults. Returns whether a swappiness is to be
    /// noted in the state.
    pub(super) fn exchange(&mut self, members: &mut Members, shift: bool, now: Nanos) -> bool {
        let balancer = self.balancer.as_mut();
        balancer.is_some_and(|balancer| balancer.exchange(members, shift, now))
    }

    /// Pages of programs that were read again so far, where that is measured.
    pub(super) fn refaulted(&self) -> Refaulted {
        let balancer = self.balancer.as_ref();
        balancer.map(Balancer::refaulted).unwrap_or_default()
    }

    /// Orders what the core wants to be done. Returns the job that was given up for it.
    pub(super) fn order(
        &self,
        members: &Members,
        action: &Action,
        settings: &Settings,
    ) -> Option<Job> {
        let (id, order) = order_of(action).filter(|_| settings.config.revoke)?;
        let (uid, mut job) = job_for(members, id, order)?;
        job.swappiness = job.swappiness.filter(|_| settings.config.balance.shift);
        self.worker.order(uid, job)
    }

    /// Updates waiting orders: the memory may have been given back meanwhile. Returns from whom nothing is
    /// to be taken any more.
    pub(super) fn revise(&self, core: &Core) -> Vec<Id> {
        let owed = |id| Bytes(core.figures(id).map_or(0, |figures| figures.numbers.owed));
        let mut over = Vec::new();
        self.worker.revise(owed, |id| over.push(id));
        over
    }

    /// Takes the results of the worker.
    pub(super) fn take_outcomes(&mut self) -> Vec<Outcome> {
        let outcomes = self.worker.take_outcomes();
        for outcome in &outcomes {
            tracing::debug!(principal = outcome.id, order = ?outcome.order, bytes = outcome.bytes.0, "done");
            self.rights.tell(outcome);
        }
        outcomes
    }

    /// Drops the orders for a principal that is gone.
    pub(super) fn forget(&self, id: Id) {
        self.worker.forget(id);
    }

    /// Removes the cgroup of a principal of user `uid` in the background; it holds these descriptors until
    /// then.
    pub(super) fn retire(&self, uid: u32, home: Home, held: Held) {
        self.worker.retire(uid, home, held);
    }

    /// Lets go of the cgroup of a principal that lives on: at once, if that takes a write that does not
    /// block, so that nothing waits that a user can make more of. One that is to be removed goes in the
    /// background; a principal has one in its life.
    pub(super) fn let_go(&self, uid: u32, home: Home, held: Held) {
        if home.is_ours() {
            self.retire(uid, home, held);
        }
    }

    /// The broker's own cgroup.
    pub(super) fn own_cgroup(&self) -> Option<&Path> {
        self.cgroups.own()
    }

    /// The cgroups that are made for principals.
    pub(super) fn cgroups(&mut self) -> &mut Cgroups {
        &mut self.cgroups
    }

    /// Starts and ends the thread that holds file pages as the configuration says, and tells it how memory
    /// stands: the domain's capacity, and whether memory is short. `descriptors` takes those that
    /// the thread needs.
    pub(super) fn pin(
        &mut self,
        settings: &Settings,
        members: &Members,
        (capacity, short): (Bytes, bool),
        descriptors: impl FnOnce() -> Option<Held>,
        now: Nanos,
    ) {
        let pin = &settings.config.pin;
        if pin.enabled != self.pinning.is_some() {
            self.pinning = None;
            if pin.enabled && now >= self.pinning_at {
                self.pinning_at = now + PINNING;
                self.pinning = start_pinning(descriptors());
            }
        }
        let Some(pinning) = &mut self.pinning else {
            return;
        };
        let settings = pinning::Settings {
            bytes: pin.budget.map(|budget| budget.bytes(capacity)),
            window: pin.window,
        };
        pinning.exchange(members, settings, short, now);
    }

    /// The file pages that are held.
    pub(super) fn pinned(&self) -> Option<&Pinned> {
        self.pinning.as_ref().and_then(Pinning::told)
    }

    /// Ends the threads: they let go of file pages, put back the balance of reclaim, and finish what they do
    /// to cgroups. Returns what made those.
    pub(super) fn end(self) -> Cgroups {
        drop(self.pinning);
        drop(self.balancer);
        drop(self.worker);
        self.cgroups
    }
}

/// Readable when the worker has done something.
impl AsFd for Acting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}

fn start_pinning(descriptors: Option<Held>) -> Option<Pinning> {
    let Some(descriptors) = descriptors else {
        tracing::warn!(
            "no file pages are held: that takes descriptors, and users hold nearly all that the \
             broker may have; raise its limit of open files (`LimitNOFILE=` in its unit)"
        );
        return None;
    };
    Pinning::start(descriptors)
        .inspect_err(|error| tracing::warn!(%error, "no file pages are held"))
        .ok()
}

fn order_of(action: &Action) -> Option<(Id, Order)> {
    match *action {
        Action::Publish { .. } => None,
        Action::PageOut { id, bytes } => Some((id, Order::PageOut(bytes))),
        Action::Take { id, bytes } => Some((id, Order::Take(bytes))),
        Action::Bound { id, bytes } => Some((id, Order::Bound(bytes))),
    }
}

/// The job for an order, with the user of the principal.
fn job_for(members: &Members, id: Id, order: Order) -> Option<(u32, Job)> {
    let member = members.get(id)?;
    let job = Job {
        id,
        order,
        processes: member.memory.instances().collect(),
        cgroup: (member.home.as_ref())
            .filter(|home| home.complete)
            .map(Home::target),
        swappiness: member
            .reclaim
            .refaults()
            .and_then(|reading| reading.take_by()),
    };
    Some((member.owner.uid, job))
}
