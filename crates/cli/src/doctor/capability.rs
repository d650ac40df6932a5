//! A capability of this kernel and of our rights, for people and for programs.

use crate::own_cgroup::OwnCgroup;
use plimsoll_kernel::probe::Capability;
use serde::Serialize;

/// One capability, as found.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Short and stable.
    pub name: &'static str,
    /// The call or file that will be used.
    pub tier: String,
    /// Whether it is the best way.
    pub best: bool,
    /// Whether any way works.
    pub works: bool,
    /// The need of the best way; empty if it works.
    pub needs: String,
    /// The cost of lacking the best way; empty if it works.
    pub costs: String,
}

impl From<Capability> for Found {
    fn from(found: Capability) -> Found {
        let Capability {
            name,
            tier,
            best,
            works,
            needs,
            costs,
        } = found;
        Found {
            name,
            tier,
            best,
            works,
            needs,
            costs,
        }
    }
}

/// Under version 2 the cgroup of a program need not be below ours. So one is made, as `plimsoll run` makes
/// it, and removed again.
pub(super) fn try_own_cgroup(found: &mut [Found]) {
    let lacking = found
        .iter_mut()
        .find(|it| it.name == "cgroup-write" && !it.best);
    let Some(lacking) = lacking else { return };
    match OwnCgroup::for_program() {
        Ok(Some(own)) => {
            lacking.tier = own.place().into();
            (lacking.best, lacking.works) = (true, true);
            lacking.needs.clear();
            lacking.costs.clear();
        }
        Ok(None) => {}
        Err(why) => lacking.needs = why.to_string(),
    }
}
