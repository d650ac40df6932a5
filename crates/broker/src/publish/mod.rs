//! What principals read and hear: pages, pressure sockets. Subscribers are connections; the daemon
//! tells them (`daemon::publish`).

mod page;
mod pressure;

pub use page::{PageDirectory, PageFile, clear};
pub use pressure::PressureSocket;
