//! The user's options.

use plimsoll_unit::{Bytes, Nanos};
use std::path::PathBuf;

/// The default budget.
pub const DEFAULT_BYTES: Bytes = Bytes::mib(256);
/// The default budget, part of the domain's memory.
pub const DEFAULT_SHARE: f64 = 0.05;
/// The default window.
pub const DEFAULT_WINDOW: Nanos = Nanos::seconds(30);

/// How pages are chosen and held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Never hold more than this; `None` for no such bound.
    pub bytes: Option<Bytes>,
    /// Never hold more than this part of the memory of the domain that we are in, 0 to 1; `None` for
    /// no such bound. With both bounds the smaller counts, with none [`DEFAULT_BYTES`] and
    /// [`DEFAULT_SHARE`].
    pub share: Option<f64>,
    /// Time over which refaults are counted; at least a second.
    pub window: Nanos,
    /// Hold pages even where nothing can be swapped. Then a shortage of memory ends in the kernel
    /// killing a program instead of reading files again.
    pub without_swap: bool,
    /// Only say what would be held.
    pub dry_run: bool,
    /// Choose once, after the first window, and hold that.
    pub once: bool,
    /// Largest part of one processor that looking may take, 0 to 1.
    pub processor: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bytes: None,
            share: None,
            window: DEFAULT_WINDOW,
            without_swap: false,
            dry_run: false,
            once: false,
            processor: 0.02,
        }
    }
}

impl Options {
    /// The budget in a domain of this capacity.
    pub fn budget(&self, capacity: Bytes) -> Bytes {
        let (bytes, share) = match (self.bytes, self.share) {
            (None, None) => (Some(DEFAULT_BYTES), Some(DEFAULT_SHARE)),
            given => given,
        };
        let part = |share: f64| Bytes((capacity.0 as f64 * share.clamp(0.0, 1.0)) as u64);
        let bounds = bytes.into_iter().chain(share.map(part));
        bounds.fold(capacity, Bytes::min)
    }
}

/// Whose files are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programs {
    /// These processes and their descendants.
    Processes(Vec<i32>),
    /// All processes in this cgroup and below it.
    Group(PathBuf),
    /// All processes that we may look at.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_bound_counts() {
        let options = |bytes, share| Options {
            bytes,
            share,
            ..Options::default()
        };
        let budget = |bytes: Option<u64>, share, capacity| {
            options(bytes.map(Bytes), share).budget(Bytes(capacity))
        };
        assert_eq!(budget(None, None, 1 << 30), Bytes((1 << 30) / 20));
        assert_eq!(budget(None, None, 1 << 40), DEFAULT_BYTES);
        assert_eq!(budget(Some(5), None, 1 << 40), Bytes(5));
        assert_eq!(budget(Some(500), Some(0.1), 1000), Bytes(100));
        assert_eq!(budget(Some(u64::MAX), None, 1000), Bytes(1000));
        assert_eq!(budget(None, Some(7.0), 1000), Bytes(1000));
    }
}
