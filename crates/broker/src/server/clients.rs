//! All connections: slots, generations, the number per user, and the order of turns.

use super::connection::{Connection, Occupation, Peer};
use super::epoll::{Slot, Turn};
use super::users::{User, Users};
use crate::fair_queue::FairQueue;
use plimsoll_unit::Nanos;
use plimsoll_wire::varlink::{ErrorName, WireError};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Pause of a connection that called too often.
const PAUSE: Nanos = Nanos::millis(10);

/// The table of connections. Slots are reused; generations distinguish their successive holders. Belongs to
/// the deciding thread.
#[derive(Debug)]
pub struct Clients {
    /// Each slot's generation, and its connection.
    slots: Vec<(u32, Option<Connection>)>,
    /// Slots without a connection.
    free: Vec<u32>,
    /// The users of the connections.
    users: Users,
    /// Connections with something to do, each once.
    turns: FairQueue<Slot>,
    /// Connections that called too often.
    paused: Vec<Slot>,
    /// Time of their next turn.
    resume_at: Nanos,
}

impl Clients {
    /// An empty table; `ours` is the broker's uid.
    #[must_use]
    pub fn new(ours: u32) -> Clients {
        Clients {
            slots: Vec::new(),
            free: Vec::new(),
            users: Users::new(ours),
            turns: FairQueue::default(),
            paused: Vec::new(),
            resume_at: Nanos::ZERO,
        }
    }

    /// Adds a connection. Gives it back when its user already has `max_per_user`, or no descriptor
    /// is left for it.
    ///
    /// # Errors
    /// The connection, to be sent an error and closed.
    pub fn insert(
        &mut self,
        fd: OwnedFd,
        peer: Peer,
        now: Nanos,
        max_per_user: usize,
    ) -> Result<Slot, Box<(Connection, WireError)>> {
        let user = self.users.get(peer.uid, now);
        let descriptor = user.descriptors().take(1);
        let refusal = match &descriptor {
            None => Some(no_descriptor(peer.uid, &user)),
            Some(_) if !user.connect(max_per_user) => Some(too_many(peer.uid, max_per_user)),
            Some(_) => None,
        };
        let connection = Connection::new(fd, peer, user, descriptor, now);
        if let Some(refusal) = refusal {
            return Err(Box::new((connection, refusal)));
        }
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

    /// The connection, unless it has ended.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut(slot.index as usize)?;
        if *generation != slot.generation {
            return None;
        }
        connection.as_mut()
    }

    /// Removes a connection; the caller ends the principal that lives on it.
    pub fn remove(&mut self, slot: Slot) -> Option<Connection> {
        self.get_mut(slot)?;
        let (generation, place) = &mut self.slots[slot.index as usize];
        let connection = place.take()?;
        *generation = (*generation + 1) & 0xff_ffff;
        self.free.push(slot.index);
        self.paused.retain(|paused| *paused != slot);
        if connection.turn.is_some() {
            self.turns
                .remove(connection.peer.uid, |&waiting| waiting == slot);
        }
        connection.user().disconnect();
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

    /// A user, with or without connections.
    pub fn user(&mut self, uid: u32, now: Nanos) -> Rc<User> {
        self.users.get(uid, now)
    }

    /// Drops users that have nothing here any more.
    pub fn sweep_users(&mut self) {
        self.users.sweep();
    }

    /// When the next watcher is due.
    #[must_use]
    pub fn next_watch(&self) -> Option<Nanos> {
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

    /// Gives a turn to the watchers that are due at `now`.
    pub fn queue_watchers(&mut self, now: Nanos) {
        for index in 0..self.slots.len() {
            let (generation, connection) = &self.slots[index];
            let occupation = connection.as_ref().map(|connection| connection.occupation);
            if !matches!(occupation, Some(Occupation::Watching { due, .. }) if due <= now) {
                continue;
            }
            let slot = Slot {
                index: index as u32,
                generation: *generation,
            };
            self.queue(slot, Turn::default());
        }
    }

    /// Queues a connection that has something to do. One that waits for its turn keeps its place.
    pub fn queue(&mut self, slot: Slot, turn: Turn) {
        let Some(connection) = self.get_mut(slot) else {
            return;
        };
        let waits = connection.turn.is_some();
        let uid = connection.peer.uid;
        connection.turn.get_or_insert_with(Turn::default).add(turn);
        if !waits {
            self.turns.push(uid, slot);
        }
    }

    /// Number of connections that wait for their turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.turns.len()
    }

    /// The next connection and the reason for its turn. One that needs another turn is queued
    /// again, behind the others.
    pub fn next_turn(&mut self) -> Option<(Slot, Turn)> {
        let (_, slot) = self.turns.next_of(|_| true)?;
        let turn = self.get_mut(slot)?.turn.take()?;
        Some((slot, turn))
    }

    /// Notes that a connection waits until it, or its user, may call again.
    pub fn pause(&mut self, slot: Slot, now: Nanos) {
        if self.paused.is_empty() {
            self.resume_at = now + PAUSE;
        }
        self.paused.push(slot);
    }

    /// Time of the next turn of paused connections.
    #[must_use]
    pub fn resume_at(&self) -> Option<Nanos> {
        (!self.paused.is_empty()).then_some(self.resume_at)
    }

    /// Gives paused connections their turn when it is time.
    pub fn resume(&mut self, now: Nanos) {
        if self.resume_at().is_none_or(|due| due > now) {
            return;
        }
        let mut paused = std::mem::take(&mut self.paused);
        for slot in paused.drain(..) {
            self.queue(slot, Turn::default());
        }
        // The list keeps its capacity.
        self.paused = paused;
    }

    /// Whether there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

fn too_many(uid: u32, limit: usize) -> WireError {
    let message = format!(
        "user {uid} already has {limit} connections here; close some, or raise max_per_user in plimsoll.toml"
    );
    WireError::new(ErrorName::TooMany, message)
}

/// The error for a user that holds as many of the broker's descriptors as it may.
#[must_use]
pub fn no_descriptor(uid: u32, user: &User) -> WireError {
    let held = user.descriptors().held();
    let message = format!(
        "user {uid} holds {held} of the broker's descriptors, and the rest is for others; end some \
         programs or \
         connections, or raise the broker's limit of open files (`LimitNOFILE=` in its unit)"
    );
    WireError::new(ErrorName::TooMany, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn join(clients: &mut Clients, uid: u32) -> Option<Slot> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (fd, _) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        clients.insert(fd, Peer { uid, pid: 1 }, Nanos(1), 3).ok()
    }

    const READ: Turn = Turn {
        readable: true,
        writable: false,
        gone: false,
    };

    #[test]
    fn each_user_has_its_own_number_of_connections() {
        let mut clients = Clients::new(0);
        let slots: Vec<Slot> = (0..3).map(|_| join(&mut clients, 7).unwrap()).collect();
        assert!(join(&mut clients, 7).is_none());
        assert!(join(&mut clients, 8).is_some());
        assert!(clients.remove(slots[1]).is_some());
        assert!(clients.remove(slots[1]).is_none());
        let again = join(&mut clients, 7).unwrap();
        assert_eq!(again.index, slots[1].index);
        assert_ne!(again, slots[1]);
        assert!(join(&mut clients, 7).is_none());
    }

    #[test]
    fn turns_go_round_however_often_somebody_is_ready() {
        let mut clients = Clients::new(0);
        let slots: Vec<Slot> = (0..3).map(|_| join(&mut clients, 7).unwrap()).collect();
        for &slot in &slots {
            clients.queue(slot, READ);
        }
        let mut order = Vec::new();
        for _ in 0..7 {
            let (slot, turn) = clients.next_turn().unwrap();
            assert!(turn.readable);
            order.push(slot.index);
            // The connection is ready again at once, and is reported twice.
            clients.queue(slot, READ);
            clients.queue(slot, Turn::default());
            assert_eq!(clients.waiting(), 3);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 0]);
        // A removed connection has no turn.
        clients.remove(slots[1]);
        assert_eq!(clients.waiting(), 2);
        assert_eq!(clients.next_turn(), Some((slots[2], READ)));
        assert_eq!(clients.next_turn(), Some((slots[0], READ)));
        assert_eq!(clients.next_turn(), None);
    }

    #[test]
    fn who_is_paused_gets_a_turn_a_moment_later() {
        let mut clients = Clients::new(0);
        let slots: Vec<Slot> = (0..2).map(|_| join(&mut clients, 7).unwrap()).collect();
        clients.pause(slots[0], Nanos(5));
        clients.pause(slots[1], Nanos(6));
        assert_eq!(clients.resume_at(), Some(Nanos(5) + PAUSE));
        clients.resume(Nanos(4) + PAUSE);
        assert_eq!(clients.waiting(), 0);
        clients.resume(Nanos(5) + PAUSE);
        assert_eq!((clients.waiting(), clients.resume_at()), (2, None));
        clients.pause(slots[0], Nanos(7) + PAUSE);
        clients.remove(slots[0]);
        assert_eq!((clients.waiting(), clients.resume_at()), (1, None));
    }

    #[test]
    fn watchers_get_a_turn_when_they_are_due() {
        let mut clients = Clients::new(0);
        let slots: Vec<Slot> = (0..2).map(|_| join(&mut clients, 7).unwrap()).collect();
        for (slot, due) in [(slots[0], Nanos(20)), (slots[1], Nanos(10))] {
            let interval = Nanos(5);
            clients.get_mut(slot).unwrap().occupation = Occupation::Watching { interval, due };
        }
        assert_eq!(clients.next_watch(), Some(Nanos(10)));
        clients.queue_watchers(Nanos(15));
        assert_eq!(clients.next_turn(), Some((slots[1], Turn::default())));
        assert_eq!(clients.next_turn(), None);
    }
}
