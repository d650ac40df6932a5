//! What principals read and hear: pages, pressure sockets. Subscribers are connections; the daemon
//! tells them (`daemon::publish`).

mod directory;
mod page;
mod pressure;

pub use directory::{PageDirectory, remove_unused};
pub use page::PageFile;
pub use pressure::PressureSocket;
