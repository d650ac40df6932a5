//! How much may be held now: the allowance. Less than the budget when memory is short, nothing
//! where nothing can be swapped.
//!
//! Pages that we hold cannot be reclaimed, so everything else has to give way to a program that
//! grows: what is free, what can be dropped, what can go to swap. We hold at most half of that. Only
//! anonymous memory can go to swap, and only as much of it as there is room for there. When nothing is
//! left to give way, the kernel kills a program instead; so far it read files again.

use crate::descriptors;
use plimsoll_kernel::Result;
use plimsoll_kernel::capacity::{Domain, Reading};
use plimsoll_unit::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Part of a domain's memory that is kept free of any plan.
const RESERVE: u64 = 16;

/// The bound that determines the allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The budget.
    Budget,
    /// The domain is short of memory.
    Short,
    /// Nothing of the domain can go to swap.
    NoSwap,
    /// RLIMIT_MEMLOCK.
    LockLimit,
    /// There are more groups than are watched, and this is none of those.
    Unwatched,
    /// How much memory the group has left cannot be read.
    Unreadable,
}

/// How much may be held now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The most that may be held.
    pub bytes: Bytes,
    /// Why not more.
    pub bound: Bound,
}

impl Allowance {
    /// Nothing may be held, for this reason.
    pub(crate) const fn none(bound: Bound) -> Allowance {
        Allowance {
            bytes: Bytes::ZERO,
            bound,
        }
    }
}

/// The allowance of a domain. `held` is what we hold in it now, `pageable` the room that is
/// left for it in swap. Pure.
pub fn allowance(
    budget: Bytes,
    reading: &Reading,
    pageable: Bytes,
    held: Bytes,
    without_swap: bool,
) -> Allowance {
    if pageable == Bytes::ZERO && !without_swap {
        return Allowance::none(Bound::NoSwap);
    }
    let to_swap = pageable.min(reading.anonymous);
    let margin = reading.room() + held + to_swap;
    let bytes = (margin - reading.capacity / RESERVE) / 2;
    if bytes < budget {
        Allowance {
            bytes,
            bound: Bound::Short,
        }
    } else {
        Allowance {
            bytes: budget,
            bound: Bound::Budget,
        }
    }
}

/// The domains that matter: ours, and those of the programs, whose memory the pages may be in.
#[derive(Debug)]
pub struct Margins {
    own: Domain,
    /// `None`: it could not be opened yet.
    groups: BTreeMap<PathBuf, Option<Domain>>,
}

impl Margins {
    /// Starts with the domain that we are in.
    ///
    /// # Errors
    /// When our cgroup or `/proc` cannot be read.
    pub fn new() -> Result<Margins> {
        Ok(Margins {
            own: Domain::of_self()?,
            groups: BTreeMap::new(),
        })
    }

    /// Watches these groups and no others; false where there are more than are watched.
    pub fn watch<'a>(&mut self, groups: impl Iterator<Item = &'a Path>) -> bool {
        let most = descriptors::groups();
        let mut known = std::mem::take(&mut self.groups);
        for dir in groups {
            if self.groups.contains_key(dir) {
                continue;
            }
            if self.groups.len() >= most {
                return false;
            }
            let domain = known.remove(dir).flatten();
            self.groups.insert(dir.to_owned(), domain);
        }
        true
    }

    /// Reads our own domain: capacity and allowance.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn own(
        &mut self,
        budget: impl Fn(Bytes) -> Bytes,
        held: Bytes,
        without_swap: bool,
    ) -> Result<(Bytes, Allowance)> {
        let reading = self.own.read()?;
        let pageable = self.own.pageable(&reading)?;
        // The budget is a share of what the domain can ever hold, whatever binds at the moment.
        let lowest = reading.lowest;
        let budget = budget(lowest);
        let allowance = allowance(budget, &reading, pageable, held, without_swap);
        Ok((lowest, allowance))
    }

    /// Reads the domain of a group of programs; `None` where it is not watched.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn group(
        &mut self,
        dir: &Path,
        budget: Bytes,
        held: Bytes,
        without_swap: bool,
    ) -> Result<Option<Allowance>> {
        let Some(opened) = self.groups.get_mut(dir) else {
            return Ok(None);
        };
        let domain = match opened {
            Some(domain) => domain,
            None => opened.insert(Domain::of_group(dir)?),
        };
        let reading = domain.read()?;
        let pageable = domain.pageable(&reading)?;
        let allowance = allowance(budget, &reading, pageable, held, without_swap);
        Ok(Some(allowance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MIB;

    const NONE: Bytes = Bytes::ZERO;

    fn reading(capacity: Bytes, used: Bytes) -> Reading {
        Reading {
            capacity,
            lowest: capacity,
            used,
            usage: used,
            anonymous: Bytes::MAX,
            ..Reading::default()
        }
    }

    #[test]
    fn a_group_that_cannot_be_read_is_no_group_too_many() {
        let mut margins = Margins::new().unwrap();
        let no_group = tempfile::tempdir().unwrap();
        let (dir, other) = (no_group.path(), Path::new("/nowhere"));
        assert!(margins.watch([dir].into_iter()));
        let error = margins.group(dir, Bytes(MIB), NONE, false).unwrap_err();
        assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
        assert!(
            margins
                .group(other, Bytes(MIB), NONE, false)
                .unwrap()
                .is_none()
        );
        let names: Vec<PathBuf> = (0..300).map(|n| dir.join(format!("{n}"))).collect();
        assert!(!margins.watch(names.iter().map(PathBuf::as_path)));
        assert!(margins.group(&names[0], Bytes(MIB), NONE, false).is_err());
        assert!(
            margins
                .group(&names[299], Bytes(MIB), NONE, false)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn swap_is_worth_no_more_than_what_could_go_there() {
        let full = |anonymous| Reading {
            anonymous,
            ..reading(Bytes::mib(400), Bytes::mib(400))
        };
        let of = |anonymous| {
            allowance(
                Bytes::mib(64),
                &full(anonymous),
                Bytes(1 << 40),
                NONE,
                false,
            )
        };
        assert_eq!(of(Bytes::mib(400)).bound, Bound::Budget);
        assert_eq!(of(Bytes::mib(65)).bytes, Bytes::mib(20));
        // It is short, but not for want of swap.
        assert_eq!(
            (of(Bytes::ZERO).bytes, of(Bytes::ZERO).bound),
            (NONE, Bound::Short)
        );
    }

    #[test]
    fn a_full_domain_with_swap_may_hold_and_one_without_may_not() {
        let full = reading(Bytes::mib(400), Bytes::mib(400));
        let with = allowance(Bytes::mib(64), &full, Bytes::mib(512), NONE, false);
        assert_eq!(with.bytes, Bytes::mib(64));
        let without = allowance(Bytes::mib(64), &full, NONE, NONE, false);
        assert_eq!((without.bytes, without.bound), (NONE, Bound::NoSwap));
        // Not even by force when nothing is free.
        assert_eq!(
            allowance(Bytes::mib(64), &full, NONE, NONE, true).bytes,
            NONE
        );
        let roomy = reading(Bytes::mib(400), Bytes::mib(100));
        assert_eq!(
            allowance(Bytes::mib(64), &roomy, NONE, NONE, true).bytes,
            Bytes::mib(64)
        );
        assert_eq!(
            allowance(Bytes::mib(64), &roomy, NONE, NONE, false).bytes,
            NONE
        );
    }

    proptest! {
        #[test]
        fn never_above_the_budget_and_less_when_shorter(
            budget: u64, capacity: u64, used: u64, more: u64, pageable: u64, held: u64, force: bool,
        ) {
            let (budget, pageable, held) = (Bytes(budget), Bytes(pageable), Bytes(held));
            let (capacity, used) = (Bytes(capacity), Bytes(used));
            let now = allowance(budget, &reading(capacity, used), pageable, held, force);
            prop_assert!(now.bytes <= budget);
            let used_later = used + Bytes(more);
            let later = allowance(budget, &reading(capacity, used_later), pageable, held, force);
            prop_assert!(later.bytes <= now.bytes);
        }

        /// At least as much memory as is held can still give way: room, and anonymous memory for which there
        /// is swap.
        #[test]
        fn as_much_as_is_held_can_give_way(
            budget in 0u64..1 << 40, capacity in 1u64..1 << 40, used in 0u64..1 << 40,
            pageable in 0u64..1 << 40, anonymous in 0u64..1 << 40, force: bool,
        ) {
            prop_assume!(used <= capacity);
            let (pageable, anonymous) = (Bytes(pageable), Bytes(anonymous));
            let reading = Reading { anonymous, ..reading(Bytes(capacity), Bytes(used)) };
            let now = allowance(Bytes(budget), &reading, pageable, NONE, force);
            let left = reading.room() + pageable.min(anonymous) - now.bytes;
            prop_assert!(now.bytes <= left);
        }

        /// Held memory is used memory, so holding the allowance must not itself take the allowance away.
        #[test]
        fn holding_does_not_change_the_allowance(
            budget in 0u64..1 << 40, capacity in 1u64..1 << 40, used in 0u64..1 << 40,
            pageable in 1u64..1 << 40,
        ) {
            prop_assume!(used <= capacity);
            let (budget, pageable) = (Bytes(budget), Bytes(pageable));
            let (capacity, used) = (Bytes(capacity), Bytes(used));
            let before = allowance(budget, &reading(capacity, used), pageable, NONE, false);
            let held = before.bytes.min(capacity - used);
            let full = reading(capacity, used + held);
            let after = allowance(budget, &full, pageable, held, false);
            prop_assert_eq!(before, after);
        }
    }
}
