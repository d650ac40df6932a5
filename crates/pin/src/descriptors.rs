//! How many descriptors each part of the work may take: together no more than half of those that this
//! process may have. Without one it could not even read how much memory is left.

use plimsoll_kernel::descriptors::limit;

/// The most processes that are watched, however many files may be open.
pub(crate) const MAX_PROCESSES: usize = 4096;
/// The most groups whose margins are watched.
pub(crate) const MAX_GROUPS: usize = 256;
/// The most files with held pages.
const MAX_FILES: usize = 1024;
/// The most files that are kept open to ask the page cache about them.
const MAX_OPEN: usize = 256;
/// For a process that is watched: a pidfd, `stat`, `status`, and the page map.
const PROCESS: usize = 4;
/// For a group whose margin is watched: limit, usage, statistics and swap, its own and those of four above.
const GROUP: usize = 20;

/// The most descriptors that [`Pinner`](crate::Pinner) takes, and three that it opens for a moment.
pub fn most() -> usize {
    processes() * PROCESS + groups() * GROUP + held() + queried() + 3
}

/// The most processes that are watched.
pub(crate) fn processes() -> usize {
    MAX_PROCESSES.min(of(limit(), 4, PROCESS))
}

/// The most groups whose margins are watched.
pub(crate) fn groups() -> usize {
    MAX_GROUPS.min(of(limit(), 8, GROUP))
}

/// The most files with held pages.
pub(crate) fn held() -> usize {
    MAX_FILES.min(of(limit(), 16, 1))
}

/// The most files about which the page cache is asked.
pub(crate) fn queried() -> usize {
    MAX_OPEN.min(of(limit(), 32, 1))
}

/// How many things that take `each` descriptors make up a part of all.
fn of(limit: usize, part: usize, each: usize) -> usize {
    (limit / part / each).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_is_left() {
        assert_eq!((of(1024, 4, PROCESS), of(1024, 8, GROUP)), (64, 6));
        let all = [(4, PROCESS), (8, GROUP), (16, 1), (32, 1)];
        for limit in [256, 1024, 65_536, 1 << 20] {
            let taken: usize = all
                .map(|(part, each)| of(limit, part, each) * each)
                .iter()
                .sum();
            assert!(taken <= limit / 2, "{taken} of {limit}");
        }
        assert_eq!(of(0, 4, PROCESS), 1);
        assert!(most() <= (limit() / 2).max(1 + PROCESS + GROUP + 1) + 3);
        assert!(most() <= 4096 * PROCESS + 256 * GROUP + 1024 + 256 + 3);
    }
}
