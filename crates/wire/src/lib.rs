//! Everything exchanged between the broker and a program: the availability page ([`page`]) and the
//! `io.plimsoll` messages ([`messages`], framed as Varlink by [`varlink`]); and the page on which an agent
//! in a virtual machine tells of its collections ([`collections`]). This crate does no I/O: it encodes and
//! decodes data, and the caller makes the system calls. Messages of clients are checked while they are
//! read ([`checked`], by the rules of [`checks`] and [`standing`]). [`size`] reads sizes as people write
//! them. [`fuzz`] has the entry points for fuzzers.
//!
//! # Glossary
//! - *principal*: the unit of accounting: a process (with its descendants) or a group.
//! - *limit*: bytes that a principal may use now.
//! - *available*: bytes that it could have if it asked.
//! - *owed*: bytes that it must give back before *deadline*; 0 when nothing.
//! - *uses*: bytes that are accounted to it.
//! - *share*: its entitlement: the guaranteed weighted share of the budget, if it wants that much.
//! - *heartbeat*: time of the broker's last write to a page; an old one means that the broker is
//!   gone.
//! - *generation*: how often the numbers of a page changed.
//!
//! All sizes are bytes, all times nanoseconds of `CLOCK_MONOTONIC` unless a name says otherwise.

pub mod checked;
pub mod checks;
pub mod collections;
pub mod fuzz;
pub mod messages;
pub mod page;
pub mod size;
pub mod standing;
pub mod varlink;
