//! Sharing work among markers, whatever they are: who works, who waits for work, and when all of it is done.
//!
//! One worker leads a turn: it begins it, and returns when no worker has work. The others help from then on.
//! A turn may end before all is done (a step); those that stopped with work left are waited for in the next.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering::Relaxed, PoisonError};

/// One of several that work together. `Given` is what they share.
pub(crate) trait Worker {
    /// The shared work, under the lock of [`Sharing`].
    type Given: Given;

    /// Works until it has no work, and offers some meanwhile. False if the time was over
    /// before that.
    fn drain(&mut self, sharing: &Sharing<Self::Given>) -> bool;

    /// Takes as much of the given work as it wants at once.
    fn take(&mut self, given: &mut Self::Given);

    /// Adds what it did to what all did.
    fn settle(&mut self, given: &mut Self::Given);
}

/// Work that was given away.
pub(crate) trait Given {
    /// Whether there is none.
    fn is_empty(&self) -> bool;
}

/// The state that workers share.
pub(crate) struct Sharing<G> {
    state: Mutex<State<G>>,
    /// Wakes workers that wait: for work, for the beginning, or for the end of a turn.
    changed: Condvar,
    /// How many workers wait for work. Changed under the lock, read without it.
    hungry: AtomicUsize,
}

/// The part of [`Sharing`] under its lock.
pub(crate) struct State<G> {
    pub(crate) given: G,
    /// Workers that have work, or may have.
    working: usize,
    /// A turn is under way, so free helpers take part.
    on: bool,
    /// How many turns have begun.
    turn: u64,
    /// Helpers that stopped with work left. The next turn waits for them, unless it belongs to another round.
    left: usize,
    /// The number of the round: one more each time that what is left is forgotten.
    pub(crate) round: u32,
    /// Helpers must return.
    ended: bool,
    /// A worker panicked, and its work is lost.
    failed: bool,
}

/// Takes a worker that panics out of its turn, for which the others would wait.
struct Leaving<'a, G: Given>(&'a Sharing<G>);

impl<G: Given> Drop for Leaving<'_, G> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.failed = true;
        self.0.leave(state);
    }
}

impl<G: Given> Sharing<G> {
    pub(crate) fn new(given: G) -> Sharing<G> {
        Sharing {
            state: Mutex::new(State {
                given,
                working: 0,
                on: false,
                turn: 0,
                left: 0,
                round: 0,
                ended: false,
                failed: false,
            }),
            changed: Condvar::new(),
            hungry: AtomicUsize::new(0),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<G>>) -> MutexGuard<'a, State<G>> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn, after `prepare`. The caller leads it.
    pub(crate) fn begin(&self, prepare: impl FnOnce(&mut G)) {
        let mut state = self.state();
        prepare(&mut state.given);
        state.on = true;
        state.turn += 1;
        state.working = 1 + std::mem::take(&mut state.left);
        drop(state);
        self.changed.notify_all();
    }

    /// Leads the turn that it began. True if nothing is left; `has_left` is asked whether the leader has.
    ///
    /// # Panics
    /// A helper panicked.
    pub(crate) fn lead<W: Worker<Given = G>>(
        &self,
        worker: &mut W,
        has_left: impl FnOnce(&W) -> bool,
    ) -> bool {
        self.work(worker, true);
        let state = self.state();
        let done = !has_left(worker) && state.left == 0 && state.given.is_empty();
        let failed = state.failed;
        drop(state);
        assert!(!failed, "a mark worker panicked, and its work is lost");
        done
    }

    /// Helps once: waits until a turn begins, and returns when it is done. `join` is told the state, and says
    /// whether this worker has work left from the turn before. False if helpers must return.
    pub(crate) fn help<W: Worker<Given = G>>(
        &self,
        worker: &mut W,
        join: impl FnOnce(&mut W, &State<G>) -> bool,
    ) -> bool {
        let mut state = self.state();
        while !state.on && !state.ended {
            state = self.wait(state);
        }
        if state.ended {
            return false;
        }
        let counted = join(worker, &state);
        state.working += usize::from(!counted);
        drop(state);
        self.work(worker, false);
        true
    }

    /// Has helpers return.
    pub(crate) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Forgets the work that is left, after `clear`. No turn is under way.
    pub(crate) fn forget(&self, clear: impl FnOnce(&mut G)) {
        let mut state = self.state();
        clear(&mut state.given);
        state.left = 0;
        state.round = state.round.wrapping_add(1);
    }

    /// Whether some worker waits for work.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.hungry.load(Relaxed) > 0
    }

    /// Gives work away by `give`, if what was given before was taken.
    #[cold]
    pub(crate) fn give(&self, give: impl FnOnce(&mut G)) {
        let mut state = self.state();
        if state.given.is_empty() {
            give(&mut state.given);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Notes that a worker has no work. `None` if it was the last one: then the turn has ended.
    fn leave<'a>(&self, mut state: MutexGuard<'a, State<G>>) -> Option<MutexGuard<'a, State<G>>> {
        state.working -= 1;
        if state.working > 0 {
            return Some(state);
        }
        state.on = false;
        drop(state);
        self.changed.notify_all();
        None
    }

    /// Works until no worker has work, or the time is over.
    fn work<W: Worker<Given = G>>(&self, worker: &mut W, leads: bool) {
        let turn = self.state().turn;
        loop {
            let leaving = Leaving(self);
            let done = worker.drain(self);
            std::mem::forget(leaving);
            let mut state = self.state();
            if !done || state.given.is_empty() {
                worker.settle(&mut state.given);
                state.left += usize::from(!done && !leads);
                match self.leave(state) {
                    Some(others) => state = others,
                    None => return,
                }
                let is_on = |state: &State<G>| state.on && state.turn == turn;
                self.hungry.fetch_add(usize::from(done), Relaxed);
                while is_on(&state) && (!done || state.given.is_empty()) {
                    state = self.wait(state);
                }
                self.hungry.fetch_sub(usize::from(done), Relaxed);
                if !is_on(&state) {
                    return;
                }
                state.working += 1;
            }
            worker.take(&mut state.given);
        }
    }
}
