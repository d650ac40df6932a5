//! The Varlink server: one thread, one epoll descriptor, non-blocking sockets, bounded buffers.
//!
//! # Glossary
//! - *connection*: one client; the life of a principal when it registered one.
//! - *occupied*: a connection that a `more` call (Subscribe, Watch) keeps; it calls no more.
//! - *turn*: what one connection may do before the others may; turns go round the users, and round
//!   the connections of each.
//! - *paused*: a connection whose calls were read and wait: for its next turn, or, when it or its
//!   user called too often, for a moment.
//! - *held*: a reply that waits for the first numbers of a new principal.
//! - *resting*: a listener that could not accept and is not watched for a while.
//! - *cut off*: closed by the broker, where possible after a Varlink error that says why.
//! - *account*: what one user holds of a resource that all share; *first*: so much of it that each
//!   user may have.

pub mod clients;
pub mod connection;
pub mod inbox;
pub mod listener;
pub mod outbox;
pub mod poll;
pub mod reply;
pub mod rest;
pub mod users;
