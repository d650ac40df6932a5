//! Changes of a machine's limit, and how long the machine takes to follow them down.

use super::observation::{Seen, tolerance};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos};

/// For this long after a change the limit has changed lately.
const LATELY: Nanos = Nanos::seconds(3);

/// The changes up to the last look. A change is one by more than 1 %.
#[derive(Debug, Default)]
pub(super) struct LimitChanges {
    /// The limit after the last change.
    limit: Bytes,
    /// When the last change was seen.
    pub(super) changed_at: Nanos,
    /// Whether the last change lowered the limit.
    pub(super) fell: bool,
    /// When the limit was lowered below the use; `None` once the use is below it.
    over_since: Option<Nanos>,
    /// How long that usually takes, milliseconds; 0 until it happened.
    reaction_ms: u64,
}

impl LimitChanges {
    /// Takes in one moment.
    pub(super) fn look(&mut self, seen: &Seen) {
        if seen.limit.abs_diff(self.limit) > self.limit / 100 {
            self.changed_at = seen.now;
            self.fell = seen.limit < self.limit;
            self.limit = seen.limit;
            if self.fell && seen.uses > seen.limit {
                self.over_since = Some(seen.now);
            }
        }
        let Some(since) = self.over_since else { return };
        if seen.uses <= seen.limit + tolerance(seen.limit) {
            let ms = (seen.now - since).0 / MILLISECOND;
            self.reaction_ms = if self.reaction_ms == 0 {
                ms
            } else {
                self.reaction_ms.saturating_add(ms).div_ceil(2)
            };
            self.over_since = None;
        }
    }

    /// How long the machine usually takes to get below a lowered limit, milliseconds; 0 until it did.
    pub(super) fn reaction_ms(&self) -> u64 {
        self.reaction_ms
    }

    /// Whether the limit changed at this very moment.
    pub(super) fn changes_now(&self, seen: &Seen) -> bool {
        self.changed_at == seen.now
    }

    /// Whether the limit changed within the last three seconds.
    pub(super) fn changed_lately(&self, seen: &Seen) -> bool {
        self.changed_within(seen, LATELY)
    }

    /// Whether the limit changed within the last `span`.
    pub(super) fn changed_within(&self, seen: &Seen, span: Nanos) -> bool {
        seen.now - self.changed_at < span
    }
}
