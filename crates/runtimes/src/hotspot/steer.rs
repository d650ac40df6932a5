//! The steering loop: looks at the machine, asks the controller, carries out its actions, reports.

mod helper;
mod hush;
mod let_go;
mod limits;

use super::agent::{self, Page, Told, Tries};
use super::attach::{Attach, AttachError};
use super::beside::Beside;
use super::control::{Action, Control, Seen};
use super::footprint;
use super::greet::{COMMAND, IDLE, alone, greet};
use super::isla_vista::Feedback;
use super::levers::{Levers, SizedBy, Trigger};
use super::machine::{Collector, Machine};
use super::release::Had;
use super::silence::{LEFT_ALONE, Silence};
use super::snapshot::Snapshot;
use super::stalls::Signal;
use super::surprise::Growth;
use super::wish::Wishes;
use super::{NAME, NAME_WITH_AGENT};
use crate::family;
use crate::link::{Ended, Link};
use crate::runtime::Target;
use plimsoll_kernel::capacity::Domain;
use plimsoll_kernel::clock::{now_ns, thread_cpu_ns};
use plimsoll_kernel::notes::Note;
use plimsoll_programs::hotspot::hsperfdata::{PerfError, PerfFile};
use plimsoll_programs::hotspot::is_machine;
use plimsoll_wire::messages::Report;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// How long a collection may take.
const COLLECTION: Duration = Duration::from_secs(60);
/// The pause between two looks while something changes.
const BUSY: Duration = Duration::from_millis(100);
/// The pause where an excess ends the program. Native memory that grows by 200 MB/s takes only 10
/// MB in this time.
const CLIFF: Duration = Duration::from_millis(50);
/// The least pause between two measurements of the native part.
const FOOTPRINT: Duration = Duration::from_secs(2);
/// Measurements take at most one part in this many of the time.
const FOOTPRINT_PART: u32 = 800;
/// The pause between two reports.
const REPORT: Duration = Duration::from_secs(1);
/// The same when the program works much more or less than was reported.
const TURN: Duration = Duration::from_millis(300);
/// How long figures of the collector are not reported, because a machine behaves differently while
/// it starts.
const STARTING: Duration = Duration::from_secs(2);

/// Steers one Java virtual machine.
pub(super) fn steer(target: &Target<'_>, link: &mut dyn Link) -> Ended {
    let _hold = match alone(&target.process, link) {
        Ok(hold) => hold,
        Err(ended) => return ended,
    };
    let (attach, machine) = match greet(&target.process, link) {
        Ok(found) => found,
        Err(ended) => return ended,
    };
    let levers = Levers::of(&machine);
    let pid = target.process.pid;
    info!(
        "process {pid} is a Java {} virtual machine with {}",
        machine.version, machine.collector
    );
    for remark in &levers.remarks {
        // That a machine cannot be steered at all is worth a warning, even without `-v`.
        match levers.sized_by {
            SizedBy::Fixed => warn!("process {pid}: {remark}"),
            _ => info!("process {pid}: {remark}"),
        }
    }
    let mut steering = Loop::new(*target, attach, machine, levers);
    if !steering.has_agent(link) {
        link.steered_by(Some(NAME));
    }
    let ended = steering.run(link);
    link.steered_by(None);
    ended
}

/// The state of the loop for one machine. Used by one thread.
struct Loop<'a> {
    /// The machine's process, and the options.
    target: Target<'a>,
    /// Sends commands to it.
    attach: Attach,
    /// Reads its memory.
    gauge: footprint::Gauge,
    /// What it said of itself.
    machine: Machine,
    /// The work of its collector beside the program; `None` for one that works in pauses.
    beside: Option<Beside>,
    /// Its counters; `None` if it publishes none.
    perf: Option<PerfFile>,
    /// How this machine's heap can be sized.
    levers: Levers,
    /// The decisions.
    control: Control,
    /// The limit by stalls, and their signal; `None` if the user wants the broker's limit alone.
    feedback: Option<(Feedback, Signal)>,
    /// The page of the agent in the machine, if there is one.
    agent: Option<Page>,
    /// What the user was told of it.
    told: Told,
    /// When the machine is asked again to load it.
    tries: Tries,
    /// What the agent is asked to keep.
    wishes: Wishes,
    /// Its memory by parts, as measured last.
    footprint: footprint::Footprint,
    /// Its native memory over time.
    growth: Growth,
    /// The process has become another program.
    replaced: bool,
    /// What there is for all programs of the computer or the group, bytes, if nothing can be paged out
    /// there.
    cliff: Option<u64>,
    /// Bytes that the program's other processes use; taken off the limit.
    others: u64,
    /// When the native part was last measured.
    measured: Option<Instant>,
    /// The pause between two measurements; longer if a measurement takes long.
    measure_pause: Duration,
    /// The last report to the broker.
    reported: Option<(Instant, Report)>,
    /// Commands that failed.
    silence: Silence,
    /// Warnings of the machine's log are off, because we collect.
    hushed: bool,
    /// Flags that were set, to be restored.
    moved: BTreeSet<&'static str>,
    /// What an adapter that was killed left to be put back.
    had: Had,
    /// What has to be restored if we are killed.
    note: Option<Note>,
    /// Processor time of the machine during requested commands, nanoseconds.
    asked_processor_ns: u64,
    /// Wall-clock time of these commands.
    asked: Duration,
    /// The user was told why there are no counters.
    warned: bool,
    /// Whether the program rested at the last look.
    rests: bool,
    /// What was seen at the last look.
    last: Option<Seen>,
    /// When the steering began, for messages.
    started: Instant,
}

/// What sizes the heap of a process by its own stalls; `counted`: whether its collections are counted.
fn by_stalls_of(pid: u32, machine: &Machine, counted: bool) -> (Feedback, Signal) {
    let (signal, told) = Signal::open(pid);
    for line in told {
        info!("process {pid}, stalls: {line}");
    }
    if !counted {
        warn!(
            "process {pid}: when it collects is not known without counters, so stalls do not size its heap"
        );
    }
    let ratio = machine.flags.number("GCTimeRatio");
    let held = ratio.is_some_and(|ratio| ratio <= 1);
    (
        Feedback::new(machine.collector == Collector::G1 && held),
        signal,
    )
}

impl<'a> Loop<'a> {
    fn new(target: Target<'a>, attach: Attach, machine: Machine, mut levers: Levers) -> Loop<'a> {
        let perf = match PerfFile::open(&target.process) {
            Ok(perf) => Some(perf),
            Err(error) => {
                // A soft maximum works without counters; ratios do not.
                if levers.sized_by != SizedBy::SoftMax {
                    levers.sized_by = SizedBy::Fixed;
                }
                warn!("{error}");
                None
            }
        };
        let share = target.options.collection_share;
        let by_stalls = target.options.policy.is_by_stalls();
        let feedback =
            by_stalls.then(|| by_stalls_of(target.process.pid, &machine, perf.is_some()));
        let growth = Growth::of(&levers);
        let beside = (levers.sized_by == SizedBy::SoftMax).then(|| Beside::of(&machine.flags));
        Loop {
            target,
            attach,
            gauge: footprint::Gauge::new(target.process, machine.collector),
            machine,
            beside,
            perf,
            control: Control::new(levers.clone(), share),
            levers,
            feedback,
            agent: None,
            told: Told::default(),
            tries: Tries::default(),
            wishes: Wishes::default(),
            footprint: footprint::Footprint::default(),
            growth,
            replaced: false,
            cliff: None,
            others: 0,
            measured: None,
            measure_pause: FOOTPRINT,
            reported: None,
            silence: Silence::default(),
            hushed: false,
            moved: BTreeSet::new(),
            had: Had::new(),
            note: None,
            asked_processor_ns: 0,
            asked: Duration::ZERO,
            warned: false,
            rests: false,
            last: None,
            started: Instant::now(),
        }
    }

    fn run(&mut self, link: &mut dyn Link) -> Ended {
        loop {
            if link.stopped() {
                self.let_go();
                return Ended::Stopped;
            }
            if self.replaced || !self.target.process.alive() {
                return Ended::ProgramGone;
            }
            let pause = self.step(link);
            link.wait(pause);
        }
    }

    /// Looks once and acts. Returns how long to wait before the next look.
    fn step(&mut self, link: &mut dyn Link) -> Duration {
        if self
            .measured
            .is_none_or(|at| at.elapsed() >= self.measure_pause)
        {
            self.measure();
        }
        let Some(mut seen) = self.look(link) else {
            return IDLE;
        };
        self.report(link, &seen);
        self.wish(&seen);
        let worked = self.target.process.processor_ns();
        if self.silence.keeps_away(worked, Instant::now()) {
            return IDLE;
        }
        if self.tries.is_due(Instant::now()) {
            self.has_agent(link);
        }
        // Some actions need another look at once. The number of looks is bounded.
        for _ in 0..8 {
            let actions = self.control.tick(&seen);
            if actions.is_empty() || link.stopped() {
                break;
            }
            let before = seen;
            if !self.act(&actions, &seen) {
                break;
            }
            match self.look(link) {
                Some(next) => seen = next,
                None => break,
            }
            debug!(
                "process {} at {:.1} s: {actions:?}: uses {} -> {} MiB, heap {} -> {} MiB, limit {} MiB ({})",
                self.target.process.pid,
                self.started.elapsed().as_secs_f64(),
                before.uses >> 20,
                seen.uses >> 20,
                before.heap.committed() >> 20,
                seen.heap.committed() >> 20,
                seen.limit >> 20,
                self.control.describe(),
            );
            if seen.owed > 0 || before.uses > before.limit {
                link.released(before.uses.saturating_sub(seen.uses));
            }
            let collects = [Action::Collect, Action::CollectWhole];
            if !actions.iter().any(|action| collects.contains(action)) {
                break;
            }
        }
        let calm = self.last.is_some_and(|l| {
            l.heap.collections() == seen.heap.collections()
                && l.limit == seen.limit
                && seen.uses <= seen.limit
        });
        self.last = Some(seen);
        match (self.cliff.is_some(), calm) {
            (true, _) => CLIFF,
            (false, true) => IDLE / 2,
            (false, false) => BUSY,
        }
    }

    /// Tells the agent how much of the heap may stay resident at the end of the next collection.
    fn wish(&mut self, seen: &Seen) {
        let Some(page) = &self.agent else { return };
        // The program may have emptied it. Nothing is wished of an agent that cannot tell anything.
        let Ok(view) = page.view() else { return };
        self.told.look(self.target.process.pid, &view);
        if let Some(mut process) = view.process() {
            process.at_ns = page.our_time(process.at_ns);
            self.wishes.look(process, view.about().signal);
        }
        let now_ns = now_ns();
        if let Ok((_, swapped)) = self.gauge.uses_and_swapped() {
            self.wishes.look_at_swap(swapped, now_ns);
        }
        page.wish(self.wishes.resident(now_ns, seen.limit, seen.native));
    }

    fn look(&mut self, link: &mut dyn Link) -> Option<Seen> {
        let numbers = link.numbers().filter(|n| n.limit > 0);
        let heap = self.heap()?;
        let uses = self.uses()?;
        let others = self.others;
        let own = |bytes| aim(bytes).saturating_sub(others).max(1);
        let granted = numbers.map_or(0, |n| own(n.limit));
        let native = self.native(uses, &heap);
        let owed = numbers.map_or(0, |n| n.owed);
        let limit = self.limit(granted, owed, uses, &heap);
        let available = numbers.map_or(0, |n| own(n.available.max(n.limit)));
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = ns(self.started.elapsed());
        self.growth.look(now_ns, native, heap.committed(), uses);
        let process = &self.target.process;
        let worked = process.processor_ns();
        if let Some(beside) = &mut self.beside {
            beside.look(process, heap.allocated_last);
        }
        let seen = Seen {
            now_ns,
            limit,
            available,
            owed,
            uses,
            native,
            processor_ns: worked.unwrap_or(0).saturating_sub(self.asked_processor_ns),
            asked_ns: ns(self.asked),
            major_faults: process.major_faults().unwrap_or(0),
            beside_ns: self.beside.as_ref().and_then(Beside::as_pauses_ns),
            empties: self.empties(),
            heap,
            ..Seen::default()
        };
        Some(self.keeping_free(limit, seen))
    }

    /// `seen` with what is kept free below `limit`.
    fn keeping_free(&self, limit: u64, seen: Seen) -> Seen {
        let Some(capacity) = self.cliff else {
            return seen;
        };
        let felt = self.feedback.as_ref();
        let by_stalls = felt.is_some_and(|(feedback, _)| feedback.size().is_some());
        let ample = if by_stalls {
            0
        } else {
            self.growth.ample(limit, capacity)
        };
        Seen {
            spare: self.growth.spare(limit),
            ample,
            kept: self.growth.kept(limit),
            ..seen
        }
    }

    /// The native part, bytes. It may have grown since it was measured: what the heap cannot have touched
    /// must be native. Much of a heap with generations is committed long before it is touched, so there
    /// the measured heap tells more.
    fn native(&self, uses: u64, heap: &Snapshot) -> u64 {
        let touched = self.control.touched(heap).max(self.footprint.heap);
        let heap = touched.min(heap.committed());
        self.footprint.native.max(uses.saturating_sub(heap))
    }

    /// Whether an agent gives back what is above the limit.
    fn empties(&self) -> bool {
        let view = self.agent.as_ref().and_then(|page| page.view().ok());
        view.is_some_and(|view| view.refusal().is_none())
    }

    /// The bytes that the machine would use if none of its heap was in swap. Swapped heap is still
    /// the machine's memory, and a collection that shrinks the heap brings it back or drops it.
    fn uses(&self) -> Option<u64> {
        let (resident, swapped) = self.gauge.uses_and_swapped().ok()?;
        let heap_swapped = swapped.saturating_sub(self.footprint.native_swapped);
        Some(resident.saturating_add(heap_swapped))
    }

    /// The counters of this moment. Without counters the resident heap counts as the whole heap.
    fn heap(&mut self) -> Option<Snapshot> {
        let Some(perf) = &mut self.perf else {
            let max = self.machine.flags.number("MaxHeapSize").unwrap_or(0);
            let uses = self.uses()?;
            let used = uses.saturating_sub(self.footprint.native);
            let old = super::snapshot::Generation {
                capacity: used,
                max,
                used,
                ..Default::default()
            };
            return Some(Snapshot {
                old,
                ..Snapshot::default()
            });
        };
        match perf.read() {
            Ok(counters) => Some(Snapshot::of(counters)),
            Err(PerfError::Unfinished { .. }) => None,
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    warn!("{error}; it is not steered while this lasts");
                }
                if matches!(error, PerfError::Unreadable { .. }) {
                    self.perf = PerfFile::open(&self.target.process).ok();
                }
                None
            }
        }
    }

    fn measure(&mut self) {
        // On a busy computer the elapsed time includes that of other programs.
        let start = thread_cpu_ns();
        if let Ok(footprint) = footprint::measure(&self.target.process, self.machine.heap.as_ref())
        {
            self.footprint = footprint;
        }
        let pid = i32::try_from(self.target.process.pid).unwrap_or(-1);
        let cliff = Domain::of_process(pid).and_then(|mut domain| {
            let is_cliff = domain.is_cliff()?;
            Ok(is_cliff.then_some(domain.read()?.lowest))
        });
        self.cliff = cliff.unwrap_or(self.cliff);
        self.replaced = self.target.process.alive() && !is_machine(&self.target.process);
        self.others = family::uses_of_others(self.target.root, self.target.process.pid);
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(start));
        self.measure_pause = FOOTPRINT.max(took * FOOTPRINT_PART);
        self.measured = Some(Instant::now());
    }

    /// Carries out the controller's actions in order. `false` if the machine did not answer.
    fn act(&mut self, actions: &[Action], seen: &Seen) -> bool {
        for action in actions {
            let done = match action {
                Action::Set(name, value) => {
                    self.moves(name);
                    self.ask("setflag", &[name, &value.to_string()], COMMAND)
                }
                Action::Collect => self.collect(self.control.trigger(), seen),
                Action::CollectWhole => self.collect(Trigger::Histogram, seen),
                Action::TrimNative => self.ask("jcmd", &["System.trim_native_heap"], COMMAND),
                Action::Measure => {
                    // Do not measure each time: a machine that cannot shrink stays over its limit
                    // for long.
                    let fresh = |at: Instant| at.elapsed() * 4 < self.measure_pause;
                    if !self.measured.is_some_and(fresh) {
                        self.measure();
                    }
                    true
                }
            };
            if !done {
                return false;
            }
        }
        true
    }

    fn collect(&mut self, trigger: Trigger, seen: &Seen) -> bool {
        let (start, before) = (Instant::now(), self.asked_processor_ns);
        if let Some(beside) = &mut self.beside {
            beside.add(&self.target.process);
        }
        let done = self.ask_for_collection(trigger);
        if let Some(beside) = &mut self.beside {
            beside.skip(&self.target.process);
        }
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // On a busy computer the elapsed time includes that of other programs.
        let worked = (self.asked_processor_ns - before).max(10_000_000);
        let whole = trigger == Trigger::Histogram;
        self.control
            .collected(took.min(worked), seen.heap.old.used, whole);
        done
    }

    fn ask(&mut self, name: &str, arguments: &[&str], timeout: Duration) -> bool {
        let (start, before) = (Instant::now(), self.target.process.processor_ns());
        let answer = self.attach.command(name, arguments, timeout);
        self.asked += start.elapsed();
        let after = self.target.process.processor_ns();
        self.asked_processor_ns += before.zip(after).map_or(0, |(b, a)| a.saturating_sub(b));
        match answer {
            Ok(reply) => {
                if reply.code != 0 {
                    debug!("{name} {arguments:?} was refused: {}", reply.text.trim());
                }
                self.silence.broken();
                true
            }
            Err(AttachError::Gone { .. }) => false,
            Err(error) => {
                if self.silence.goes_on(after, Instant::now()) {
                    warn!(
                        "{error}; it is left alone and asked again every {} s, or when it goes on",
                        LEFT_ALONE.as_secs()
                    );
                }
                false
            }
        }
    }

    fn report(&mut self, link: &mut dyn Link, seen: &Seen) {
        let rests = self.control.rests();
        let turned = std::mem::replace(&mut self.rests, rests) != rests;
        let facts = self.control.facts(seen);
        let lately = |(at, last): &(Instant, Report)| {
            let pause = match turns(last.allocation_rate, facts.allocation_rate) {
                true => TURN,
                false => REPORT,
            };
            at.elapsed() < pause
        };
        if !turned && self.reported.as_ref().is_some_and(lately) {
            return;
        }
        let known = |value: u64| (value > 0).then_some(value);
        debug!(
            "process {}: {facts:?}, in pauses {} ms, beside the program as much as {:?} ms",
            self.target.process.pid,
            seen.heap.collection_ns() / 1_000_000,
            seen.beside_ns.map(|ns| ns / 1_000_000)
        );
        let settled = self.started.elapsed() >= STARTING && facts.allocation_rate.is_some();
        let report = Report {
            live: known(facts.live).filter(|_| settled),
            allocation_rate: facts.allocation_rate.filter(|_| settled),
            collection_speed: known(facts.collection_speed).filter(|_| settled),
            demand: Some(facts.demand.saturating_add(self.others)),
            floor: Some(facts.floor.saturating_add(self.others)),
            reaction_ms: known(facts.reaction_ms),
            collections: Some(seen.heap.collections()),
            collection_ms: Some(seen.heap.collection_ns() / 1_000_000),
            stalls: self.feedback.as_ref().map(|(felt, _)| felt.within()),
            ..Report::default()
        };
        if self
            .reported
            .as_ref()
            .is_none_or(|(_, last)| *last != report)
        {
            link.report(&report);
        }
        self.reported = Some((Instant::now(), report));
    }
}

/// Whether a program allocates more than twice as fast as reported, or less than half as fast.
fn turns(told: Option<u64>, now: Option<u64>) -> bool {
    let pair = told.zip(now);
    pair.is_some_and(|(told, now)| now / 2 > told || told / 2 > now)
}

/// The size to aim at, a little below the limit: a collection, a new thread or a mapped file moves
/// the use by as much, and a program over its limit owes memory. Bytes.
fn aim(limit: u64) -> u64 {
    limit - limit / 64
}
