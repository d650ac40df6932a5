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
    /// Bytes.
    pub bytes: u64,
    /// Why not more.
    pub bound: Bound,
}

impl Allowance {
    /// Nothing may be held, for this reason.
    pub(crate) const fn none(bound: Bound) -> Allowance {
        Allowance { bytes: 0, bound }
    }
}

/// The allowance of a domain. `held` are the bytes that we hold in it now, `pageable` the room that is
/// left for it in swap. Pure.
pub fn allowance(
    budget: u64,
    reading: &Reading,
    pageable: u64,
    held: u64,
    without_swap: bool,
) -> Allowance {
    if pageable == 0 && !without_swap {
        return Allowance::none(Bound::NoSwap);
    }
    let to_swap = pageable.min(reading.anonymous);
    let margin = reading.room().saturating_add(held).saturating_add(to_swap);
    let bytes = margin.saturating_sub(reading.capacity / RESERVE) / 2;
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

    /// Reads our own domain: capacity (bytes) and allowance.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn own(
        &mut self,
        budget: impl Fn(u64) -> u64,
        held: u64,
        without_swap: bool,
    ) -> Result<(u64, Allowance)> {
        let reading = self.own.read()?;
        let pageable = self.own.pageable(&reading)?;
        // The budget is a share of what the domain can ever hold, whatever binds at the moment.
        let budget = budget(reading.lowest);
        let allowance = allowance(budget, &reading, pageable, held, without_swap);
        Ok((reading.lowest, allowance))
    }

    /// Reads the domain of a group of programs; `None` where it is not watched.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn group(
        &mut self,
        dir: &Path,
        budget: u64,
        held: u64,
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

    fn reading(capacity: u64, used: u64) -> Reading {
        Reading {
            capacity,
            lowest: capacity,
            used,
            usage: used,
            anonymous: u64::MAX,
            ..Reading::default()
        }
    }

    #[test]
    fn a_group_that_cannot_be_read_is_no_group_too_many() {
        let mut margins = Margins::new().unwrap();
        let no_group = tempfile::tempdir().unwrap();
        let (dir, other) = (no_group.path(), Path::new("/nowhere"));
        assert!(margins.watch([dir].into_iter()));
        let error = margins.group(dir, MIB, 0, false).unwrap_err();
        assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
        assert!(margins.group(other, MIB, 0, false).unwrap().is_none());
        let names: Vec<PathBuf> = (0..300).map(|n| dir.join(format!("{n}"))).collect();
        assert!(!margins.watch(names.iter().map(PathBuf::as_path)));
        assert!(margins.group(&names[0], MIB, 0, false).is_err());
        assert!(margins.group(&names[299], MIB, 0, false).unwrap().is_none());
    }

    #[test]
    fn swap_is_worth_no_more_than_what_could_go_there() {
        let full = |anonymous| Reading {
            anonymous,
            ..reading(400 * MIB, 400 * MIB)
        };
        let of = |anonymous| allowance(64 * MIB, &full(anonymous), 1 << 40, 0, false);
        assert_eq!(of(400 * MIB).bound, Bound::Budget);
        assert_eq!(of(65 * MIB).bytes, 20 * MIB);
        // It is short, but not for want of swap.
        assert_eq!((of(0).bytes, of(0).bound), (0, Bound::Short));
    }

    #[test]
    fn a_full_domain_with_swap_may_hold_and_one_without_may_not() {
        let full = reading(400 * MIB, 400 * MIB);
        let with = allowance(64 * MIB, &full, 512 * MIB, 0, false);
        assert_eq!(with.bytes, 64 * MIB);
        let without = allowance(64 * MIB, &full, 0, 0, false);
        assert_eq!((without.bytes, without.bound), (0, Bound::NoSwap));
        // Not even by force when nothing is free.
        assert_eq!(allowance(64 * MIB, &full, 0, 0, true).bytes, 0);
        let roomy = reading(400 * MIB, 100 * MIB);
        assert_eq!(allowance(64 * MIB, &roomy, 0, 0, true).bytes, 64 * MIB);
        assert_eq!(allowance(64 * MIB, &roomy, 0, 0, false).bytes, 0);
    }

    proptest! {
        #[test]
        fn never_above_the_budget_and_less_when_shorter(
            budget: u64, capacity: u64, used: u64, more: u64, pageable: u64, held: u64, force: bool,
        ) {
            let now = allowance(budget, &reading(capacity, used), pageable, held, force);
            prop_assert!(now.bytes <= budget);
            let used_later = used.saturating_add(more);
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
            let reading = Reading { anonymous, ..reading(capacity, used) };
            let now = allowance(budget, &reading, pageable, 0, force);
            let left = (reading.room() + pageable.min(anonymous)).saturating_sub(now.bytes);
            prop_assert!(now.bytes <= left);
        }

        /// Held memory is used memory, so holding the allowance must not itself take the allowance away.
        #[test]
        fn holding_does_not_change_the_allowance(
            budget in 0u64..1 << 40, capacity in 1u64..1 << 40, used in 0u64..1 << 40,
            pageable in 1u64..1 << 40,
        ) {
            prop_assume!(used <= capacity);
            let before = allowance(budget, &reading(capacity, used), pageable, 0, false);
            let held = before.bytes.min(capacity - used);
            let after = allowance(budget, &reading(capacity, used + held), pageable, held, false);
            prop_assert_eq!(before, after);
        }
    }
}
