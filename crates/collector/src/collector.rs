//! A heap together with the decisions about it: when it is collected, and how; how far it grows.

use crate::cycle::{Cycle, Why, Work};
use crate::driver::Driver;
use crate::footprint::Surroundings;
use crate::front_end::{Conditions, Event, FrontEnd, Scanned};
use crate::incremental::{self, Begun, Incremental};
use crate::pace::{Ended, Found, Pace};
use crate::plan::{Earlier, Facts};
use crate::settle::{self, settle};
use crate::statistics::Statistics;
use crate::workers::Workers;
use crate::young::{self, Now, Young};
use plimsoll_heap::collection::{self, Looked, Step};
use plimsoll_heap::mark::{Marker, NoSpace, Space};
use plimsoll_heap::{Central, Exhausted, Heap, Residency, SUPERPAGE, Watch};
use plimsoll_unit::Bytes;
use std::time::Duration;

/// Settings of a new collector.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The heap's size in bytes until the first collection; a small one if it is 0.
    pub initial: usize,
    /// The heap's maximum size in bytes; `None` for none.
    pub most: Option<usize>,
    /// Writes must not be tracked: there are neither collections of young objects nor incremental ones.
    pub untracked: bool,
}

/// A heap and all decisions about it. Guarded by the lock of the front end.
pub struct Collector<'h, S: Space = NoSpace> {
    heap: &'h Heap,
    /// The superpages of the heap.
    pub central: Central,
    /// The marker of the thread that collects.
    marker: Marker<'h, S>,
    workers: Workers,
    /// How large the heap may be, and when to collect.
    pace: Pace,
    /// The memory around the heap.
    surroundings: Surroundings,
    young: Young,
    /// The incremental collection that is under way.
    incremental: Incremental,
    /// Sums over all collections.
    pub statistics: Statistics,
}

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The heap without unmapped parts.
    pub heap: usize,
    /// The free part of it.
    pub free: usize,
    /// Parts of the heap that were given back to the kernel.
    pub unmapped: usize,
    /// Allocated since the last collection.
    pub since: usize,
    /// Allocated since the start.
    pub total: usize,
}

/// The collections.
impl<'h, S: Space> Collector<'h, S> {
    /// A collector of a new heap.
    pub fn new(
        heap: &'h Heap,
        central: Central,
        marker: Marker<'h, S>,
        settings: &Settings,
    ) -> Collector<'h, S> {
        let mut collector = Collector {
            heap,
            central,
            marker,
            workers: Workers::default(),
            pace: Pace::new(
                heap.reserved().len() / SUPERPAGE,
                settings.initial,
                settings.most,
            ),
            surroundings: Surroundings::default(),
            young: Young::default(),
            incremental: Incremental::default(),
            statistics: Statistics::default(),
        };
        collector.young.forbidden = settings.untracked;
        let room = collector
            .surroundings
            .room(&collector.central, settings.initial);
        collector.pace.begin(&mut collector.central, room);
        collector
    }

    /// Collects, or does one step of a collection.
    pub fn collect(&mut self, front: &mut impl FrontEnd<S>, why: Why) {
        front.enter();
        let goes_on = why == Why::Allocation && self.heap.is_tracked();
        match self.incremental.next(goes_on) {
            Incremental::Marking(mut begun) => {
                begun.cycle.resume();
                let pages = self.may_page();
                if pages {
                    self.heap.ask_for_tables(&self.central);
                }
                let look = pages || begun.cycle.pages();
                let step = self.driver(&mut begun.cycle).stop_for_step(front, look);
                self.mark_some(front, begun, step);
            }
            Incremental::Marked(mut begun) => {
                begun.cycle.resume();
                let earlier = Earlier {
                    young: begun.young,
                    residency: begun.residency,
                };
                self.collect_all(front, begun.cycle, Some(earlier));
            }
            Incremental::None | Incremental::Lost => {
                let why = if self.incremental.is_under_way() && why == Why::Allocation {
                    Why::Lack
                } else {
                    why
                };
                front.tell(Event::Start);
                self.collect_all(front, Cycle::begin(why), None);
            }
        }
        front.leave();
    }

    fn driver<'a>(&'a mut self, cycle: &'a mut Cycle) -> Driver<'a, 'h, 'h, S> {
        Driver {
            heap: self.heap,
            central: &mut self.central,
            marker: &mut self.marker,
            workers: &self.workers,
            cycle,
        }
    }

    /// Whether the kernel may have evicted some of the heap or its tables.
    fn may_page(&self) -> bool {
        self.surroundings.short || self.surroundings.held.absent() > 0
    }

    /// Does a step that only marks, inside a pause that has begun.
    fn mark_some(&mut self, front: &mut impl FrontEnd<S>, mut begun: Begun, step: Step<'_>) {
        let time = self.time_of_step(&front.conditions());
        let done = self.driver(&mut begun.cycle).step(front, step, time);
        self.statistics.forecast.stopped(begun.cycle.overhead());
        let used = self.central.used();
        self.incremental.after(begun, done, used);
    }

    fn time_of_step(&self, conditions: &Conditions) -> Duration {
        incremental::time(
            self.young.on,
            conditions,
            self.statistics.forecast.overhead(),
        )
    }

    /// Does a collection in one pause, or only its first step if it is to be incremental. With `earlier`,
    /// does the last step of a collection.
    fn collect_all(
        &mut self,
        front: &mut impl FrontEnd<S>,
        mut cycle: Cycle,
        earlier: Option<Earlier>,
    ) {
        front.prepare(self.heap, &self.central);
        let conditions = front.conditions();
        let used = self.central.used();
        self.workers
            .call(self.heap, used, conditions.markers, |workers, count| {
                front.start_workers(workers, count)
            });
        if self.may_page() {
            self.heap.ask_for_tables(&self.central);
        }
        let begins = earlier.is_none() && !self.incremental.is_under_way();
        let emptied = self.driver(&mut cycle).stop(front, begins);
        // Other steps may have been given up before; and a callback may have forked just now, so that
        // neither the rest of the steps nor the state of the marks is known.
        let given_up = std::mem::take(&mut self.incremental).is_under_way();
        if given_up {
            self.driver(&mut cycle).give_up(&emptied);
            // The objects will be counted again.
            self.marker.take_marking();
        }
        let earlier = earlier.filter(|_| !given_up);
        let plan = self
            .facts(&conditions)
            .plan(cycle.why, earlier.as_ref(), given_up);
        let young = plan.look.young;
        let mut looked = emptied.look(&mut self.central, plan.look);
        let mut residency = looked.residency();
        if plan.incremental {
            looked = match self.begin_steps(looked, young, &conditions) {
                Ok(step) => {
                    let begun = Begun {
                        cycle,
                        young,
                        residency,
                        most: incremental::most(self.central.used()),
                    };
                    return self.mark_some(front, begun, step);
                }
                Err(looked) => looked,
            };
        }
        if let Some(earlier) = earlier {
            residency = residency.after(&earlier.residency);
        }
        let marked = self.driver(&mut cycle).mark(front, looked);
        if conditions.stress.is_some() {
            self.driver(&mut cycle).verify(front, &marked);
        }
        front.after_marking(self.heap, &self.central, &mut self.marker);
        let watch = self.watch(young, &residency, &conditions);
        let ended = self.driver(&mut cycle).end(front, marked, watch);
        self.statistics.forecast.stopped(cycle.overhead());
        self.reclaim(front, ended, &cycle, (young, residency), &conditions);
    }

    /// The facts for a decision.
    fn facts<'a>(&'a self, conditions: &'a Conditions) -> Facts<'a> {
        Facts {
            heap: self.heap,
            central: &self.central,
            pace: &self.pace,
            surroundings: &self.surroundings,
            young: &self.young,
            statistics: &self.statistics,
            conditions,
            moves: S::MOVES,
        }
    }

    /// Begins an incremental collection, if there is room for its steps and not too much to scan twice.
    fn begin_steps(
        &mut self,
        looked: Looked<'h>,
        young: bool,
        conditions: &Conditions,
    ) -> Result<Step<'h>, Looked<'h>> {
        if self.make_room_for_step(young, 1, conditions) {
            looked.in_steps(&mut self.central, &self.marker)
        } else {
            Err(looked)
        }
    }

    /// Raises the limit for what is allocated until the next step: by at least `superpages` superpages.
    /// False if there is no room.
    fn make_room_for_step(
        &mut self,
        young: bool,
        superpages: usize,
        conditions: &Conditions,
    ) -> bool {
        let expected = self.statistics.expected(self.heap, young);
        let time = self.time_of_step(conditions);
        incremental::make_room(&mut self.central, &self.pace, expected, time, superpages)
    }

    /// Which superpages to watch until the next collection, if any. The world is stopped, and
    /// everything is marked.
    fn watch(
        &mut self,
        young: bool,
        residency: &Residency,
        conditions: &Conditions,
    ) -> Option<Watch> {
        let (objects, live) = (self.statistics.objects(), self.statistics.live());
        let gone = if young { 0 } else { objects };
        let grown = self.marker.marked().saturating_sub(gone);
        let now = Now {
            used: self.central.used(),
            ragged: self.pace.is_ragged(),
            evicts: young::is_for_eviction(residency, self.surroundings.short),
            survival: self.young.survival(self.heap, grown, (objects, live)),
        };
        self.young.watch(&now, conditions)
    }

    /// Frees unmarked slots. Other threads run, but cannot allocate until they get the lock, because
    /// their bins are empty.
    fn reclaim(
        &mut self,
        front: &mut impl FrontEnd<S>,
        ended: collection::Ended<'_>,
        cycle: &Cycle,
        (young, residency): (bool, Residency),
        conditions: &Conditions,
    ) {
        front.tell(Event::ReclaimStart);
        let scanned = front.before_reclaiming(self.heap, &self.central);
        // A collection in steps armed all superpages; and watched objects have died.
        let unwatch = (!young || cycle.was_in_steps())
            && !young::is_for_eviction(&residency, self.surroundings.short);
        let counted = ended.count(&mut self.central, unwatch);
        let swept = counted.swept;
        let found = found(&swept, &scanned);
        let marking = self.marker.take_marking();
        self.pace.after(&found, marking.replayed > 0);
        let ended = Ended {
            young,
            found: &found,
            residency: &residency,
            took: cycle.so_far(),
            allocated: self.heap.allocated(),
        };
        let reserve = if self.facts(conditions).is_incremental(false) {
            incremental::reserve(&self.central)
        } else {
            0
        };
        let parts = settle::Parts {
            heap: self.heap,
            central: &mut self.central,
            marker: &mut self.marker,
            pace: &mut self.pace,
            surroundings: &mut self.surroundings,
            young: &mut self.young,
        };
        let settled = settle(parts, &counted, &ended, reserve, (conditions, &scanned));
        self.tell_size(front);
        counted.end(&self.central);
        front.tell(Event::ReclaimEnd);
        let record = cycle.record(Work {
            swept,
            residency,
            marking,
            young,
            settled,
            size: self.size(),
            summaries: self.heap.summary_bytes(),
        });
        self.statistics.record(&record, self.heap.allocated());
        front.ended(&record);
        front.tell(Event::End);
    }

    /// Tells the front end the heap's size, if it has changed.
    fn tell_size(&mut self, front: &mut impl FrontEnd<S>) {
        if let Some(bytes) = self.pace.new_size(&self.central) {
            front.resized(bytes);
        }
    }
}

/// The findings of a collection, for the pace of the next ones.
fn found(swept: &plimsoll_heap::SweepStatistics, scanned: &Scanned) -> Found {
    Found {
        composite: (swept.live - swept.opaque).length(),
        atomic: swept.opaque.length(),
        small: swept.small_opaque.length(),
        small_objects: swept.small_opaque_objects as usize,
        roots: scanned.roots,
        stacks: scanned.stacks,
        finalized: scanned.finalized,
        holes: swept.holes.length(),
        freed: swept.freed_memory().length(),
    }
}

/// Room for an allocation.
impl<S: Space> Collector<'_, S> {
    /// Makes room for an object of `bytes` bytes, for which there was none because of `why`: collects, or
    /// lets the heap grow. False if there is nothing more to try. `tried` counts the calls for one object.
    pub fn make_room(
        &mut self,
        front: &mut impl FrontEnd<S>,
        bytes: usize,
        why: Exhausted,
        tried: &mut usize,
    ) -> bool {
        let superpages = bytes.div_ceil(SUPERPAGE).max(1);
        *tried += 1;
        let may_collect = front.may_collect(self.incremental.is_under_way());
        // Where nothing can be paged out, the heap takes only a slice at a time of what the last
        // collection allowed; a large object may need a second try.
        let tries = if self.surroundings.is_cliff() { 2 } else { 1 };
        let mut crowded = false;
        if *tried <= tries && why == Exhausted::Limit && !self.incremental.is_under_way() {
            let room = self.surroundings.on_cliff(&self.central, bytes);
            let room = room.map(|(room, _)| room);
            front.count_bins(self.heap);
            let allocated = self.heap.allocated();
            let since = self.pace.since(allocated);
            crowded = may_collect && Pace::is_enough(since) && front.is_crowded(since);
            if !crowded && self.pace.defer(&mut self.central, bytes, allocated, room) {
                *tried = 0;
                return true;
            }
        }
        if *tried == 1 && may_collect {
            // If the kernel has no memory, a step would free none.
            let reason = match why {
                Exhausted::Limit if crowded => Why::Crowd,
                Exhausted::Limit => Why::Allocation,
                Exhausted::Memory => Why::Lack,
            };
            self.collect_for(front, superpages, reason);
            return true;
        }
        if *tried == 2 && may_collect && self.young.was_last() && !self.incremental.is_under_way() {
            *tried = 1;
            self.collect_for(front, superpages, Why::Young);
            return true;
        }
        let conditions = front.conditions();
        let raise = why == Exhausted::Limit && (conditions.may_grow || *tried == 1);
        if raise && self.grow(front, superpages) {
            return true;
        }
        // Everything was tried, except that objects may have died during a collection in steps, and
        // that finalizers may release memory before another collection.
        let in_steps = self.incremental.is_under_way() || self.statistics.was_in_steps();
        let least = usize::from(in_steps);
        may_collect && *tried <= 1 + conditions.retries.max(least) && {
            self.collect(front, Why::Lack);
            true
        }
    }

    /// Lets the heap grow by the `superpages` superpages that a collection did not free. False if it
    /// may not.
    fn grow(&mut self, front: &mut impl FrontEnd<S>, superpages: usize) -> bool {
        let left = self.surroundings.on_cliff(&self.central, 0);
        let last = left.map(|(_, last)| last);
        if left.is_some_and(|(room, _)| room < superpages * SUPERPAGE) {
            self.give_back();
        }
        let raised = self.pace.raise(&mut self.central, superpages, last);
        if raised {
            self.tell_size(front);
        }
        raised
    }

    /// Collects, or does one step of a collection and leaves room for at least `superpages` superpages.
    /// If there is no such room, does the last step, too.
    fn collect_for(&mut self, front: &mut impl FrontEnd<S>, superpages: usize, why: Why) {
        self.collect(front, why);
        let young = self.incremental.is_young();
        if self.incremental.is_under_way()
            && !self.make_room_for_step(young, superpages, &front.conditions())
        {
            let why = self.incremental.hurry();
            self.collect(front, why);
        }
    }

    /// The heap's limits, for [`lower`](Collector::lower).
    #[must_use]
    pub fn bounds(&self) -> (usize, usize) {
        self.pace.bounds(&self.central)
    }

    /// Takes back the room that was made since the heap had the limits `before`, except for what it uses: an
    /// object for which it did not suffice must leave none to others.
    pub fn lower(&mut self, before: (usize, usize)) {
        self.pace.lower(&mut self.central, before);
    }

    /// Lets the heap grow by `bytes` bytes as soon as there is room for them. False if that would exceed
    /// its maximum.
    pub fn expand(&mut self, front: &mut impl FrontEnd<S>, bytes: usize) -> bool {
        let room = self.surroundings.room(&self.central, bytes);
        let superpages = bytes.div_ceil(SUPERPAGE);
        let raised = self.pace.expand(&mut self.central, superpages, room);
        if raised {
            self.tell_size(front);
        }
        raised
    }

    /// Sets the heap's maximum size in bytes; `None` for none.
    pub fn limit(&mut self, most: Option<usize>) {
        self.pace.bound(&mut self.central, most);
    }

    /// Follows a broker, which grants the heap `bytes` in memory; `None` if it no longer grants any.
    pub fn follow(&mut self, bytes: Option<Bytes>) {
        self.surroundings.grant(bytes);
        let absent = self.surroundings.held.absent();
        let granted = bytes.map(|bytes| self.surroundings.granted(&self.central, bytes));
        let cliff = granted.is_some_and(|(_, cliff)| cliff);
        let superpages =
            granted.map(|(bytes, _)| (bytes.length() / SUPERPAGE).saturating_add(absent));
        self.pace.follow(&mut self.central, superpages, cliff);
    }

    /// Sets what a broker grants the heap when the next collection looks.
    pub fn grant(&mut self, bytes: Bytes) {
        self.surroundings.grant(Some(bytes));
    }

    /// Gives all free memory back to the kernel.
    pub fn give_back(&mut self) {
        self.central.give_back(self.heap, 0);
        self.surroundings.held.gave_all_back();
    }

    /// Turns incremental mode on, in which pauses are short. False if the kernel does not track writes. Does
    /// nothing if the user forbids it.
    pub fn turn_incremental_on(&mut self) -> bool {
        if self.young.on || self.young.forbidden {
            return true;
        }
        self.central.begin(self.heap);
        self.young.on = self.heap.can_watch();
        self.young.on
    }

    /// Called in a child of fork, where the workers are missing. The child may be inside a callback of
    /// a collection.
    pub fn forked(&mut self) {
        self.heap.forked();
        self.pace.orphaned();
        self.surroundings.grant(None);
        self.workers.forked();
        if self.heap.is_stepping() {
            self.marker.forget();
            self.incremental = Incremental::Lost;
        }
    }
}

/// Queries.
impl<'h, S: Space> Collector<'h, S> {
    /// The heap.
    #[must_use]
    pub fn heap(&self) -> &'h Heap {
        self.heap
    }

    /// Whether incremental mode is on.
    #[must_use]
    pub fn is_incremental_on(&self) -> bool {
        self.young.on
    }

    /// Whether an incremental collection is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.incremental.is_under_way()
    }

    /// The heap's size in bytes: the memory that it may use before the next collection ends, whether or
    /// not there are objects.
    #[must_use]
    pub fn size(&self) -> usize {
        self.pace.size(&self.central)
    }

    /// The part of the heap that is in memory, as far as is known without a query to the kernel.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        self.surroundings.held.resident(&self.central)
    }

    /// The objects that may be alive only because of stale summaries.
    #[must_use]
    pub fn retained(&self) -> Bytes {
        self.pace.retained(self.statistics.live())
    }

    /// Sizes now. This thread's bins are counted.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let heap = self.size();
        let total = self.heap.allocated().length();
        let since = total - self.statistics.allocated_before.length();
        Usage {
            heap,
            free: heap.saturating_sub(self.statistics.live().length() + since),
            unmapped: (self.central.committed() * SUPERPAGE).saturating_sub(heap),
            since,
            total,
        }
    }

    /// Bytes obtained from the kernel: at least the size of the heap with its unmapped part, which may not be
    /// committed yet.
    #[must_use]
    pub fn obtained(&self) -> usize {
        let usage = self.usage();
        (self.central.committed() * SUPERPAGE)
            .max(usage.heap + usage.unmapped)
            .max(self.statistics.obtained)
    }
}
