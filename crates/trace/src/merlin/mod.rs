//! When objects die, computed from reference stores and uses: the Merlin algorithm (Hertz, Blackburn, Moss,
//! McKinley and Stefanović, "Error-Free Garbage Collection Traces: How to Cheat and Not Get Caught", 2002).
//!
//! The *time* is how many events of the recorded order came before. At a time, the roots are the static
//! fields, the fields of objects that the trace does not know (they were there before it began), and the
//! objects that the event at that time names: a thread that allocates, uses, stores or locks an object has a
//! reference to it. An object dies right after the last event during which it can be reached from roots, in
//! the graph as it is before the event or as it is after. `tests/merlin.rs` computes that literally and
//! compares.
//!
//! Instead of looking for what can be reached after each event, an object is *stamped* when an event names
//! it, and when an event takes a reference to it away. When later all is found that cannot be reached any
//! more, an object's death is the latest of its stamp and the deaths of the objects that refer to it.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `graph` | objects and the references in them |
//! | `last_use` | when each object is named for the last time |
//! | `repair` | completes events that a recorder sees in part |
//! | [`groups`] | a trace in which one object of each group has its death, made whole |
//! | [`add_deaths`] | a raw trace made into one with deaths |

pub mod add_deaths;
mod graph;
pub mod groups;
mod last_use;
mod repair;

use crate::event::{Event, ObjectId};
use crate::numbered::Map;
use graph::Edges;
use std::collections::HashMap;

/// How many events of the recorded order came before.
pub type Time = u64;

/// The objects that an event names, up to three; null is none.
pub fn named(event: &Event) -> impl Iterator<Item = ObjectId> {
    let named = match *event {
        Event::Alloc { object, .. } | Event::Use { object } => [object, ObjectId(0)],
        Event::Store { holder, target, .. } => [holder, target],
        Event::StoreStatic { target, .. } => [target, ObjectId(0)],
        Event::Enter { monitor }
        | Event::Exit { monitor }
        | Event::Wait { monitor, .. }
        | Event::Notify { monitor, .. } => [ObjectId(monitor.0), ObjectId(0)],
        _ => [ObjectId(0); 2],
    };
    named.into_iter().filter(|object| object.0 != 0)
}

/// An object that is not known to be dead.
#[derive(Debug)]
struct Node {
    /// The last time at which an event named it or took a reference to it away.
    stamp: Time,
    /// The last time at which an event names it.
    last: Time,
    /// Its references.
    edges: Edges,
    /// The collection that reached it last.
    reached: u64,
}

/// The objects of a trace at one time. It holds those that live, and those that died since the last
/// collection.
#[derive(Debug, Default)]
pub struct Merlin {
    now: Time,
    objects: Map<Node>,
    /// References of static fields, by class and field.
    statics: HashMap<(u32, u32), u64>,
    /// References of objects that the trace does not know.
    outside: Map<Edges>,
    collections: u64,
    stack: Vec<u64>,
}

impl Merlin {
    /// The time: how many events there were.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Objects that are held.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The next event of the recorded order. `last` is called when an object is allocated: it returns the
    /// time of its last use. Returns false, and changes nothing, for an allocation of an object that is
    /// there already.
    pub fn event(&mut self, event: &Event, last: impl FnOnce(ObjectId) -> Time) -> bool {
        let now = self.now;
        self.now += 1;
        match *event {
            Event::Alloc { object, .. } => {
                if self.objects.contains_key(&object.0) {
                    return false;
                }
                // References that were stored in it before it was known.
                let edges = self.outside.remove(&object.0).unwrap_or_default();
                let last = last(object).max(now);
                let node = Node {
                    stamp: now,
                    last,
                    edges,
                    reached: 0,
                };
                self.objects.insert(object.0, node);
                return true;
            }
            Event::Store {
                holder,
                slot,
                target,
            } if holder.0 != 0 => {
                let edges = match self.objects.get_mut(&holder.0) {
                    Some(node) => &mut node.edges,
                    None => self.outside.entry(holder.0).or_default(),
                };
                let before = edges.set(slot, target.0);
                self.stamp(before, now);
            }
            Event::StoreStatic {
                class,
                slot,
                target,
            } => {
                let key = (class.0.get(), slot);
                let before = match target.0 {
                    0 => self.statics.remove(&key),
                    target => self.statics.insert(key, target),
                };
                self.stamp(before.unwrap_or(0), now);
            }
            _ => {}
        }
        for object in named(event) {
            self.stamp(object.0, now);
        }
        true
    }

    fn stamp(&mut self, object: u64, now: Time) {
        if let Some(node) = self.objects.get_mut(&object) {
            node.stamp = now;
        }
    }

    /// Finds all objects that died so far and forgets them: the time of the event after which each was dead,
    /// and the object, in that order.
    pub fn collect(&mut self) -> Vec<(Time, ObjectId)> {
        self.collections += 1;
        self.mark();
        let mut dead: Vec<(Time, u64)> = Vec::new();
        for (object, node) in &self.objects {
            if node.reached != self.collections {
                dead.push((node.stamp, *object));
            }
        }
        dead.sort_unstable_by(|one, other| other.cmp(one));
        let mut deaths = Vec::with_capacity(dead.len());
        for (time, object) in dead {
            self.stack.push(object);
            // Objects reached from here die no earlier, and all that die later have been taken out already.
            while let Some(object) = self.stack.pop() {
                let is_dead = |node: &Node| node.reached != self.collections;
                if self.objects.get(&object).is_some_and(is_dead)
                    && let Some(node) = self.objects.remove(&object)
                {
                    deaths.push((time, ObjectId(object)));
                    self.stack.extend(node.edges.targets());
                }
            }
        }
        deaths.sort_unstable();
        deaths
    }

    /// Marks what can be reached from roots of now or of later.
    fn mark(&mut self) {
        self.stack.clear();
        self.stack.extend(self.statics.values());
        for edges in self.outside.values() {
            self.stack.extend(edges.targets());
        }
        let later = |(object, node): (&u64, &Node)| (node.last >= self.now).then_some(*object);
        self.stack.extend(self.objects.iter().filter_map(later));
        while let Some(object) = self.stack.pop() {
            if let Some(node) = self.objects.get_mut(&object)
                && node.reached != self.collections
            {
                node.reached = self.collections;
                self.stack.extend(node.edges.targets());
            }
        }
    }
}
