//! Tells whether dropping data gives memory back. An allocator can return a page only when nothing on it is
//! used, so a server may drop most of its small values in vain.

use plimsoll_unit::{Bytes, MIB};

/// A try is judged when at least this was dropped, and one part in [`PART`] of what there was.
const LEAST: Bytes = Bytes(8 * MIB);
const PART: u64 = 8;
/// A try is in vain if less than one part in this many of what was dropped came back.
const VAIN: u64 = 4;

/// A point to compare with: the data that the server had, and the memory of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    data: Bytes,
    uses: Bytes,
}

/// Judges tries, one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effort(Option<Mark>);

impl Effort {
    /// Notes what there is now. Returns whether what was dropped since the last judgement came back in vain.
    pub(super) fn is_vain(&mut self, data: Bytes, uses: Bytes) -> bool {
        let mark = *self.0.get_or_insert(Mark { data, uses });
        let (dropped, back) = (mark.data - data, mark.uses - uses);
        if dropped < LEAST || dropped < mark.data / PART {
            return false;
        }
        self.0 = Some(Mark { data, uses });
        back < dropped / VAIN
    }

    /// Begins anew: another limit holds, or nothing has to be dropped.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_is_judged_when_enough_was_dropped() {
        let mut effort = Effort::default();
        let mib = Bytes::mib;
        assert!(!effort.is_vain(mib(160), mib(200)));
        // A tenth is too little to judge by.
        assert!(!effort.is_vain(mib(144), mib(200)));
        assert!(effort.is_vain(mib(140), mib(196)));
        // From here on anew: a half of it comes back.
        assert!(!effort.is_vain(mib(120), mib(186)));
        effort.forget();
        assert!(!effort.is_vain(mib(20), mib(186)));
        // Less than 8 MiB says nothing.
        assert!(!effort.is_vain(mib(13), mib(186)));
        assert!(effort.is_vain(mib(12), mib(185)));
    }
}
