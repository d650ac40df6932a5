//! What crosses between the broker and a program: the availability page ([`page`]) and the
//! `io.plimsoll` messages ([`messages`], framed as Varlink by [`varlink`]). No I/O happens here:
//! the page's writer and the decoder are data, the system calls are the caller's. What a client
//! sends is checked as it is read ([`checked`], by the rules of [`checks`], and [`standing`]). Fuzzers
//! enter by [`fuzz`].
//!
//! # Glossary
//! - *principal*: whoever memory is accounted to: a process (with its descendants) or a group.
//! - *limit*: bytes that a principal may use now.
//! - *available*: bytes that it could have if it asked.
//! - *owed*: bytes that it must give back before *deadline*; 0 when nothing.
//! - *uses*: bytes that are accounted to it.
//! - *share*: its guaranteed weighted share of the budget if it wants it (entitlement).
//! - *heartbeat*: when the broker last wrote a page; an old one means that the broker is gone.
//! - *generation*: how often the numbers of a page changed.
//!
//! All sizes are bytes, all times nanoseconds of `CLOCK_MONOTONIC` unless a name says otherwise.

pub mod checked;
pub mod checks;
pub mod fuzz;
pub mod messages;
pub mod page;
pub mod standing;
pub mod varlink;
