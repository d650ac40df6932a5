//! The files that principals read: pages and pressure sockets. Subscribers are connections, and the
//! daemon writes to them (`daemon::publish`).

mod directory;
mod outlet;
mod page;
mod pressure;

pub use directory::{PageDirectory, remove_unused};
pub use outlet::Outlet;
pub use page::PageFile;
pub use pressure::PressureSocket;
