//! Everything that decides the limit of one heap, without a type of MMTk: the policy's ledger, the
//! stall signal, the clock, and a broker's limit. An adapter for a version of MMTk translates its
//! hooks into these calls.

use crate::control::Control;
use crate::limits::{Ledger, Seen};
use crate::shared::Shared;
use crate::stall_signal::Signal;
use crate::{Error, GiveBack, Result, companion};
use plimsoll_kernel::capacity::Domain;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::own;
use plimsoll_policy::sizing::{self, Sizing};
use plimsoll_unit::{Bytes, Nanos};
use std::io::Write;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Smallest limit of a heap. The smallest nursery of MMTk is 2 MiB, and by default a quarter
/// of the limit: below this, MMTk warns at each collection.
const SMALLEST: Bytes = Bytes::mib(8);
/// Memory is short if the heap could have this part (one in `ABOVE`) more than its limit resident.
const ABOVE: u64 = 8;
/// Told to the builder of a runtime that does not say when MMTk can collect.
const NOT_READY: &str = "plimsoll: a collection began before Control::ready was called, so until now no \
                         broker's limit and no other bound counted: call it right after \
                         initialize_collection";

/// The settings of a heap before it starts.
#[derive(Clone, Debug)]
pub struct Builder<S = sizing::Mmtk> {
    max: Option<Bytes>,
    min: Bytes,
    broker: bool,
    give_back: GiveBack,
    policy: PhantomData<fn() -> S>,
}

impl Builder {
    /// The default: Isla Vista, up to the memory of the machine or group, within a broker's limit
    /// where one runs, and memory given back when it is short.
    pub fn new() -> Builder {
        Builder {
            max: None,
            min: SMALLEST,
            broker: true,
            give_back: GiveBack::WhenShort,
            policy: PhantomData,
        }
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl<S: Sizing> Builder<S> {
    /// The largest limit. More than the memory of the machine becomes that: MMTk reserves twice
    /// the maximum of address space for each space, so it must be a true bound. It may be more than the
    /// limit of the process's group, which can change. Without it, that limit is the maximum, or the
    /// memory of the machine.
    #[must_use]
    pub fn max(mut self, bytes: Bytes) -> Self {
        self.max = Some(bytes);
        self
    }

    /// The smallest limit; at least 8 MiB, which it is without this.
    #[must_use]
    pub fn min(mut self, bytes: Bytes) -> Self {
        self.min = bytes;
        self
    }

    /// Whether to follow a broker where there is one. Without it no thread is started.
    #[must_use]
    pub fn broker(mut self, follow: bool) -> Self {
        self.broker = follow;
        self
    }

    /// When to give memory back to the kernel. Only a trigger of `Trigger::giving_back` does, which builds
    /// with the feature `undocumented-mmtk-0-33` have; others never do.
    #[must_use]
    pub fn give_back(mut self, when: GiveBack) -> Self {
        self.give_back = when;
        self
    }

    /// Another policy, of [`plimsoll_policy::sizing`] or of your own.
    #[must_use]
    pub fn policy<P: Sizing>(self) -> Builder<P> {
        Builder {
            max: self.max,
            min: self.min,
            broker: self.broker,
            give_back: self.give_back,
            policy: PhantomData,
        }
    }

    /// Opens the signals, and starts following a broker.
    ///
    /// # Errors
    /// [`Error::Capacity`] if the memory of the machine cannot be read;
    /// [`Error::TooSmall`] for a maximum below 8 MiB. A missing broker or stall signal is no error.
    pub fn open(self) -> Result<Sizer<S>> {
        let max = match self.max {
            Some(max) => max.min(machine().map_err(Error::Capacity)?),
            None => tightest().map_err(Error::Capacity)?,
        };
        if max < SMALLEST {
            return Err(Error::TooSmall { bytes: max });
        }
        let ledger = Ledger::new(self.min.max(SMALLEST), max);
        let shared = Arc::new(Shared::new(ledger.first()));
        let signal = Signal::open();
        shared.read_by(signal.tier());
        let control = Control::new(Arc::clone(&shared));
        if self.broker {
            companion::start(&shared, signal.tier().is_some());
        }
        Ok(Sizer {
            shared,
            control,
            give_back: self.give_back,
            started: clock::now(),
            state: Mutex::new(State {
                ledger,
                signal,
                now: Now::default(),
                again: false,
            }),
        })
    }
}

/// The memory of the machine.
fn machine() -> plimsoll_kernel::Result<Bytes> {
    Ok(Domain::machine()?.read()?.lowest)
}

/// The lowest limit of the groups above this process, or the memory of the machine.
fn tightest() -> plimsoll_kernel::Result<Bytes> {
    Ok(Domain::of_self()?.read()?.lowest)
}

/// One heap's limit.
///
/// The order of the calls, all by threads of the collector while it works:
///
/// 1. [`Sizer::pending`], by program threads, each before it waits for a collection.
/// 2. [`Sizer::began`] once a collection (a cycle, if it works beside the program) begins.
/// 3. [`Sizer::pause_began`] and [`Sizer::pause_ended`] around each time the program is stopped.
/// 4. [`Sizer::ended`] in the pause in which memory was reclaimed, after that and before
///    [`Sizer::pause_ended`].
///
/// Between [`Sizer::ended`] and [`Sizer::pause_ended`], [`Sizer::giving_back`] may run what gives memory
/// back.
/// [`Sizer::is_full`], [`Sizer::limit`], [`Sizer::can_grow`] and [`Sizer::take_wanted`] may be asked
/// at any time.
#[derive(Debug)]
pub struct Sizer<S> {
    shared: Arc<Shared>,
    control: Control,
    give_back: GiveBack,
    /// When it was made.
    started: Nanos,
    /// State that only hooks use. MMTk calls most hooks one at a time; the lock is for [`Sizer::pending`],
    /// which threads of the program call at any time. Held for microseconds, and never while code of MMTk
    /// or of the virtual machine runs. The state that polls and the companion need is in `shared`, without
    /// a lock.
    state: Mutex<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    ledger: Ledger<S>,
    signal: Signal,
    now: Now,
    /// Whether the next collection of the whole heap gives memory back in any case.
    again: bool,
}

impl<S> State<S> {
    /// Whether a collection gives memory back, if `above`: more may be resident than the limit allows. Where
    /// objects are copied, the half that they are in now is empty only after the next collection of the whole
    /// heap. It may be as large as the heap was, and nothing counts that: so memory is given back then, too.
    fn gives(&mut self, above: bool, full: bool) -> bool {
        let again = full && self.again;
        self.again = above || (self.again && !full);
        above || again
    }

    /// In the child after a fork the signal is the parent's, and a broker's bound is not followed any more.
    fn settle(&mut self, shared: &Shared) {
        if !self.signal.is_own() {
            self.signal = Signal::open();
            shared.lift_bound();
        }
        shared.read_by(self.signal.tier());
    }
}

/// Figures of the collection that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    /// In use when it began.
    before: Bytes,
    /// The memory that threads wait for.
    pending: Bytes,
    /// Begin of the present pause.
    pause: Nanos,
    /// Time of its pauses so far.
    took: Nanos,
}

/// The state of a heap after memory was reclaimed.
#[derive(Clone, Copy, Debug)]
pub struct After {
    /// In use, and what a copying collection needs.
    pub reserved: Bytes,
    /// In use.
    pub used: Bytes,
    /// The memory that must be free for the plan to work well.
    pub headroom: Bytes,
    /// Whether the whole heap was collected.
    pub full: bool,
    /// Whether a part of the collection was done while the program ran: pauses do not tell what it cost.
    pub beside: bool,
}

/// The consequences of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The limit from now on.
    pub limit: Bytes,
    /// Which free memory should be given back now, while the program is stopped.
    pub give_back: Free,
}

/// Free memory of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// None of it.
    Nothing,
    /// Spaces that are empty as a whole: that costs next to nothing.
    Spaces,
    /// Pages between objects, too. To find these, each object is looked at, so that what the kernel has
    /// written to swap comes back: only where a collection has just done the same.
    Pages,
}

impl<S: Sizing> Sizer<S> {
    /// The handle for the runtime and for other threads.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Whether a heap with this much memory reserved has reached its limit. Asked at each poll.
    pub fn is_full(&self, reserved: Bytes) -> bool {
        let touched = &self.shared.told.touched;
        if reserved.0 > touched.load(Relaxed) {
            touched.fetch_max(reserved.0, Relaxed);
        }
        reserved > self.limit()
    }

    /// The present limit.
    pub fn limit(&self) -> Bytes {
        self.shared.limit()
    }

    /// The largest limit ever; finite, and the same from the start.
    pub fn max(&self) -> Bytes {
        self.shared.max()
    }

    /// Whether a collection may let the heap grow so that a waiting request fits.
    pub fn can_grow(&self) -> bool {
        self.shared.can_grow()
    }

    /// Whether somebody wants a collection, and it may begin; asking takes the wish.
    pub fn take_wanted(&self) -> bool {
        self.shared.take_wanted()
    }

    /// A poll needed no collection.
    pub fn let_through(&self) {
        self.shared.let_through();
    }

    /// The plan never collects: only the maximum is left as a limit.
    pub fn never_collects(&self) {
        self.shared.never_collects();
    }

    /// A thread of the program waits for this much memory.
    pub fn pending(&self, bytes: Bytes) {
        let mut state = self.state();
        state.now.pending += bytes;
        if bytes > Bytes::ZERO {
            self.shared.told.let_in.fetch_add(1, Relaxed);
        }
    }

    /// A collection begins. The heap has `reserved`, and `used` of that is in use.
    pub fn began(&self, reserved: Bytes, used: Bytes) {
        if let Some(advice) = self.advice() {
            // No panic, in a thread of the collector, where nobody can be told.
            let _ = writeln!(std::io::stderr(), "{advice}");
        }
        let mut state = self.state();
        state.settle(&self.shared);
        state.now.before = used;
        state.now.took = Nanos::ZERO;
        self.shared.told.touched.fetch_max(reserved.0, Relaxed);
    }

    /// A collection begins, so MMTk can collect: what the runtime's builder has to know if nobody has said so
    /// before.
    fn advice(&self) -> Option<&'static str> {
        self.shared.make_ready().then_some(NOT_READY)
    }

    /// The program is stopped.
    pub fn pause_began(&self) {
        self.state().now.pause = clock::now();
    }

    /// The program goes on soon.
    pub fn pause_ended(&self) {
        let mut state = self.state();
        let took = clock::now() - state.now.pause;
        state.now.took += took;
        state.now.pending = Bytes::ZERO;
        self.shared.paused();
        let told = &self.shared.told;
        told.stopped.fetch_add(took.0, Relaxed);
        told.last.store(took.0, Relaxed);
        told.longest.fetch_max(took.0, Relaxed);
    }

    /// Memory was reclaimed. Reads the stalls of this process (5 us), and decides the new limit.
    pub fn ended(&self, after: &After) -> Decision {
        let mut state = self.state();
        let now = state.now;
        let stalls = state.signal.since_last();
        self.shared.read_by(state.signal.tier());
        let time = clock::now();
        let seen = Seen {
            now: time - self.started,
            took: now.took + (time - now.pause),
            full: after.full,
            before: now.before,
            used: after.used,
            reserved: after.reserved,
            pending: now.pending,
            headroom: after.headroom,
            stalls,
        };
        let limits = state.ledger.ended(&seen, self.shared.bound());
        self.shared.set(limits, state.ledger.is_stuck());
        self.tell(&state, &seen, after.beside);
        let limit = self.shared.limit();
        let touched = Bytes(self.shared.told.touched.load(Acquire));
        let gives = state.gives(touched > limit + limit / ABOVE, after.full);
        let short = gives || stalls.any() || self.shared.is_owing();
        Decision {
            limit,
            give_back: match (self.give_back, after.full) {
                (GiveBack::WhenShort, true) if short => Free::Pages,
                (GiveBack::WhenShort, false) if short => Free::Spaces,
                (GiveBack::AfterFull, true) => Free::Pages,
                _ => Free::Nothing,
            },
        }
    }

    fn tell(&self, state: &State<S>, seen: &Seen, beside: bool) {
        let told = &self.shared.told;
        if seen.full {
            told.live.store(seen.used.0, Release);
            told.needs.store(seen.reserved.0, Release);
            let stopped = if beside { Nanos::ZERO } else { seen.took };
            told.whole.store(stopped.0, Release);
            told.full.fetch_add(1, Release);
        }
        told.allocated.store(state.ledger.allocated().0, Release);
        told.stalls.fetch_add(seen.stalls.count, Release);
        told.stalled
            .fetch_add(u64::from(seen.stalls.any()), Relaxed);
        told.collections.fetch_add(1, Release);
    }

    /// Runs what gives memory back, between [`Sizer::ended`] and [`Sizer::pause_ended`], and counts how much
    /// less the process has afterwards, in memory and in swap. No lock is held meanwhile: `give` calls into
    /// the virtual machine, which may call any hook or getter.
    #[allow(
        deprecated,
        reason = "Rust 1.90 does not know the new name, `try_update`"
    )]
    pub fn giving_back(&self, give: impl FnOnce()) {
        let has = || {
            let anonymous = own::anonymous()?;
            Some((anonymous.resident + anonymous.swapped).0)
        };
        let before = has();
        give();
        if let (Some(before), Some(after)) = (before, has()) {
            let bytes = before.saturating_sub(after);
            let told = &self.shared.told;
            told.given_back.fetch_add(bytes, Relaxed);
            // In one step: a poll may raise it at the same time.
            let less = |touched: u64| Some(touched.saturating_sub(bytes));
            let _ = told.touched.fetch_update(Release, Acquire, less);
        }
    }

    /// A hook that panicked leaves numbers that the next collection corrects.
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "sizer_tests.rs"]
mod tests;
