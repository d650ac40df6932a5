//! Decides on the limit of a memcached, and on the pages of its slabs that are to go. Pure: numbers in, a
//! step out.
//!
//! The limit is for the whole process, and memcached's own only for the pages of its slabs. It hands pages
//! out to classes of sizes, and takes none back by itself when its limit falls. A page that is moved to the
//! pool of free pages is freed, as long as there are more pages than the limit allows.

use super::effort::Effort;
use plimsoll_unit::{Bytes, MIB};

/// memcached refuses a smaller limit.
pub(super) const LEAST: Bytes = Bytes(8 * MIB);
/// A page of a slab. memcached uses another size only when it is told to.
pub(super) const SLAB_PAGE: Bytes = Bytes(MIB);
/// A limit that differs from another by less than one part in this many is the same.
const ALIKE: u64 = 16;

/// One look at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Memory of the process.
    pub(super) uses: Bytes,
    /// Memory of its slabs.
    pub(super) slabs: Bytes,
    /// The limit in force.
    pub(super) in_force: Bytes,
    /// It can move pages between its classes.
    pub(super) can_move: bool,
}

/// Where its memory is to come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aim {
    /// The limit of the process; 0 for none.
    pub(super) limit: Bytes,
    /// The limit that the user gave.
    pub(super) given: Bytes,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// Set the limit of the slabs: whole MiB.
    Set(Bytes),
    /// Free this number of pages.
    Free(u64),
}

/// Facts from earlier looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Control {
    effort: Effort,
    /// The limit that the server cannot come to.
    vain: Option<Bytes>,
}

impl Control {
    /// Whether it was found that pages which the server frees do not come back.
    pub(super) fn is_vain(&self) -> bool {
        self.vain.is_some()
    }

    /// The next step.
    pub(super) fn next(&mut self, look: &Look, aim: &Aim) -> Step {
        if aim.limit == Bytes::ZERO {
            *self = Control::default();
            return set(look, aim.given);
        }
        if look.uses <= aim.limit || self.vain.is_some_and(|vain| differs(vain, aim.limit)) {
            self.vain = None;
            self.effort.forget();
        }
        let beside = look.uses - look.slabs;
        let target = (aim.limit - beside).max(LEAST).min(aim.given.max(LEAST));
        let target = target / MIB * MIB;
        // While nothing comes back, what is freed looks like memory beside the slabs.
        let keeps = self.is_vain() && target < look.in_force;
        if target != look.in_force && !keeps && is_worth(look, target, aim) {
            return Step::Set(target);
        }
        if look.uses <= aim.limit || look.slabs <= look.in_force || !look.can_move {
            return Step::Stay;
        }
        if self.effort.is_vain(look.slabs, look.uses) {
            self.vain = Some(aim.limit);
        }
        if self.is_vain() {
            return Step::Stay;
        }
        Step::Free((look.slabs - look.in_force).0.div_ceil(SLAB_PAGE.0))
    }
}

/// A little more is not worth a command; each MiB less is, because pages are that large.
fn is_worth(look: &Look, target: Bytes, aim: &Aim) -> bool {
    target < look.in_force || target == aim.given || target > look.in_force + SLAB_PAGE
}

fn set(look: &Look, to: Bytes) -> Step {
    if look.in_force == to {
        Step::Stay
    } else {
        Step::Set(to)
    }
}

fn differs(one: Bytes, other: Bytes) -> bool {
    one.max(other) - one.min(other) > one / ALIKE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server with 6 MiB beside its slabs.
    fn look(slabs: u64, in_force: u64) -> Look {
        Look {
            uses: Bytes::mib(slabs + 6),
            slabs: Bytes::mib(slabs),
            in_force: Bytes::mib(in_force),
            can_move: true,
        }
    }

    fn aim(limit: u64, given: u64) -> Aim {
        Aim {
            limit: Bytes::mib(limit),
            given: Bytes::mib(given),
        }
    }

    fn once(look: &Look, aim: &Aim) -> Step {
        Control::default().next(look, aim)
    }

    #[test]
    fn the_limit_is_set_before_pages_are_freed() {
        let set = |to| Step::Set(Bytes::mib(to));
        assert_eq!(once(&look(64, 64), &aim(46, 64)), set(40));
        assert_eq!(once(&look(64, 40), &aim(46, 64)), Step::Free(24));
        assert_eq!(once(&look(40, 40), &aim(46, 64)), Step::Stay);
        assert_eq!(once(&look(64, 64), &aim(5, 64)), set(8));
        let fixed = Look {
            can_move: false,
            ..look(64, 40)
        };
        assert_eq!(once(&fixed, &aim(46, 64)), Step::Stay);
    }

    #[test]
    fn it_grows_with_its_limit_up_to_what_the_user_gave() {
        let set = |to| Step::Set(Bytes::mib(to));
        assert_eq!(once(&look(40, 40), &aim(56, 64)), set(50));
        // One MiB more is not worth it.
        assert_eq!(once(&look(40, 40), &aim(47, 64)), Step::Stay);
        assert_eq!(once(&look(40, 63), &aim(500, 64)), set(64));
        assert_eq!(once(&look(40, 64), &aim(500, 64)), Step::Stay);
        assert_eq!(once(&look(40, 40), &aim(0, 64)), set(64));
    }

    #[test]
    fn pages_that_do_not_come_back_are_not_freed_on_and_on() {
        let mut control = Control::default();
        let mut server = look(64, 40);
        let aim = aim(46, 64);
        assert_eq!(control.next(&server, &aim), Step::Free(24));
        server.slabs = Bytes::mib(52);
        // First the target falls, because the memory looks like memory beside the slabs.
        assert_eq!(control.next(&server, &aim), Step::Set(Bytes::mib(28)));
        server.in_force = Bytes::mib(28);
        assert_eq!(control.next(&server, &aim), Step::Stay);
        assert!(control.is_vain());
        assert_eq!(control.next(&server, &aim), Step::Stay);
        server.uses = Bytes::mib(46);
        server.slabs = Bytes::mib(40);
        assert_eq!(control.next(&server, &aim), Step::Set(Bytes::mib(40)));
        assert!(!control.is_vain());
    }

    proptest! {
        #[test]
        fn a_limit_is_whole_and_within_what_the_user_gave(
            uses in any::<u64>(), slabs in any::<u64>(), in_force in any::<u64>(), can_move in any::<bool>(),
            limit in 1..u64::MAX, given in 8..1_000_000u64,
        ) {
            let look = Look {
                uses: Bytes(uses), slabs: Bytes(slabs), in_force: Bytes(in_force), can_move,
            };
            let given = Bytes::mib(given);
            if let Step::Set(to) = once(&look, &Aim { limit: Bytes(limit), given }) {
                prop_assert!(to >= LEAST && to <= given && to.0 % MIB == 0);
            }
        }
    }
}
