//! Marking by several threads. One marker leads: it has the roots. The others help from when
//! marking begins until no marker has work.

use super::marker::{Marker, Marking, Span};
use crate::area::Area;
use crate::central::Central;
use crate::heap::Heap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A marker with more spans than this on its stack gives half of them to waiting markers.
const PLENTY: usize = 64;
/// Spans that a waiting marker takes at once.
const PORTION: usize = 128;
/// Capacity of the shared stack, in spans. A marker gives only when it is empty.
const SHARED: usize = PORTION;

/// The state that the markers of one heap share.
pub struct Crew {
    state: Mutex<State>,
    /// Wakes markers that wait: for work, for the beginning, or for the end of marking.
    changed: Condvar,
    /// How many markers wait for work. Changed under the lock, read without it.
    hungry: AtomicUsize,
}

/// The part of [`Crew`] under its lock.
struct State {
    /// Spans that markers gave away.
    given: Area<Span>,
    /// Markers that have work, or may have.
    working: usize,
    /// Marking is under way, so free helpers take part.
    marking: bool,
    /// How many times marking has begun.
    turn: u64,
    /// When markers stop; `None` when they mark until all is done.
    until: Option<Instant>,
    /// Helpers that stopped with work left. The next step waits for them, unless it belongs to another round.
    left: usize,
    /// The number of the round: one more each time that the work of steps is forgotten.
    round: u32,
    /// Helpers must return.
    ended: bool,
    /// What the markers without work have done.
    done: Marking,
}

impl Crew {
    /// A crew without members.
    ///
    /// # Errors
    /// There is no address space for the shared stack.
    pub fn new(heap: &Heap) -> io::Result<Crew> {
        Ok(Crew {
            state: Mutex::new(State {
                given: Area::new(heap.side.os(), SHARED)?,
                working: 0,
                marking: false,
                turn: 0,
                until: None,
                left: 0,
                round: 0,
                ended: false,
                done: Marking::default(),
            }),
            changed: Condvar::new(),
            hungry: AtomicUsize::new(0),
        })
    }

    /// Marks from `roots` together with all that [help](Crew::help), and returns when everything is
    /// marked.
    pub(crate) fn lead(
        &self,
        marker: &mut Marker<'_>,
        central: &Central,
        roots: impl FnOnce(&mut Marker<'_>),
    ) {
        self.mark(marker, None, roots);
        marker.drain_pending(central, None);
        marker.shrink();
    }

    /// Marks from `roots`, and from what an earlier step left, until the time `until`. False if
    /// there is work left for another step.
    pub(crate) fn step(
        &self,
        marker: &mut Marker<'_>,
        central: &Central,
        until: Instant,
        roots: impl FnOnce(&mut Marker<'_>),
    ) -> bool {
        let done = self.mark(marker, Some(until), |marker| {
            roots(marker);
            marker.go_on_with_written(central, Some(self));
        });
        done && marker.written_from.is_none() && marker.drain_pending(central, Some(until))
    }

    /// Forgets the work that steps left.
    pub(crate) fn forget(&self, marker: &mut Marker<'_>) {
        let mut state = self.state();
        state.given.clear();
        state.left = 0;
        state.round = state.round.wrapping_add(1);
        marker.forget();
    }

    fn mark(
        &self,
        marker: &mut Marker<'_>,
        until: Option<Instant>,
        roots: impl FnOnce(&mut Marker<'_>),
    ) -> bool {
        marker.begin(true);
        marker.until = until;
        self.begin(until);
        roots(marker);
        self.work(marker, true);
        marker.shared = false;
        marker.until = None;
        let mut state = self.state();
        marker.marking += std::mem::take(&mut state.done);
        !marker.left && state.left == 0 && state.given.is_empty()
    }

    fn begin(&self, until: Option<Instant>) {
        let mut state = self.state();
        state.marking = true;
        state.turn += 1;
        state.until = until;
        state.working = 1 + std::mem::take(&mut state.left);
        drop(state);
        self.changed.notify_all();
    }

    /// Helps once: waits until marking begins, and returns when it is done. False if the crew has
    /// ended.
    pub fn help(&self, marker: &mut Marker<'_>) -> bool {
        let state = self.state();
        let mut state = self
            .changed
            .wait_while(state, |state| !state.marking && !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        if state.ended {
            return false;
        }
        if marker.round != state.round {
            marker.round = state.round;
            marker.forget();
        }
        // A marker with work left is counted already.
        state.working += usize::from(!marker.left);
        marker.begin(true);
        marker.until = state.until;
        drop(state);
        self.work(marker, false);
        if !marker.left {
            marker.shrink();
        }
        true
    }

    /// Ends the crew: its helpers return.
    pub fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Gives half of a marker's work to waiting markers, if it has plenty.
    #[inline(always)]
    pub(super) fn offer(&self, marker: &mut Marker<'_>) {
        if marker.stack.len() > PLENTY && self.hungry.load(Relaxed) > 0 {
            self.give(marker);
        }
    }

    #[cold]
    fn give(&self, marker: &mut Marker<'_>) {
        let mut state = self.state();
        if state.given.is_empty() {
            let half = marker.stack.len() / 2;
            marker
                .stack
                .move_bottom(half.min(PORTION), &mut state.given);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Marks until no marker has work, or the time is over.
    fn work(&self, marker: &mut Marker<'_>, leads: bool) {
        let turn = self.state().turn;
        loop {
            let done = marker.drain(Some(self));
            let mut state = self.state();
            if !done || state.given.is_empty() {
                state.done += marker.take_marking();
                state.working -= 1;
                state.left += usize::from(!done && !leads);
                if state.working == 0 {
                    state.marking = false;
                    drop(state);
                    self.changed.notify_all();
                    return;
                }
                let is_on = |state: &State| state.marking && state.turn == turn;
                self.hungry.fetch_add(usize::from(done), Relaxed);
                state = self
                    .changed
                    .wait_while(state, |state| {
                        is_on(state) && (!done || state.given.is_empty())
                    })
                    .unwrap_or_else(PoisonError::into_inner);
                self.hungry.fetch_sub(usize::from(done), Relaxed);
                if !is_on(&state) {
                    return;
                }
                state.working += 1;
            }
            let before = marker.stack.len();
            state.given.move_top(PORTION, &mut marker.stack);
            marker.marking.shared += (marker.stack.len() - before) as u64;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
