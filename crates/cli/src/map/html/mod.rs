//! One page of HTML with pictures of looks at processes. Pure functions from looks to text.
//!
//! | module | is |
//! |---|---|
//! | `space` | where the memory of one look lies, kept in little room |
//! | `bars` | a bar per area and state |
//! | `rows`, `band` | the address space over time: which addresses are a row; the picture |
//! | `stacks` | the areas over time, stacked |
//! | `page` | the page |
//!
//! [`plimsoll_picture`] writes SVG and HTML. The hue of a colour says the area, the shade says the state, in
//! all of the pictures.

mod band;
mod bars;
mod page;
mod rows;
mod space;
mod stacks;

use super::number::Number;
pub use page::page;
pub use space::Space;

use plimsoll_map::attribute::AreaOf;
use plimsoll_map::{Kind, States};
use plimsoll_picture::shade::Shade;
use std::collections::BTreeMap;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In memory, mapped by the process.
    Resident,
    /// In swap.
    Swapped,
    /// In the page cache, and not mapped by the process.
    Cached,
    /// Nowhere: not touched yet, or given back; of a file: on disk only.
    Absent,
}

impl State {
    const ALL: [State; 4] = [
        State::Resident,
        State::Swapped,
        State::Cached,
        State::Absent,
    ];

    /// How pictures show it.
    fn shade(self) -> Shade {
        match self {
            State::Resident => Shade::Full,
            State::Swapped => Shade::Hatched,
            State::Cached => Shade::Light,
            State::Absent => Shade::Faint,
        }
    }

    /// For legends.
    fn name(self) -> &'static str {
        match self {
            State::Resident => "in memory",
            State::Swapped => "in swap",
            State::Cached => "in the page cache, not mapped",
            State::Absent => "mapped, nowhere yet",
        }
    }
}

/// The class of what is painted: of an area in a state.
fn paint(kind: Kind, state: State) -> String {
    state.shade().class(kind as usize)
}

/// One look at a process, or at several together.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Seconds since the first look.
    pub seconds: f64,
    /// All of its memory.
    pub total: States,
    /// Its areas.
    pub areas: Vec<AreaOf>,
    /// Where they lie; empty for several processes.
    pub space: Space,
}

/// Memory that came back in all looks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Bytes; `None` if no look knows them.
    pub bytes: Option<u64>,
    /// Whether it was not known for some memory.
    pub unknown: bool,
}

impl Back {
    /// The value for an area that no look tells of.
    const NONE: Back = Back {
        bytes: Some(0),
        unknown: false,
    };

    /// Adds a look, if there was one before it.
    pub fn add(of_areas: &mut BTreeMap<Kind, Back>, kind: Kind, states: &States) {
        let (bytes, unknown) = (states.refaulted, states.refaulted_unknown);
        if bytes.is_none() && !unknown {
            return;
        }
        let sum = of_areas.entry(kind).or_insert(Back {
            bytes: None,
            unknown: false,
        });
        sum.and(Back { bytes, unknown });
    }

    /// The sum of all areas.
    fn sum(of_areas: &BTreeMap<Kind, Back>) -> Back {
        let mut sum = Back {
            bytes: None,
            unknown: false,
        };
        of_areas.values().for_each(|back| sum.and(*back));
        sum
    }

    fn and(&mut self, other: Back) {
        self.unknown |= other.unknown;
        self.bytes = match (self.bytes, other.bytes) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }

    fn number(self) -> Number {
        Number::sum(self.bytes, self.unknown)
    }
}

/// The content of a page for one process, or for several together.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its name and number.
    pub title: String,
    /// By time.
    pub looks: Vec<Look>,
    /// Memory that came back in all looks, also in dropped ones, by area; empty before the second one.
    pub refaulted: BTreeMap<Kind, Back>,
    /// Sentences for the person who reads it.
    pub notes: Vec<String>,
}

impl Shown {
    /// One of which there is no look yet.
    pub fn titled(title: &str) -> Shown {
        Shown {
            title: title.to_owned(),
            looks: Vec::new(),
            refaulted: BTreeMap::new(),
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod samples;
