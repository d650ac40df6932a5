//! Options of this lever.

use crate::chosen::{Choice, Chosen, LeverOption};

/// All options.
pub const OPTIONS: &[LeverOption] = &[POLICY, AGENT];

/// The rule for the size of the heap.
pub const POLICY: LeverOption = LeverOption {
    name: "policy",
    values: &[
        Choice {
            name: "limit",
            help: "The broker's limit",
        },
        Choice {
            name: "isla-vista",
            help: "The program's own allocation stalls: needs no broker, and if one runs, its limit holds \
                   too",
        },
        Choice {
            name: "isla-vista-printed",
            help: "The same as its paper prints it, to compare with",
        },
    ],
};

/// Whether our agent may be loaded into the machine.
pub const AGENT: LeverOption = LeverOption {
    name: "agent",
    values: &[
        Choice {
            name: "never",
            help: "Nowhere: the program is steered from outside only",
        },
        Choice {
            name: "auto",
            help: "Where it helps and nothing forbids it: Java programs with Serial, Parallel or G1, or \
                   under Isla Vista",
        },
    ],
};

/// The value of [`POLICY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The limit of the broker. Without one the program is left alone.
    #[default]
    Limit,
    /// Isla Vista: the stalls of the program's collections. The limit of a broker holds too, if
    /// there is one.
    IslaVista,
    /// The same by the rule that the paper prints, to compare with.
    Printed,
}

impl Policy {
    /// The chosen value.
    pub fn of(chosen: &Chosen) -> Policy {
        [Policy::Limit, Policy::IslaVista, Policy::Printed][chosen.place(&POLICY)]
    }

    /// Whether the program's own stalls decide. Then an adapter counts them, and no broker is needed.
    pub fn is_by_stalls(self) -> bool {
        match self {
            Policy::Limit => false,
            Policy::IslaVista | Policy::Printed => true,
        }
    }
}

/// Whether [`AGENT`] allows to load it where it helps.
pub(super) fn allows_agent(chosen: &Chosen) -> bool {
    chosen.place(&AGENT) == 1
}
