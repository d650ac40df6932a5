//! The adapter's thread, called the helper. It follows the limit, collects when the program would
//! not, and gives memory back. It is registered with libgc, because only registered threads may
//! collect. But it stays in `GC_do_blocking`, so that the program's collections need not stop it.

use crate::collector::{Body, Libgc};
use crate::heap::Heap;
use crate::link::Link;
use crate::orders::ORDERS;
use crate::program_settings::WISHES;
use crate::published::{Collections, PUBLISHED};
use crate::schedule::{self, Act, View};
use crate::settings::{self, Mode};
use crate::{apply_schedule, ballast, fork, own_memory, release};
use plimsoll_client::Granted;
use plimsoll_client::govern::{Governor, Own, per_second};
use plimsoll_client::messages::{Report, Statistics};
use plimsoll_kernel::clock::now;
use plimsoll_unit::{Bytes, MIB, MICROSECOND, MILLISECOND, Nanos};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Bytes of the helper's stack. It runs the marker, which keeps its own stack elsewhere.
const STACK: usize = 1 << 20;
/// Assumed marking speed until it was measured, in bytes of live data per second.
const USUAL_SPEED: u64 = 400 * MIB;

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
        ORDERS.engage(false);
        ORDERS.allow(Bytes::MAX);
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
        ORDERS.hold_finalizers(true);
        apply_schedule::finalizers(gc);
        ORDERS.set_collects(true);
        let mut task = Task { gc, work };
        // SAFETY: this thread is inside `GC_do_blocking`; the task outlives the call.
        unsafe { (gc.call_active)(active, (&raw mut task).cast()) };
        if ORDERS.lend(Bytes::ZERO) > Bytes::ZERO {
            apply_schedule::apply(gc);
        }
        ORDERS.set_collects(false);
        ORDERS.hold_finalizers(false);
        apply_schedule::finalizers(gc);
    })
    .is_some()
}

fn grow(gc: &'static Libgc, bytes: Bytes) {
    ballast::give(gc, bytes);
    apply_schedule::apply(gc);
}

fn disengage(gc: &'static Libgc) {
    ORDERS.allow(Bytes::MAX);
    if ORDERS.engage(false) {
        apply_schedule::engage(gc);
    }
    if ballast::held() > Bytes::ZERO {
        inside(gc, &mut |gc| ballast::give(gc, Bytes::MAX));
    }
}

#[derive(Debug)]
struct Helper {
    gc: &'static Libgc,
    link: Link,
    steers: bool,
    /// Decides what the numbers mean here.
    governor: Governor,
    /// Collections in the first second. They do not count, because what was live then says little
    /// about later.
    early: u64,
}

impl Helper {
    fn new(gc: &'static Libgc, reports: bool) -> Helper {
        let mode = current_mode();
        let allocated = Heap::read(gc).allocated;
        Helper {
            gc,
            link: Link::open(mode, reports),
            steers: *mode != Mode::Default,
            governor: Governor::new(now(), allocated),
            early: 0,
        }
    }

    fn run(&mut self) {
        loop {
            let numbers = self.link.read();
            self.step(numbers);
            let pause = self.governor.pause(numbers.is_some(), self.link.is_heard());
            self.link.wait(pause.duration());
        }
    }

    /// Does one look, and what follows from it.
    fn step(&mut self, numbers: Option<Granted>) {
        let allocated = Heap::read(self.gc).allocated;
        ORDERS.set_rate(self.governor.measure(now(), allocated));
        let Some(numbers) = numbers else {
            return disengage(self.gc);
        };
        let view = self.look(numbers);
        if !self.steers || !self.steer() {
            return;
        }
        match schedule::decide(&view) {
            Act::Rest => {}
            Act::Grow(bytes) => {
                inside(self.gc, &mut |gc| grow(gc, bytes));
            }
            Act::Shrink(goal) => self.release(goal, numbers),
        }
    }

    /// Adds what is known of the collector to a report, and sends it. `live`: the memory of live objects.
    fn report(&mut self, report: Report, extent: Bytes, live: Bytes) {
        // A program allocates differently while it starts: until a second has passed it may want
        // everything.
        let known = report.allocation_rate.is_some();
        let collections = PUBLISHED.collections();
        if !known {
            self.early = collections.count;
        }
        let last = collections.expected.max(Nanos(1));
        let speed = if collections.count > self.early {
            per_second(live, last).max(1)
        } else {
            USUAL_SPEED
        };
        self.link.report(&Report {
            live: known.then_some(live.0),
            collection_speed: known.then_some(speed),
            collections: Some(collections.count),
            collection_ms: Some(collections.collecting.0 / MILLISECOND),
            collector: Some(statistics(&collections, extent)),
            ..report
        });
    }

    /// Puts the adapter's schedule in force, if the program left the schedule to it.
    fn steer(&self) -> bool {
        let theirs = WISHES.automatic_off.load(Ordering::Acquire) != 0 || self.gc.incremental();
        match ORDERS.engage(!theirs) {
            true => apply_schedule::engage(self.gc),
            false if theirs => {}
            false => apply_schedule::apply(self.gc),
        }
        !self.gc.disabled()
    }

    /// Looks at the process, says what it may use, and reports if that is due.
    fn look(&mut self, numbers: Granted) -> View {
        // Memory is read before the counters, so that allocations between the two reads do not
        // count as memory outside the heap.
        let own_memory::Memory { resident, swapped } = own_memory::memory().unwrap_or_default();
        release::saw_swapped(swapped);
        let heap = Heap::read(self.gc);
        let other = PUBLISHED.other_is_at_least(resident - heap.mapped);
        let collections = PUBLISHED.collections();
        // Until a collection tells, all that is used may live.
        let live = if collections.count > self.early {
            collections.live
        } else {
            heap.used
        };
        let guard = PUBLISHED.guard();
        let own = Own {
            resident,
            beside: other,
            needs: live + guard,
            guard,
        };
        let govern = self.governor.step(now(), numbers, own);
        let allowance = govern.process_limit;
        ORDERS.allow(allowance);
        if let Some(report) = govern.report.filter(|_| self.link.is_heard()) {
            self.report(report, heap.extent, live);
        }
        View {
            extent: heap.extent,
            used: heap.used,
            ballast: ballast::held(),
            since: PUBLISHED.since(heap.allocated),
            target: PUBLISHED.target(allowance),
            ceiling: PUBLISHED.ceiling(allowance),
            guard,
            release_to: govern.release_to,
            may_release: govern.may_release,
        }
    }

    /// Shrinks the extent to `goal` if possible, then lets it grow as far as the ceiling allows.
    fn release(&mut self, goal: Bytes, numbers: Granted) {
        let resident = || own_memory::memory().unwrap_or_default().resident;
        let (began, before) = (now(), resident());
        if !inside(self.gc, &mut |gc| release::reclaim(gc, goal)) {
            return;
        }
        let after = resident();
        self.governor.released(began, now(), after);
        self.link.released(before - after);
        if let Act::Grow(bytes) = schedule::decide(&self.look(numbers)) {
            inside(self.gc, &mut |gc| grow(gc, bytes));
        }
    }
}

/// The statistics to report, as far as libgc tells them. The world is stopped during the whole of
/// its collections.
fn statistics(collections: &Collections, extent: Bytes) -> Statistics {
    let pause = |took: Nanos| Some(took.0 / MICROSECOND).filter(|&us| us > 0);
    Statistics {
        heap: Some(extent.0),
        last_pause_us: pause(collections.last),
        longest_pause_us: pause(collections.longest),
        ..Statistics::default()
    }
}
