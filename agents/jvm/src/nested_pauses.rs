//! Pauses that the machine tells of within another one. G1, where it has no room left for the descriptions of
//! classes, begins a pause and then a young collection, which tells of itself as well: start, start, finish,
//! finish. They are one pause.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many pauses are under way, one within the other. Every event is counted here, whether or not anything
/// is done about it: one that is left out would shift all that follow.
#[derive(Debug, Default)]
pub struct Nesting(AtomicU32);

impl Nesting {
    /// Without any.
    pub const fn none() -> Nesting {
        Nesting(AtomicU32::new(0))
    }

    /// A pause begins. Returns whether it is within no other.
    pub fn begin(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// A pause ends. Returns whether it was within no other. One whose beginning was not told, because the
    /// agent came later, does not count.
    #[allow(
        deprecated,
        reason = "Rust 1.90 does not know the new name, `try_update`"
    )]
    pub fn end(&self) -> bool {
        let order = Ordering::Relaxed;
        let one_less = |depth: u32| depth.checked_sub(1);
        self.0.fetch_update(order, order, one_less) == Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_within_another_are_parts_of_it() {
        let nesting = Nesting::none();
        for _ in 0..2 {
            assert!(nesting.begin() && !nesting.begin() && !nesting.begin());
            assert!(!nesting.end() && !nesting.end() && nesting.end());
        }
    }

    #[test]
    fn an_end_without_a_beginning_shifts_nothing() {
        let nesting = Nesting::none();
        assert!(!nesting.end());
        // The outer one began before the agent came.
        assert!(nesting.begin() && nesting.end() && !nesting.end());
        assert!(nesting.begin() && nesting.end());
    }
}
