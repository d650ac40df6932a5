//! Objects.
//!
//! | module | content |
//! |---|---|
//! | `allocate`, `release`, `resize` | allocating objects, freeing them, changing their size |
//! | `kinds` | where references are in them |
//! | `debug`, `header` | objects for debugging, and the headers of these |
//! | `inspect` | the object that an address points into |

pub(crate) mod allocate;
pub(crate) mod debug;
pub(crate) mod header;
pub(crate) mod inspect;
pub(crate) mod kinds;
pub(crate) mod release;
pub(crate) mod resize;
