//! The disciplines on a real kernel, which has its own scheduler: from time to time we look at what each
//! thread ran and allocated, and say which goes to the front and which is put back. And whether it is worth
//! it.
//!
//! | word | meaning |
//! |---|---|
//! | *look* | the counters of all threads are read, and places are given |
//! | *turn* | a thread is in front, because it was dispatched |
//! | *back* | a thread is ready, and others have their turn |
//! | *away* | it blocks, as far as is known; it is in front, so that it goes on at once when it wakes |
//! | *window* | a time in which the discipline is on or off throughout |
//! | *pair* | a window with and one without, one after the other |
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `front` | which threads are in front: [`Front`] |
//! | `trial` | alternating windows, the bound on harm, the verdict: [`Trial`] |

mod front;
#[cfg(test)]
mod tests;
mod trial;

pub use front::{Front, Place};
pub use trial::{
    BUDGET, Gain, HOLD, LARGEST, Outcome, PAIRS, REST, Switch, TOLERANCE, Trial, Window,
};

use plimsoll_unit::Nanos;

/// The time until the next look, so that looks take at most `1 / PART` of one processor.
///
/// `wanted`: the shortest time. `cost`: processor time of the last look. At most a second.
pub fn pace(wanted: Nanos, cost: Nanos) -> Nanos {
    wanted.max(cost * PART).min(SLOWEST)
}

/// Looks take at most this part of one processor, as its inverse.
const PART: u64 = 50;
/// The longest time between two looks.
const SLOWEST: Nanos = Nanos::seconds(1);
