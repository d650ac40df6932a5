//! The number of descriptors that the broker may hold for its users: the limit of open files less
//! its own. They are counted as they are taken, because a broker without a free descriptor can
//! neither accept, act nor save.

use crate::user_quota::Division;
use plimsoll_kernel::descriptors::own;
use rustix::process::{Resource, getrlimit};

/// Descriptors for the broker itself: those open for long, and those opened briefly to accept,
/// examine a process, page out or save.
const OWN: usize = 128;
/// Descriptors for each sampled process: a pidfd, `stat`, `status`. [`probes`] bounds their number.
const PROBE: usize = 3;
const MOST_PROBES: usize = 1024;
/// A user's *first* (see [`Division`]): enough for a principal with two connections, its process
/// and a child, a listener, and one more client that lists.
const FIRST: usize = 20;
/// Largest limit that is counted on: `fs.nr_open` as the kernel sets it by default.
const MOST: usize = 1 << 20;

/// Descriptors for the process of a principal or a descendant: a pidfd, `stat`, `status`, `statm`.
pub const PROCESS: usize = 4;
/// Descriptors for a cgroup: limit, usage, statistics, swap.
pub const CGROUP: usize = 4;
/// Descriptors for a principal of any kind: its page and its pressure socket.
pub const PRINCIPAL: usize = 2;

/// The descriptors that this process may open now, as a division.
pub(crate) fn division() -> Division {
    let open = own().map_or(0, Iterator::count);
    divide(limit(), open)
}

/// Most processes sampled at a time.
#[must_use]
pub fn probes() -> usize {
    probes_of(limit())
}

/// Number of probes; their descriptors stay below a tenth of all.
fn probes_of(limit: usize) -> usize {
    MOST_PROBES.min(limit / 32)
}

fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(MOST).min(MOST)
}

/// Descriptors that were inherited open count as the broker's own.
fn divide(limit: usize, open: usize) -> Division {
    let most = limit
        .saturating_sub(open)
        .saturating_sub((OWN + PROBE * probes_of(limit)).min(limit / 4));
    Division {
        most,
        kept: most / 8,
        first: FIRST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_most_of_what_there_is_and_the_broker_keeps_its_own() {
        assert_eq!(divide(65_536, 10).most, 65_536 - 10 - OWN - 3072);
        assert_eq!(divide(1024, 20).most, 1024 - 20 - OWN - 96);
        assert_eq!((probes_of(1024), probes_of(65_536)), (32, MOST_PROBES));
        assert_eq!(divide(256, 20).most, 256 - 20 - 64);
        assert_eq!(divide(0, 20).most, 0);
        assert_eq!(divide(5, 20).most, 0);
        let here = division();
        assert!(here.most > 0 && here.kept < here.most);
    }
}
