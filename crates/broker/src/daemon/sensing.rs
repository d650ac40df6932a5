//! Senses the memory that is shared out, and that of each principal. Allocates nothing at rest.

use super::settings::Settings;
use super::shared_limit::{self, Part};
use super::user_time::UserTime;
use crate::decide::{Core, SensedDomain, SensedPrincipal};
use crate::error::Error;
use crate::principals::Members;
use crate::sense::{Found, RootDomain, Sampler, Scanner};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Id;
use std::os::fd::{AsFd, BorrowedFd};

/// Change of the domain's use between two ticks, in bytes, above which every principal is read.
const MOVED: Bytes = Bytes::mib(8);
/// Most principals per tick for which a search for descendants is requested.
const SCANS_PER_TICK: usize = 64;
/// Most principals whose process is looked at in one sweep for a move (0.1 ms each).
const MOVES_AT_ONCE: usize = 16;

/// The senses. Belongs to the deciding thread; `sampler` and `scanner` are handles of other threads.
pub(super) struct Sensing {
    /// The memory that is shared out: the machine, or a limiting cgroup.
    domain: RootDomain,
    /// Capacity in bytes for which the core was configured.
    configured_for: Bytes,
    /// Use of the domain at the last tick, bytes.
    used_before: Bytes,
    /// The thread that samples working sets and shared memory; `None` if the configuration wants neither.
    sampler: Option<Sampler>,
    /// The thread that searches for descendants.
    scanner: Scanner,
    /// Sensed values of the current tick; kept, so that a tick does not allocate.
    sensed: Vec<SensedPrincipal>,
    /// Users' groups for shared limits, for this tick.
    parts: Vec<Part>,
    /// First id of the next principals that are looked at for moves between cgroups.
    moves_from: Id,
}

impl Sensing {
    /// Finds the domain, and starts the threads.
    ///
    /// # Errors
    /// When the domain cannot be read, or a thread cannot be started.
    pub(super) fn start(settings: &Settings) -> Result<Sensing, Error> {
        let domain = RootDomain::open(settings.options.domain.as_deref())?;
        let config = &settings.config;
        Ok(Sensing {
            configured_for: domain.last().capacity,
            domain,
            used_before: Bytes::ZERO,
            sampler: Sampler::start(config.working_sets, config.sharing)?,
            scanner: Scanner::start()?,
            sensed: Vec::new(),
            parts: Vec::new(),
            moves_from: 0,
        })
    }

    /// The memory that is shared out.
    pub(super) fn domain(&self) -> &RootDomain {
        &self.domain
    }

    /// Its capacity as read last. The core is configured for it from now on.
    pub(super) fn take_capacity(&mut self) -> Bytes {
        self.configured_for = self.domain.last().capacity;
        self.configured_for
    }

    /// Exchanges what is known with the other threads.
    pub(super) fn exchange(&mut self, members: &mut Members, now: Nanos) {
        members.ask_scans(&self.scanner, now, SCANS_PER_TICK);
        if let Some(sampler) = &mut self.sampler {
            sampler.exchange(members, now);
        }
    }

    /// Reads the domain. The second value tells whether the core was configured for another capacity.
    pub(super) fn read(&mut self) -> (SensedDomain, bool) {
        let domain = self.domain.read();
        (domain, domain.capacity != self.configured_for)
    }

    /// Reads the memory of each principal. If reading a user's processes took more than that user's part of
    /// our time, they keep their last values until that is over. `used`: use of the domain.
    pub(super) fn sense(
        &mut self,
        members: &mut Members,
        time: &mut UserTime,
        used: Bytes,
        now: Nanos,
    ) {
        // Some process moved much memory. If it is a principal, its memory must not be taken for an
        // outsider's: idle ones are read, too.
        let all = used.abs_diff(self.used_before) > MOVED;
        self.used_before = used;
        self.sensed.clear();
        let charged: Bytes = members.iter().map(|member| member.memory.files()).sum();
        let file_pages = self.domain.file_pages().min(charged);
        let mut put_off = None;
        let round = members.begin_round();
        for &id in &round {
            let Some(member) = members.get_mut(id) else {
                continue;
            };
            let began = time.begin(member.owner.payer);
            // A principal gets no grant before it was read.
            let may = member.is_absent() || time.may(member.owner.payer, now);
            if !may {
                put_off = put_off.or(Some(id));
            }
            let answers = may && member.memory.read(now, all, member.home.as_ref());
            let (own, swapped) = member.memory.accounted();
            // The kernel may have charged pages to a cgroup outside of the domain, where they cost nothing.
            let files = member.memory.files().part(file_pages.0, charged.0.max(1));
            let sampled = member.memory.sampled();
            let domain = member
                .domain
                .as_mut()
                .map(|domain| if may { domain.read() } else { domain.last() });
            self.sensed.push(SensedPrincipal {
                id: member.id,
                uses: own + files,
                files,
                read_at: member.memory.read_at(),
                answers,
                swapped,
                wanted: sampled.wanted,
                working_set: sampled.working_set,
                bare: !member.home.as_ref().is_some_and(|home| home.complete),
                absent: member.is_absent(),
                domain,
            });
            time.end(member.owner.payer, began);
        }
        members.end_round(round, put_off);
        self.sensed.sort_unstable_by_key(|one| one.id);
    }

    /// Replaces the domain of each group for a shared limit by its user's part of that domain.
    pub(super) fn divide(&mut self, members: &mut Members, core: &Core) {
        shared_limit::divide(&mut self.parts, members, core, &mut self.sensed);
    }

    /// The values of this tick, one for each principal, ordered by id.
    pub(super) fn sensed(&self) -> &[SensedPrincipal] {
        &self.sensed
    }

    /// Reads only the use of the domains. Returns whether that shows the need for a tick.
    pub(super) fn glance(
        &mut self,
        members: &mut Members,
        core: &Core,
        time: &mut UserTime,
        now: Nanos,
    ) -> bool {
        let mut wanted = self.domain.glance(|used| core.glance(None, used));
        for member in members.iter_mut() {
            let may = !wanted && time.may(member.owner.payer, now);
            let Some(domain) = member.domain.as_mut().filter(|_| may) else {
                continue;
            };
            let began = time.begin(member.owner.payer);
            let (id, beside) = (Some(member.id), member.beside);
            wanted |= domain.glance(|used| core.glance(id, used - beside));
            time.end(member.owner.payer, began);
        }
        wanted
    }

    /// Results of the searches for descendants.
    pub(super) fn take_scans(&self) -> Vec<(Id, plimsoll_kernel::Result<Found>)> {
        self.scanner.take()
    }

    /// Some principals, in turn, to see whether their process was moved.
    pub(super) fn some_to_follow(&mut self, members: &Members) -> Vec<Id> {
        let some = members.some_from(self.moves_from, MOVES_AT_ONCE);
        self.moves_from = some.last().map_or(0, |last| last + 1);
        some
    }
}

/// Readable when there are results of searches.
impl AsFd for Sensing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.scanner.as_fd()
    }
}
