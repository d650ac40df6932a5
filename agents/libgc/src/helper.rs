//! The adapter's thread, called the helper. It follows the limit, collects when the program would
//! not, and gives memory back. It is registered with libgc, because only registered threads may
//! collect. But it stays in `GC_do_blocking`, so that the program's collections need not stop it.

use crate::collector::{Body, Libgc};
use crate::hooks::{self, SHARED};
use crate::interpose::WISHES;
use crate::link::Link;
use crate::schedule::{self, Act, Released, View};
use crate::settings::{self, Mode};
use crate::{ballast, fork, release, sense};
use plimsoll_client::Granted;
use plimsoll_client::messages::{Report, Statistics};
use plimsoll_unit::SECOND;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the helper's stack. It runs the marker, which keeps its own stack elsewhere.
const STACK: usize = 1 << 20;
/// Nanoseconds between two reports.
const REPORT_EVERY: u64 = 1_000_000_000;
/// Assumed marking speed until it was measured, in bytes of live data per second.
const USUAL_SPEED: u64 = 400 << 20;
/// Looks over which the use of the rest of the family is taken as the minimum.
const FAMILY_WINDOW: usize = 8;

fn current_mode() -> &'static Mode {
    static MODE: OnceLock<Mode> = OnceLock::new();
    MODE.get_or_init(settings::from_environment)
}

/// Whether the adapter has anything to do in this process.
pub fn wanted() -> bool {
    *current_mode() != Mode::Off
}

/// Allows threads to register and starts the helper. Called once, right after libgc's own
/// initialisation.
pub fn start(gc: &'static Libgc) {
    // SAFETY: the collector is initialised and this is the thread that did it.
    unsafe { (gc.allow_threads)() };
    spawn(gc, true);
}

/// Starts the helper. If no thread can be created, the program runs as without the adapter.
pub fn spawn(gc: &'static Libgc, reports: bool) {
    let blocked = block_signals(gc);
    let thread = std::thread::Builder::new()
        .name("plimsoll".into())
        .stack_size(STACK);
    let started = thread.spawn(move || live(gc, reports));
    restore_signals(&blocked);
    if started.is_err() {
        SHARED.engaged.store(false, Ordering::Release);
        SHARED.ceiling.store(u64::MAX, Ordering::Release);
    }
}

/// Blocks all signals except the collector's and those of the thread's own faults. A new thread
/// inherits this mask. Returns the mask to restore.
fn block_signals(gc: &Libgc) -> libc::sigset_t {
    // SAFETY: plain old data, filled in by the calls below.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid; signal numbers that do not exist (-1) are refused without harm.
    unsafe {
        libc::sigfillset(&mut set);
        let keep = [
            (gc.suspend_signal)(),
            (gc.restart_signal)(),
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGABRT,
            libc::SIGTRAP,
        ];
        for signal in keep {
            libc::sigdelset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, &mut old);
    }
    old
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: the mask that this thread had before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
}

fn live(gc: &'static Libgc, reports: bool) {
    let mut helper = Helper::new(gc, reports);
    if !gc.register_this_thread() {
        return;
    }
    let body: Body = blocking;
    // SAFETY: the thread is registered; `helper` outlives the call.
    unsafe {
        (gc.do_blocking)(body, (&raw mut helper).cast());
        (gc.unregister_thread)();
    }
}

/// The life of the helper, inside `GC_do_blocking`.
unsafe extern "C" fn blocking(data: *mut c_void) -> *mut c_void {
    // SAFETY: `live` passed a helper that nobody else refers to.
    let helper = unsafe { &mut *data.cast::<Helper>() };
    if !caught(|| helper.run()) {
        // After a panic in the adapter, the program must run on without it.
        caught(|| disengage(helper.gc));
    }
    std::ptr::null_mut()
}

/// Does some work; whether it ended without a panic.
fn caught(work: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => true,
        Err(payload) => {
            // Dropping what a panic carried may panic, too.
            std::mem::forget(payload);
            false
        }
    }
}

/// Work to do inside `GC_call_with_gc_active`.
struct Task<'a> {
    gc: &'static Libgc,
    work: &'a mut dyn FnMut(&'static Libgc),
}

unsafe extern "C" fn active(data: *mut c_void) -> *mut c_void {
    // SAFETY: `inside` passed a task of its own frame.
    let task = unsafe { &mut *data.cast::<Task<'_>>() };
    // A panic must not cross libgc's frames; the state it leaves is counters only.
    caught(|| (task.work)(task.gc));
    std::ptr::null_mut()
}

/// Does the work as an active thread of libgc, while no fork is under way. Finalizers are left to
/// the program's own threads. False if the program forks.
fn inside(gc: &'static Libgc, work: &mut dyn FnMut(&'static Libgc)) -> bool {
    fork::unless_forking(|| {
        WISHES.finalizers_held.store(true, Ordering::Release);
        hooks::finalizers(gc);
        SHARED.helper_collects.store(true, Ordering::Release);
        let mut task = Task { gc, work };
        // SAFETY: this thread is inside `GC_do_blocking`; the task outlives the call.
        unsafe { (gc.call_active)(active, (&raw mut task).cast()) };
        if SHARED.taking.swap(0, Ordering::AcqRel) > 0 {
            hooks::apply(gc);
        }
        SHARED.helper_collects.store(false, Ordering::Release);
        WISHES.finalizers_held.store(false, Ordering::Release);
        hooks::finalizers(gc);
    })
    .is_some()
}

fn grow(gc: &'static Libgc, bytes: u64) {
    ballast::give(gc, bytes);
    hooks::apply(gc);
}

fn disengage(gc: &'static Libgc) {
    SHARED.allowance.store(u64::MAX, Ordering::Release);
    SHARED.ceiling.store(u64::MAX, Ordering::Release);
    if SHARED.engaged.swap(false, Ordering::AcqRel) {
        hooks::engage(gc);
    }
    if ballast::held() > 0 {
        inside(gc, &mut |gc| ballast::give(gc, u64::MAX));
    }
}

#[derive(Debug)]
struct Helper {
    gc: &'static Libgc,
    link: Link,
    steers: bool,
    family: [u64; FAMILY_WINDOW],
    looks: usize,
    started: u64,
    /// Collections in the first second. They do not count, because what was live then says little
    /// about later.
    early: u64,
    last_look: u64,
    last_allocated: u64,
    released: Released,
    reported: u64,
    reaction: u64,
}

impl Helper {
    fn new(gc: &'static Libgc, reports: bool) -> Helper {
        let mode = current_mode();
        let now = sense::now();
        Helper {
            gc,
            link: Link::open(mode, reports),
            steers: *mode != Mode::Default,
            family: [0; FAMILY_WINDOW],
            looks: 0,
            started: now,
            early: 0,
            last_look: now,
            last_allocated: hooks::allocated(&gc.read()),
            released: Released::default(),
            reported: 0,
            reaction: 0,
        }
    }

    fn run(&mut self) {
        loop {
            self.step();
            let nap = schedule::nap(SHARED.rate.load(Ordering::Acquire), self.link.is_heard());
            self.link.wait(Duration::from_nanos(nap));
        }
    }

    /// Does one look, and what follows from it.
    fn step(&mut self) {
        self.measure_rate();
        let Some(numbers) = self.link.read() else {
            return disengage(self.gc);
        };
        let view = self.look(numbers);
        self.report(&view);
        if !self.steers || !self.steer() {
            return;
        }
        match schedule::decide(&view, &self.released) {
            Act::Rest => {}
            Act::Grow(bytes) => {
                inside(self.gc, &mut |gc| grow(gc, bytes));
            }
            Act::Shrink(goal) | Act::Release(goal) => self.release(goal, numbers, &view),
        }
    }

    /// Reports the collector's state to the broker, about once a second.
    fn report(&mut self, view: &View) {
        if !self.link.is_heard() || view.now.saturating_sub(self.reported) < REPORT_EVERY {
            return;
        }
        self.reported = view.now;
        // What a program allocates while it starts does not show what it will allocate later: until
        // then it may want everything.
        let known = self.measured_for(view.now) >= SECOND;
        let collections = SHARED.collections.load(Ordering::Acquire);
        if !known {
            self.early = collections;
        }
        let collected = collections > self.early;
        let rate = SHARED.rate.load(Ordering::Acquire);
        let live = if collected {
            SHARED.live.load(Ordering::Acquire)
        } else {
            view.used
        };
        let last = SHARED.took.load(Ordering::Acquire).max(1);
        let measured =
            u64::try_from(u128::from(live) * 1_000_000_000 / u128::from(last)).unwrap_or(u64::MAX);
        let speed = if collected {
            measured.max(1)
        } else {
            USUAL_SPEED
        };
        self.link.report(&Report {
            live: known.then_some(live),
            allocation_rate: known.then_some(rate),
            collection_speed: known.then_some(speed),
            floor: Some(view.other.saturating_add(live).saturating_add(view.guard)),
            reaction_ms: Some(self.reaction / 1_000_000),
            collections: Some(collections),
            collection_ms: Some(SHARED.collecting.load(Ordering::Acquire) / 1_000_000),
            collector: Some(collector(view)),
            ..Report::default()
        });
    }

    /// Puts the adapter's schedule in force, if the program left the schedule to it.
    fn steer(&self) -> bool {
        let theirs = WISHES.automatic_off.load(Ordering::Acquire) != 0 || self.gc.incremental();
        if theirs {
            if SHARED.engaged.swap(false, Ordering::AcqRel) {
                hooks::engage(self.gc);
            }
        } else if !SHARED.engaged.swap(true, Ordering::AcqRel) {
            hooks::engage(self.gc);
        } else {
            hooks::apply(self.gc);
        }
        !self.gc.disabled()
    }

    /// For how long the rate has been measured, in nanoseconds.
    fn measured_for(&self, now: u64) -> u64 {
        now.saturating_sub(self.started)
    }

    /// Measures the bytes allocated per second, smoothed over about a second; in the first second,
    /// over the time so far.
    fn measure_rate(&mut self) {
        let now = sense::now();
        let passed = now.saturating_sub(self.last_look);
        if passed < SECOND / 50 {
            return;
        }
        let allocated = hooks::allocated(&self.gc.read());
        let bytes = u128::from(allocated.saturating_sub(self.last_allocated));
        let fresh =
            u64::try_from(bytes * u128::from(SECOND) / u128::from(passed)).unwrap_or(u64::MAX);
        let window = self.measured_for(now).clamp(1, SECOND);
        let weight =
            (u128::from(passed) * u128::from(SECOND) / u128::from(window)).min(u128::from(SECOND));
        let old = SHARED.rate.load(Ordering::Relaxed);
        let mixed = (u128::from(old) * (u128::from(SECOND) - weight) + u128::from(fresh) * weight)
            / u128::from(SECOND);
        SHARED
            .rate
            .store(u64::try_from(mixed).unwrap_or(u64::MAX), Ordering::Release);
        (self.last_look, self.last_allocated) = (now, allocated);
    }

    /// Returns the state of the process, and updates target and ceiling.
    fn look(&mut self, numbers: Granted) -> View {
        // Memory is read before the counters, so that allocations between the two reads do not
        // count as memory outside the heap.
        let sense::Memory { resident, swapped } = sense::memory().unwrap_or_default();
        release::saw_swapped(swapped);
        let stats = self.gc.read();
        let family = self.family(numbers.uses.saturating_sub(resident));
        let more = resident.saturating_sub(hooks::mapped(&stats));
        let other = SHARED.other.fetch_max(more, Ordering::AcqRel).max(more);
        let allowance = schedule::threshold(numbers.limit).saturating_sub(family);
        SHARED.allowance.store(allowance, Ordering::Release);
        hooks::set_ceiling();
        View {
            limit: numbers.limit,
            owed: numbers.owed,
            uses: resident.saturating_add(family),
            other: other.saturating_add(family),
            extent: hooks::extent(&stats),
            used: hooks::used(&stats),
            ballast: ballast::held(),
            since: hooks::since(&stats),
            target: hooks::target(),
            ceiling: SHARED.ceiling.load(Ordering::Acquire),
            guard: SHARED.guard.load(Ordering::Acquire),
            now: sense::now(),
        }
    }

    /// The use of the rest of the family, such as children of this process: the minimum of the last
    /// looks, because the broker's count is older than ours while we grow or shrink.
    fn family(&mut self, seen: u64) -> u64 {
        self.family[self.looks % FAMILY_WINDOW] = seen;
        self.looks += 1;
        match self.looks < FAMILY_WINDOW {
            true => 0,
            false => self.family.iter().copied().min().unwrap_or(0),
        }
    }

    /// Shrinks the extent to `goal` if possible, then lets it grow as far as the ceiling allows.
    fn release(&mut self, goal: u64, numbers: Granted, view: &View) {
        let began = sense::now();
        if !inside(self.gc, &mut |gc| release::reclaim(gc, goal)) {
            return;
        }
        let after = self.look(numbers);
        let at = sense::now();
        self.reaction = at.saturating_sub(began);
        self.link.released(view.uses.saturating_sub(after.uses));
        self.released = Released {
            at,
            took: at.saturating_sub(began),
            uses: after.uses,
            limit: view.limit,
            reached: after.uses <= schedule::threshold(view.limit),
        };
        if let Act::Grow(bytes) = schedule::decide(&after, &self.released) {
            inside(self.gc, &mut |gc| grow(gc, bytes));
        }
    }
}

/// The statistics to report, as far as libgc tells them. The world is stopped during the whole of
/// its collections.
fn collector(view: &View) -> Statistics {
    let pause = |took: &AtomicU64| Some(took.load(Ordering::Acquire) / 1000).filter(|&us| us > 0);
    Statistics {
        heap: Some(view.extent),
        last_pause_us: pause(&SHARED.last),
        longest_pause_us: pause(&SHARED.longest),
        ..Statistics::default()
    }
}
