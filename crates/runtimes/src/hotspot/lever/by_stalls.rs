//! The size of a heap without a broker's limit, or below one: by the stalls of its process, and by the memory
//! that is free.

use super::super::isla_vista::Feedback;
use super::super::options::Policy;
use super::super::stalls::Signal;
use plimsoll_kernel::capacity::Domain;
use tracing::{info, warn};

/// One part in this many of the memory stays free until the first stall: for files that the program reads
/// again and again, and for what is taken between two looks.
const FREE_PART: u64 = 16;
/// The most that stays free, bytes.
const FREE_MOST: u64 = 1 << 30;

/// Sizes the heap of one process. Used by the steering loop's thread alone.
#[derive(Debug)]
pub(super) struct ByStalls {
    /// The decisions.
    pub(super) feedback: Feedback,
    /// The stalls.
    pub(super) signal: Signal,
    /// The memory that bounds the process; `None` if that cannot be read.
    domain: Option<Domain>,
}

impl ByStalls {
    /// That of process `pid` by this policy; `counted`: whether its collections are counted.
    pub(super) fn of(policy: Policy, pid: u32, counted: bool) -> ByStalls {
        let (signal, told) = Signal::open(pid);
        for line in told {
            info!("process {pid}, stalls: {line}");
        }
        if !counted {
            warn!(
                "process {pid}: when it collects is not known without counters, so stalls do not size its \
                 heap"
            );
        }
        ByStalls {
            feedback: match policy {
                Policy::Printed => Feedback::printed(),
                _ => Feedback::default(),
            },
            signal,
            domain: Domain::of_process(i32::try_from(pid).unwrap_or(-1)).ok(),
        }
    }

    /// The bytes that the process may take, which has `resident` bytes in memory: those, and what is free
    /// beyond a part that stays free. `u64::MAX` if that is not known.
    pub(super) fn reach(&mut self, resident: u64) -> u64 {
        let reading = self.domain.as_mut().and_then(|domain| domain.read().ok());
        reading.map_or(u64::MAX, |reading| {
            let kept = (reading.capacity.0 / FREE_PART).min(FREE_MOST);
            resident.saturating_add(reading.room().0.saturating_sub(kept))
        })
    }
}
