//! What collections did, in figures.

use crate::collect::Why;
use crate::collector::{self, Locked};
use crate::footprint::Settled;
use crate::report;
use crate::settings::{GC_all_interior_pointers, GC_gc_no, GC_non_gc_bytes, GC_parallel, Variable};
use libc::{c_char, c_int, c_ulong, rusage};
use plimsoll_client::messages::Statistics;
use plimsoll_heap::mark::Marking;
use plimsoll_heap::{Census, Class, Heap, Residency, SUPERPAGE};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Clocks and counters of one collection.
pub(crate) struct Cycle {
    pub(crate) why: Why,
    /// When its first step began, or this one.
    begin: Instant,
    stopped: Instant,
    /// The longest, and how long earlier steps took.
    pause: Duration,
    before: Duration,
    /// How long the world stood still in all its steps.
    still: Duration,
    steps: u32,
    /// Major faults in its steps; and when the world was stopped, and in the last time that it was.
    faults: i64,
    before_pause: i64,
    in_pause: i64,
}

/// Of this process, until now.
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

    /// A step ended, and there will be another.
    pub(crate) fn suspend(&mut self) {
        self.before += self.begin.elapsed();
        self.faults -= major_faults();
    }

    /// The next step begins.
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

    /// The same, and it stands since then.
    pub(crate) fn stopped_at(&mut self, stopped: Instant) {
        self.stopped = stopped;
        self.before_pause = major_faults();
    }

    /// When a step that stopped the world just now is to end.
    pub(crate) fn until(&self, time: Duration) -> Instant {
        self.stopped + time
    }

    /// How long it takes until now.
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
    /// Old objects were not collected.
    pub(crate) young: bool,
    pub(crate) settled: Settled,
    /// Bytes of the heap now.
    pub(crate) size: usize,
}

/// So many major faults in a pause may be of other things: code, a stack.
const FEW: i64 = 4;

/// A collection of less says nothing of how long others take. Bytes.
const MUCH: u64 = 1 << 20;

/// Sums over the process's life.
#[derive(Default)]
pub(crate) struct Stats {
    /// Time in collections, and in the last one.
    total: Duration,
    last_whole: Duration,
    /// Bytes of live objects that the last whole collection went through, and how long the world
    /// stood still for that.
    went_through: (u64, Duration),
    /// The same, for what the last collection of young objects was of: what was allocated before.
    went_through_young: (u64, Duration),
    /// The longest time that the world stood still, and the last.
    longest: Duration,
    last_pause: Duration,
    /// Superpages in swap at the last collection, and summaries that stood for some of them.
    absent: usize,
    summaries: u64,
    /// Major faults during collections.
    faults: i64,
    /// Bytes that were allocated until the last collection.
    allocated_before: u64,
    /// Bytes that were freed since the last collection, not counting what threads know of themselves.
    pub(crate) freed: usize,
    /// Bytes that the program says it took without asking for objects, since the last collection and before.
    told: usize,
    told_before: usize,
    reclaimed: u64,
    reclaimed_last: u64,
    /// The most bytes that the heap ever had.
    obtained: usize,
    last: Census,
    /// The last collection was made in steps.
    in_steps: bool,
    /// The time in collections when the program began to measure it, if it did.
    measured_from: Option<Duration>,
}

impl Stats {
    /// The program says that it took so many bytes.
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
        let new = collector::heap().allocated() - self.allocated_before;
        match young {
            true => self.went_through_young = (new, cycle.still),
            false => self.went_through = (census.live, cycle.still),
        }
        self.longest = self.longest.max(cycle.pause);
        self.last_pause = cycle.pause;
        self.absent = residency.absent;
        self.summaries = marking.replayed;
        self.faults += faults;
        let allocated = collector::heap().allocated();
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
        Why::Asked | Why::Begun => "asked for",
        Why::Limit => "limit fell",
    };
    let steps = match cycle.steps {
        1 => String::new(),
        steps => format!("in {steps} steps, "),
    };
    report::say(&format!(
        "gc {}: {}{steps}{why}; pause {} us, whole {} us, {faults} major faults; live {} KiB in {} objects \
         ({} handed over, {} overflows); {} superpages absent, {} read, {} summaries held, {} dropped, {} \
         made in {} KiB; freed {} superpages, gave back {}, paged out {}\n",
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

/// What a broker is told.
impl Stats {
    /// Bytes that lived after the last collection.
    pub(crate) fn live(&self) -> u64 {
        self.last.live
    }

    /// Whether something may have died in the last collection and not been found.
    pub(crate) fn was_in_steps(&self) -> bool {
        self.in_steps
    }

    /// Objects that lived then, and their bytes.
    pub(crate) fn last(&self) -> (u64, u64) {
        (self.last.objects, self.last.live)
    }

    /// Bytes of live objects that the last whole collection went through in a second.
    pub(crate) fn speed(&self) -> Option<u64> {
        let (live, took) = (
            self.went_through.0 as f64,
            self.went_through.1.as_secs_f64(),
        );
        (took > 0.0).then(|| ((live / took) as u64).max(1))
    }

    /// How long the world would stand still now for a collection that is made at once, at most, about.
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

    /// What `plimsoll top` shows. `size`: bytes of the heap. `retained`: bytes that summaries may keep alive.
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
        }
    }

    pub(crate) fn collections(&self) -> u64 {
        GC_gc_no.get() as u64
    }

    /// In collections so far.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.total.as_millis() as u64
    }
}

/// Bytes, as libgc counts them; none before there is a collector.
#[derive(Default)]
struct Usage {
    heap: usize,
    free: usize,
    unmapped: usize,
    since: usize,
    total: usize,
}

fn usage(gc: &Locked) -> Usage {
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

/// The state, where there is a collector already.
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

/// Superpages with objects.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_memory_use() -> usize {
    made().map_or(0, |gc| gc.central.used() * SUPERPAGE)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_obtained_from_os_bytes() -> usize {
    made().map_or(0, |gc| obtained(&gc))
}

/// At least the heap with what is unmapped, which may not be committed yet.
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

/// `struct GC_prof_stats_s`, as words in its order.
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
    // SAFETY: the caller has so many bytes; what is not known is filled as libgc does.
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

/// The program began to measure before there was a collector.
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

/// Milliseconds.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_full_gc_total_time() -> c_ulong {
    let Some(gc) = made() else { return 0 };
    let from = match MEASURES.load(Relaxed) {
        true => Some(Duration::ZERO),
        false => gc.stats.measured_from,
    };
    from.map_or(0, |from| (gc.stats.total - from).as_millis() as c_ulong)
}

/// The bytes that an object gets for which so many are asked; all ones where libgc's table has ended.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_size_map_at(index: c_int) -> usize {
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

/// What was said before there was a collector; 0 for nothing.
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
