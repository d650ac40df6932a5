//! How many descriptors the broker may hold for its users: what the limit of open files leaves
//! beside its own. They are counted as they are taken, because one that has none left can neither
//! accept, nor act, nor save.

use crate::share::Division;
use rustix::process::{Resource, getrlimit};

/// For the broker itself: what it has open for long, and what it opens for a moment to accept, to
/// look at a process, to page out, to save.
const OWN: usize = 128;
/// Besides, for each process whose pages are sampled: a pidfd, `stat`, `status`. So many are sampled at most.
const PROBE: usize = 3;
const MOST_PROBES: usize = 1024;
/// A user's first: a principal with two connections, its process and a child, a listener, and one
/// who looks on.
const FIRST: usize = 20;
/// No kernel gives more (`fs.nr_open` as it is when nobody raised it).
const MOST: usize = 1 << 20;

/// For the process of a principal, or a descendant: a pidfd, `stat`, `status`, `statm`.
pub const PROCESS: usize = 4;
/// For a cgroup: limit, usage, what it is made of, what is in swap.
pub const CGROUP: usize = 4;
/// For a principal of any kind: its page, its pressure socket.
pub const PRINCIPAL: usize = 2;

/// What this process may open now, divided.
pub(crate) fn division() -> Division {
    divide(limit(), open_now())
}

/// Processes that may be sampled at a time.
#[must_use]
pub fn probes() -> usize {
    probes_of(limit())
}

/// They take less than a tenth of all descriptors.
fn probes_of(limit: usize) -> usize {
    MOST_PROBES.min(limit / 32)
}

fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(MOST).min(MOST)
}

/// Beside its own the broker needs what it was given open.
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

fn open_now() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
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
