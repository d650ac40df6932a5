//! The state of the screen: listings of the last minutes, and the user's selection.

use crate::rows::{Faults, Order, Row, find, rows};
use plimsoll_wire::messages::{Id, Listing, Principal, Priority, Set, Weight};
use std::collections::VecDeque;

/// How many listings are kept for the history column.
pub const HISTORY: usize = 120;

/// A listing and when it was made.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seconds on any steady clock.
    pub at: f64,
    /// The broker's answer.
    pub listing: Listing,
}

/// Everything that a frame shows.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Oldest first.
    samples: VecDeque<Sample>,
    /// The row that keys act on.
    pub selected: Option<Id>,
    /// How siblings are ordered.
    pub order: Order,
    /// The first row on the screen.
    pub offset: usize,
    /// The help is shown instead of the rows.
    pub help: bool,
    /// The collector's page of the selected principal is shown instead of the rows.
    pub collector: bool,
    /// The last line, instead of the keys.
    pub message: Option<String>,
}

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Heavier,
    Lighter,
    Raise,
    Lower,
    Sort,
    Collector,
    Help,
    Quit,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Draw again.
    Draw,
    /// Ask the broker to change a principal.
    Change(Set),
    /// Leave.
    Quit,
}

impl State {
    /// Adds what the broker said.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.len() == HISTORY {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let gone = |id| {
            self.listing()
                .is_none_or(|listing| find(listing, id).is_none())
        };
        if self.selected.is_none_or(gone) {
            self.selected = self.rows().first().map(|row| row.principal.id);
        }
    }

    /// The newest listing.
    pub fn listing(&self) -> Option<&Listing> {
        self.samples.back().map(|sample| &sample.listing)
    }

    /// The selected principal, as it is in the newest listing.
    pub fn selected(&self) -> Option<&Principal> {
        find(self.listing()?, self.selected?)
    }

    /// The newest listing's rows in the chosen order.
    pub fn rows(&self) -> Vec<Row<'_>> {
        self.listing().map_or_else(Vec::new, |listing| {
            rows(listing, self.order, &self.faults())
        })
    }

    /// Major faults per second between the two newest listings.
    pub fn faults(&self) -> Faults {
        let newest = self.samples.len().wrapping_sub(1);
        let (Some(now), Some(before)) = (
            self.samples.get(newest),
            self.samples.get(newest.wrapping_sub(1)),
        ) else {
            return Faults::new();
        };
        let seconds = (now.at - before.at).max(0.001);
        let older = |id| find(&before.listing, id).map(|p| p.major_faults);
        rows(&now.listing, Order::Arrival, &Faults::new())
            .into_iter()
            .filter_map(|row| {
                let since = row
                    .principal
                    .major_faults
                    .saturating_sub(older(row.principal.id)?);
                Some((row.principal.id, since as f64 / seconds))
            })
            .collect()
    }

    /// Bytes that a principal used in the last `count` listings, oldest first; `None` before it was there.
    pub fn history(&self, id: Id, count: usize) -> Vec<Option<u64>> {
        let skipped = self.samples.len().saturating_sub(count);
        let known = self.samples.iter().skip(skipped);
        known
            .map(|sample| find(&sample.listing, id).map(|p| p.uses))
            .collect()
    }

    /// Changes the newest listing as the broker was asked to, so that the next key builds on it.
    pub fn changed(&mut self, set: Set) {
        let Some(sample) = self.samples.back_mut() else {
            return;
        };
        if let Some(principal) = find_mut(&mut sample.listing.principals, set.id) {
            principal.weight = set.weight.map_or(principal.weight, Weight::get);
            principal.priority = set.priority.map_or(principal.priority, Priority::get);
        }
    }

    /// Acts on a key.
    pub fn key(&mut self, key: Key, page: usize) -> Effect {
        self.message = None;
        match key {
            Key::Quit if self.help => self.help = false,
            Key::Quit if self.collector => self.collector = false,
            Key::Quit => return Effect::Quit,
            Key::Help => self.help = !self.help,
            Key::Collector => {
                self.collector = self.help || !self.collector;
                self.help = false;
            }
            Key::Sort => self.order = self.order.next(),
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            Key::PageUp => self.step(-(page as isize)),
            Key::PageDown => self.step(page as isize),
            Key::First => self.step(isize::MIN / 2),
            Key::Last => self.step(isize::MAX / 2),
            Key::Heavier | Key::Lighter | Key::Raise | Key::Lower => return self.change(key),
        }
        Effect::Draw
    }

    fn step(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let at = rows
            .iter()
            .position(|row| Some(row.principal.id) == self.selected)
            .unwrap_or(0);
        let next = (at as isize).saturating_add(by).clamp(0, last as isize) as usize;
        self.selected = Some(rows[next].principal.id);
    }

    fn change(&mut self, key: Key) -> Effect {
        let Some(principal) = self.selected() else {
            return Effect::Draw;
        };
        let mut set = Set {
            id: principal.id,
            ..Set::default()
        };
        let (weight, priority) = (i64::from(principal.weight), i64::from(principal.priority));
        let tenth = (weight / 10).max(1);
        match key {
            Key::Heavier => set.weight = Some(Weight::nearest(weight + tenth)),
            Key::Lighter => set.weight = Some(Weight::nearest(weight - tenth)),
            Key::Raise => set.priority = Some(Priority::nearest(priority + 1)),
            _ => set.priority = Some(Priority::nearest(priority - 1)),
        }
        Effect::Change(set)
    }

    /// Scrolls the window of `height` rows to the selected row.
    pub fn scroll(&mut self, height: usize) {
        let rows = self.rows();
        let at = rows
            .iter()
            .position(|row| Some(row.principal.id) == self.selected)
            .unwrap_or(0);
        let last_offset = rows.len().saturating_sub(height);
        let lowest = (at + 1).saturating_sub(height);
        self.offset = self.offset.clamp(lowest, at.max(lowest)).min(last_offset);
    }
}

fn find_mut(siblings: &mut [Principal], id: Id) -> Option<&mut Principal> {
    for principal in siblings {
        if principal.id == id {
            return Some(principal);
        }
        if let Some(found) = find_mut(&mut principal.children, id) {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;

    fn state() -> State {
        let mut state = State::default();
        let mut listing = sample();
        state.push(Sample {
            at: 1.0,
            listing: listing.clone(),
        });
        listing.principals[1].children[0].major_faults += 30;
        state.push(Sample { at: 3.0, listing });
        state
    }

    #[test]
    fn keys_move_within_the_rows() {
        let mut state = state();
        assert_eq!(state.selected, Some(1));
        for (key, selected) in [
            (Key::Up, 1),
            (Key::Down, 2),
            (Key::Down, 4),
            (Key::Last, 3),
            (Key::Down, 3),
            (Key::PageUp, 2),
            (Key::First, 1),
            (Key::PageDown, 4),
        ] {
            assert_eq!(state.key(key, 2), Effect::Draw);
            assert_eq!(state.selected, Some(selected), "{key:?}");
        }
    }

    #[test]
    fn keys_change_weight_and_priority_within_bounds() {
        let mut state = state();
        state.selected = Some(4);
        let heavier = Set {
            id: 4,
            weight: Weight::new(44).ok(),
            ..Set::default()
        };
        assert_eq!(state.key(Key::Heavier, 9), Effect::Change(heavier));
        state.changed(heavier);
        let more = Set {
            id: 4,
            weight: Weight::new(48).ok(),
            ..Set::default()
        };
        assert_eq!(state.key(Key::Heavier, 9), Effect::Change(more));
        let raised = Set {
            id: 4,
            priority: Priority::new(3).ok(),
            ..Set::default()
        };
        assert_eq!(state.key(Key::Raise, 9), Effect::Change(raised));
        state.changed(Set {
            id: 4,
            weight: Some(Weight::LEAST),
            priority: Some(Priority::LEAST),
            ..Set::default()
        });
        let least = Set {
            id: 4,
            weight: Some(Weight::LEAST),
            ..Set::default()
        };
        assert_eq!(state.key(Key::Lighter, 9), Effect::Change(least));
        let lowest = Set {
            id: 4,
            priority: Some(Priority::LEAST),
            ..Set::default()
        };
        assert_eq!(state.key(Key::Lower, 9), Effect::Change(lowest));
    }

    #[test]
    fn faults_are_a_rate() {
        assert_eq!(state().faults().get(&4), Some(&15.0));
        assert_eq!(State::default().faults(), Faults::new());
    }

    #[test]
    fn history_is_bounded_and_knows_when_somebody_was_not_there() {
        let mut state = State::default();
        state.push(Sample {
            at: 0.0,
            listing: Listing::default(),
        });
        for second in 1..3 * HISTORY {
            state.push(Sample {
                at: second as f64,
                listing: sample(),
            });
            if second == 2 {
                assert_eq!(state.history(1, 3), [None, Some(64 << 20), Some(64 << 20)]);
            }
        }
        assert_eq!(state.history(1, usize::MAX).len(), HISTORY);
    }

    #[test]
    fn selection_survives_and_moves_on_when_its_principal_leaves() {
        let mut state = state();
        state.selected = Some(3);
        state.push(Sample {
            at: 4.0,
            listing: sample(),
        });
        assert_eq!(state.selected, Some(3));
        let mut fewer = sample();
        fewer.principals.remove(1);
        state.push(Sample {
            at: 5.0,
            listing: fewer,
        });
        assert_eq!(state.selected, Some(1));
        state.push(Sample {
            at: 6.0,
            listing: Listing::default(),
        });
        assert_eq!(state.selected, None);
        assert_eq!(state.key(Key::Heavier, 5), Effect::Draw);
        assert_eq!(state.key(Key::Down, 5), Effect::Draw);
    }

    #[test]
    fn the_window_follows_the_selection() {
        let mut state = state();
        state.selected = Some(3);
        state.scroll(2);
        assert_eq!(state.offset, 2);
        state.selected = Some(1);
        state.scroll(2);
        assert_eq!(state.offset, 0);
        state.scroll(0);
    }

    #[test]
    fn the_collectors_page_opens_and_closes_by_its_key() {
        let mut state = state();
        state.key(Key::Collector, 5);
        assert!(state.collector);
        state.key(Key::Help, 5);
        state.key(Key::Collector, 5);
        assert!(
            state.collector && !state.help,
            "it comes back from the help"
        );
        state.key(Key::Down, 5);
        assert_eq!(state.selected().map(|p| p.id), state.selected);
        assert_eq!(state.key(Key::Quit, 5), Effect::Draw);
        assert!(!state.collector);
        state.key(Key::Collector, 5);
        state.key(Key::Collector, 5);
        assert!(!state.collector);
    }

    #[test]
    fn quit_leaves_the_help_first() {
        let mut state = state();
        assert_eq!(state.key(Key::Help, 5), Effect::Draw);
        assert!(state.help);
        assert_eq!(state.key(Key::Quit, 5), Effect::Draw);
        assert_eq!(state.key(Key::Quit, 5), Effect::Quit);
    }
}
