//! The lever of a machine: what it uses, what the controller decides, and how that is carried out.
//!
//! | module | is |
//! |---|---|
//! | `by_stalls` | the stalls of the process and the memory that is free |
//! | `collection` | collections that are asked for |
//! | `agent` | calls of the agent's library |
//! | `let_go` | what is undone, and noted for it |
//! | `limits` | the limit that holds |

mod agent;
mod by_stalls;
mod collection;
mod let_go;
mod limits;

use super::agent::{Page, Told, Tries};
use super::attach::{Attach, AttachError};
use super::attach_protocol::Reply;
use super::concurrent_work::Beside;
use super::control::{Action, Control, Seen};
use super::footprint;
use super::machine::Machine;
use super::native_growth::Growth;
use super::options::{Policy, gives_touched};
use super::release::Had;
use super::resident_target::Wishes;
use super::sizing_flags::{Levers, SizedBy, Trigger};
use super::snapshot::{Generation, Snapshot};
use super::{NAME, NAME_WITH_AGENT};
use crate::lever::Target;
use crate::lever::{Goal, Lever, Moved, Reach, Refusal, Sample};
use crate::process::Process;
use by_stalls::ByStalls;
use plimsoll_kernel::clock;
use plimsoll_kernel::undo_notes::Note;
use plimsoll_programs::hotspot::hsperfdata::{PerfError, PerfFile};
use plimsoll_unit::MILLISECOND;
use plimsoll_wire::messages::Report;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// How long a command that needs no work may take.
const COMMAND: Duration = Duration::from_secs(5);
/// How long a collection may take.
const COLLECTION: Duration = Duration::from_secs(60);

/// Begins to ask a machine what it is; it may just be starting.
pub(super) fn begin(target: Target<'_>) -> Reach<'_> {
    let mut attach = None;
    Box::new(move || {
        let (attach, machine) = ask(target, &mut attach)?;
        Ok(Box::new(HotSpotLever::new(target, attach, machine)))
    })
}

/// Asks the machine what it is. Keeps the connection data in `before` for the next try.
fn ask(target: Target<'_>, before: &mut Option<Attach>) -> Result<(Attach, Machine), Refusal> {
    let attach = match before.take() {
        Some(known) => known,
        None => Attach::new(target.process).map_err(|error| refusal(&error, false))?,
    };
    match Machine::ask(&attach, COMMAND) {
        Ok(machine) => Ok((attach, machine)),
        Err(error) => {
            let signalled = attach.has_signalled();
            *before = Some(attach);
            Err(refusal(&error, signalled))
        }
    }
}

fn refusal(error: &AttachError, signalled: bool) -> Refusal {
    match error {
        AttachError::Gone { .. } => Refusal::Gone,
        error => Refusal::NotYet {
            why: error.to_string(),
            early: error.is_early(),
            still: matches!(error, AttachError::StandsStill { .. }),
            signalled,
        },
    }
}

/// Why a command was not carried out.
enum Failed {
    /// The machine ended.
    Gone,
    /// It did not answer in time; what to tell the user.
    Unanswered(String),
}

/// How one machine is asked.
#[derive(Debug, Default)]
struct Asking {
    /// Warnings of its log are off, because we collect.
    hushed: bool,
    /// The agent was asked, and did not collect.
    without_agent: bool,
}

/// The lever of one machine. Used by one thread.
struct HotSpotLever<'a> {
    /// The machine's process, and the options.
    target: Target<'a>,
    /// Sends commands to it.
    attach: Attach,
    /// It carried out a command since the move began.
    answered: bool,
    /// Reads its memory.
    gauge: footprint::Gauge,
    /// Its own words about itself.
    machine: Machine,
    /// The work of its collector beside the program; `None` for one that works in pauses.
    beside: Option<Beside>,
    /// Its counters; `None` if it publishes none.
    perf: Option<PerfFile>,
    /// The user was told why there are no counters.
    warned: bool,
    /// How this machine's heap can be sized.
    levers: Levers,
    /// The decisions.
    control: Control,
    /// The limit by stalls; `None` if the user wants the broker's limit alone.
    by_stalls: Option<ByStalls>,
    /// The page of the agent in the machine, if there is one.
    agent: Option<Page>,
    /// The user was told this of it.
    told: Told,
    /// When the machine is asked again to load it.
    tries: Tries,
    /// The bytes that the agent is asked to keep.
    wishes: Wishes,
    /// Why the agent gives nothing back, if the user's settings forbid it.
    kept: Option<&'static str>,
    /// Its memory by parts, as measured last.
    footprint: footprint::Footprint,
    /// Memory that its heap gave up lately.
    returning: footprint::Returning,
    /// Its native memory over time.
    growth: Growth,
    /// How it is asked for collections.
    asking: Asking,
    /// Flags that were set, to be restored.
    moved: BTreeSet<&'static str>,
    /// The values of flags that an adapter that was killed left to be put back.
    had: Had,
    /// The note of the flags to restore if we are killed.
    note: Option<Note>,
    /// Processor time of the machine during requested commands, nanoseconds.
    asked_processor_ns: u64,
    /// Wall-clock time of these commands.
    asked: Duration,
    /// The last look; `None` if that showed nothing.
    seen: Option<Seen>,
    /// When the steering began.
    started: Instant,
}

/// Why the agent is to give nothing back of a heap that was touched in advance.
const TOUCHED: &str =
    "the heap was touched in advance (-XX:+AlwaysPreTouch); --give-back always allows it";

/// The counters of a machine: its file, or else what it keeps in its own memory.
fn counters(process: &Process, machine: &Machine) -> Result<PerfFile, PerfError> {
    let flags = &machine.flags;
    let absent = match PerfFile::open(process) {
        Err(absent @ PerfError::Absent { .. }) if flags.on_or("UsePerfData", true) => absent,
        other => return other,
    };
    let pid = process.pid;
    info!("process {pid} makes no file of its counters: they are searched for in its memory");
    let Some(size) = flags.number("PerfDataMemorySize") else {
        return Err(absent);
    };
    let (perf, searched) = PerfFile::in_memory(process, machine.heap.as_ref(), size)?;
    info!(
        "process {pid}: its counters were found after a look at {} pages",
        searched.pages
    );
    Ok(perf)
}

impl<'a> HotSpotLever<'a> {
    fn new(target: Target<'a>, attach: Attach, machine: Machine) -> HotSpotLever<'a> {
        let mut levers = Levers::of(&machine);
        let perf = match counters(&target.process, &machine) {
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
        let policy = Policy::of(&target.options.chosen);
        let by_stalls = policy
            .is_by_stalls()
            .then(|| ByStalls::of(policy, target.process.pid, perf.is_some()));
        let touched = machine.flags.on("AlwaysPreTouch") && !gives_touched(&target.options.chosen);
        let kept = touched.then_some(TOUCHED);
        let growth = Growth::of(&levers);
        let beside = (levers.sized_by == SizedBy::SoftMax).then(|| Beside::of(&machine.flags));
        let mut lever = HotSpotLever {
            target,
            attach,
            answered: false,
            gauge: footprint::Gauge::new(target.process, machine.collector),
            machine,
            beside,
            perf,
            warned: false,
            control: Control::new(levers.clone(), share),
            levers,
            by_stalls,
            agent: None,
            told: Told::default(),
            tries: Tries::default(),
            wishes: Wishes::default(),
            kept,
            footprint: footprint::Footprint::default(),
            returning: footprint::Returning::default(),
            growth,
            asking: Asking::default(),
            moved: BTreeSet::new(),
            had: Had::new(),
            note: None,
            asked_processor_ns: 0,
            asked: Duration::ZERO,
            seen: None,
            started: Instant::now(),
        };
        lever.load_agent();
        lever.introduce();
        lever
    }

    /// Tells the agent how much of the heap may stay resident at the end of the next collection.
    fn wish(&mut self, seen: &Seen, swapped: u64) {
        let Some(page) = &self.agent else { return };
        // The program may have emptied it. Nothing is wished of an agent that cannot tell anything.
        let Ok(view) = page.view() else { return };
        self.told.look(self.target.process.pid, &view, self.kept);
        if let Some(mut process) = view.process() {
            process.at_ns = page.our_time(process.at_ns);
            self.wishes.look(process, view.about().signal);
        }
        let now_ns = clock::now().0;
        self.wishes.look_at_swap(swapped, now_ns);
        let resident = self
            .wishes
            .resident(now_ns, self.control.leaves(seen), seen.native);
        page.wish(resident.filter(|_| self.kept.is_none()));
    }

    /// Looks at the machine, whose memory is to come to `goal`.
    fn look(&mut self, goal: &Goal) -> Option<Seen> {
        let heap = self.heap()?;
        let (uses, swapped) = self.uses_and_swapped()?;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = ns(self.started.elapsed());
        let native = self.native(uses, &heap, now_ns);
        let limit = self.limit(goal, (uses, swapped), &heap);
        self.growth.look(now_ns, native, heap.committed(), uses);
        let process = &self.target.process;
        let worked = process.processor().unwrap_or_default().0;
        if let Some(beside) = &mut self.beside {
            beside.look(process, heap.allocated_last);
        }
        let seen = Seen {
            now_ns,
            limit,
            available: goal.available,
            owed: goal.owed,
            uses,
            native,
            processor_ns: worked.saturating_sub(self.asked_processor_ns),
            asked_ns: ns(self.asked),
            major_faults: process.major_faults().unwrap_or(0),
            beside_ns: self.beside.as_ref().and_then(Beside::as_pauses_ns),
            empties: self.empties(),
            heap,
            ..Seen::default()
        };
        let seen = self.keeping_free(goal.cliff, seen);
        self.wish(&seen, swapped);
        Some(seen)
    }

    /// `seen` with what is kept free below its limit.
    fn keeping_free(&self, cliff: Option<u64>, seen: Seen) -> Seen {
        let Some(capacity) = cliff else {
            return seen;
        };
        let limit = seen.limit;
        let ample = match self.by_stalls {
            Some(_) => 0,
            None => self.growth.ample(limit, capacity),
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
    /// the measured heap tells more. Memory that the heap gave up a moment ago is not native.
    fn native(&mut self, uses: u64, heap: &Snapshot, now_ns: u64) -> u64 {
        let touched = self.control.touched(heap).max(self.footprint.heap);
        let heap = self.returning.look(touched.min(heap.committed()), now_ns);
        self.footprint.native.max(uses.saturating_sub(heap))
    }

    /// Whether an agent gives back what is above the limit.
    fn empties(&self) -> bool {
        let view = self.agent.as_ref().and_then(|page| page.view().ok());
        self.kept.is_none() && view.is_some_and(|view| view.refusal().is_none())
    }

    /// The bytes that the machine would use if none of its heap was in swap, and those that are in swap.
    /// Swapped heap is still the machine's memory, and a collection that shrinks the heap brings it back or
    /// drops it.
    fn uses_and_swapped(&self) -> Option<(u64, u64)> {
        let (resident, swapped) = self.gauge.uses_and_swapped().ok()?;
        let heap_swapped = swapped.saturating_sub(self.footprint.native_swapped);
        Some((resident.saturating_add(heap_swapped), swapped))
    }

    /// The counters of this moment. Without counters the resident heap counts as the whole heap.
    fn heap(&mut self) -> Option<Snapshot> {
        let Some(perf) = &mut self.perf else {
            let max = self.machine.flags.number("MaxHeapSize").unwrap_or(0);
            let (uses, _) = self.uses_and_swapped()?;
            let used = uses.saturating_sub(self.footprint.native);
            let old = Generation {
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
            Err(PerfError::Unfinished { .. } | PerfError::Gone { .. }) => None,
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    warn!("{error}; it is not steered while this lasts");
                }
                if matches!(error, PerfError::Unreadable { .. }) {
                    self.perf = counters(&self.target.process, &self.machine).ok();
                }
                None
            }
        }
    }

    /// Carries out the controller's actions in order. Returns whether to measure the native part again.
    fn carry_out(&mut self, actions: &[Action], seen: &Seen) -> Result<bool, Failed> {
        for action in actions {
            match action {
                Action::Set(name, value) => {
                    self.moves(name);
                    self.ask("setflag", &[name, &value.to_string()], COMMAND)?;
                }
                Action::Collect => self.collect(self.control.trigger(), seen)?,
                Action::CollectWhole => self.collect(Trigger::Histogram, seen)?,
                Action::TrimNative => {
                    self.ask("jcmd", &["System.trim_native_heap"], COMMAND)?;
                }
                Action::Measure => {}
            }
        }
        Ok(actions.contains(&Action::Measure))
    }

    fn collect(&mut self, trigger: Trigger, seen: &Seen) -> Result<(), Failed> {
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

    fn ask(&mut self, name: &str, arguments: &[&str], timeout: Duration) -> Result<Reply, Failed> {
        let (start, before) = (Instant::now(), self.target.process.processor());
        let answer = self.attach.command(name, arguments, timeout);
        self.asked += start.elapsed();
        let after = self.target.process.processor();
        self.asked_processor_ns += before.zip(after).map_or(0, |(b, a)| (a - b).0);
        match answer {
            Ok(reply) => {
                if reply.code != 0 {
                    debug!("{name} {arguments:?} was refused: {}", reply.text.trim());
                }
                self.answered = true;
                Ok(reply)
            }
            Err(AttachError::Gone { .. }) => Err(Failed::Gone),
            Err(error) => Err(Failed::Unanswered(error.to_string())),
        }
    }
}

impl Lever for HotSpotLever<'_> {
    fn name(&self) -> &'static str {
        match self.agent {
            Some(_) => NAME_WITH_AGENT,
            None => NAME,
        }
    }

    fn measure(&mut self) {
        let measured = footprint::measure(&self.target.process, self.machine.heap.as_ref());
        self.footprint = measured.unwrap_or(self.footprint);
    }

    fn sample(&mut self, goal: &Goal) -> Option<Sample> {
        self.seen = self.look(goal);
        let seen = self.seen.as_ref()?;
        Some(Sample {
            uses: seen.uses,
            limit: seen.limit,
            heap: seen.heap.committed(),
            collections: seen.heap.collections(),
            rests: self.control.rests(),
        })
    }

    fn facts(&self) -> Report {
        let Some(seen) = &self.seen else {
            return Report::default();
        };
        let facts = self.control.facts(seen);
        let known = |value: u64| (value > 0).then_some(value);
        let is_known = facts.allocation_rate.is_some();
        Report {
            live: known(facts.live).filter(|_| is_known),
            allocation_rate: facts.allocation_rate,
            collection_speed: known(facts.collection_speed).filter(|_| is_known),
            demand: Some(facts.demand),
            floor: Some(facts.floor),
            reaction_ms: known(facts.reaction_ms),
            collections: Some(seen.heap.collections()),
            collection_ms: Some(seen.heap.collection_ns() / MILLISECOND),
            stalls: self.by_stalls.as_ref().map(|by| by.feedback.within()),
            ..Report::default()
        }
    }

    fn act(&mut self) -> Moved {
        if self.tries.is_due(Instant::now()) {
            self.load_agent();
        }
        let Some(seen) = self.seen else {
            return Moved::Nothing;
        };
        let actions = self.control.tick(&seen);
        if actions.is_empty() {
            return Moved::Nothing;
        }
        debug!("process {}: {actions:?}", self.target.process.pid);
        self.answered = false;
        let done = self.carry_out(&actions, &seen);
        let answered = self.answered;
        let collects = [Action::Collect, Action::CollectWhole];
        match done {
            Ok(measure) => Moved::Done {
                answered,
                measure,
                again: actions.iter().any(|action| collects.contains(action)),
            },
            Err(Failed::Unanswered(why)) => Moved::Unanswered { answered, why },
            Err(Failed::Gone) => Moved::Gone,
        }
    }

    fn restore(&mut self) {
        self.let_go();
    }

    fn describe(&self) -> String {
        self.control.describe()
    }
}
