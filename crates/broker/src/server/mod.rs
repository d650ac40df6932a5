//! The Varlink server: one thread, one epoll descriptor, non-blocking sockets, bounded buffers.
//!
//! # Glossary
//! - *connection*: one client; if it registered a principal, the principal lives as long as it.
//! - *occupied*: a connection used by a `more` call (Subscribe, Watch); it can make no other call.
//! - *turn*: the work that one connection may do before the others may. Turns alternate between
//!   users, and between the connections of each user.
//! - *paused*: a connection whose calls were read but wait: for its next turn, or for a moment when
//!   it or its user called too often.
//! - *held*: a reply that waits for the first numbers of a new principal.
//! - *resting*: a listener that could not accept and is not watched for a while.
//! - *cut off*: closed by the broker, where possible after a Varlink error that says why.
//! - *account*: what one user holds of a shared resource; *first*: the amount that each user may
//!   always hold.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `listener` | the listening socket, and the credentials of peers |
//! | `connection` | one client: its buffers and its state |
//! | `clients` | all connections, and the order of their turns |
//! | `inbox` | bytes of calls that are not answered yet |
//! | `outbox` | bytes queued for a slow reader |
//! | `reply` | results and errors of methods |
//! | `accept_backoff` | listeners that cannot accept |
//! | `epoll` | the epoll descriptor and the meaning of its events |
//! | `users` | what each user takes of the broker |

pub mod accept_backoff;
pub mod clients;
pub mod connection;
pub mod epoll;
pub mod inbox;
pub mod listener;
pub mod outbox;
pub mod reply;
pub mod users;
