//! The memory that a competitor holds, lacks and must give back: the figures of the safe limit.

/// Whether what is held above a target must be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// Nobody lacks it.
    #[default]
    None,
    /// A principal that has its entitlement wants more.
    Wanted,
    /// A principal waits for its entitlement, or a family uses more than it may have.
    Needed,
}

/// The memory of one competitor. Bytes. It never keeps more than it tops, nor tops more than it likes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holding {
    /// The memory that it certainly holds: its use, and earlier grants that it keeps.
    pub(super) keeps: u64,
    /// The most it can hold: the greater of its target and its use.
    pub(super) tops: u64,
    /// As much as keeps its limit from falling.
    pub(super) likes: u64,
    /// The memory that it holds: the greater of its use and its grant.
    pub(super) holds: u64,
    /// Its lack of its target, and of its entitlement.
    pub(super) lacks: u64,
    pub(super) waits: u64,
    /// Whether it must give back what it holds above its target.
    pub(super) call: Call,
}

impl Holding {
    /// Adds what a member keeps, tops and likes.
    pub(super) fn add_claims(&mut self, member: &Holding) {
        self.keeps = self.keeps.saturating_add(member.keeps);
        self.tops = self.tops.saturating_add(member.tops);
        self.likes = self.likes.saturating_add(member.likes);
    }

    /// Bounds that by `cap`. Grants that no longer fit under it are all shared out anew: then only `uses`
    /// is kept.
    pub(super) fn bounded(self, cap: u64, uses: u64) -> Holding {
        Holding {
            keeps: if self.keeps <= cap { self.keeps } else { uses },
            tops: self.tops.min(cap),
            likes: self.likes.min(cap),
            ..self
        }
    }

    /// Adds what a member lacks and waits for.
    pub(super) fn add_lacks(&mut self, member: &Holding) {
        self.lacks = self.lacks.saturating_add(member.lacks);
        self.waits = self.waits.saturating_add(member.waits);
    }

    /// The limit of what has this `target`, and at most `least` of it may be called in for others that only
    /// want more.
    pub(super) fn limit(&self, target: u64, least: u64) -> u64 {
        match self.call {
            Call::None => self.holds,
            Call::Wanted => self.holds.min(target.max(least)),
            Call::Needed => self.holds.min(target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_beyond_the_cap_are_shared_out_anew() {
        let member = Holding {
            keeps: 3,
            tops: 4,
            likes: 5,
            ..Holding::default()
        };
        let mut sum = Holding::default();
        sum.add_claims(&member);
        sum.add_claims(&member);
        let fits = sum.bounded(7, 2);
        assert_eq!((fits.keeps, fits.tops, fits.likes), (6, 7, 7));
        assert_eq!(sum.bounded(5, 2).keeps, 2);
    }

    #[test]
    fn the_least_is_owed_only_to_one_that_waits() {
        let limit = |call| {
            let holding = Holding {
                holds: 10,
                call,
                ..Holding::default()
            };
            holding.limit(6, 8)
        };
        assert_eq!(
            [Call::None, Call::Wanted, Call::Needed].map(limit),
            [10, 8, 6]
        );
    }
}
