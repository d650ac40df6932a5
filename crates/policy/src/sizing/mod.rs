//! How large a collected heap may be, from one collection to the next: the trait that every policy is, the
//! policies, and which heap runs which.
//!
//! | word | meaning |
//! |---|---|
//! | *live* | what the last collection found in use, as far as it is in memory |
//! | *bound* | what the heap may be at the most: of a broker, of the machine, of a group |
//! | *growth* | by how much the collector's own rule would have the heap grow until the next collection |
//! | *stalls* | how often the kernel made the program wait because it had taken memory |
//! | *size* | how large the heap may be until the next collection |
//!
//! A policy knows nothing of how a size comes about. This stays apart, because it is of one collector and not
//! of sizing: that free ratios make sizes in steps and that not all of a Java heap is resident
//! (`plimsoll_runtimes::hotspot`); what is paged out, what a heap takes in any case and what it leaves to
//! others where an excess is death ([`crate::footprint`]); which collections are of young objects
//! ([`crate::generations`]). The adapter in programs on the system's libgc has no policy: its numbers are
//! atomics that hooks read in the midst of a collection.
//!
//! `docs/src/adding-a-policy.md` goes through a new one.

mod after_stalls;
mod all;
mod isla_vista;
mod square_root;

pub use after_stalls::AfterStalls;
pub use all::All;
pub use isla_vista::{IslaVista, Ratios};
pub use square_root::SquareRoot;

/// The drop-in's heap, while memory is not short. It gets what is enough for how fast the program allocates
/// and what a collection costs.
pub type DropInEnough = SquareRoot;
/// The drop-in's heap in a machine or a group whose memory may be short. It grows by the collector's own
/// rule; from the first stall on Isla Vista decides, until the spike is over.
pub type DropIn = AfterStalls;
/// The heap of a HotSpot virtual machine. It gets all that there is room for.
pub type HotSpot = All;

/// A collection that ended. Sizes in bytes, times in nanoseconds of one clock that never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// When.
    pub now: u64,
    /// How long the program stood still for collections since the last one of which this was told.
    pub took: u64,
    /// What a collection cost lately, with what tracking writes cost the program.
    pub cost: u64,
    /// What lives.
    pub live: u64,
    /// What was ever allocated.
    pub allocated: u64,
    /// By how much the heap would grow until the next one by the collector's own rule; `u64::MAX` where it
    /// has none.
    pub growth: u64,
    /// How often the kernel stalled the program since the last one.
    pub stalls: u64,
}

/// Decides how large one heap may be. Pure: no clock, no I/O, no allocation.
///
/// The order of the calls:
///
/// 1. [`Sizing::bounded`], before anything else, and whenever the bound is looked up or changes: at any time,
///    also twice in a row.
/// 2. [`Sizing::ended`], once at the end of each collection that tells what lives: after the bound that holds
///    now, before the size is asked for. A heap that was not collected yet is asked for its size without it.
/// 3. [`Sizing::size`], as often as somebody wants to know. A heap that has reached it is due to be
///    collected, and one that is above it has memory to give back. Then it goes on with 1 or 2.
///
/// That a collection begins is not told: when it did follows from [`Ended::now`] and [`Ended::took`], and no
/// heap changes its size at that moment. Time passes as a number, with each collection.
///
/// `Default` is a heap of which nothing is known yet. A heap whose policy learned what means nothing any more
/// begins with it anew. `Clone` is for asking what the size would be within another bound.
///
/// The smallest useful one, twice what lives:
///
/// ```
/// use plimsoll_policy::sizing::{Ended, Sizing};
///
/// #[derive(Clone, Debug, Default)]
/// struct Twice {
///     most: u64,
///     live: u64,
/// }
///
/// impl Sizing for Twice {
///     fn bounded(&mut self, most: u64) {
///         self.most = most;
///     }
///
///     fn ended(&mut self, ended: &Ended) {
///         self.live = ended.live;
///     }
///
///     fn size(&self) -> u64 {
///         self.live.saturating_mul(2).min(self.most.max(self.live))
///     }
/// }
///
/// let mut heap = Twice::default();
/// heap.bounded(150 << 20);
/// heap.ended(&Ended { live: 70 << 20, ..Ended::default() });
/// assert_eq!(heap.size(), 140 << 20);
/// heap.bounded(100 << 20);
/// assert_eq!(heap.size(), 100 << 20);
/// ```
pub trait Sizing: Clone + std::fmt::Debug + Default {
    /// The heap may be no larger than `most` bytes; `u64::MAX` where nothing bounds it.
    fn bounded(&mut self, most: u64);

    /// A collection ended.
    fn ended(&mut self, ended: &Ended);

    /// Bytes that the heap may have now: at most the bound, or what lives if that is more, because no policy
    /// makes that less. It may be less than what lives: whoever sets the size keeps to what is possible. The
    /// answer stays the same until another method is called.
    fn size(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A heap's moments: the bound, and a collection.
    type Moments = Vec<(u64, Ended)>;

    fn moments() -> impl Strategy<Value = Moments> {
        let bytes = || prop_oneof![3 => 0u64..1 << 40, 1 => any::<u64>()];
        let ended = (bytes(), bytes(), bytes(), bytes(), bytes(), 0u64..3);
        let ended = ended.prop_map(|(now, took, live, allocated, growth, stalls)| Ended {
            now,
            took,
            cost: took,
            live,
            allocated,
            growth,
            stalls,
        });
        proptest::collection::vec((bytes(), ended), 1..60)
    }

    fn keeps_the_rules<S: Sizing>(moments: &Moments) -> Result<(), TestCaseError> {
        let mut sizing = S::default();
        for (bound, ended) in moments {
            sizing.bounded(*bound);
            sizing.ended(ended);
            let size = sizing.size();
            prop_assert!(size <= (*bound).max(ended.live), "{sizing:?}: {size}");
            prop_assert_eq!(sizing.size(), size);
            let mut other = sizing.clone();
            other.bounded(*bound);
            prop_assert_eq!(
                other.size(),
                size,
                "a bound that is told again changes nothing"
            );
        }
        Ok(())
    }

    proptest! {
        /// Every policy stands here: also with numbers that no heap has.
        #[test]
        fn every_policy_keeps_the_rules(moments in moments()) {
            keeps_the_rules::<AfterStalls>(&moments)?;
            keeps_the_rules::<All>(&moments)?;
            keeps_the_rules::<IslaVista>(&moments)?;
            keeps_the_rules::<SquareRoot>(&moments)?;
        }
    }
}
