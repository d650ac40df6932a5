//! Early warning. The margin ([`Watermark`]) comes first, because only usage warns before the
//! kernel evicts. Pressure stall information ([`Psi`]) comes 0.1 to 2 s after an eviction, and
//! serves as the slow outer signal.

mod psi;
mod threshold;
mod watermark;

pub use psi::{MACHINE, Psi, Stalled, Trigger, parse_psi};
pub use threshold::Threshold;
pub use watermark::{Reaction, Watermark};
