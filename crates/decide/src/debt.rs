//! A debt: the bytes that a principal must give back, and the deadline.
//!
//! A debt is paid in batches. The first batch is the amount owed when the debt begins, and its
//! deadline never moves. New debt, from a limit that falls further, waits for the next batch, which
//! begins when the previous one is paid. So a program that pays in time is never overdue, however
//! long another program keeps growing. A program that only grows cannot move its own deadline.

use plimsoll_unit::Nanos;

/// One debt; see the module. Times are core time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Debt {
    /// Use in bytes that the principal must come down to for this batch.
    pub(super) due: u64,
    /// Use in bytes when the batch began.
    pub(super) from: u64,
    /// Deadline of this batch.
    pub(super) deadline: Nanos,
}

impl Debt {
    /// The debt after a tick: begun, kept, renewed or paid (`None`).
    pub(super) fn step(
        debt: Option<Debt>,
        uses: u64,
        limit: u64,
        now: Nanos,
        reaction: Nanos,
    ) -> Option<Debt> {
        let begin = Debt {
            due: limit,
            from: uses,
            deadline: now + reaction,
        };
        match debt {
            None => (uses.saturating_sub(limit) > slop(limit)).then_some(begin),
            Some(_) if uses.saturating_sub(limit) <= slop(limit) / 2 => None,
            Some(old) => {
                let due = old.due.max(limit);
                let batch_paid = uses <= due.saturating_add(slop(due));
                // The last batch counts as paid together with the debt: its small rest gets no new
                // deadline.
                Some(if batch_paid && limit < due {
                    begin
                } else {
                    Debt { due, ..old }
                })
            }
        }
    }

    /// Whether the other is the same batch: only its `due` may have moved.
    pub(super) fn is_of_batch(&self, other: &Debt) -> bool {
        (self.from, self.deadline) == (other.from, other.deadline)
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

/// Bytes over a limit that are ignored: measuring is no more precise than this.
pub(super) fn slop(limit: u64) -> u64 {
    (limit / 256).clamp(64 << 10, 1 << 20)
}

/// Bytes over a limit that are not taken by force while the reserve holds. Collectors hit a target
/// only within some percent, and paging out memory that would be freed anyway costs more than it
/// gains.
pub(super) fn tolerance(limit: u64) -> u64 {
    (limit / 32).clamp(64 << 10, 32 << 20)
}
