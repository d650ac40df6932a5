//! Counts how often memory was asked back from a principal, and how far that went.

use super::Rung;
use super::debt::Debt;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Revocations;

/// The counters of one principal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Since it was registered; none of them ever falls.
    pub(super) counts: Revocations,
    /// Whether the missed deadline of the present batch is counted.
    is_late: bool,
}

impl Tally {
    /// Counts a batch that begins, and one whose deadline passed before it was paid, each once. `before` and
    /// `after` are the debt before and after this tick, and `uses` are bytes.
    pub(super) fn note_debt(
        &mut self,
        before: Option<Debt>,
        after: Option<Debt>,
        uses: u64,
        now: Nanos,
    ) {
        let Some(debt) = after else {
            self.is_late = false;
            return;
        };
        if !before.is_some_and(|before| before.is_of_batch(&debt)) {
            self.counts.asked += 1;
            self.is_late = false;
        }
        if !self.is_late && debt.overdue(uses, now) > 0 {
            self.counts.missed += 1;
            self.is_late = true;
        }
    }

    /// Counts an action against the principal.
    pub(super) fn note_action(&mut self, rung: Rung) {
        match rung {
            Rung::None | Rung::Asked => {}
            Rung::PageOut => self.counts.paged_out += 1,
            Rung::Take => self.counts.taken += 1,
            Rung::Bound => self.counts.bound += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(due: u64, from: u64, deadline: u64) -> Option<Debt> {
        Some(Debt {
            due,
            from,
            deadline: Nanos(deadline),
        })
    }

    #[test]
    fn a_batch_and_its_missed_deadline_are_counted_once() {
        let mut tally = Tally::default();
        let mut note = |before, after, uses, now| {
            tally.note_debt(before, after, uses, Nanos(now));
            (tally.counts.asked, tally.counts.missed)
        };
        let first = debt(100, 200, 10);
        assert_eq!(note(None, first, 200, 0), (1, 0));
        // The limit rises a little: the same batch.
        let eased = debt(110, 200, 10);
        assert_eq!(note(first, eased, 200, 9), (1, 0));
        assert_eq!(note(eased, eased, 200, 10), (1, 1));
        assert_eq!(note(eased, eased, 150, 11), (1, 1));
        // Paid late, and the next batch begins, which is paid in time.
        let second = debt(50, 110, 20);
        assert_eq!(note(eased, second, 110, 12), (2, 1));
        assert_eq!(note(second, None, 50, 20), (2, 1));
        // The next is missed again.
        let third = debt(40, 90, 30);
        assert_eq!(note(None, third, 90, 21), (3, 1));
        assert_eq!(note(third, third, 41, 31), (3, 2));
    }
}
