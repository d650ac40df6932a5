//! Settings that survive a crash of the broker. Programs rejoin one by one and get new ids. The
//! settings made by hand since their first registration are restored from here.

use super::{Core, Kept, Refusal};
use plimsoll_wire::messages::{Id, Set};

impl Core {
    /// The settings of all principals, parents before their children.
    pub fn snapshot(&self) -> Vec<Kept> {
        self.iter()
            .map(|figures| Kept {
                id: figures.id,
                parent: figures.parent,
                kind: figures.kind,
                weight: figures.settings.weight,
                priority: figures.settings.priority,
                own_weight: figures.settings.own_weight,
                own_priority: figures.settings.own_priority,
                max: figures.settings.max,
            })
            .collect()
    }

    /// Restores the settings of a principal that rejoined. `id` and `parent` are the new ids; the
    /// ids in `kept` are no longer valid.
    ///
    /// # Errors
    /// As [`Core::set`].
    pub fn restore(&mut self, id: Id, parent: Option<Id>, kept: &Kept) -> Result<(), Refusal> {
        self.set(&Set {
            id,
            weight: Some(kept.weight),
            priority: Some(kept.priority),
            max: Some(kept.max),
            own_weight: Some(kept.own_weight),
            own_priority: Some(kept.own_priority),
            parent,
        })
    }
}
