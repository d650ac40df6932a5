//! Options of this lever.

use crate::lever_options::{Choice, Chosen, LeverOption};

/// All options.
pub const OPTIONS: &[LeverOption] = &[POLICY, AGENT, GIVE_BACK];

/// The rule for the size of the heap.
pub const POLICY: LeverOption = LeverOption {
    name: "policy",
    help: "The policy that sizes the heap of a Java program",
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
    help: "Whether the agent for the program's runtime is loaded into it",
    values: &[
        Choice {
            name: "start",
            help: "With the program, where it helps and nothing forbids it: Java programs with Serial, \
                   Parallel or G1, or under Isla Vista. Never into one that runs",
        },
        Choice {
            name: "auto",
            help: "Into one that runs, too: Java 21 and later print a warning then",
        },
        Choice {
            name: "never",
            help: "Nowhere: the program is steered from outside only",
        },
    ],
};

/// Which free heap the agent gives back.
pub const GIVE_BACK: LeverOption = LeverOption {
    name: "give-back",
    help: "Which free heap the agent gives back",
    values: &[
        Choice {
            name: "auto",
            help: "All but that of a heap that was touched in advance (-XX:+AlwaysPreTouch)",
        },
        Choice {
            name: "always",
            help: "That of a heap that was touched in advance, too",
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

/// The value of [`AGENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    /// Before the program starts.
    AtStart,
    /// At any time.
    Always,
    /// Not at all.
    Never,
}

impl Loading {
    /// The chosen value.
    pub(super) fn of(chosen: &Chosen) -> Loading {
        [Loading::AtStart, Loading::Always, Loading::Never][chosen.place(&AGENT)]
    }
}

/// Whether [`GIVE_BACK`] allows to give back what was touched in advance.
pub(super) fn gives_touched(chosen: &Chosen) -> bool {
    chosen.place(&GIVE_BACK) == 1
}
