//! Early warning. By margin first ([`Watermark`]): only usage tells before the kernel evicts;
//! pressure stall information ([`Psi`]) tells 0.1 to 2 s after, and serves as the slow outer
//! signal.

mod psi;
mod threshold;
mod watermark;

pub use psi::{MACHINE, Psi, Stalled, Trigger, parse_psi};
pub use threshold::Threshold;
pub use watermark::{Reaction, Watermark};
