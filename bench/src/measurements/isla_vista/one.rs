//! One run of one program, and how much memory it is given where memory is short.

use super::collections::{Counted, Logged, Watch};
use super::programs::{LARGEST, Ours, Prepared, Program, load};
use crate::Result;
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

/// Time between two looks at whether a server is there.
const PACE: Duration = Duration::from_millis(200);

/// What sizes the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The machine.
    Default,
    /// Isla Vista, with the agent.
    IslaVista,
    /// Isla Vista from outside.
    Outside,
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
        let rule = match self.rule {
            Rule::Default => "default",
            Rule::IslaVista => "isla-vista",
            Rule::Outside => "isla-vista from-outside",
        };
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
        match self.short && self.rule != Rule::IslaVista {
            true => vec![format!("-agentpath:{}", library.display())],
            false => Vec::new(),
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
            // What was stopped or killed is not better than what took as long as it could.
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
    /// much memory that is.
    pub(super) fn run(&self, case: Case, progress: &Progress) -> Result<Run> {
        let room = match case.short {
            true => Some(self.room(case)?),
            false => None,
        };
        let run = self.within(case, room, progress)?;
        Ok(Run { room, ..run })
    }

    /// Memory that is short, bytes: what the program takes with the tight heap, and a third of what it takes
    /// more with the largest. With half of that, some hardly page in their collections.
    fn room(&self, case: Case) -> Result<u64> {
        let name = format!("{} {} room", case.program.name, case.jvm.name());
        self.runner.known(&name, |progress| {
            let mut takes = [0; 2];
            for (takes, heap) in takes.iter_mut().zip(case.program.heaps(2)) {
                let by_itself = case.like(false, Rule::Default);
                let progress = progress.part(&format!("what {heap} MiB take"));
                let run = self.within(Case { heap, ..by_itself }, None, &progress)?;
                *takes = run.counted.most;
            }
            Ok(short_of(takes))
        })
    }

    fn within(&self, case: Case, room: Option<u64>, progress: &Progress) -> Result<Run> {
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
        let is_launched = case.rule != Rule::Default;
        let job = Job {
            command: match case.rule {
                Rule::Default => command,
                rule => steered(command, rule == Rule::IslaVista),
            },
            env: env.into_iter().chain([nobody(folder)]).collect(),
            ..Job::default()
        };
        let conditions = Conditions {
            limit: room,
            longest: self.longest,
            ..Conditions::default()
        };
        let mut watch = Watch::new(is_launched);
        let outcome = served(server.as_ref(), |is_done| {
            job::run_watched(&self.ground, &[job], &conditions, progress, &mut |pids| {
                pids.iter().for_each(|pid| watch.look(*pid));
                Ok(is_done())
            })
        })?;
        let outcome = outcome.into_iter().next();
        let run = outcome.map_or_else(Run::default, |outcome| Run::of(&outcome, self.longest));
        Ok(Run {
            logged: Logged::of(&std::fs::read_to_string(&log).unwrap_or_default()),
            counted: watch.counted(),
            ..run
        })
    }
}

/// The least size, and a third of the way to the most, in whole MiB.
fn short_of([least, most]: [u64; 2]) -> u64 {
    (least + most.saturating_sub(least) / 3) / MIB * MIB
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

/// A Java program under Isla Vista, with the agent or from outside.
pub(super) fn steered(java: Vec<String>, is_with_agent: bool) -> Vec<String> {
    let plimsoll = sibling("plimsoll").display().to_string();
    let agent = agent(is_with_agent);
    let words = ["run", "--policy", "isla-vista", "--agent", agent, "--"].map(str::to_owned);
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
    fn short_is_a_third_of_the_way_from_the_least_to_the_most() {
        assert_eq!(short_of([100 * MIB, 202 * MIB]), 134 * MIB);
        // One look ten times a second may miss the most.
        assert_eq!(short_of([100 * MIB, 99 * MIB]), 100 * MIB);
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
    }
}
