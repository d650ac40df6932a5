//! The broker's side of its clients: the sockets, the connections, the pages, the listings.

mod publish;

use super::listing_cache::ListingCache;
use super::settings::{Settings, rules};
use super::user_time::UserTime;
use crate::error::Error;
use crate::principals::Members;
use crate::publish::{Outlet, PageDirectory, PageFile, PressureSocket};
use crate::server::accept_backoff::Rest;
use crate::server::clients::Clients;
use crate::server::connection::{Connection, Occupation, Peer, Read};
use crate::server::epoll::{Interest, Poll, Ready, Slot, Token, Turn};
use crate::server::listener::{Listener, Lock};
use crate::server::users::{Listening, User};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::{WireError, encode_error};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Most connections accepted per event, before others have their turn.
const ACCEPT_AT_ONCE: usize = 64;
/// Connections to pressure sockets that a user may have beyond one per principal, for children that
/// speak the protocol as well. A quarter of its connections.
const LISTENERS_BEYOND: usize = 256;

/// The sockets, connections and pages. Belongs to the deciding thread.
pub(super) struct Serving {
    /// The epoll descriptor.
    poll: Poll,
    /// The socket that clients connect to.
    listener: Listener,
    /// Listeners that cannot accept at present.
    rest: Rest,
    /// The connections.
    clients: Clients,
    /// Connections whose reply waits until their principal has its first numbers.
    newcomers: Vec<Slot>,
    /// The directory of the pages.
    pages: PageDirectory,
    /// The last listing.
    shown: ListingCache,
}

/// How a turn of a connection begins.
pub(super) enum Begun {
    /// Its calls can be answered; whether it ends afterwards, and whether it has read all that was queued
    /// for it.
    Goes { ended: bool, caught_up: bool },
    /// It has to be cut off.
    Broken(WireError),
}

/// The next message of a connection.
pub(super) enum Message {
    /// None now.
    Nothing,
    /// This one.
    Call(Vec<u8>),
    /// It cannot be read, and the connection has to be cut off.
    Broken(WireError),
}

impl Serving {
    /// Listens, and makes the directories.
    ///
    /// # Errors
    /// Another broker is on the socket, or a directory is unusable.
    pub(super) fn open(settings: &Settings) -> Result<Serving, Error> {
        let (paths, system) = (&settings.paths, settings.options.system);
        let poll = Poll::new()?;
        let listener = Listener::open(paths, system)?;
        let pages = PageDirectory::open(&paths.pages, listener.tag(), system)?;
        PressureSocket::make_directory(&paths.pressure, system)?;
        let serving = Serving {
            poll,
            listener,
            rest: Rest::default(),
            clients: Clients::new(settings.uid),
            newcomers: Vec::new(),
            pages,
            shown: ListingCache::default(),
        };
        serving.watch(&serving.listener, Token::Listener)?;
        Ok(serving)
    }

    /// Watches a source of events without which the broker cannot run.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel watches nothing more.
    pub(super) fn watch(&self, source: impl AsFd, token: Token) -> Result<(), Error> {
        self.watch_lightly(source, token).map_err(Error::system(
            "epoll_ctl failed; raise fs.epoll.max_user_watches",
        ))
    }

    /// Watches a source of events that the broker can do without.
    ///
    /// # Errors
    /// The kernel watches nothing more.
    pub(super) fn watch_lightly(&self, source: impl AsFd, token: Token) -> rustix::io::Result<()> {
        self.poll.add(source, token, Interest::Read)
    }

    /// Waits for events.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> Result<(), Error> {
        self.poll.wait(timeout, |event| ready.push(event))
    }

    /// The tag of this broker.
    pub(super) fn tag(&self) -> u32 {
        self.listener.tag()
    }

    /// Ends the socket and the connections. The pages stay, and so does the lock of the directory.
    pub(super) fn end(self) -> (PageDirectory, Lock) {
        let lock = self.listener.close();
        drop(self.clients);
        (self.pages, lock)
    }

    /// A directory of ours that was removed or replaced.
    pub(super) fn lost_directory<'s>(&'s self, settings: &'s Settings) -> Option<&'s Path> {
        match (self.listener.is_ours(), self.pages.is_ours()) {
            (false, _) => Some(&settings.paths.directory),
            (true, false) => Some(self.pages.path()),
            (true, true) => None,
        }
    }

    /// Whether there is no connection.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Number of connections that wait for a turn.
    pub(super) fn waiting(&self) -> usize {
        self.clients.waiting()
    }

    /// Time of the next work for connections and listeners.
    pub(super) fn due(&self) -> Option<Nanos> {
        let all = [
            self.clients.next_watch(),
            self.clients.resume_at(),
            self.rest.due(),
        ];
        all.into_iter().flatten().min()
    }

    /// The last listings.
    pub(super) fn shown(&mut self) -> &mut ListingCache {
        &mut self.shown
    }

    /// A user's account.
    pub(super) fn user(&mut self, uid: u32, now: Nanos) -> Rc<User> {
        self.clients.user(uid, now)
    }

    /// A connection, unless it is closed.
    pub(super) fn connection(&mut self, slot: Slot) -> Option<&mut Connection> {
        self.clients.get_mut(slot)
    }

    /// The connections.
    pub(super) fn slots(&self) -> Vec<Slot> {
        self.clients.slots().collect()
    }

    /// Makes a principal's page and pressure socket, and watches the socket.
    ///
    /// # Errors
    /// One of them cannot be made.
    pub(super) fn open_files(&self, id: Id, settings: &Settings) -> Result<Outlet, Error> {
        let page = PageFile::create(&self.pages.path_of(id), id)?;
        let socket = settings.paths.pressure.join(format!("{id}.sock"));
        let pressure = PressureSocket::bind(&socket, settings.options.system)?;
        if let Err(error) = self.watch_lightly(&pressure, Token::PressureListener(id)) {
            tracing::warn!(principal = id, %error, "its pressure socket cannot be watched");
        }
        Ok(Outlet::new(page, pressure))
    }

    /// Accepts connections; each user may have `max_per_user`.
    pub(super) fn accept(&mut self, max_per_user: usize, now: Nanos) {
        for _ in 0..ACCEPT_AT_ONCE {
            match self.listener.accept() {
                Ok(Some((fd, peer))) => {
                    self.rest.worked();
                    match self.clients.insert(fd, peer, now, max_per_user) {
                        Ok(slot) => self.watch_new(slot),
                        Err(refused) => {
                            let (mut connection, why) = *refused;
                            tell(&mut connection, &why, now);
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    self.begin_rest(Token::Listener, error, now);
                    return self.arm(Token::Listener, &self.listener, Interest::Nothing);
                }
            }
        }
    }

    fn watch_new(&mut self, slot: Slot) {
        let Some(connection) = self.clients.get_mut(slot) else {
            return;
        };
        let token = Token::Connection(slot);
        if let Err(error) = self.poll.add(&*connection, token, Interest::Read) {
            tracing::warn!(%error, "a connection cannot be watched; it is closed");
            self.clients.remove(slot);
        }
    }

    /// Accepts a connection to the pressure socket of a principal.
    pub(super) fn accept_pressure(&mut self, members: &mut Members, id: Id, ours: u32, now: Nanos) {
        let Some(owner) = members.get(id).map(|member| member.owner.uid) else {
            return;
        };
        let most = members.owned_by(owner).saturating_add(LISTENERS_BEYOND);
        let Some(member) = members.get_mut(id) else {
            return;
        };
        let clients = &mut self.clients;
        let admit = |peer: Peer| {
            let may = peer.uid == owner || rules(ours, peer.uid);
            let user = may.then(|| clients.user(peer.uid, now))?;
            Listening::begin(&user, most)
        };
        match member.outlet.pressure.accept(admit) {
            Ok(Some(fd)) => {
                // If it cannot be watched, its end is noticed only when a byte cannot be sent.
                let token = Token::PressureListeners(id);
                let _ = self.poll.add(fd, token, Interest::Nothing);
                self.rest.worked();
            }
            Ok(None) => {}
            Err(error) => {
                let token = Token::PressureListener(id);
                self.begin_rest(token, error, now);
                self.arm(token, &member.outlet.pressure, Interest::Nothing);
            }
        }
    }

    /// A listener cannot accept and is not watched for a while: a waiting client would only wake us
    /// repeatedly.
    fn begin_rest(&mut self, listener: Token, error: Errno, now: Nanos) {
        if self.rest.begin(listener, now) {
            tracing::warn!(%error, "a connection could not be accepted; raise the limit of open files; \
                                    it is tried again each second");
        }
    }

    /// Watches rested listeners again when their time is over.
    pub(super) fn end_rests(&mut self, members: &Members, now: Nanos) {
        for listener in self.rest.end(now) {
            match listener {
                Token::PressureListener(id) => {
                    if let Some(member) = members.get(id) {
                        self.arm(listener, &member.outlet.pressure, Interest::Read);
                    }
                }
                _ => self.arm(listener, &self.listener, Interest::Read),
            }
        }
    }

    fn arm(&self, listener: Token, source: impl AsFd, interest: Interest) {
        if let Err(error) = self.poll.modify(source, listener, interest) {
            tracing::warn!(?listener, %error, "a listener cannot be watched");
        }
    }

    /// Queues a turn of a connection.
    pub(super) fn queue(&mut self, slot: Slot, turn: Turn) {
        self.clients.queue(slot, turn);
    }

    /// Connections that called too often may go on when their time is over.
    pub(super) fn resume(&mut self, now: Nanos) {
        self.clients.resume(now);
    }

    /// The next connection that has a turn, and its user.
    pub(super) fn next_turn(&mut self) -> Option<(Slot, Turn, Option<u32>)> {
        let (slot, turn) = self.clients.next_turn()?;
        let connection = self.clients.get_mut(slot);
        Some((slot, turn, connection.map(|connection| connection.peer.uid)))
    }

    /// Begins a turn of a connection: writes what is queued, reads what has come. `None` if it is closed.
    pub(super) fn begin_turn(&mut self, slot: Slot, turn: Turn, now: Nanos) -> Option<Begun> {
        let connection = self.clients.get_mut(slot)?;
        let mut ended = turn.gone && !turn.readable;
        if turn.writable && !connection.flush(now) {
            ended = true;
        }
        // Messages read earlier are answered before more is read.
        if turn.readable && connection.wanted_interest() == Interest::Read {
            match connection.read(now) {
                Read::Some | Read::Empty => {}
                Read::End => ended = true,
                Read::TooMuch => return Some(Begun::Broken(unfinished(connection.peer.uid))),
            }
        }
        let caught_up = !ended && turn.writable;
        Some(Begun::Goes { ended, caught_up })
    }

    /// The next message of a connection that may call now. One that called too often, or whose user took more
    /// than its part of our time, pauses.
    pub(super) fn next_message(&mut self, slot: Slot, time: &UserTime, now: Nanos) -> Message {
        let Some(connection) = self.clients.get_mut(slot) else {
            return Message::Nothing;
        };
        if connection.occupation != Occupation::Free || connection.queued() > 0 {
            return Message::Nothing;
        }
        if !connection.may_call(now) || !time.may(connection.peer.uid, now) {
            connection.pause();
            self.clients.pause(slot, now);
            return Message::Nothing;
        }
        match connection.next_message(now) {
            Ok(Some(message)) => Message::Call(message),
            Ok(None) => Message::Nothing,
            Err(error) => Message::Broken(WireError::about("message", error.to_string())),
        }
    }

    /// The remaining calls of a connection wait until others had their turn.
    pub(super) fn put_off(&mut self, slot: Slot) {
        if let Some(connection) = self.clients.get_mut(slot)
            && connection.occupation == Occupation::Free
        {
            connection.pause();
            self.clients.queue(slot, Turn::default());
        }
    }

    /// Gives a turn to every watcher that is due.
    pub(super) fn watch_due(&mut self, now: Nanos) {
        if self.clients.next_watch().is_some_and(|due| due <= now) {
            self.clients.queue_watchers(now);
        }
    }

    /// The user of a connection, if it is a watcher that is due now and has read the last listing.
    pub(super) fn take_watcher(&mut self, slot: Slot, now: Nanos) -> Option<u32> {
        let connection = self.clients.get_mut(slot)?;
        let Occupation::Watching { interval, due } = connection.occupation else {
            return None;
        };
        if due > now {
            return None;
        }
        connection.occupation = Occupation::Watching {
            interval,
            due: now + interval,
        };
        (connection.queued() == 0).then_some(connection.peer.uid)
    }

    /// Sends encoded messages. Those to a new principal are held until its numbers are on its page. Returns
    /// whether the connection can stay.
    pub(super) fn send(
        &mut self,
        members: &Members,
        slot: Slot,
        encoded: &[u8],
        now: Nanos,
    ) -> bool {
        let Some(connection) = self.clients.get_mut(slot) else {
            return true;
        };
        if !connection.is_held() && lacks_numbers(connection, members) {
            connection.hold();
            self.newcomers.push(slot);
        }
        if connection.send(encoded, now) {
            return self.settle(slot);
        }
        let Peer { uid, pid } = connection.peer;
        tracing::debug!(uid, pid, "closed: it left, or leaves too much unread");
        false
    }

    /// Sends an error as far as the peer of a connection accepts it, which is to be closed then.
    pub(super) fn tell(&mut self, slot: Slot, error: &WireError, now: Nanos) {
        if let Some(connection) = self.clients.get_mut(slot) {
            tracing::debug!(uid = connection.peer.uid, pid = connection.peer.pid, %error, "cut off");
            tell(connection, error, now);
        }
    }

    /// Updates the events to watch for on a connection. Returns whether it can stay.
    pub(super) fn settle(&mut self, slot: Slot) -> bool {
        let Some(connection) = self.clients.get_mut(slot) else {
            return true;
        };
        let wanted = connection.wanted_interest();
        if wanted == connection.interest {
            return true;
        }
        connection.interest = wanted;
        let token = Token::Connection(slot);
        self.poll.modify(&*connection, token, wanted).is_ok()
    }

    /// Releases the held replies of principals whose numbers are on their pages now.
    pub(super) fn release_newcomers(&mut self, members: &Members) {
        let Serving {
            newcomers, clients, ..
        } = self;
        newcomers.retain(|&slot| {
            let Some(connection) = clients.get_mut(slot) else {
                return false;
            };
            if lacks_numbers(connection, members) {
                return true;
            }
            connection.release();
            let turn = Turn {
                writable: true,
                ..Turn::default()
            };
            clients.queue(slot, turn);
            false
        });
    }

    /// Closes a connection, and removes it from the subscribers of its principal.
    pub(super) fn close(&mut self, members: &mut Members, slot: Slot) -> Option<Connection> {
        let connection = self.clients.remove(slot)?;
        self.rest.cut_short();
        if let Occupation::Subscribed { id, .. } = connection.occupation
            && let Some(member) = members.get_mut(id)
        {
            member
                .outlet
                .subscribers
                .retain(|subscriber| *subscriber != slot);
        }
        Some(connection)
    }

    /// Frees what is not used any more.
    pub(super) fn sweep(&mut self, now: Nanos) {
        self.clients.sweep_users();
        self.shown.sweep(now);
    }
}

fn unfinished(uid: u32) -> WireError {
    let message = format!(
        "user {uid} leaves more bytes of unfinished messages here than it may; end each message with a \
         NUL byte, and \
         read replies before the next calls"
    );
    WireError::about("message", message)
}

/// Whether the connection has a principal that no tick has seen yet.
fn lacks_numbers(connection: &Connection, members: &Members) -> bool {
    let member = connection.principal.and_then(|id| members.get(id));
    member.is_some_and(|member| member.outlet.page.generation() == 0)
}

fn tell(connection: &mut Connection, error: &WireError, now: Nanos) {
    let mut encoded = Vec::new();
    encode_error(&mut encoded, error);
    let _ = connection.send(&encoded, now);
}
