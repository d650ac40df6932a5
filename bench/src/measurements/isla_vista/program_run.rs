//! One run of one program, and how much memory it is given where memory is short.

use super::collections::{Counted, Logged, Watch};
use super::programs::{LARGEST, Ours, Prepared, Program, load};
use crate::Result;
use crate::harness::best_heap::Search;
use crate::harness::ground::Ground;
use crate::harness::job::{self, Conditions, Ending, Job, Outcome};
use crate::harness::programs::{Jvm, agent, sibling};
use crate::harness::servers::Liberty;
use crate::progress::Progress;
use crate::runner::Runner;
use plimsoll_runtimes::hotspot::agent::LIBRARY;
use plimsoll_unit::MIB;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Memory is short where the default takes this many times as long as with enough: what most of the paper's
/// programs lose (Table 3).
pub(super) const LOSES: f64 = 3.0;
/// One part in so many is tried: of what a program takes more with the largest heap than with the tight one.
const PARTS: [u64; 4] = [3, 6, 12, 1 << 20];
/// Fixed heaps that are tried, from the tight one to the largest, which the default has.
const FIXED: u32 = 6;

/// Time between two looks at whether a server is there.
const PACE: Duration = Duration::from_millis(200);

/// The rule that sizes the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The machine.
    Default,
    /// Isla Vista, with the agent.
    IslaVista,
    /// Isla Vista from outside.
    Outside,
    /// Isla Vista as its paper prints it, with the agent.
    Printed,
    /// The machine, with the maximum heap that is the fastest in the same memory.
    Fixed,
}

impl Rule {
    fn name(self) -> &'static str {
        match self {
            Rule::Default => "default",
            Rule::IslaVista => "isla-vista",
            Rule::Outside => "isla-vista from-outside",
            Rule::Printed => "isla-vista as-printed",
            Rule::Fixed => "best-fixed",
        }
    }

    /// The values of `--policy` and of `--agent`; `None` for the machine's own rule.
    fn steered(self) -> Option<(&'static str, bool)> {
        match self {
            Rule::Default | Rule::Fixed => None,
            Rule::IslaVista => Some(("isla-vista", true)),
            Rule::Outside => Some(("isla-vista", false)),
            Rule::Printed => Some(("isla-vista-printed", true)),
        }
    }
}

/// One way to run one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) program: Program,
    pub(super) jvm: Jvm,
    /// Maximum heap, MiB.
    pub(super) heap: u64,
    /// Whether memory is short.
    pub(super) short: bool,
    pub(super) rule: Rule,
}

impl Case {
    pub(super) fn name(self) -> String {
        let memory = if self.short { "short" } else { "enough" };
        let rule = self.rule.name();
        let (program, jvm) = (self.program.name, self.jvm.name());
        // Without commas, which part the names that `--only` takes.
        format!("{program} {jvm} {} MiB {memory} {rule}", self.heap)
    }

    pub(super) fn is_largest(self) -> bool {
        self.heap == LARGEST
    }

    /// The same under other conditions.
    pub(super) fn like(self, short: bool, rule: Rule) -> Case {
        Case {
            short,
            rule,
            ..self
        }
    }

    /// The four that are compared: with enough memory and with little, by the default and by Isla Vista.
    pub(super) fn four(program: Program, jvm: Jvm, heap: u64) -> [Case; 4] {
        let first = Case {
            program,
            jvm,
            heap,
            short: false,
            rule: Rule::Default,
        };
        [
            first,
            first.like(false, Rule::IslaVista),
            first.like(true, Rule::Default),
            first.like(true, Rule::IslaVista),
        ]
    }

    /// Flags by which the agent counts what it does nothing about: the default's faults in collections, where
    /// it has many.
    fn counted(self) -> Vec<String> {
        let library = sibling(LIBRARY);
        let is_loaded_anyway = self.rule.steered().is_some_and(|(_, agent)| agent);
        if self.short && !is_loaded_anyway {
            vec![format!("-agentpath:{}", library.display())]
        } else {
            Vec::new()
        }
    }
}

/// The outcome of one run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Run {
    /// Whether it ended by itself, with success.
    pub(super) finished: bool,
    /// Whether the kernel killed it for want of memory.
    pub(super) killed: bool,
    pub(super) seconds: f64,
    pub(super) logged: Logged,
    pub(super) counted: Counted,
    /// Major faults.
    pub(super) faults: f64,
    /// The memory that it had if memory was short, bytes.
    pub(super) room: Option<u64>,
    /// The maximum heap of the best fixed one, MiB.
    pub(super) fixed: Option<u64>,
}

impl Run {
    fn of(outcome: &Outcome, longest: f64) -> Run {
        let finished = outcome.ending == Ending::Finished;
        let killed = match &outcome.ending {
            Ending::Killed => true,
            // `plimsoll run` ends with this status if its program is killed.
            Ending::Failed(how) => how.starts_with("exit status: 137"),
            _ => false,
        };
        Run {
            finished,
            killed,
            // A run that was stopped or killed is not better than one that took as long as it could.
            seconds: if finished { outcome.seconds } else { longest },
            faults: outcome.faults as f64,
            ..Run::default()
        }
    }
}

/// Runs cases. Knows how much memory each program is given.
pub(super) struct Stage<'a> {
    ground: Ground,
    runner: &'a Runner,
    ours: Ours,
    /// Seconds after which a run is stopped. It counts as taking that long.
    longest: f64,
}

impl Stage<'_> {
    pub(super) fn new(ground: Ground, longest: f64, runner: &Runner) -> Result<Stage<'_>> {
        Ok(Stage {
            ground,
            runner,
            ours: Ours::compile()?,
            longest,
        })
    }

    /// Runs a case once. Before the first one of a program and machine where memory is short, it measures how
    /// much memory that is; before the first one with the best fixed heap, which one that is.
    pub(super) fn run(&self, case: Case, progress: &Progress) -> Result<Run> {
        let room = if case.short {
            Some(self.room(case)?)
        } else {
            None
        };
        let fixed = match (case.rule, room) {
            (Rule::Fixed, Some(room)) => Some(self.best_fixed(case, room)?),
            _ => None,
        };
        let heap = fixed.unwrap_or(case.heap);
        let run = self.within(Case { heap, ..case }, room, self.longest, progress)?;
        Ok(Run { room, fixed, ..run })
    }

    /// Memory that is short, bytes: as much as the default takes [`LOSES`] times as long in as with enough.
    /// It is at most the use with the tight heap and the first of [`PARTS`] of what the program takes more
    /// with the largest, and at least the use with the tight heap. Less is not tried where the default is
    /// killed.
    fn room(&self, case: Case) -> Result<u64> {
        let name = format!("{} {} room", case.program.name, case.jvm.name());
        self.runner.known(&name, |progress| {
            let by_default = |heap, room: Option<u64>, longest| {
                let case = case.like(room.is_some(), Rule::Default);
                let told = match room {
                    Some(room) => format!("{} MiB of memory", room / MIB),
                    None => format!("what {heap} MiB take"),
                };
                let progress = progress.part(&told);
                self.within(Case { heap, ..case }, room, longest, &progress)
            };
            let tight = by_default(case.program.tight, None, self.longest)?;
            let largest = by_default(LARGEST, None, self.longest)?;
            let takes = [tight, largest].map(|run| run.counted.most);
            let longest = (largest.seconds * LOSES).min(self.longest);
            let mut found = short_of(takes, PARTS[0]);
            for part in PARTS {
                let room = short_of(takes, part);
                let run = by_default(LARGEST, Some(room), longest)?;
                if run.killed {
                    break;
                }
                found = room;
                if !run.finished {
                    break;
                }
            }
            Ok(found)
        })
    }

    /// The maximum heap with which the default is fastest in this memory (bytes), MiB: of [`FIXED`] from the
    /// tight one to the largest. The tight one where no run finishes.
    fn best_fixed(&self, case: Case, room: u64) -> Result<u64> {
        let name = format!("{} {} best fixed", case.program.name, case.jvm.name());
        self.runner.known(&name, |progress| {
            let sizes: Vec<u64> = case.program.heaps(FIXED).collect();
            let search = Search {
                sizes: &sizes,
                longest: self.longest,
                beside: 0.0,
            };
            let best = search.best(|heap, longest| {
                let progress = progress.part(&format!("at most {heap} MiB of heap"));
                let run = self.within(Case { heap, ..case }, Some(room), longest, &progress)?;
                Ok(run.finished.then_some(run.seconds))
            })?;
            Ok(best.unwrap_or(case.program.tight))
        })
    }

    fn within(
        &self,
        case: Case,
        room: Option<u64>,
        longest: f64,
        progress: &Progress,
    ) -> Result<Run> {
        let folder = self.ground.folder();
        let log = folder.join("gc.log");
        let _ = std::fs::remove_file(&log);
        let files = (log.as_path(), folder);
        let Prepared {
            command,
            env,
            server,
        } = case
            .program
            .prepare(case.jvm, case.heap, &case.counted(), &self.ours, files)?;
        let steering = case.rule.steered();
        let job = Job {
            command: match steering {
                None => command,
                Some((policy, is_with_agent)) => steered(command, policy, is_with_agent),
            },
            env: env.into_iter().chain([nobody(folder)]).collect(),
            ..Job::default()
        };
        let conditions = Conditions {
            limit: room,
            longest,
            ..Conditions::default()
        };
        let mut watch = Watch::new(steering.is_some());
        let outcome = served(server.as_ref(), |is_done| {
            job::run_watched(&self.ground, &[job], &conditions, progress, &mut |pids| {
                pids.iter().for_each(|pid| watch.look(*pid));
                Ok(is_done())
            })
        })?;
        let outcome = outcome.into_iter().next();
        let run = outcome.map_or_else(Run::default, |outcome| Run::of(&outcome, longest));
        Ok(Run {
            logged: Logged::of(&std::fs::read_to_string(&log).unwrap_or_default()),
            counted: watch.counted(),
            ..run
        })
    }
}

/// The least size, and one part in `part` of the way to the most, in whole MiB.
fn short_of([least, most]: [u64; 2], part: u64) -> u64 {
    (least + most.saturating_sub(least) / part) / MIB * MIB
}

/// No load was carried out yet; it was; the program has ended.
const BEFORE: u8 = 0;
const DONE: u8 = 1;
const ENDED: u8 = 2;

/// Runs something beside the load of a server. It is told whether the load was carried out; without a server
/// it never is. A load that fails is not: its server has ended, or is stopped when its time is over.
fn served<T>(server: Option<&Liberty>, run: impl FnOnce(&dyn Fn() -> bool) -> T) -> T {
    let state = AtomicU8::new(BEFORE);
    let is = |wanted| state.load(Ordering::Relaxed) == wanted;
    std::thread::scope(|scope| {
        if let Some(server) = server {
            let is = &is;
            let state = &state;
            scope.spawn(move || {
                while !server.is_there() {
                    if is(ENDED) {
                        return;
                    }
                    std::thread::sleep(PACE);
                }
                if load(server).is_ok() {
                    state.store(DONE, Ordering::Relaxed);
                }
            });
        }
        let ran = run(&|| is(DONE));
        state.store(ENDED, Ordering::Relaxed);
        ran
    })
}

/// A Java program under this policy, with the agent or from outside.
pub(super) fn steered(java: Vec<String>, policy: &str, is_with_agent: bool) -> Vec<String> {
    let plimsoll = sibling("plimsoll").display().to_string();
    let agent = agent(is_with_agent);
    let words = ["run", "--policy", policy, "--agent", agent, "--"].map(str::to_owned);
    [plimsoll].into_iter().chain(words).chain(java).collect()
}

/// The variable by which it finds no broker, so that the policy stands alone.
pub(super) fn nobody(folder: &Path) -> (String, String) {
    let socket = folder.join("nobody").join("broker.sock");
    ("PLIMSOLL_SOCKET".to_owned(), socket.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_is_a_part_of_the_way_from_the_least_to_the_most() {
        assert_eq!(short_of([100 * MIB, 202 * MIB], 3), 134 * MIB);
        // One look ten times a second may miss the most.
        assert_eq!(short_of([100 * MIB, 99 * MIB], 3), 100 * MIB);
        assert!(PARTS.is_sorted());
        assert_eq!(short_of([100 * MIB, 1024 * MIB], PARTS[3]), 100 * MIB);
    }

    #[test]
    fn a_run_that_was_killed_is_told_from_one_that_took_too_long() {
        let run = |ending| {
            let outcome = Outcome {
                ending,
                seconds: 7.0,
                resident: 0,
                faults: 0,
                pauses: Default::default(),
                usage: Default::default(),
                printed: 0,
                said: String::new(),
            };
            let run = Run::of(&outcome, 90.0);
            (run.finished, run.killed, run.seconds)
        };
        let ours = "exit status: 137: the program ended with status 137";
        assert_eq!(run(Ending::Finished), (true, false, 7.0));
        assert_eq!(run(Ending::TooLong), (false, false, 90.0));
        assert_eq!(run(Ending::Killed), (false, true, 90.0));
        assert_eq!(run(Ending::Failed(ours.into())), (false, true, 90.0));
    }

    #[test]
    fn without_a_server_no_load_is_done() {
        assert!(!served(None, |is_done| is_done()));
    }

    #[test]
    fn the_agent_counts_where_the_default_is_short_of_memory() {
        let jvm = Jvm {
            version: 17,
            collector: "G1",
        };
        let four = Case::four(super::super::programs::ALL[0], jvm, 224);
        let counted = four.map(|case| !case.counted().is_empty());
        assert_eq!(counted, [false, false, true, false]);
        let fixed = four[0].like(true, Rule::Fixed);
        let printed = four[0].like(true, Rule::Printed);
        assert!(!fixed.counted().is_empty() && printed.counted().is_empty());
    }
}
