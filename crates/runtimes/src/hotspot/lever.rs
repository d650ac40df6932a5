//! The lever of a machine: what it uses, what the controller decides, and how that is carried out.
//!
//! The lever is made of parts. Each has the connections and notes that it alone uses:
//!
//! | module | is |
//! |---|---|
//! | `commands` | sends commands, and counts their time |
//! | `collection` | how collections are asked for |
//! | `moved_flags` | the flags that were set, and their restoration |
//! | `counters` | where the counters are |
//! | `memory` | the memory of the process: heap, native part, swap |
//! | `agent` | the agent in the machine |
//! | `by_stalls` | the limit by the stalls of the process and by the memory that is free |

mod agent;
mod by_stalls;
mod collection;
mod commands;
mod counters;
mod memory;
mod moved_flags;

use super::attach::{Attach, AttachError};
use super::concurrent_work::Beside;
use super::control::{Action, Control, Seen};
use super::machine::Machine;
use super::options::Policy;
use super::sizing_flags::{Levers, SizedBy, Trigger};
use super::snapshot::{Generation, Snapshot};
use super::{NAME, NAME_WITH_AGENT};
use crate::lever::Target;
use crate::lever::{Goal, Lever, Moved, Reach, Refusal, Sample};
use agent::Agent;
use by_stalls::{ByStalls, Look};
use collection::Requests;
use commands::{COMMAND, Commands, Failed};
use counters::Counters;
use memory::{Memory, Use};
use moved_flags::MovedFlags;
use plimsoll_unit::{Bytes, MILLISECOND, Nanos};
use plimsoll_wire::messages::Report;
use std::time::Instant;
use tracing::{debug, info, warn};

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

/// The lever of one machine. Used by one thread.
struct HotSpotLever<'a> {
    /// The machine's process, and the options.
    target: Target<'a>,
    /// Its own words about itself.
    machine: Machine,
    /// How this machine's heap can be sized.
    levers: Levers,
    /// The decisions.
    control: Control,
    /// Sends it commands.
    commands: Commands,
    /// How it is asked for collections.
    requests: Requests,
    /// The flags that were set.
    flags: MovedFlags,
    /// Its counters.
    counters: Counters,
    /// Its memory.
    memory: Memory,
    /// The work of its collector beside the program; `None` for one that works in pauses.
    beside: Option<Beside>,
    /// The limit by stalls; `None` if the user wants the broker's limit alone.
    by_stalls: Option<ByStalls>,
    /// The agent in it.
    agent: Agent,
    /// The last look; `None` if that showed nothing.
    seen: Option<Seen>,
    /// When the steering began.
    started: Instant,
}

impl<'a> HotSpotLever<'a> {
    fn new(target: Target<'a>, attach: Attach, machine: Machine) -> HotSpotLever<'a> {
        let process = target.process;
        let mut levers = Levers::of(&machine);
        let counters = Counters::of(process, &machine);
        if !counters.are_there() && levers.sized_by != SizedBy::SoftMax {
            // A soft maximum works without counters; ratios do not.
            levers.sized_by = SizedBy::Fixed;
        }
        let policy = Policy::of(&target.options.chosen);
        let by_stalls = policy
            .is_by_stalls()
            .then(|| ByStalls::of(policy, process.pid, counters.are_there()));
        let mut lever = HotSpotLever {
            control: Control::new(levers.clone(), target.options.collection_share),
            commands: Commands::to(process, attach),
            requests: Requests::to(process),
            flags: MovedFlags::default(),
            counters,
            memory: Memory::of(process, &machine, &levers),
            beside: (levers.sized_by == SizedBy::SoftMax).then(|| Beside::of(&machine.flags)),
            by_stalls,
            agent: Agent::of(&machine, &target),
            seen: None,
            started: Instant::now(),
            target,
            machine,
            levers,
        };
        lever.load_agent();
        lever.introduce();
        lever
    }

    /// Tells the user what the machine is, and how it can be steered.
    fn introduce(&self) {
        let (pid, machine) = (self.target.process.pid, &self.machine);
        info!(
            "process {pid} is a Java {} virtual machine with {}",
            machine.version, machine.collector
        );
        for remark in &self.levers.remarks {
            // That a machine cannot be steered at all is worth a warning, even without `-v`.
            if self.levers.sized_by == SizedBy::Fixed && !self.agent.empties() {
                warn!("process {pid}: {remark}");
            } else {
                info!("process {pid}: {remark}");
            }
        }
    }

    /// Has the agent loaded into the machine.
    fn load_agent(&mut self) {
        self.agent
            .load(&self.target, &self.commands.attach, &self.machine);
        if self.levers.sized_by == SizedBy::Fixed && self.agent.empties() {
            info!(
                "process {}: the agent gives back what its heap does not use; it is collected above its \
                 limit",
                self.target.process.pid
            );
        }
    }

    /// Looks at the machine, whose memory is to come to `goal`.
    fn look(&mut self, goal: &Goal) -> Option<Seen> {
        let heap = self.heap()?;
        let uses = self.memory.uses()?;
        let now = Nanos::from(self.started.elapsed());
        let touched = self.control.touched(&heap);
        let native = self
            .memory
            .native(uses.whole, touched, heap.committed(), now);
        let limit = self.limit(goal, uses, &heap, now);
        let process = &self.target.process;
        let worked = process.processor().unwrap_or_default();
        if let Some(beside) = &mut self.beside {
            beside.look(process, heap.allocated_last);
        }
        let counts = self.requests.counts();
        let at_bound = self.agent.at_bound().filter(|_| counts);
        let seen = Seen {
            now,
            limit,
            available: goal.available,
            owed: goal.owed,
            uses: uses.whole,
            native,
            processor: worked - self.commands.processor(),
            asked: self.commands.took(),
            major_faults: self.memory.major_faults(),
            beside: self.beside.as_ref().and_then(Beside::as_pauses),
            empties: self.agent.empties(),
            at_bound,
            heap,
            ..Seen::default()
        };
        let by_stalls = self.by_stalls.is_some();
        let seen = self.memory.keeping_free(goal.cliff, by_stalls, seen);
        let leaves = self.control.leaves(&seen);
        let times = seen.at_bound.map(|_| self.control.granted());
        let pid = self.target.process.pid;
        if self.agent.wish(pid, (leaves, native, uses.swapped), times) {
            self.requests.may_have_stopped();
        }
        Some(seen)
    }

    /// The limit that holds; 0 if there is none.
    fn limit(&mut self, goal: &Goal, uses: Use, heap: &Snapshot, now: Nanos) -> Bytes {
        let Some(by_stalls) = &mut self.by_stalls else {
            return goal.limit;
        };
        let look = Look {
            now,
            uses,
            native: self.memory.measured_native(),
            heap,
            used: match self.levers.sized_by {
                // Between two cycles a heap without generations is full of garbage.
                SizedBy::SoftMax => self.control.live(),
                _ => heap.old.used,
            },
            most: max_heap(&self.machine).unwrap_or(Bytes::MAX),
            close: self.control.is_close(),
            page: self.agent.view(),
        };
        by_stalls.limit(goal, look)
    }

    /// The counters of this moment. Without counters the resident heap counts as the whole heap.
    fn heap(&mut self) -> Option<Snapshot> {
        if self.counters.are_there() {
            return self.counters.read(&self.machine);
        }
        let used = self.memory.uses()?.whole - self.memory.measured_native();
        let old = Generation {
            capacity: used,
            max: max_heap(&self.machine).unwrap_or_default(),
            used,
            ..Generation::default()
        };
        Some(Snapshot {
            old,
            ..Snapshot::default()
        })
    }

    /// Carries out the controller's actions in order. Returns whether to measure the native part again.
    fn carry_out(&mut self, actions: &[Action], seen: &Seen) -> Result<bool, Failed> {
        for action in actions {
            match action {
                Action::Set(name, value) => {
                    self.flags.add(name, &self.machine.flags, &self.target);
                    let setting = [*name, &value.to_string()];
                    self.commands.send("setflag", &setting, COMMAND)?;
                }
                Action::Collect => self.collect(self.control.trigger(), seen)?,
                Action::CollectWhole => self.collect(Trigger::Histogram, seen)?,
                Action::TrimNative => {
                    let trim = ["System.trim_native_heap"];
                    self.commands.send("jcmd", &trim, COMMAND)?;
                }
                Action::Measure => {}
            }
        }
        Ok(actions.contains(&Action::Measure))
    }

    fn collect(&mut self, trigger: Trigger, seen: &Seen) -> Result<(), Failed> {
        let (start, before) = (Instant::now(), self.commands.processor());
        if let Some(beside) = &mut self.beside {
            beside.add(&self.target.process);
        }
        let has_agent = self.agent.is_there();
        let done = self
            .requests
            .collect(trigger, has_agent, &mut self.commands);
        if let Some(beside) = &mut self.beside {
            beside.skip(&self.target.process);
        }
        let took = Nanos::from(start.elapsed());
        // On a busy computer the elapsed time includes that of other programs.
        let worked = (self.commands.processor() - before).max(Nanos::millis(10));
        let whole = trigger == Trigger::Histogram;
        self.control
            .collected(took.min(worked), seen.heap.old.used, whole);
        done
    }
}

/// The most that the heap may ever take; `None` if the machine does not tell.
fn max_heap(machine: &Machine) -> Option<Bytes> {
    machine.flags.number("MaxHeapSize").map(Bytes)
}

impl Lever for HotSpotLever<'_> {
    fn name(&self) -> &'static str {
        if self.agent.is_there() {
            NAME_WITH_AGENT
        } else {
            NAME
        }
    }

    fn measure(&mut self) {
        self.memory.measure();
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
            live: known(facts.live.0).filter(|_| is_known),
            allocation_rate: facts.allocation_rate,
            collection_speed: known(facts.collection_speed).filter(|_| is_known),
            demand: Some(facts.demand.0),
            floor: Some(facts.floor.0),
            reaction_ms: known(facts.reaction_ms),
            collections: Some(seen.heap.collections()),
            collection_ms: Some(seen.heap.collecting_time().0 / MILLISECOND),
            stalls: self.by_stalls.as_ref().map(|by| by.within()),
            ..Report::default()
        }
    }

    fn act(&mut self) -> Moved {
        if self.agent.is_due() {
            self.load_agent();
        }
        let Some(seen) = self.seen else {
            return Moved::Nothing;
        };
        let actions = self.control.tick(&seen);
        if self.control.nears_emptying(&seen) && self.agent.is_there() {
            match self.requests.have_counted(&mut self.commands) {
                Ok(()) => {}
                Err(Failed::Gone) => return Moved::Gone,
                Err(Failed::Unanswered(why)) => {
                    return Moved::Unanswered {
                        answered: false,
                        why,
                    };
                }
            }
        }
        if actions.is_empty() {
            return Moved::Nothing;
        }
        debug!("process {}: {actions:?}", self.target.process.pid);
        self.commands.answered = false;
        let done = self.carry_out(&actions, &seen);
        let answered = self.commands.answered;
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
        self.agent.let_go();
        self.requests.speak(&mut self.commands);
        let (attach, pid) = (&self.commands.attach, self.target.process.pid);
        self.flags.restore(&self.machine.flags, attach, pid);
        self.requests.leave_uncounted(&mut self.commands);
    }

    fn describe(&self) -> String {
        self.control.describe()
    }
}
