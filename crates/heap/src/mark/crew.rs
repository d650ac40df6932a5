//! Several markers at once. One leads: it knows the roots. The others help from when it begins until nobody has work. They
//! mark, and they shed.

use super::marker::{Marker, Marking, Span};
use super::shed::Shedding;
use crate::area::Area;
use crate::central::Central;
use crate::heap::Heap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A marker with more than this on its stack gives half of it to who waits.
const PLENTY: usize = 64;
/// What a waiting marker takes at once.
const PORTION: usize = 128;
/// Room for what is given, in spans: 1 MiB of addresses.
const SHARED: usize = 1 << 16;

/// What the markers of one heap share.
pub struct Crew {
    state: Mutex<State>,
    changed: Condvar,
    /// How many wait for work.
    hungry: AtomicUsize,
    shedding: Shedding,
}

/// What a crew does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Mark,
    Shed,
}

struct State {
    given: Area<Span>,
    /// Markers that have work, or may have.
    working: usize,
    /// What is under way; whoever is free takes part.
    task: Option<Task>,
    ended: bool,
    /// What those did who have no work now.
    done: Marking,
}

impl Crew {
    /// A crew without members.
    ///
    /// # Errors
    /// There are no addresses for what members share.
    pub fn new(heap: &Heap) -> io::Result<Crew> {
        Ok(Crew {
            state: Mutex::new(State {
                given: Area::new(heap.os.as_ref(), SHARED)?,
                working: 0,
                task: None,
                ended: false,
                done: Marking::default(),
            }),
            changed: Condvar::new(),
            hungry: AtomicUsize::new(0),
            shedding: Shedding::default(),
        })
    }

    /// Marks from `roots` together with whoever [helps](Crew::help), and returns when all is marked.
    pub fn lead(
        &self,
        marker: &mut Marker<'_>,
        central: &Central,
        roots: impl FnOnce(&mut Marker<'_>),
    ) {
        marker.begin(true);
        self.begin(Task::Mark);
        roots(marker);
        self.work(marker);
        marker.marking += std::mem::take(&mut self.state().done);
        marker.shared = false;
        marker.drain_pending(central);
        marker.shrink();
    }

    /// [Pages out](Marker::shed) together with whoever helps.
    pub fn shed(&self, marker: &mut Marker<'_>, central: &Central, superpages: usize) -> usize {
        self.shedding.begin(central, superpages);
        self.begin(Task::Shed);
        self.share_in_shedding(marker);
        let done = self
            .changed
            .wait_while(self.state(), |state| state.working > 0);
        drop(done);
        superpages - self.shedding.left()
    }

    fn share_in_shedding(&self, marker: &mut Marker<'_>) {
        marker.share_in(&self.shedding);
        let mut state = self.state();
        state.task = None;
        state.working -= 1;
        drop(state);
        self.changed.notify_all();
    }

    fn begin(&self, task: Task) {
        let mut state = self.state();
        state.task = Some(task);
        state.working = 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Helps with one task: waits until one begins, and returns when it is done. False when the crew has ended.
    pub fn help(&self, marker: &mut Marker<'_>) -> bool {
        let state = self.state();
        let mut state = self
            .changed
            .wait_while(state, |state| state.task.is_none() && !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        if state.ended {
            return false;
        }
        state.working += 1;
        if state.task == Some(Task::Shed) {
            drop(state);
            self.share_in_shedding(marker);
            return true;
        }
        drop(state);
        marker.begin(true);
        self.work(marker);
        marker.shrink();
        true
    }

    /// Sends helpers home.
    pub fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Gives half of what a marker has to who waits, if it has plenty.
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

    /// Marks until nobody has work.
    fn work(&self, marker: &mut Marker<'_>) {
        loop {
            marker.drain(Some(self));
            let mut state = self.state();
            if state.given.is_empty() {
                state.done += marker.take_marking();
                state.working -= 1;
                if state.working == 0 {
                    state.task = None;
                    drop(state);
                    self.changed.notify_all();
                    return;
                }
                self.hungry.fetch_add(1, Relaxed);
                state = self
                    .changed
                    .wait_while(state, |state| {
                        state.given.is_empty() && state.task == Some(Task::Mark)
                    })
                    .unwrap_or_else(PoisonError::into_inner);
                self.hungry.fetch_sub(1, Relaxed);
                if state.task != Some(Task::Mark) {
                    return;
                }
                state.working += 1;
                // It may have slept since an earlier collection, and the heap has grown.
                marker.begin(true);
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
