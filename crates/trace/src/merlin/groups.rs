//! A lighter recording watches one object of each group: the first of up to [`MEMBERS`] objects of one
//! class that
//! one thread allocates in turn. All of a group die with that one.

use super::add_deaths::{Found, Out, write_head};
use crate::error::TraceError;
use crate::event::{Event, ObjectId};
use crate::header::Deaths;
use crate::numbered::Map;
use crate::order::Recorded;
use crate::reader::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// The most objects of a group.
pub const MEMBERS: u64 = 16;
/// Monitors have numbers from here on, which no object has.
pub const MONITORS: u64 = 1 << 62;

/// The number of an object: which of its group it is, counted from 0.
pub fn member(group: u64, place: u64) -> ObjectId {
    ObjectId(group * MEMBERS + place)
}

/// A group some of whose objects live.
#[derive(Debug, Default)]
struct Group {
    members: Vec<ObjectId>,
    /// The first one is dead. Those that come later die with the next group that does.
    dead: bool,
}

/// Makes a trace of one in which only the first object of each group has its death.
///
/// # Errors
/// Those of reading and of writing.
pub fn write<W: Write>(
    raw: &Trace,
    facts: &BTreeMap<String, String>,
    into: W,
    name: &str,
) -> Result<(W, Found), TraceError> {
    let writer = write_head(raw, Deaths::AtCollections, facts, into, name)?;
    let mut started = BTreeSet::new();
    for next in Recorded::new(raw)? {
        if let Event::Start { thread, .. } = next?.1 {
            started.insert(thread);
        }
    }
    let mut out = Out::new(raw, writer, started);
    let mut groups: Map<Group> = Map::default();
    let mut late: Vec<ObjectId> = Vec::new();
    for next in Recorded::new(raw)? {
        let (thread, event) = next?;
        match event {
            Event::Alloc { object, .. } => {
                let group = groups.entry(object.0 / MEMBERS).or_default();
                if group.dead {
                    late.push(object);
                } else {
                    group.members.push(object);
                }
                if object.0 % MEMBERS == MEMBERS - 1 && group.dead {
                    groups.remove(&(object.0 / MEMBERS));
                }
                out.event(thread, &event)?;
            }
            Event::Death { object } => {
                let mut dead = std::mem::take(&mut late);
                if let Some(group) = groups.get_mut(&(object.0 / MEMBERS)) {
                    dead.append(&mut group.members);
                    group.dead = true;
                    // A full group gets no more.
                    if dead
                        .last()
                        .is_some_and(|last| last.0 % MEMBERS == MEMBERS - 1)
                    {
                        groups.remove(&(object.0 / MEMBERS));
                    }
                }
                for object in dead {
                    out.dies(thread, object)?;
                }
            }
            Event::End => {
                out.event(thread, &event)?;
                out.end(thread)?;
            }
            _ => out.event(thread, &event)?,
        }
    }
    out.finish()
}
