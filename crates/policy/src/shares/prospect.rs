//! The memory that a competitor comes to and could have: the figures of Algorithms 2 and 3.

use super::types::{MOST_USED, Principal};

/// The prospects of one competitor. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prospect {
    /// Its memory if its trend continued unhindered, and without growth.
    pub(super) expects: u64,
    pub(super) starts: u64,
    /// The memory that it comes to beside the others (Algorithm 3).
    pub(super) effective: u64,
    /// The memory that it could have if it asked (Algorithm 2).
    pub(super) available: u64,
}

impl Prospect {
    /// That of the own memory of a principal.
    pub(super) fn own(p: &Principal) -> Prospect {
        let uses = p.uses.min(MOST_USED);
        let grown = uses.saturating_add_signed(p.trend);
        let expects = grown.min(uses.max(p.max)).min(MOST_USED);
        Prospect {
            expects,
            starts: uses.min(expects),
            ..Prospect::default()
        }
    }

    /// Adds what a member expects and starts from.
    pub(super) fn add(&mut self, member: &Prospect) {
        self.expects = self.expects.saturating_add(member.expects);
        self.starts = self.starts.saturating_add(member.starts);
    }
}
