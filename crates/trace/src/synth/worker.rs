//! The cycles of a thread of a made-up program: it allocates, then it computes.

use super::random::Random;
use super::store::Store;
use super::table::Program;
use super::{Aims, Sink};
use crate::error::TraceError;
use crate::event::{Event, MonitorId, ObjectId, ThreadId};

/// Objects that a thread allocates between two of its computations.
const AT_ONCE: u64 = 8;
/// Percent of a cycle's time that pass while it allocates.
const ALLOCATING: u64 = 30;
/// The longest computation without another event, ns: a fifth of the paper's quantum.
const LONGEST_SLICE: u64 = 228_000;
/// The fewest computations after a working set is complete.
const FEWEST_SLICES: u64 = 4;
/// The most computations after a working set is complete.
const MOST_SLICES: u64 = 1000;
/// Percent of objects that are kept in the shared store.
const KEPT: u64 = 20;
/// Percent of objects that are large.
const LARGE: u64 = 2;
/// How much larger these are than the average.
const LARGER: u64 = 16;
/// This many of a thread's last objects are not large: nothing would make up for one too many.
const LAST: u64 = 200;
/// The smallest object of Java, bytes.
const SMALLEST: u64 = 16;

/// Work that a thread has yet to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// ns.
    pub(super) time: u64,
}

impl Budget {
    /// One of many parts, which together are the whole.
    pub(super) fn part(&self, index: u64, of: u64) -> Budget {
        let cut = |value: u64| {
            let at = |index: u64| (u128::from(value) * u128::from(index) / u128::from(of)) as u64;
            at(index + 1) - at(index)
        };
        Budget {
            objects: cut(self.objects),
            bytes: cut(self.bytes),
            time: cut(self.time),
        }
    }

    /// Draws the size of the next object, bytes, so that bytes and objects run out at the same time; takes
    /// it off.
    pub(super) fn size(&mut self, random: &mut Random) -> u64 {
        let average = self.bytes / self.objects.max(1);
        let size = if self.objects <= 1 {
            average
        } else if self.objects < LAST {
            even(average, random)
        } else if random.happens(LARGE, 100) {
            average * LARGER
        } else {
            // Small ones make up for the large ones.
            even(average * (100 - LARGE * LARGER) / (100 - LARGE), random)
        };
        // Objects begin at multiples of 8 bytes.
        let size = (size / 8 * 8).clamp(SMALLEST, self.bytes.max(SMALLEST));
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        size
    }
}

/// A random multiple of 8, bytes: uniform from the smallest object's size to as far above the average.
fn even(average: u64, random: &mut Random) -> u64 {
    let steps = average.saturating_sub(SMALLEST) / 4;
    SMALLEST + 8 * random.below(steps + 1)
}

#[derive(Debug)]
enum Phase {
    /// Bytes of the working set that are not yet allocated.
    Allocating { left: u64 },
    /// Computations that are left, and in which one the thread enters a monitor.
    Computing { left: u64, enters: Option<u64> },
}

/// A thread.
#[derive(Debug)]
pub(super) struct Worker {
    thread: ThreadId,
    left: Budget,
    /// Its objects have the numbers from here on.
    first: u64,
    /// How many it has allocated.
    allocated: u64,
    /// The live objects of its working set, and their sizes, bytes.
    set: Vec<(ObjectId, u64)>,
    phase: Phase,
    working_set: u64,
    monitors: u64,
    entering: u64,
    /// Time of the cycle, ns.
    cycle: u64,
    random: Random,
}

impl Worker {
    pub(super) fn new(
        thread: ThreadId,
        left: Budget,
        program: &Program,
        aims: &Aims,
        seed: u64,
    ) -> Worker {
        let mut worker = Worker {
            thread,
            left,
            first: u64::from(thread.0) << 40,
            allocated: 0,
            set: Vec::new(),
            phase: Phase::Allocating { left: 0 },
            working_set: aims.working_set,
            monitors: program.monitors,
            entering: program.entering,
            cycle: 0,
            random: Random::new(seed),
        };
        worker.begin_cycle();
        worker
    }

    pub(super) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Whether it has only to end.
    pub(super) fn is_done(&self) -> bool {
        self.left.objects == 0 && matches!(self.phase, Phase::Allocating { .. })
    }

    /// A working set of half to one and a half times the average, and its part of the time.
    fn begin_cycle(&mut self) {
        let size = self.working_set / 2 + self.random.below(self.working_set + 1);
        let part = size.min(self.left.bytes) as f64 / self.left.bytes.max(1) as f64;
        self.cycle = (self.left.time as f64 * part) as u64;
        self.phase = Phase::Allocating { left: size };
    }

    /// Does a little. Returns how much time has passed, ns.
    pub(super) fn step(
        &mut self,
        store: &mut Store,
        out: &mut dyn Sink,
    ) -> Result<u64, TraceError> {
        match self.phase {
            Phase::Allocating { left } => self.allocate(left, store, out),
            Phase::Computing { left, enters } => self.compute(left, enters, store, out),
        }
    }

    fn allocate(
        &mut self,
        mut left: u64,
        store: &mut Store,
        out: &mut dyn Sink,
    ) -> Result<u64, TraceError> {
        let mut bytes = 0;
        for _ in 0..AT_ONCE.min(self.left.objects) {
            let size = self.one(store, out)?;
            bytes += size;
            left = left.saturating_sub(size);
            if left == 0 {
                break;
            }
        }
        let time = self.cycle * ALLOCATING / 100 * bytes / self.working_set;
        let time = self.pass(time, out)?;
        self.phase = if left > 0 && self.left.objects > 0 {
            Phase::Allocating { left }
        } else {
            let slices = (self.cycle / LONGEST_SLICE).clamp(FEWEST_SLICES, MOST_SLICES);
            let enters = self.random.happens(self.entering, 1000);
            Phase::Computing {
                left: slices,
                enters: enters.then(|| 1 + self.random.below(slices)),
            }
        };
        Ok(time)
    }

    /// Allocates an object of the working set.
    fn one(&mut self, store: &mut Store, out: &mut dyn Sink) -> Result<u64, TraceError> {
        let size = self.left.size(&mut self.random);
        store.make_room(size, self.thread, out)?;
        store.born(size);
        self.allocated += 1;
        let object = ObjectId(self.first + self.allocated);
        self.set.push((object, size));
        let alloc = Event::Alloc {
            object,
            size,
            class: None,
            site: None,
        };
        out.put(self.thread, alloc)?;
        Ok(size)
    }

    fn compute(
        &mut self,
        left: u64,
        enters: Option<u64>,
        store: &mut Store,
        out: &mut dyn Sink,
    ) -> Result<u64, TraceError> {
        let whole = (self.cycle / LONGEST_SLICE).clamp(FEWEST_SLICES, MOST_SLICES);
        let slice = self.cycle * (100 - ALLOCATING) / 100 / whole;
        let monitor = MonitorId(1 + self.random.below(self.monitors));
        let inside = enters == Some(left);
        if inside {
            out.put(self.thread, Event::Enter { monitor })?;
        }
        // A thread that computes allocates a little.
        if left.is_multiple_of(4) && self.left.objects > 0 {
            self.one(store, out)?;
        }
        let time = self.pass(slice, out)?;
        for _ in 0..(self.set.len() as u64).div_ceil(left.max(1)) {
            self.let_go(store, out)?;
        }
        if inside {
            out.put(self.thread, Event::Exit { monitor })?;
        }
        if left > 1 {
            let left = left - 1;
            self.phase = Phase::Computing { left, enters };
        } else {
            self.begin_cycle();
        }
        Ok(time)
    }

    /// An object of the working set dies, or is kept for longer.
    fn let_go(&mut self, store: &mut Store, out: &mut dyn Sink) -> Result<(), TraceError> {
        if self.set.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.set.len() as u64) as usize;
        let (object, size) = self.set.swap_remove(index);
        if self.random.happens(KEPT, 100) {
            store.keep(object, size);
            return Ok(());
        }
        store.died(size);
        out.put(self.thread, Event::Death { object })
    }

    /// Time passes, at most what is left.
    fn pass(&mut self, time: u64, out: &mut dyn Sink) -> Result<u64, TraceError> {
        let time = time.min(self.left.time);
        self.left.time -= time;
        if time > 0 {
            out.put(self.thread, Event::Compute { time })?;
        }
        // Without time there would be no end of a turn.
        Ok(time.max(1))
    }

    /// Spends the time that is left, lets everything go, and ends.
    pub(super) fn end(mut self, store: &mut Store, out: &mut dyn Sink) -> Result<(), TraceError> {
        let rest = self.left.time;
        self.pass(rest, out)?;
        while !self.set.is_empty() {
            self.let_go(store, out)?;
        }
        out.put(self.thread, Event::End)
    }
}
