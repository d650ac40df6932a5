//! The collections that more memory saves a competitor: the figures of the square-root rule.

use super::types::{MOST_BUDGET, Principal};

/// Square-root coefficients stay below this.
const MOST_PULL: f64 = (1u64 << 48) as f64;
/// Square roots are kept in units of 1/256.
const PULL_UNIT: f64 = 256.0;

/// The collectors of one competitor. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collecting {
    /// Live bytes, which the rule neither gives nor takes.
    live: u64,
    /// Below this it lends nothing.
    pub(super) modest: u64,
    /// Square-root coefficient in units of [`PULL_UNIT`]; `pull` is the coefficient relative to its siblings.
    coefficient: u64,
    pub(super) pull: u64,
    /// Seconds that a change of its size costs: for each program in it a collection of the whole heap, or
    /// its reaction time if that is longer. `cost` is weighted among its siblings.
    resizing: f64,
    pub(super) cost: f64,
    /// Seconds for which its coefficient is expected to hold: of a family, the mean of its members.
    pub(super) lasts: f64,
    /// Its target as decided last.
    pub(super) last: u64,
    /// The part of its target that it keeps.
    pub(super) base: u64,
    /// Whether the collectors of all descendants that want memory are known.
    pub(super) known: bool,
}

impl Collecting {
    /// That of the own memory of a principal.
    pub(super) fn own(p: &Principal) -> Collecting {
        let c = &p.collector;
        let known = c.is_known();
        let whole = if known {
            c.live as f64 / c.collection_speed as f64
        } else {
            0.0
        };
        // A program that says that it takes long holds up the moves of its siblings, so it is not believed
        // more than this.
        let reaction = (f64::from(p.resizing_ms) / 1e3).min(4.0 * whole + 0.2);
        let root = (whole * c.allocation_rate as f64).sqrt();
        Collecting {
            live: c.live,
            modest: p.modest.min(MOST_BUDGET),
            coefficient: (root * PULL_UNIT).min(MOST_PULL) as u64,
            resizing: whole.max(reaction),
            lasts: f64::from(p.lasts_ms) / 1e3,
            last: p.last_target,
            known,
            ..Collecting::default()
        }
    }

    /// Weighs it among its siblings; `part` is its part of their weights.
    fn weigh(&mut self, part: f64) {
        // Floating point, but rounded once per node to a whole number, so the sum does not depend on the
        // order.
        self.pull = (self.coefficient as f64 * part.sqrt()) as u64;
        self.cost = self.resizing * part;
    }

    /// Bytes that the square-root rule neither gives nor takes: live ones, as far as it keeps them.
    pub(super) fn offset(&self) -> u64 {
        self.live.min(self.base)
    }

    /// Bytes of its last target beyond the offset.
    pub(super) fn last_room(&self) -> u64 {
        self.last.saturating_sub(self.offset())
    }

    /// Seconds per second that its collections take with `room` bytes beyond the offset, weighted.
    pub(super) fn spent(&self, room: u64) -> f64 {
        let root = self.pull as f64 / PULL_UNIT;
        root * root / (room.max(1) as f64)
    }
}

/// The collectors of a family, summed up.
pub(super) struct Sum {
    all: Collecting,
    /// How long the coefficients hold, summed by pull; and the sum of these pulls.
    lasting: f64,
    pulls: f64,
}

impl Sum {
    pub(super) fn new() -> Sum {
        let all = Collecting {
            known: true,
            ..Collecting::default()
        };
        Sum {
            all,
            lasting: 0.0,
            pulls: 0.0,
        }
    }

    /// Adds what any member had last.
    pub(super) fn add_last(&mut self, member: &Collecting) {
        self.all.last = self.all.last.saturating_add(member.last);
    }

    /// Weighs a member that wants memory and has `weight` of the family's `weights`, and adds it.
    pub(super) fn add(&mut self, member: &mut Collecting, weight: u32, weights: u64) {
        member.weigh(f64::from(weight) / weights as f64);
        // One that rests has no pull, and may give memory all the same.
        let by = member.pull.max(1) as f64;
        self.lasting += by * member.lasts;
        self.pulls += by;
        let all = &mut self.all;
        all.resizing += member.cost;
        all.live = all.live.saturating_add(member.live);
        all.modest = all.modest.max(scaled(member.modest, weights, weight));
        all.coefficient = all
            .coefficient
            .saturating_add(member.pull)
            .min(MOST_PULL as u64);
        all.known &= member.known;
    }

    /// The whole. With its modest size each member has what it needs if all are of `one_class`. Lower
    /// classes are served last, from less.
    pub(super) fn whole(self, one_class: bool) -> Collecting {
        Collecting {
            modest: if one_class {
                self.all.modest
            } else {
                MOST_BUDGET
            },
            lasts: self.lasting / self.pulls.max(1.0),
            ..self.all
        }
    }
}

/// The whole, if `bytes` is its fraction `weight / weights`.
fn scaled(bytes: u64, weights: u64, weight: u32) -> u64 {
    let all = u128::from(bytes) * u128::from(weights) / u128::from(weight.max(1));
    u64::try_from(all).unwrap_or(u64::MAX).min(MOST_BUDGET)
}
