//! What every program has: the executable, libraries, stacks, malloc, files.

use crate::runtime::Labels;
use crate::sight::Sight;

/// Labels all mappings by what the kernel tells of them.
pub fn label(_sight: &Sight, _labels: &mut Labels) {}
