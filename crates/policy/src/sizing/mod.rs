//! How large a garbage-collected heap may be until its next collection: the trait of all policies,
//! the policies, and the policy of each heap.
//!
//! | word | meaning |
//! |---|---|
//! | *live* | the bytes that the last collection found in use, as far as they are resident |
//! | *bound* | the largest size of the heap: by a broker, the machine or a group |
//! | *growth* | how much the collector's own rule would let the heap grow until the next collection |
//! | *stalls* | how often the kernel made the program wait for reclaim (allocation stalls) |
//! | *size* | how large the heap may be until the next collection |
//!
//! A policy does not know how a collector reaches a size. These parts belong to one collector and
//! stay outside:
//! - Free ratios set sizes in steps, and not all of a Java heap is resident
//!   (`plimsoll_runtimes::hotspot`).
//! - The memory that is paged out, that a heap takes in any case, and that it leaves to others where
//!   an excess kills ([`crate::footprint`]).
//! - The choice of collections of young objects ([`crate::generations`]).
//!
//! The adapter in programs on the system's libgc has no policy: its numbers are atomics that hooks
//! read during a collection.
//!
//! `docs/src/adding-a-policy.md` explains how to add a policy.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `all_available` | all available room |
//! | `isla_vista` | Isla Vista, by allocation stalls |
//! | `isla_vista_on_stall` | the collector's own rule until a stall, then Isla Vista |
//! | `square_root` | memory as long as it saves enough collections |
//! | `isla_vista_parameters` | the parameters of Isla Vista, and their ranges |

mod all_available;
mod isla_vista;
mod isla_vista_on_stall;
mod isla_vista_parameters;
mod square_root;

pub use all_available::All;
pub use isla_vista::IslaVista;
pub use isla_vista_on_stall::AfterStalls;
pub use isla_vista_parameters::{Parameters, RatioError, Ratios};
pub use square_root::SquareRoot;

use plimsoll_unit::{Bytes, Nanos};

/// The drop-in's heap while memory is not short. Its size suits the allocation rate of the program
/// and the cost of a collection.
pub type DropInEnough = SquareRoot;
/// The drop-in's heap in a machine or group whose memory may become short. It grows by the
/// collector's own rule. From the first stall on, Isla Vista decides until the spike is over.
pub type DropIn = AfterStalls;
/// The heap of a HotSpot virtual machine. It gets all available room.
pub type HotSpot = All;
/// The heap of a HotSpot virtual machine that sizes itself by its own stalls, without a broker's limit, or
/// below one. Until the first stall the machine's own rule holds.
pub type HotSpotAlone = IslaVista;
/// The heap of a runtime on MMTk. It is as large as its maximum until the kernel stalls the program.
pub type Mmtk = IslaVista;

/// A [`HotSpotAlone`] that begins at the time `now` with `limit`, because the virtual machine has
/// sized the heap so far, and may grow to `most`. The other heaps begin with `Default`.
pub fn hotspot_alone(now: Nanos, limit: Bytes, most: Bytes) -> HotSpotAlone {
    IslaVista::new(Ratios::ALL_TIME, limit, most).beginning(now)
}

/// The same by the rule as its paper prints it ([`Ratios::PAPER`]), to compare with.
pub fn hotspot_printed(now: Nanos, limit: Bytes, most: Bytes) -> HotSpotAlone {
    IslaVista::new(Ratios::PAPER, limit, most).beginning(now)
}

/// Which part of a heap a collection examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// All of it, or enough that the live bytes are known.
    #[default]
    Full,
    /// Young objects only. The live part of the others is unknown.
    Nursery,
}

/// A finished collection. Times are of one clock that never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Time of its end. The heap begins at time 0, unless the policy was given another beginning.
    pub now: Nanos,
    /// Time that the program was stopped for collections since the last one reported here; with
    /// [`Ratios::ALL_TIME`], all the time since then.
    pub took: Nanos,
    /// Recent cost of a collection, including what tracking writes cost the program.
    pub cost: Nanos,
    /// The objects that it examined.
    pub kind: Kind,
    /// Live memory. After a nursery collection, the memory in use: what survived, and all that was not
    /// examined.
    pub live: Bytes,
    /// Memory allocated since the start of the program.
    pub allocated: Bytes,
    /// Growth until the next collection by the collector's own rule; [`Bytes::MAX`] where it has none.
    pub growth: Bytes,
    /// Number of allocation stalls since the last report, in collections and between them. The papers that
    /// count those in collections only have programs that touch no new memory in between.
    pub stalls: u64,
    /// The time that the program waited in these stalls. 0 beside a number of stalls says that nobody
    /// measured it, and the stalls count as the whole collection.
    pub stalled: Nanos,
}

impl Ended {
    /// The part of [`Ended::took`] that was spent in allocation stalls, from 0 to 1.
    pub fn stalled_part(&self) -> f64 {
        match (self.stalls, self.stalled, self.took) {
            (0, Nanos::ZERO, _) => 0.0,
            (_, Nanos::ZERO, _) | (_, _, Nanos::ZERO) => 1.0,
            (_, stalled, took) => (stalled.0 as f64 / took.0 as f64).min(1.0),
        }
    }
}

/// Decides how large one heap may be. Pure: no clock, no I/O, no allocation.
///
/// The order of the calls:
///
/// 1. [`Sizing::bounded`], before anything else and whenever the bound is read or changes: at any
///    time, also twice in a row.
/// 2. [`Sizing::ended`], once at the end of each collection that reports the live bytes: after the
///    current bound was set, and before the size is asked for. A heap that was never collected is
///    asked for its size without it.
/// 3. [`Sizing::size`], any number of times. A heap that has reached the size is due for a
///    collection, and one above it has memory to give back. Then step 1 or 2 follows.
///
/// The start of a collection is not reported: it follows from [`Ended::now`] and [`Ended::took`],
/// and no heap changes its size at that moment. Time is only known as a number in each report.
///
/// `Default` is a heap about which nothing is known yet. When what a policy learned is no longer
/// valid, the heap starts again with it. `Clone` serves to ask for the size under another bound.
///
/// The smallest useful policy, twice the live bytes:
///
/// ```
/// use plimsoll_policy::sizing::{Ended, Sizing};
/// use plimsoll_unit::Bytes;
///
/// #[derive(Clone, Debug, Default)]
/// struct Twice {
///     most: Bytes,
///     live: Bytes,
/// }
///
/// impl Sizing for Twice {
///     fn bounded(&mut self, most: Bytes) {
///         self.most = most;
///     }
///
///     fn ended(&mut self, ended: &Ended) {
///         self.live = ended.live;
///     }
///
///     fn size(&self) -> Bytes {
///         (self.live * 2).min(self.most.max(self.live))
///     }
/// }
///
/// let mut heap = Twice::default();
/// heap.bounded(Bytes::mib(150));
/// heap.ended(&Ended { live: Bytes::mib(70), ..Ended::default() });
/// assert_eq!(heap.size(), Bytes::mib(140));
/// heap.bounded(Bytes::mib(100));
/// assert_eq!(heap.size(), Bytes::mib(100));
/// ```
pub trait Sizing: Clone + std::fmt::Debug + Default {
    /// The heap may be no larger than `most`; [`Bytes::MAX`] where nothing bounds it.
    fn bounded(&mut self, most: Bytes);

    /// A collection ended.
    fn ended(&mut self, ended: &Ended);

    /// The size that the heap may have now: at most the bound, or the live bytes if those are more,
    /// because no policy can lower them. It may be less than the live bytes: the caller does what
    /// is possible. The answer stays the same until another method is called.
    fn size(&self) -> Bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Events of a heap: a bound, and a collection.
    type Moments = Vec<(Bytes, Ended)>;

    fn moments() -> impl Strategy<Value = Moments> {
        let number = || prop_oneof![3 => 0u64..1 << 40, 1 => any::<u64>()];
        let (bytes, time) = (|| number().prop_map(Bytes), || number().prop_map(Nanos));
        let kind = prop_oneof![Just(Kind::Full), Just(Kind::Nursery)];
        let stalls = (0u64..3, time());
        let ended = (time(), time(), bytes(), bytes(), bytes(), stalls, kind);
        let ended = ended.prop_map(
            |(now, took, live, allocated, growth, (stalls, stalled), kind)| Ended {
                now,
                took,
                cost: took,
                kind,
                live,
                allocated,
                growth,
                stalls,
                stalled,
            },
        );
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
        /// All policies belong in this test. It also uses numbers that no heap has.
        #[test]
        fn every_policy_keeps_the_rules(moments in moments()) {
            keeps_the_rules::<AfterStalls>(&moments)?;
            keeps_the_rules::<All>(&moments)?;
            keeps_the_rules::<IslaVista>(&moments)?;
            keeps_the_rules::<SquareRoot>(&moments)?;
        }
    }
}
