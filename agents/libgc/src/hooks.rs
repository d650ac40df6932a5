//! What runs inside libgc's own calls, on the program's thread, with the allocation lock held. It
//! reads counters, sets `GC_set_dont_expand` and `GC_set_free_space_divisor` (which take no lock),
//! and calls the program's own hooks. Nothing here allocates memory.

use crate::collector::{self, EVENT_END, EVENT_RECLAIM_END, EVENT_START, Libgc, Stats};
use crate::interpose::{WISHES, program_notifier, program_on_event, program_on_resize};
use crate::{ballast, fork, schedule, sense};
use plimsoll_unit::MIB;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Collections over which the speed of the fastest is taken.
const RECENT: usize = 3;

/// State that the hooks and the helper share; plain atomics, without a lock. Sizes in bytes, times
/// in nanoseconds.
#[derive(Debug, Default)]
pub struct Shared {
    /// Whether the adapter's schedule is in force.
    pub engaged: AtomicBool,
    /// Whether the collection under way is the helper's.
    pub helper_collects: AtomicBool,
    /// While the helper takes ballast, the heap may grow up to this size. 0 otherwise.
    pub taking: AtomicU64,
    /// Bytes that the process may use: the threshold, less the use of the rest of its family.
    pub allowance: AtomicU64,
    /// The size that the heap may reach before the next collection.
    pub ceiling: AtomicU64,
    /// Bytes to allocate at least between two collections.
    pub guard: AtomicU64,
    /// A lower bound for the ceiling, set if the last collection came too soon after the one
    /// before.
    pub least: AtomicU64,
    /// The best known value of the use that is not heap.
    pub other: AtomicU64,
    /// Used bytes after the last collection.
    pub live: AtomicU64,
    /// Allocated bytes per second, as measured by the helper.
    pub rate: AtomicU64,
    /// Collections since the start.
    pub collections: AtomicU64,
    /// Time spent in collections.
    pub collecting: AtomicU64,
    /// Duration of the last collection.
    pub last: AtomicU64,
    /// Duration of the longest collection.
    pub longest: AtomicU64,
    /// The expected duration of a collection of the current live data, at the speed of the fastest
    /// of the last few. (A slower one tells nothing if its thread had to wait for a processor.)
    pub took: AtomicU64,
    /// Nanoseconds per MiB of live data, for the last few collections.
    recent: [AtomicU64; RECENT],
    heap: AtomicU64,
    began: AtomicU64,
    allocated: AtomicU64,
    cycle: AtomicU64,
}

/// The shared state of this process.
pub static SHARED: Shared = Shared {
    engaged: AtomicBool::new(false),
    helper_collects: AtomicBool::new(false),
    taking: AtomicU64::new(0),
    allowance: AtomicU64::new(u64::MAX),
    ceiling: AtomicU64::new(u64::MAX),
    guard: AtomicU64::new(schedule::MIN_GUARD),
    least: AtomicU64::new(0),
    other: AtomicU64::new(0),
    live: AtomicU64::new(0),
    rate: AtomicU64::new(0),
    collections: AtomicU64::new(0),
    collecting: AtomicU64::new(0),
    last: AtomicU64::new(0),
    longest: AtomicU64::new(0),
    took: AtomicU64::new(0),
    recent: [const { AtomicU64::new(0) }; RECENT],
    heap: AtomicU64::new(0),
    began: AtomicU64::new(0),
    allocated: AtomicU64::new(0),
    cycle: AtomicU64::new(0),
};

/// Installs the hooks; they call the program's own ones.
pub fn install(gc: &Libgc) {
    SHARED.heap.store(gc.read().heap as u64, Ordering::Release);
    // SAFETY: both live as long as the process; they may be called on any thread.
    unsafe {
        (gc.set_on_event)(Some(on_event));
        (gc.set_on_resize)(Some(on_resize));
    }
}

/// Heap that the program can use without a collection, in bytes.
pub fn extent(stats: &Stats) -> u64 {
    (stats.heap as u64).saturating_sub(ballast::held())
}

/// Heap in blocks with objects of the program, in bytes.
pub fn used(stats: &Stats) -> u64 {
    stats.used().saturating_sub(ballast::held())
}

/// Bytes that the program has allocated since the start.
pub fn allocated(stats: &Stats) -> u64 {
    stats.allocated().saturating_sub(ballast::ever())
}

/// Bytes that it has allocated since the last collection.
pub fn since(stats: &Stats) -> u64 {
    allocated(stats).saturating_sub(SHARED.allocated.load(Ordering::Relaxed))
}

/// Heap that may be resident, in bytes: neither unmapped nor ballast.
pub fn mapped(stats: &Stats) -> u64 {
    stats.mapped().saturating_sub(ballast::held())
}

/// Sets `dont_expand` and the free space divisor, which determines the heap's increments, according
/// to the heap's size and the program's wishes. Takes no lock.
pub fn apply(gc: &'static Libgc) {
    let no_growth = WISHES.dont_expand.load(Ordering::Acquire);
    let divisor = WISHES.divisor.load(Ordering::Acquire);
    let (no_growth, divisor) = if SHARED.engaged.load(Ordering::Acquire) {
        let stats = gc.read();
        let heap = stats.heap as u64;
        let ballast = SHARED.taking.load(Ordering::Acquire).saturating_sub(heap);
        let ceiling = SHARED.ceiling.load(Ordering::Acquire);
        let below = schedule::most(WISHES.most.load(Ordering::Acquire) as u64).saturating_sub(heap);
        let room = ceiling.saturating_sub(extent(&stats)).min(below);
        let full = room == 0 && ballast.min(below) == 0;
        let ours = schedule::divisor(heap, room);
        (if full { 1 } else { no_growth }, divisor.max(ours))
    } else {
        (no_growth, divisor)
    };
    // SAFETY: plain stores in libgc.
    unsafe {
        (gc.set_dont_expand)(no_growth);
        (gc.set_divisor)(divisor);
    }
}

/// Lets the heap grow by `bytes` bytes beyond the ceiling, for a piece of ballast that fits
/// nowhere; 0 ends that. Takes no lock.
pub fn lend(gc: &'static Libgc, bytes: u64) {
    let most = match bytes {
        0 => 0,
        _ => (gc.read().heap as u64).saturating_add(bytes),
    };
    SHARED.taking.store(most, Ordering::Release);
    apply(gc);
}

/// Puts either the adapter's schedule or the program's in force, as `SHARED.engaged` says. Must not
/// be called from a hook.
pub fn engage(gc: &'static Libgc) {
    let ours = SHARED.engaged.load(Ordering::Acquire);
    let wish = WISHES.automatic_off.load(Ordering::Acquire);
    // SAFETY: a setter of an initialised collector; the caller does not hold the allocation lock.
    unsafe { (gc.set_automatic_off)(if ours { 1 } else { wish }) };
    retry(gc);
    apply(gc);
}

/// Sets the number of retries. With automatic collection off, libgc fails an allocation when the
/// kernel has no more memory for the heap, however much garbage there is, unless it may retry: then
/// it collects. Takes no lock.
pub fn retry(gc: &'static Libgc) {
    let wish = WISHES.retries.load(Ordering::Acquire);
    let ours = usize::from(SHARED.engaged.load(Ordering::Acquire));
    // SAFETY: a plain store in libgc.
    unsafe { (gc.set_retries)(wish.max(ours)) };
}

/// Sets whether finalizers run on demand only: as the program wishes, but during a collection of
/// the helper always, so that none runs. Takes no lock.
pub fn demand(gc: &'static Libgc) {
    let held = WISHES.finalizers_held.load(Ordering::Acquire);
    let wish = WISHES.on_demand.load(Ordering::Acquire);
    // SAFETY: a plain store in libgc.
    unsafe { (gc.set_on_demand)(if held { 1 } else { wish }) };
}

/// Sets the finalizer notifier: the program's, except that none runs on the helper's thread.
/// Finalizers found there wait for the program's next allocation, or, if the program runs them on
/// demand, for the notification of its own next collection. Must not be called from a hook.
pub fn finalizers(gc: &'static Libgc) {
    let held = WISHES.finalizers_held.load(Ordering::Acquire);
    let notifier = if held { None } else { program_notifier() };
    // SAFETY: a setter of an initialised collector; the caller does not hold the allocation lock.
    unsafe { (gc.set_notifier)(notifier) };
    demand(gc);
}

unsafe extern "C" fn on_event(event: c_int) {
    if let Some(gc) = collector::get() {
        match event {
            EVENT_START => at_start(&gc.read()),
            EVENT_RECLAIM_END => measure_other(&gc.read(), 0),
            EVENT_END => at_end(gc),
            _ => {}
        }
    }
    if let Some(program) = program_on_event() {
        // SAFETY: the program's hook, as libgc would call it.
        unsafe { program(event) };
    }
}

unsafe extern "C" fn on_resize(size: usize) {
    if let Some(gc) = collector::get() {
        let stats = gc.read();
        let heap = stats.heap as u64;
        let before = SHARED.heap.swap(heap, Ordering::AcqRel);
        // libgc's tables grow with the heap, and the ceiling has to fall by as much before it is
        // reached.
        measure_other(&stats, heap.saturating_sub(before));
        set_ceiling();
        apply(gc);
    }
    if let Some(program) = program_on_resize() {
        // SAFETY: the program's hook, as libgc would call it.
        unsafe { program(size) };
    }
}

fn at_start(stats: &Stats) {
    SHARED.began.store(sense::now(), Ordering::Relaxed);
    let allocated = allocated(stats);
    let before = SHARED.allocated.swap(allocated, Ordering::Relaxed);
    SHARED
        .cycle
        .store(allocated.saturating_sub(before), Ordering::Relaxed);
    measure_other(stats, 0);
}

/// Updates `other`. `untouched` mapped bytes are known to be untouched.
pub fn measure_other(stats: &Stats, untouched: u64) {
    let errno = errno();
    if let Some(memory) = sense::memory() {
        let known = SHARED.other.load(Ordering::Acquire);
        let heap = mapped(stats).saturating_sub(untouched);
        let idle = stats.idle().saturating_sub(untouched);
        let other = schedule::other(known, memory, heap, idle);
        SHARED.other.store(other, Ordering::Release);
    }
    set_errno(errno);
}

/// The target: the intended size of the heap in bytes.
pub fn target() -> u64 {
    let other = SHARED.other.load(Ordering::Acquire);
    match SHARED.allowance.load(Ordering::Acquire) {
        u64::MAX => u64::MAX,
        allowance => allowance.saturating_sub(other),
    }
}

/// Recomputes the ceiling.
pub fn set_ceiling() {
    let [live, guard, least] =
        [&SHARED.live, &SHARED.guard, &SHARED.least].map(|value| value.load(Ordering::Acquire));
    let ceiling = schedule::ceiling(target(), live, guard).max(least);
    SHARED.ceiling.store(ceiling, Ordering::Release);
}

/// Counts a collection that left `live` bytes alive, and its duration.
fn count_collection(live: u64) {
    let mib = u128::from(MIB);
    let took = sense::now().saturating_sub(SHARED.began.load(Ordering::Relaxed));
    SHARED.collecting.fetch_add(took, Ordering::AcqRel);
    SHARED.last.store(took, Ordering::Release);
    SHARED.longest.fetch_max(took, Ordering::AcqRel);
    let count = SHARED.collections.fetch_add(1, Ordering::AcqRel);
    let live = u128::from(live.max(1));
    let pace = u64::try_from(u128::from(took) * mib / live).unwrap_or(u64::MAX);
    SHARED.recent[count as usize % RECENT].store(pace.max(1), Ordering::Relaxed);
    let recent = SHARED
        .recent
        .iter()
        .map(|pace| pace.load(Ordering::Relaxed));
    let least = recent.filter(|&pace| pace > 0).min().unwrap_or(pace);
    let took = u64::try_from(u128::from(least) * live / mib).unwrap_or(u64::MAX);
    SHARED.took.store(took.max(1), Ordering::Release);
}

fn at_end(gc: &'static Libgc) {
    let stats = gc.read();
    let used = used(&stats);
    count_collection(used);
    SHARED.live.store(used, Ordering::Release);
    let [rate, took] = [&SHARED.rate, &SHARED.took].map(|value| value.load(Ordering::Acquire));
    let guard = schedule::guard(used, rate, took);
    SHARED.guard.store(guard, Ordering::Release);
    let hurried = SHARED.cycle.load(Ordering::Relaxed) < guard / 2;
    let stuck = hurried && !SHARED.helper_collects.load(Ordering::Acquire);
    // The free memory does not fit the request: without more heap, the program would collect at
    // every large allocation.
    let least = if stuck {
        extent(&stats).saturating_add(guard)
    } else {
        0
    };
    SHARED.least.store(least, Ordering::Release);
    set_ceiling();
    apply(gc);
    fork::revive(gc);
}

fn errno() -> c_int {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}
