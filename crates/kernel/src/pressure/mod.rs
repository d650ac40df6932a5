//! Signals of pressure. Only usage warns before the kernel evicts: the core of the broker compares it with a
//! margin. Pressure stall information ([`Psi`]) comes 0.1 to 2 s after an eviction: the slow outer signal.

mod psi;
mod threshold;

pub use psi::{MACHINE, Psi, Stalled, Trigger, parse_psi};
pub use threshold::Threshold;
