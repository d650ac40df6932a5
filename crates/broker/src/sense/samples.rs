//! The samples of principals, and the exchange of the deciding thread and the sampling thread.

use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced;
use plimsoll_wire::messages::Id;
use std::collections::HashMap;

/// A process with less memory than this (bytes) is not sampled.
pub(super) const WORTHWHILE: u64 = 8 << 20;

/// A principal to be sampled.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The principal.
    pub id: Id,
    /// Process id and start time of each of its processes.
    pub processes: Vec<(i32, u64)>,
    /// Sum of their resident shared memory, bytes.
    pub shmem: u64,
}

/// Results for a principal, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Memory touched recently.
    pub working_set: Option<u64>,
    /// Shared memory that it pays for.
    pub shared: Option<Portion>,
}

/// A principal's part of the shared memory that its processes map, bytes. It is scaled when that
/// memory grows or shrinks, until it is measured again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// Bytes that it pays
    pub pays: u64,
    /// when the sum over its processes was this many bytes; a page counts in each mapping.
    pub of: u64,
    /// Whether no other principal maps any of it.
    pub alone: bool,
}

impl Portion {
    /// Bytes that it pays when the sum over its processes is `sum`.
    #[must_use]
    pub fn now(self, sum: u64) -> u64 {
        let part = u128::from(self.pays) * u128::from(sum) / u128::from(self.of.max(1));
        u64::try_from(part).unwrap_or(u64::MAX).min(sum)
    }
}

/// Whether shared memory changed enough to be measured again. Bytes.
pub(super) fn changed(before: u64, now: u64) -> bool {
    before.abs_diff(now) > (before / 8).max(WORTHWHILE)
}

/// State that the deciding thread and the sampling thread exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The principals to sample. Set by the deciding thread.
    pub(super) subjects: Vec<Subject>,
    /// The results. Set by the sampling thread.
    pub(super) found: HashMap<Id, Sampled>,
    /// `subjects` were set and the sampling thread has not taken them over yet.
    pub(super) fresh: bool,
    /// Shared memory changed a lot: the sampling thread must not sleep.
    pub(super) hurry: bool,
    /// There are results about shared memory that the deciding thread should take soon. Set by the sampling
    /// thread, cleared by the deciding one.
    pub(super) news: bool,
}

/// A sampled process. Belongs to the sampling thread.
#[derive(Debug)]
pub(super) struct Probe {
    /// The process.
    pub(super) process: Process,
    /// Its schedule and its estimate.
    pub(super) sampler: referenced::Sampler,
    /// Its reference bits were cleared for a working set and will be read; nothing else may clear
    /// them.
    pub(super) in_window: bool,
    /// Working set as estimated last, bytes; `None` before the first estimate.
    pub(super) touched: Option<u64>,
}

/// Sampled processes by process id and start time.
pub(super) type Probes = HashMap<(i32, u64), Probe>;
