//! Looks at programs that never were, to test pictures with.

use super::{Look, Space, State};
use plimsoll_map::attribute::AreaOf;
use plimsoll_map::{Kind, States};
use plimsoll_unit::MIB;
use std::collections::BTreeMap;

/// Adds up what it is told to map, as one look.
#[derive(Default)]
struct Drawn {
    areas: BTreeMap<Kind, States>,
    space: Space,
    at: u64,
}

impl Drawn {
    fn add(&mut self, kind: Kind, state: State, bytes: u64) {
        let states = self.areas.entry(kind).or_default();
        states.size += bytes;
        match state {
            State::Resident => {
                states.resident += bytes;
                states.referenced = Some(states.referenced.unwrap_or(0) + bytes / 3);
            }
            State::Swapped => states.swapped += bytes,
            State::Cached => states.cached = Some(states.cached.unwrap_or(0) + bytes),
            State::Absent => {}
        }
        self.space.add(self.at..self.at + bytes, kind, state);
        self.at += bytes;
    }

    fn look(self, seconds: f64) -> Look {
        let mut total = States::default();
        for states in self.areas.values() {
            total.add(states);
        }
        let areas = self.areas.into_iter().map(|(kind, states)| AreaOf {
            kind,
            states,
            estimated: Default::default(),
        });
        Look {
            seconds,
            total,
            areas: areas.collect(),
            space: self.space,
        }
    }
}

/// A Java virtual machine of 2 GiB with regions, whose heap grows for 30 seconds, and from which
/// the kernel then takes what is old.
pub(super) fn jvm(seconds: f64) -> Look {
    use Kind::*;
    use State::*;
    let mut drawn = Drawn {
        at: 0x8000_0000,
        ..Drawn::default()
    };
    let regions = 512;
    let used = (regions as f64 * (0.2 + seconds / 40.0)).min(f64::from(regions)) as u32;
    let swapped = ((seconds - 30.0) * 8.0).max(0.0) as u32;
    for region in 0..regions {
        let kind = match (region * 7919) % 10 {
            _ if region >= used => FreeHeap,
            0 | 1 => Eden,
            2 if region > used / 2 => Survivor,
            3 if region < used / 8 => Humongous,
            _ => Old,
        };
        let state = match kind {
            FreeHeap => Absent,
            Old if region < swapped => Swapped,
            _ => Resident,
        };
        drawn.add(kind, state, 4 * MIB);
    }
    drawn.at = 0x1_0000_0000;
    drawn.add(ClassArchive, Resident, 13 * MIB);
    drawn.at += 3 * MIB;
    drawn.add(ClassSpace, Resident, 6 * MIB);
    drawn.add(ClassSpace, Absent, 1000 * MIB);
    drawn.at = 0x7f00_1000_0000;
    for _ in 0..30 {
        drawn.add(Malloc, Resident, MIB / 2);
        drawn.at += 64 * MIB;
    }
    drawn.add(CodeCache, Resident, 24 * MIB);
    drawn.add(CodeCache, Absent, 200 * MIB);
    drawn.add(Metaspace, Resident, 40 * MIB);
    drawn.add(Archives, Cached, 90 * MIB);
    drawn.add(Archives, Resident, 30 * MIB);
    drawn.add(Collector, Resident, 70 * MIB);
    for _ in 0..60 {
        drawn.add(Stacks, Resident, MIB / 8);
        drawn.at += 7 * MIB / 8;
    }
    drawn.add(Libraries, Resident, 20 * MIB);
    drawn.add(Libraries, Cached, 9 * MIB);
    drawn.add(Other, Resident, 5 * MIB);
    drawn.look(seconds)
}

/// A small C program: 1.5 MiB.
pub(super) fn small(seconds: f64) -> Look {
    let mut drawn = Drawn {
        at: 0x5555_5555_0000,
        ..Drawn::default()
    };
    drawn.add(Kind::Executable, State::Resident, 64 << 10);
    drawn.add(Kind::Malloc, State::Resident, 132 << 10);
    drawn.at = 0x7f12_0000_0000;
    drawn.add(Kind::Libraries, State::Resident, 1100 << 10);
    drawn.add(Kind::Libraries, State::Cached, 700 << 10);
    drawn.add(Kind::Stacks, State::Resident, 32 << 10);
    drawn.look(seconds)
}
