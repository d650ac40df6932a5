//! All connections: slots, generations, and how many each user has.

use super::connection::{Connection, Occupation, Peer};
use super::poll::Slot;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The table of connections. Slots are reused, generations tell successive holders apart.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
    per_user: HashMap<u32, usize>,
    paused: Vec<Slot>,
}

impl Clients {
    /// Takes a connection in; gives it back when its user has `max_per_user` already.
    ///
    /// # Errors
    /// The connection, to be told and closed.
    pub fn insert(
        &mut self,
        fd: OwnedFd,
        peer: Peer,
        now: u64,
        max_per_user: usize,
    ) -> Result<Slot, Box<Connection>> {
        let connection = Connection::new(fd, peer, now);
        let held = self.per_user.entry(peer.uid).or_default();
        if *held >= max_per_user {
            return Err(Box::new(connection));
        }
        *held += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let (generation, place) = &mut self.slots[index as usize];
        *place = Some(connection);
        Ok(Slot {
            index,
            generation: *generation,
        })
    }

    /// The connection, unless it ended.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut(slot.index as usize)?;
        if *generation != slot.generation {
            return None;
        }
        connection.as_mut()
    }

    /// Ends a connection; the caller ends the principal that lived on it.
    pub fn remove(&mut self, slot: Slot) -> Option<Connection> {
        self.get_mut(slot)?;
        let (generation, place) = &mut self.slots[slot.index as usize];
        let connection = place.take()?;
        *generation = (*generation + 1) & 0xff_ffff;
        self.free.push(slot.index);
        self.paused.retain(|paused| *paused != slot);
        if let Some(held) = self.per_user.get_mut(&connection.peer.uid) {
            *held -= 1;
            if *held == 0 {
                self.per_user.remove(&connection.peer.uid);
            }
        }
        Some(connection)
    }

    /// Every slot in use.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let used = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, (_, connection))| connection.is_some());
        used.map(|(index, (generation, _))| Slot {
            index: index as u32,
            generation: *generation,
        })
    }

    /// When the next watcher is due, ns.
    #[must_use]
    pub fn next_watch(&self) -> Option<u64> {
        let connections = self
            .slots
            .iter()
            .filter_map(|(_, connection)| connection.as_ref());
        let due = connections.filter_map(|connection| match connection.occupation {
            Occupation::Watching { due, .. } => Some(due),
            _ => None,
        });
        due.min()
    }

    /// Notes that a connection waits for its next allowance.
    pub fn pause(&mut self, slot: Slot) {
        if !self.paused.contains(&slot) {
            self.paused.push(slot);
        }
    }

    /// Those that wait, which then wait no more.
    pub fn take_paused(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.paused)
    }

    /// Whether any waits.
    #[must_use]
    pub fn any_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}
