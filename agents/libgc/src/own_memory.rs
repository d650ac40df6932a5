//! The process's own memory. Nothing here allocates, because it also runs inside
//! collections. No descriptor is kept open, because programs close or reuse descriptors that they
//! do not know.

pub use plimsoll_kernel::process::own::{Anonymous as Memory, anonymous as memory};
