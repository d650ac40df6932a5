//! The availability page: one page of shared memory per principal, written by the broker only.
//!
//! Layout, little-endian on the machines that we support, every field 8-byte aligned:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | magic | the bytes `PLIMSOLL` |
//! | 8 | version, size | two u32: 1 and 4096 |
//! | 16 | sequence | odd during a write by the broker, 0 before the first publication |
//! | 24 | limit | bytes it may use now |
//! | 32 | available | bytes it could have if it asked |
//! | 40 | owed | bytes it must give back, 0 when none |
//! | 48 | deadline | `CLOCK_MONOTONIC` ns until which it must give them back, 0 when none are owed |
//! | 56 | uses | bytes accounted to it; this, limit, available and share leave out its part of files |
//! | 64 | share | its entitlement (guaranteed weighted share), bytes |
//! | 72 | level | 0 normal, 1 warning, 2 critical |
//! | 80 | heartbeat | `CLOCK_MONOTONIC` ns of the last publication |
//! | 88 | generation | counts changes of limit, available, owed, deadline or level |
//! | 96 | id | the principal's id |
//! | 104 | sensed | `CLOCK_MONOTONIC` ns at which `uses` was read |
//!
//! One aligned load of `limit` always gives a whole value; [`PageView::read`] gives a consistent
//! set.
//!
//! Writes follow the usual order of a sequence lock: sequence odd, payload, sequence even. The
//! broker uses `pwrite` and no mapping, because a writer that maps a file gets SIGBUS when somebody
//! truncates the file. [`PageImage`] says which bytes go where and in which order.

mod image;
mod view;

pub use image::{PageImage, Step};
pub use view::{PageError, PageView, Reading};

use plimsoll_unit::Nanos;

/// Size of the page file in bytes.
pub const PAGE_SIZE: usize = 4096;
/// First eight bytes of every page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PLIMSOLL");
/// Layout version.
pub const VERSION: u32 = 1;
/// If the heartbeat of a page is older than this, its broker is gone.
pub const STALE_AFTER: Nanos = Nanos::seconds(3);

/// Byte offsets of the fields.
pub mod offset {
    #![allow(missing_docs)]
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const SIZE: usize = 12;
    pub const SEQUENCE: usize = 16;
    pub const LIMIT: usize = 24;
    pub const AVAILABLE: usize = 32;
    pub const OWED: usize = 40;
    pub const DEADLINE: usize = 48;
    pub const USES: usize = 56;
    pub const SHARE: usize = 64;
    pub const LEVEL: usize = 72;
    pub const HEARTBEAT: usize = 80;
    pub const GENERATION: usize = 88;
    pub const ID: usize = 96;
    pub const SENSED: usize = 104;
    pub const END: usize = 112;
}

/// Urgency of the numbers, for programs that only handle levels. Derived from the amounts.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u64)]
pub enum Level {
    /// Within its limit.
    #[default]
    Normal = 0,
    /// At its limit, or owing with time left.
    Warning = 1,
    /// Owing, and the deadline is near or past.
    Critical = 2,
}

impl Level {
    /// Decodes the level in a page or a reply. Levels above critical, which a newer broker may add,
    /// count as critical.
    pub fn from_number(number: u64) -> Level {
        match number {
            0 => Level::Normal,
            1 => Level::Warning,
            _ => Level::Critical,
        }
    }
}

/// The numbers of one principal at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Numbers {
    /// Bytes it may use now. The sum over all principals never exceeds the budget.
    pub limit: u64,
    /// Bytes it could have if it asked.
    pub available: u64,
    /// Bytes it must give back, 0 when none.
    pub owed: u64,
    /// `CLOCK_MONOTONIC` ns until which it must give them back, 0 when none are owed.
    pub deadline: u64,
    /// Bytes accounted to it.
    pub uses: u64,
    /// Its entitlement: its guaranteed weighted share of the budget, bytes.
    pub share: u64,
    /// Derived from the amounts.
    pub level: Level,
    /// `CLOCK_MONOTONIC` ns at which `uses` was read. Memory that was given back later is not in these
    /// numbers yet. 0 from a broker that does not say.
    #[serde(default)]
    pub sensed: u64,
}
