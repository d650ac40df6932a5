//! The methods, typed.

use super::{Connection, Stream};
use crate::Result;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::{
    Adapt, Adapter, Attach, CgroupPath, Changed, Contain, Id, Listing, Name, Nothing, Register,
    Registered, Released, Report, Set, Watch, Which,
};
use plimsoll_wire::varlink::{Method, Mode, service};
use serde::Serialize;

impl Connection {
    /// Registers a new principal, which lives as long as this connection.
    ///
    /// # Errors
    /// The broker's refusal, or any [`Error`](crate::Error) that ends a connection. The same holds for
    /// all calls below.
    pub fn register(&mut self, register: &Register) -> Result<Registered> {
        self.call(Method::Register.as_str(), register)
    }

    /// Assigns a process to a principal.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn attach(&mut self, id: Id, pid: u32) -> Result<()> {
        self.attach_as(id, pid, None)
    }

    /// The same; `whole` as in [`plimsoll_wire::messages::Register`].
    pub(crate) fn attach_as(&mut self, id: Id, pid: u32, whole: Option<bool>) -> Result<()> {
        self.acknowledged(Method::Attach, &Attach { id, pid, whole })
    }

    /// Names the cgroup that holds the processes of a principal and no others.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn contain(&mut self, id: Id, cgroup: CgroupPath) -> Result<()> {
        self.acknowledged(Method::Contain, &Contain { id, cgroup })
    }

    /// Tells which adapter steers a principal from now on; `None` if none does.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn adapt(&mut self, id: Id, adapter: Option<Adapter>) -> Result<()> {
        let adapt = Adapt {
            id,
            adapter,
            name: None,
        };
        self.acknowledged(Method::Adapt, &adapt)
    }

    /// As [`Connection::adapt`], with a name that the program gives itself.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub(crate) fn call_itself(
        &mut self,
        id: Id,
        adapter: Option<Adapter>,
        name: Name,
    ) -> Result<()> {
        let name = Some(name);
        self.acknowledged(Method::Adapt, &Adapt { id, adapter, name })
    }

    /// Sends what an adapter knows about its program.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn report(&mut self, report: &Report) -> Result<()> {
        self.acknowledged(Method::Report, report)
    }

    /// Tells that a principal gave back this much memory.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn released(&mut self, id: Id, bytes: Bytes) -> Result<()> {
        self.acknowledged(Method::Released, &Released { id, bytes: bytes.0 })
    }

    /// Changes a principal.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn set(&mut self, set: &Set) -> Result<()> {
        self.acknowledged(Method::Set, set)
    }

    /// All principals.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn list(&mut self) -> Result<Listing> {
        self.call(Method::List.as_str(), &Nothing {})
    }

    /// Makes the broker read its configuration again.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn reload(&mut self) -> Result<()> {
        self.acknowledged(Method::Reload, &Nothing {})
    }

    /// The broker's name, version and interfaces. Also the cheapest way to check that it lives.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn info(&mut self) -> Result<service::Info> {
        self.call(service::GET_INFO, &Nothing {})
    }

    /// The text of an interface file of the broker.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn describe(&mut self, interface: &str) -> Result<String> {
        let asked = service::Interface {
            interface: interface.to_owned(),
        };
        let answer: service::Description = self.call(service::GET_INTERFACE_DESCRIPTION, &asked)?;
        Ok(answer.description)
    }

    /// Turns the connection into a stream of a principal's changes. The first one comes at once.
    ///
    /// # Errors
    /// As [`Connection::register`]; a refusal comes with the first [`Stream::next`].
    pub fn subscribe(mut self, id: Id) -> Result<Stream<Changed>> {
        self.send(Method::Subscribe.as_str(), &Which { id }, Mode::More)?;
        Ok(Stream::new(self))
    }

    /// Turns the connection into a stream of listings. `interval_ms`: 100 to 60000.
    ///
    /// # Errors
    /// As [`Connection::subscribe`].
    pub fn watch(mut self, interval_ms: u64) -> Result<Stream<Listing>> {
        self.send(Method::Watch.as_str(), &Watch { interval_ms }, Mode::More)?;
        Ok(Stream::new(self))
    }

    fn acknowledged<P: Serialize>(&mut self, method: Method, parameters: &P) -> Result<()> {
        self.call::<P, Nothing>(method.as_str(), parameters)
            .map(drop)
    }
}
