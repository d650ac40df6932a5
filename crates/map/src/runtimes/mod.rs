//! The runtimes, a module each.

use crate::runtime::Runtime;

/// The known runtimes, in the order in which they are asked.
pub const ALL: &[&dyn Runtime] = &[];
