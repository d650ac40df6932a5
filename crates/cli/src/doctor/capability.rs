//! A capability of this kernel and of our rights, for people and for programs.

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
