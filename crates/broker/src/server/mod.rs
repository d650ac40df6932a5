//! The Varlink server: one thread, one epoll descriptor, non-blocking sockets, bounded buffers.
//!
//! # Glossary
//! - *connection*: one client; the life of a principal when it registered one.
//! - *occupied*: a connection that a `more` call (Subscribe, Watch) keeps; it calls no more.
//! - *paused*: a connection that called too often; it is served again a moment later.
//! - *cut off*: closed by the broker, where possible after a Varlink error that says why.

pub mod clients;
pub mod connection;
pub mod listener;
pub mod poll;
pub mod reply;
