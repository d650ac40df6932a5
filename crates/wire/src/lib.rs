//! The formats between the broker, programs, and the agent in a virtual machine. This crate does no I/O: it
//! encodes and decodes data, and the caller makes the system calls.
//!
//! Each module imports only from those before it.
//!
//! | module | is |
//! |---|---|
//! | [`page`] | the availability page, which the broker writes for a program |
//! | [`collections`] | the page on which the agent in a virtual machine reports collections |
//! | [`size`] | sizes as people write them |
//! | [`varlink`] | the frames of messages |
//! | [`checks`], [`checked`], [`standing`] | the rules for messages of clients, checked while they are read |
//! | [`messages`] | the messages of `io.plimsoll` |
//! | [`fuzz`] | entry points for fuzzers |
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
