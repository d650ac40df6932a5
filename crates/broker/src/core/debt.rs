//! What a principal must give back, and by when.
//!
//! A debt is paid in batches. The first batch is what is owed when the debt begins; its deadline
//! stays whatever comes after. New debt (a limit that falls further) waits for its own batch, which
//! begins when the one before is paid. So a program that pays in time is never overdue, however long
//! a hog keeps growing; and one that only grows does not move its own deadline.

use super::Nanos;

/// See the module. Times are core time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Debt {
    /// To where its use must come down for this batch, bytes.
    pub(super) due: u64,
    /// By when.
    pub(super) deadline: Nanos,
}

impl Debt {
    /// The debt after a tick: begun, kept, renewed or paid.
    pub(super) fn step(
        debt: Option<Debt>,
        uses: u64,
        limit: u64,
        now: Nanos,
        reaction: Nanos,
    ) -> Option<Debt> {
        let begin = Debt {
            due: limit,
            deadline: now.saturating_add(reaction),
        };
        match debt {
            None => (uses.saturating_sub(limit) > slop(limit)).then_some(begin),
            Some(_) if uses.saturating_sub(limit) <= slop(limit) / 2 => None,
            Some(old) => {
                let due = old.due.max(limit);
                let batch_paid = uses <= due.saturating_add(slop(due));
                // The last batch is paid when the debt is: what little is left of it has no new deadline.
                Some(if batch_paid && limit < due {
                    begin
                } else {
                    Debt { due, ..old }
                })
            }
        }
    }

    /// Bytes of the batch that are past their deadline.
    pub(super) fn overdue(&self, uses: u64, now: Nanos) -> u64 {
        if now >= self.deadline {
            uses.saturating_sub(self.due)
        } else {
            0
        }
    }
}

/// Bytes over a limit that are not worth a word: measuring is no finer.
pub(super) fn slop(limit: u64) -> u64 {
    (limit / 256).clamp(64 << 10, 1 << 20)
}

/// Bytes over a limit that are not taken by force while the reserve holds: no collector steers finer than to
/// some percent, and paging out what comes back by itself costs more than it brings.
pub(super) fn tolerance(limit: u64) -> u64 {
    (limit / 32).clamp(64 << 10, 32 << 20)
}
