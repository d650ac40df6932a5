//! How a thread is put back.

use plimsoll_kernel::sched::{Parameters, Policy, Rights, SLICES};

/// Which parameters put a thread behind others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// The idle policy: a weight of 3 to 1024.
    Idle,
    /// The highest nice level: a weight of 15 to 1024.
    Nice,
    /// The longest slice for a thread in the back, the shortest for one in front. That one goes first as
    /// long as it had no more than its part, so this orders threads and takes nothing from any of them.
    Slices,
}

/// The highest nice level.
const HIGHEST: i32 = 19;

impl Lever {
    /// The strongest one that can be undone with these rights.
    pub fn of(rights: Rights) -> Option<Lever> {
        match (rights.lower, rights.slices) {
            (true, _) => Some(Lever::Nice),
            (false, true) => Some(Lever::Slices),
            (false, false) => None,
        }
    }

    /// Whether these rights are enough to undo it.
    pub fn is_allowed(self, rights: Rights) -> bool {
        match self {
            Lever::Idle | Lever::Nice => rights.lower,
            Lever::Slices => rights.slices,
        }
    }

    /// All of them.
    pub const ALL: [Lever; 3] = [Lever::Idle, Lever::Nice, Lever::Slices];

    /// Its name on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Lever::Idle => "idle",
            Lever::Nice => "nice",
            Lever::Slices => "slices",
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Lever::Idle => "the idle policy",
            Lever::Nice => "nice levels",
            Lever::Slices => "slices",
        }
    }

    /// Whether it changes anything for a thread with these parameters.
    pub fn fits(self, own: &Parameters) -> bool {
        matches!(own.policy, Policy::Other | Policy::Batch)
            && (self == Lever::Slices || own.nice < HIGHEST)
    }

    /// The parameters of a thread that is back, from its own.
    pub fn back(self, own: &Parameters) -> Parameters {
        match self {
            Lever::Idle => Parameters {
                policy: Policy::Idle,
                ..*own
            },
            Lever::Nice => Parameters {
                nice: HIGHEST,
                ..*own
            },
            Lever::Slices => Parameters {
                slice: *SLICES.end(),
                ..*own
            },
        }
    }

    /// The parameters of a thread in front, from its own.
    pub fn front(self, own: &Parameters) -> Parameters {
        match self {
            Lever::Idle | Lever::Nice => *own,
            Lever::Slices => Parameters {
                slice: *SLICES.start(),
                ..*own
            },
        }
    }
}
