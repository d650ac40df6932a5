//! Statistics of collections.

use crate::collect::Why;
use crate::collector::{self, Locked};
use crate::footprint::Settled;
use crate::settings::{GC_all_interior_pointers, GC_gc_no, GC_non_gc_bytes, GC_parallel, Variable};
use crate::{quantum, report, thread::current};
use libc::{c_char, c_int, c_ulong, rusage};
use plimsoll_client::messages::Statistics;
use plimsoll_heap::mark::Marking;
use plimsoll_heap::{Census, Class, Heap, Residency, SUPERPAGE};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Clocks and counters of one collection. Faults are counted for the whole process.
pub(crate) struct Cycle {
    pub(crate) why: Why,
    /// `begin`: when the current step began. `stopped`: when the world was last stopped.
    begin: Instant,
    stopped: Instant,
    /// `pause`: the longest pause so far. `before`: the time that earlier steps took.
    pause: Duration,
    before: Duration,
    /// The total time for which the world was stopped, over all steps.
    still: Duration,
    steps: u32,
    /// Major faults. `faults`: during a step, the process's count when the collection began, plus
    /// the faults between its steps; the difference to the current count is the number during the
    /// steps. `before_pause`: the process's count when the world was last stopped. `in_pause`:
    /// during the last pause.
    faults: i64,
    before_pause: i64,
    in_pause: i64,
}

/// Major faults of this process since its start.
pub(crate) fn major_faults() -> i64 {
    // SAFETY: fills the structure in.
    unsafe {
        let mut usage: rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_majflt
    }
}

impl Cycle {
    pub(crate) fn begin(why: Why) -> Cycle {
        let now = Instant::now();
        Cycle {
            why,
            begin: now,
            stopped: now,
            pause: Duration::ZERO,
            before: Duration::ZERO,
            still: Duration::ZERO,
            steps: 1,
            faults: major_faults(),
            before_pause: 0,
            in_pause: 0,
        }
    }

    /// Whether marking had to read from swap.
    pub(crate) fn pages(&self) -> bool {
        self.in_pause > FEW
    }

    /// Notes the end of a step that is not the last.
    pub(crate) fn suspend(&mut self) {
        self.before += self.begin.elapsed();
        self.faults -= major_faults();
    }

    /// Notes the beginning of the next step.
    pub(crate) fn resume(&mut self) {
        self.begin = Instant::now();
        self.steps += 1;
        self.faults += major_faults();
    }

    pub(crate) fn was_in_steps(&self) -> bool {
        self.steps > 1
    }

    pub(crate) fn stopped(&mut self) {
        self.stopped_at(Instant::now());
    }

    /// The same, for a world that has been stopped since `stopped`.
    pub(crate) fn stopped_at(&mut self, stopped: Instant) {
        self.stopped = stopped;
        self.before_pause = major_faults();
    }

    /// When a step with this time limit ends, if it has just stopped the world.
    pub(crate) fn until(&self, time: Duration) -> Instant {
        self.stopped + time
    }

    /// The collection's duration so far.
    pub(crate) fn so_far(&self) -> Duration {
        self.before + self.begin.elapsed()
    }

    pub(crate) fn started(&mut self) {
        let pause = self.stopped.elapsed();
        self.pause = self.pause.max(pause);
        self.still += pause;
        self.in_pause = major_faults() - self.before_pause;
    }
}

/// What one collection did.
pub(crate) struct Work {
    pub(crate) census: Census,
    pub(crate) residency: Residency,
    pub(crate) marking: Marking,
    /// It was a collection of young objects only.
    pub(crate) young: bool,
    pub(crate) settled: Settled,
    /// The heap's size in bytes after it.
    pub(crate) size: usize,
}

/// Up to this many major faults in a pause may have other causes: code, a stack.
const FEW: i64 = 4;

/// A collection of fewer bytes does not show how long others take.
const MUCH: u64 = 1 << 20;

/// Sums over the life of the process. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Stats {
    /// `total`: time in all collections. `last_whole`: time in the last one.
    total: Duration,
    last_whole: Duration,
    /// The live bytes that the last whole collection marked, and for how long the world was stopped
    /// for that.
    went_through: (u64, Duration),
    /// The same for the last collection of young objects, counting the bytes that had been
    /// allocated before it.
    went_through_young: (u64, Duration),
    /// The longest pause, and the last one.
    longest: Duration,
    last_pause: Duration,
    /// As of the last collection. `absent`: superpages in swap. `summaries`: how many of them were
    /// replaced by their summaries.
    absent: usize,
    summaries: u64,
    /// Major faults during collections.
    faults: i64,
    /// Bytes ever allocated as of the last collection.
    allocated_before: u64,
    /// Bytes freed since the last collection, except those that threads count themselves.
    pub(crate) freed: usize,
    /// Bytes that the program says it took without allocating objects: since the last collection,
    /// and before it.
    told: usize,
    told_before: usize,
    /// Bytes of dead objects: of all collections, and of the last one.
    reclaimed: u64,
    reclaimed_last: u64,
    /// The most bytes that the heap ever had.
    obtained: usize,
    /// The census of the last collection.
    last: Census,
    /// The last collection was made in steps.
    in_steps: bool,
    /// The total time in collections when the program began to measure it; `None` if it did not.
    measured_from: Option<Duration>,
}

impl Stats {
    /// Adds bytes that the program says it took.
    pub(crate) fn add_told(&mut self, bytes: usize) {
        self.told = self.told.saturating_add(bytes);
    }

    pub(crate) fn record(&mut self, cycle: Cycle, work: &Work, verbose: u8) {
        let Work {
            census,
            residency,
            marking,
            young,
            size,
            ..
        } = work;
        let whole = cycle.so_far();
        let faults = major_faults() - cycle.faults;
        self.total += whole;
        self.last_whole = whole;
        let allocated = collector::heap().allocated();
        match young {
            true => self.went_through_young = (allocated - self.allocated_before, cycle.still),
            false => self.went_through = (census.live, cycle.still),
        }
        self.longest = self.longest.max(cycle.pause);
        self.last_pause = cycle.pause;
        self.absent = residency.absent;
        self.summaries = marking.replayed;
        self.faults += faults;
        self.reclaimed_last =
            (self.last.live + allocated - self.allocated_before).saturating_sub(census.live);
        self.reclaimed += self.reclaimed_last;
        self.allocated_before = allocated;
        self.last = *census;
        self.in_steps = cycle.was_in_steps();
        self.freed = 0;
        self.told_before = self
            .told_before
            .saturating_add(std::mem::take(&mut self.told));
        self.obtained = self.obtained.max(*size);
        if verbose > 0 {
            say(&cycle, work, whole, faults);
        }
    }
}

/// Prints what a collection did, how long it took, and how many major faults it had.
fn say(cycle: &Cycle, work: &Work, whole: Duration, faults: i64) {
    let Work {
        census,
        residency,
        marking,
        young,
        settled,
        ..
    } = work;
    let why = match cycle.why {
        Why::Allocation => "heap full",
        Why::Young | Why::Lack => "no room",
        Why::Crowd => "many finalizers",
        Why::Asked | Why::Begun => "asked for",
        Why::Limit => "limit fell",
    };
    let steps = match cycle.steps {
        1 => String::new(),
        steps => format!("in {steps} steps, "),
    };
    let turns = quantum::given().map_or(String::new(), |given| {
        format!("; threads gave way {given} times")
    });
    report::say(&format!(
        "gc {}: {}{steps}{why}; pause {} us, whole {} us, {faults} major faults; live {} KiB in {} objects \
         ({} handed over, {} overflows); {} superpages absent, {} read, {} summaries held, {} dropped, {} \
         made in {} KiB; freed {} superpages, gave back {}, paged out {}{turns}\n",
        GC_gc_no.get(),
        if *young { "young, " } else { "" },
        cycle.pause.as_micros(),
        whole.as_micros(),
        census.live >> 10,
        census.objects,
        marking.shared,
        marking.overflows,
        residency.absent,
        marking.read,
        marking.replayed,
        residency.dropped,
        marking.summarised,
        collector::heap().summary_bytes() >> 10,
        census.freed,
        settled.given,
        settled.shed,
    ));
}

/// Figures for a broker and for pacing.
impl Stats {
    /// Bytes alive after the last collection.
    pub(crate) fn live(&self) -> u64 {
        self.last.live
    }

    /// Whether the last collection may have left dead objects, because it was made in steps.
    pub(crate) fn was_in_steps(&self) -> bool {
        self.in_steps
    }

    /// Live objects after the last collection, and their bytes.
    pub(crate) fn last(&self) -> (u64, u64) {
        (self.last.objects, self.last.live)
    }

    /// How many bytes of live objects the last whole collection marked per second.
    pub(crate) fn speed(&self) -> Option<u64> {
        let (live, took) = (
            self.went_through.0 as f64,
            self.went_through.1.as_secs_f64(),
        );
        (took > 0.0).then(|| ((live / took) as u64).max(1))
    }

    /// Roughly the longest time for which a collection in one pause would stop the world now.
    pub(crate) fn expected(&self, heap: &Heap, young: bool) -> Duration {
        let new = heap.allocated() - self.allocated_before;
        let ((bytes, still), most) = match young {
            true => (self.went_through_young, new),
            false => (self.went_through, self.last.live + new),
        };
        if bytes < MUCH {
            return still;
        }
        still.mul_f64(most as f64 / bytes as f64)
    }

    /// The statistics that `plimsoll top` shows. `size`: bytes of the heap. `retained`: bytes that
    /// stale summaries may keep alive.
    pub(crate) fn told(&self, size: usize, retained: u64) -> Statistics {
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).ok();
        Statistics {
            heap: Some(size as u64),
            last_pause_us: microseconds(self.last_pause),
            longest_pause_us: microseconds(self.longest),
            faults: u64::try_from(self.faults).ok(),
            absent: Some(self.absent as u64),
            summaries: Some(self.summaries),
            retained: Some(retained),
            order: None,
        }
    }

    pub(crate) fn collections(&self) -> u64 {
        GC_gc_no.get() as u64
    }

    /// Milliseconds spent in collections so far.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.total.as_millis() as u64
    }
}

/// Sizes in bytes, as libgc counts them; all zero before the collector is made.
#[derive(Default)]
struct Usage {
    /// The heap without unmapped parts.
    heap: usize,
    /// The free part of it.
    free: usize,
    /// Parts of the heap that were given back to the kernel.
    unmapped: usize,
    /// Allocated since the last collection.
    since: usize,
    /// Allocated since the start.
    total: usize,
}

fn usage(gc: &Locked) -> Usage {
    current::count_bins(gc.heap);
    let heap = gc.pace.size(&gc.central);
    let stats = &gc.stats;
    let total = gc.heap.allocated() as usize;
    let since = total - stats.allocated_before as usize;
    Usage {
        heap,
        free: heap.saturating_sub(stats.last.live as usize + since),
        unmapped: (gc.central.committed() * SUPERPAGE).saturating_sub(heap),
        since: since.saturating_add(stats.told),
        total: total
            .saturating_add(stats.told_before)
            .saturating_add(stats.told),
    }
}

/// The state, if the collector was made already.
fn made() -> Option<Locked> {
    collector::is_ready().then(collector::either)
}

macro_rules! figures {
    ($($name:ident => $field:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name() -> usize {
            made().map_or(0, |gc| usage(&gc).$field)
        }
    )*};
}

figures! {
    GC_get_heap_size => heap;
    GC_get_free_bytes => free;
    GC_get_unmapped_bytes => unmapped;
    GC_get_bytes_since_gc => since;
    GC_get_total_bytes => total;
}

/// Bytes of the superpages that hold objects.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_memory_use() -> usize {
    made().map_or(0, |gc| gc.central.used() * SUPERPAGE)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_obtained_from_os_bytes() -> usize {
    made().map_or(0, |gc| obtained(&gc))
}

/// Bytes obtained: at least the size of the heap with its unmapped part, which may not be committed
/// yet.
fn obtained(gc: &Locked) -> usize {
    let usage = usage(gc);
    (gc.central.committed() * SUPERPAGE)
        .max(usage.heap + usage.unmapped)
        .max(gc.stats.obtained)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_expl_freed_bytes_since_gc() -> usize {
    made().map_or(0, |gc| freed(&gc))
}

fn freed(gc: &Locked) -> usize {
    gc.stats.freed.saturating_add(gc.threads.freed())
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_heap_usage_safe(
    heap: *mut usize,
    free: *mut usize,
    unmapped: *mut usize,
    since: *mut usize,
    total: *mut usize,
) {
    let usage = made().map(|gc| usage(&gc)).unwrap_or_default();
    let places = [
        (heap, usage.heap),
        (free, usage.free),
        (unmapped, usage.unmapped),
        (since, usage.since),
        (total, usage.total),
    ];
    for (place, value) in places {
        // SAFETY: the caller's, where it is not null.
        if let Some(place) = unsafe { place.as_mut() } {
            *place = value;
        }
    }
}

/// `struct GC_prof_stats_s`, as words in the order of its fields.
const PROF_WORDS: usize = 12;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_prof_stats(places: *mut usize, bytes: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { fill(made(), places, bytes) }
}

/// The caller holds the lock.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_prof_stats_unsafe(places: *mut usize, bytes: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { fill(made(), places, bytes) }
}

unsafe fn fill(gc: Option<Locked>, places: *mut usize, bytes: usize) -> usize {
    let gc = gc.as_ref();
    let usage = gc.map(usage).unwrap_or_default();
    let stats = gc.map(|gc| &gc.stats);
    let words: [usize; PROF_WORDS] = [
        usage.heap + usage.unmapped,
        usage.free + usage.unmapped,
        usage.unmapped,
        usage.since,
        usage.total - usage.since,
        GC_non_gc_bytes.get(),
        GC_gc_no.get(),
        GC_parallel.get() as usize,
        stats.map_or(0, |stats| stats.reclaimed_last) as usize,
        stats.map_or(0, |stats| stats.reclaimed - stats.reclaimed_last) as usize,
        gc.map_or(0, freed),
        gc.map_or(0, obtained),
    ];
    let known = size_of_val(&words);
    // SAFETY: the caller provides this many bytes. Fields that are not known are filled as libgc does.
    unsafe {
        places
            .cast::<u8>()
            .copy_from_nonoverlapping(words.as_ptr().cast(), bytes.min(known));
        if bytes > known {
            places
                .cast::<u8>()
                .add(known)
                .write_bytes(0xff, bytes - known);
        }
    }
    bytes.min(known)
}

/// Set if the program began to measure before the collector was made.
static MEASURES: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_performance_measurement() {
    let _guard = collector::guard();
    if collector::is_ready() {
        let mut gc = collector::held();
        let total = gc.stats.total;
        gc.stats.measured_from.get_or_insert(total);
    } else {
        MEASURES.store(true, Relaxed);
    }
}

/// In milliseconds.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_full_gc_total_time() -> c_ulong {
    let Some(gc) = made() else { return 0 };
    let from = match MEASURES.load(Relaxed) {
        true => Some(Duration::ZERO),
        false => gc.stats.measured_from,
    };
    from.map_or(0, |from| (gc.stats.total - from).as_millis() as c_ulong)
}

/// The bytes that an object takes if `index` bytes are requested; all ones beyond the end of
/// libgc's table.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_size_map_at(index: c_int) -> usize {
    /// The last index in libgc's table, bytes.
    const LAST: usize = 2048;
    match usize::try_from(index) {
        Ok(bytes) if bytes <= LAST => {
            let extra = usize::from(GC_all_interior_pointers.get() != 0);
            Class::of(bytes + extra).map_or(usize::MAX, Class::bytes)
        }
        _ => usize::MAX,
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_expand_hp(bytes: usize) -> c_int {
    let mut gc = collector::lock();
    let state = &mut *gc;
    let most = state.surroundings.room(&state.central, bytes);
    let superpages = bytes.div_ceil(SUPERPAGE);
    let raised = state.pace.expand(&mut state.central, superpages, most);
    if raised {
        state.pace.tell(&state.central);
    }
    c_int::from(raised)
}

/// The maximum that the program set before the collector was made; 0 for none.
pub(crate) static EARLY_MOST: Variable<usize> = Variable::new(0);

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_max_heap_size(bytes: usize) {
    let _guard = collector::guard();
    if collector::is_ready() {
        let mut gc = collector::held();
        let state = &mut *gc;
        state.pace.most = Some(bytes).filter(|&bytes| bytes > 0);
        state.pace.bound(&mut state.central);
    } else {
        EARLY_MOST.set(bytes);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_dump() {
    // SAFETY: no name.
    unsafe { GC_dump_named(std::ptr::null()) };
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_dump_named(name: *const c_char) {
    let name = if name.is_null() {
        String::new()
    } else {
        // SAFETY: the caller's string.
        let name = unsafe { CStr::from_ptr(name) };
        format!("***GC Dump {}\n", name.to_string_lossy())
    };
    let Some(gc) = made() else {
        return report::print(&format!("{name}***No heap\n"));
    };
    let usage = usage(&gc);
    report::print(&format!(
        "{name}***Heap: {} KiB used, {} KiB free in it, {} KiB unmapped; {} collections, {} ms in all, \
         longest pause {} us, \
         {} major faults; {} finalizers, {:?} links\n",
        usage.heap >> 10,
        usage.free >> 10,
        usage.unmapped >> 10,
        GC_gc_no.get(),
        gc.stats.total.as_millis(),
        gc.stats.longest.as_micros(),
        gc.stats.faults,
        gc.finalization.count(),
        gc.links.counts(),
    ));
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_dump_regions() {
    if collector::is_ready() {
        GC_dump();
    }
}
