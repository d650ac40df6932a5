//! Programs in a limit without swap, where the kernel kills a program that exceeds it. A program that
//! survives alone must survive under the broker too, and do as much work. So must several programs in one
//! limit, which grow at the same time.

use super::hotspot::{COLLECTORS, jvms};
use crate::harness::broker::Broker;
use crate::harness::ground::Ground;
use crate::harness::java::{Classes, read_ahead};
use crate::harness::job::{Conditions, Ending, Job, Outcome, run};
use crate::harness::programs::{Jvm, agent, made, sibling};
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Elsewhere, Runner, V2, Variant};
use crate::{Error, Result};
use plimsoll_client::{Connection, Socket};
use plimsoll_testbed::children::signal;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Limits of the containers, MiB.
const LIMITS: [u64; 3] = [256, 512, 1024];
/// The limit of those that also run in a guest, MiB.
const GUEST_LIMIT: u64 = 256;
/// Number of programs that are measured at the same time. Each runs in three places, and takes less than half
/// a processor in each.
const LANES: usize = 2;
/// Seconds that a program runs, and seconds after which it is killed.
const SECONDS: u32 = 6;
const LONGEST: f64 = 30.0;
/// Percent of the limit that is live data, and megabytes of arrays that are replaced per second.
const LIVE: u64 = 10;
const RATE: u64 = 150;

/// Several programs in one limit: their number, the limit in MiB, and the megabytes that live in each.
/// Alone, those with Serial of JDK 17 just live there.
const CROWD: usize = 5;
const CROWDED: u64 = 1024;
const CROWD_LIVE: u64 = 30;

/// The work of the program besides replacing arrays.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    words: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "steady",
        words: &["steady"],
    },
    Kind {
        name: "native",
        words: &["native", "150"],
    },
    Kind {
        name: "burst",
        words: &["burst"],
    },
];

/// The work of each program of a crowd.
const GROWS: Kind = Kind {
    name: "native",
    words: &["native", "90"],
};

/// The place in which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Alone,
    /// `plimsoll run` in the container starts a broker in it.
    Inside,
    /// The broker serves the whole machine.
    Outside,
}

const PLACES: [Where; 3] = [Where::Alone, Where::Inside, Where::Outside];

/// The outcomes of all programs of a case, by place.
type Round = [Vec<Outcome>; 3];

/// The outcomes of the runs in one place.
#[derive(Clone, Debug, Default)]
struct Runs {
    lived: Vec<bool>,
    /// How many the kernel killed. Others that did not live failed by themselves.
    killed: usize,
    work: Vec<f64>,
}

impl Runs {
    /// Sorts the outcomes of all rounds by place.
    fn of(rounds: &[Round]) -> [Runs; 3] {
        let mut all = PLACES.map(|_| Runs::default());
        for round in rounds {
            for (runs, outcomes) in all.iter_mut().zip(round) {
                outcomes.iter().for_each(|outcome| runs.note(outcome));
            }
        }
        all
    }

    fn note(&mut self, outcome: &Outcome) {
        let lived = outcome.ending == Ending::Finished;
        self.lived.push(lived);
        self.killed += usize::from(outcome.ending == Ending::Killed);
        if lived {
            self.work.push(outcome.told("work").unwrap_or(0) as f64);
        }
    }

    fn lived(&self) -> usize {
        self.lived.iter().filter(|lived| **lived).count()
    }

    /// Those that did not come to their end.
    fn died(&self) -> usize {
        self.lived.len() - self.lived()
    }

    /// Median work of the runs that survived.
    fn median(&self) -> f64 {
        spread(&self.work).median
    }
}

/// The runtime that manages the memory of a program.
#[derive(Clone, Copy, Debug)]
enum Runtime {
    Java(Jvm),
    /// The system's libgc alone; our drop-in under the broker.
    Libgc,
}

/// One program in one limit, or several of a kind.
#[derive(Clone, Copy, Debug)]
struct Case {
    runtime: Runtime,
    kind: Kind,
    /// MiB, as is what lives.
    limit: u64,
    live: u64,
    programs: usize,
    /// Whether our agent is loaded into it, under the broker.
    agent: bool,
    /// Whether it runs in a guest with cgroup version 2.
    elsewhere: bool,
}

impl Case {
    fn name(&self) -> String {
        let runtime = match self.runtime {
            Runtime::Java(jvm) => jvm.name(),
            Runtime::Libgc => "libgc".to_owned(),
        };
        let agent = if self.agent { ", agent" } else { "" };
        let guest = if self.elsewhere { V2 } else { "" };
        let each = match self.programs {
            1 => String::new(),
            programs => format!(", each of {programs}"),
        };
        format!("{runtime} {}{each}{agent}{guest}", self.kind.name)
    }

    fn command(&self, classes: &Path) -> Vec<String> {
        let mut command = match self.runtime {
            Runtime::Java(jvm) => {
                let mut command = vec![jvm.java()];
                command.extend(jvm.choice());
                // By default Java bounds direct memory by the size of the heap. Here only the container is to
                // bound it.
                command.push("-XX:MaxDirectMemorySize=200m".to_owned());
                command.extend(["-cp".to_owned(), classes.display().to_string()]);
                command.push("Container".to_owned());
                command
            }
            Runtime::Libgc => vec![made("container")],
        };
        command.extend([self.live, RATE, u64::from(SECONDS)].map(|n| n.to_string()));
        command.extend(self.kind.words.iter().map(|word| (*word).to_owned()));
        command
    }

    /// Runs it in all places, each a container of its own: at the same time, so that disturbances on the
    /// machine affect all places alike; several programs one place after the other.
    fn run_everywhere(&self, grounds: &[Ground; 3], classes: &Path) -> Result<Round> {
        if self.programs > 1 {
            let [alone, inside, outside] =
                [0, 1, 2].map(|at| self.run(&grounds[at], PLACES[at], classes));
            return Ok([alone?, inside?, outside?]);
        }
        std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|at| {
                let (place, ground) = (PLACES[at], &grounds[at]);
                scope.spawn(move || self.run(ground, place, classes))
            });
            let ended = |_| Err(Error::Panicked("a run"));
            let [alone, inside, outside] = threads.map(|one| one.join().unwrap_or_else(ended));
            Ok([alone?, inside?, outside?])
        })
    }

    fn run(&self, ground: &Ground, place: Where, classes: &Path) -> Result<Vec<Outcome>> {
        let mut command = self.command(classes);
        let mut env = BTreeMap::new();
        let broker = match place {
            Where::Outside => Some(Broker::start(ground.folder(), None)?),
            Where::Alone | Where::Inside => None,
        };
        let socket = match &broker {
            Some(broker) => broker.socket().path().to_owned(),
            None => ground.folder().join("inside.sock"),
        };
        if place != Where::Alone {
            env.insert("PLIMSOLL_SOCKET".to_owned(), socket.display().to_string());
            let launcher = sibling("plimsoll").display().to_string();
            let run = ["run", "--agent", agent(self.agent), "--"].map(str::to_owned);
            command.splice(0..0, [launcher].into_iter().chain(run));
        }
        let job = Job {
            command,
            env,
            ..Job::default()
        };
        let conditions = Conditions {
            limit: Some(self.limit << 20),
            longest: LONGEST,
            ..Conditions::default()
        };
        let jobs = vec![job; self.programs];
        let outcomes = run(ground, &jobs, &conditions, &Progress::silent());
        drop(broker);
        end_broker(&socket);
        outcomes
    }
}

/// Ends a broker that `plimsoll run` started. It would otherwise stay for some seconds, in the container of
/// the next run.
fn end_broker(socket: &Path) {
    let until = Instant::now() + Duration::from_secs(10);
    let told = || {
        let socket = Socket::at(socket);
        Connection::open(&socket, Duration::from_secs(1))
            .and_then(|mut connection| connection.list())
            .ok()
    };
    while let Some(listing) = told().filter(|_| Instant::now() < until) {
        signal(listing.pid, Signal::TERM);
        std::thread::sleep(Duration::from_millis(50));
    }
}

const NONE: &str = "no program that lives alone is killed";
const SAVED: &str = "of those killed alone nine tenths live";
const WORK: &str = "work at least 0.95 of alone where alone lives";
const CROWDS: &str = "several in one limit: 0 killed of all that live alone";
const AGENT: &str = "with the agent: 0 killed of all that can live";

/// The measurement `container`.
pub(super) struct Container;

impl Measurement for Container {
    fn about(&self) -> About {
        About {
            name: "container",
            question: "Java and libgc in a container without swap: what lives, and how much it does",
            asks: &[NONE, SAVED, WORK, CROWDS, AGENT],
            minutes: 100,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let classes = Classes::of("bench/programs/Container.java")?;
        read_ahead(jvms(&COLLECTORS))?;
        // A lane has a ground for each place.
        let prepare = |lane: usize| {
            let ground = |place| Ground::without_swap(&format!("container-{place:?}-{lane}"));
            let [alone, inside, outside] = PLACES.map(ground);
            Ok([alone?, inside?, outside?])
        };
        let ran = runner
            .experiment(cases())
            .wanted()
            .elsewhere(Elsewhere::user_mode(), |case| case.elsewhere)
            .run_in_lanes(LANES, prepare, |grounds, case, _| {
                case.run_everywhere(grounds, classes.folder())
            })?;
        let mut results = empty(runner);
        let of = |one: &Variant<Case, Round>| (one.what, Runs::of(&one.outcomes));
        let all: Vec<(Case, [Runs; 3])> = ran.iter().map(of).collect();
        for (case, runs) in &all {
            note(case, runs, &mut results);
        }
        targets(&all, &mut results);
        results.method += &failing_alone(&all);
        Ok(results)
    }
}

/// A sentence on the single programs that do not live alone, although the kernel kills them in no run. They
/// count for no target.
fn failing_alone(all: &[(Case, [Runs; 3])]) -> String {
    let fails = |runs: &Runs| runs.died() > 0 && runs.killed == 0;
    let these = all
        .iter()
        .filter(|(case, runs)| case.programs == 1 && fails(&runs[0]));
    let named = these.filter(|(case, _)| !case.agent);
    let names: Vec<String> = named
        .map(|(case, _)| format!("{} in {} MiB", case.name(), case.limit))
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(
            " Alone these end by an error of their own, and count for no target: {}.",
            names.join(", ")
        )
    }
}

fn empty(runner: &Runner) -> Results {
    let results = runner.results(
        "Programs in a container without swap: alone, and under the broker in the container and outside \
         of it.",
        "bench/programs/Container.java and container.c, the latter on the system's libgc alone and on \
         the drop-in under the broker. The three run at once, each in a container of its own, and two \
         programs at a time. A tenth of the limit lives, 150 MB/s of arrays of 1 KB are replaced, for 6 \
         s. Native: 150 MB of direct buffers are filled within one second. Burst: what lives doubles for \
         a second, every three seconds. \
         Each of 5: five of that program start at once in one limit, 30 MB live in each, and each fills 90 \
         MB of buffers; the three places have their turns; runs and work are those of all five. \
         No heap size is given. Agent: with `--agent auto` under the broker; alone there is none. \
         Lived: runs that came to their end (what is killed does not, nor what \
         has an `OutOfMemoryError` of its own). Work: that of the runs that lived, relative to those alone. \
         v2: in user-mode Linux with one processor under cgroup version 2; the three there have it \
         together, so their work has no target.",
    );
    results.columns(&[
        ("program", ""),
        ("limit", "MiB"),
        ("lived: alone", ""),
        ("inside", ""),
        ("outside", ""),
        ("work: inside", "of alone"),
        ("outside", "of alone"),
    ])
}

/// The collectors whose free memory our agent gives back.
const RETURNING: [&str; 3] = ["G1", "Serial", "Parallel"];

/// All cases with their names, which contain the limit.
fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    let java = jvms(&COLLECTORS).map(Runtime::Java);
    let without = java.chain([Runtime::Libgc]).map(|runtime| (runtime, false));
    let with = jvms(&RETURNING).map(|jvm| (Runtime::Java(jvm), true));
    for (runtime, agent) in without.chain(with) {
        for kind in KINDS {
            for limit in LIMITS {
                cases.push(Case {
                    runtime,
                    kind,
                    limit,
                    live: limit * LIVE / 100,
                    programs: 1,
                    agent,
                    elsewhere: false,
                });
            }
        }
    }
    cases.extend(jvms(&["G1", "Serial"]).map(|jvm| Case {
        runtime: Runtime::Java(jvm),
        kind: GROWS,
        limit: CROWDED,
        live: CROWD_LIVE,
        programs: CROWD,
        agent: false,
        elsewhere: false,
    }));
    let in_guest = |case: &&Case| {
        let runs_there = match case.runtime {
            Runtime::Java(jvm) => jvm.version == 17 && ["G1", "Serial"].contains(&jvm.collector),
            Runtime::Libgc => true,
        };
        runs_there && case.limit == GUEST_LIMIT && case.programs == 1 && !case.agent
    };
    let beside: Vec<Case> = cases.iter().filter(in_guest).copied().collect();
    cases.extend(beside.into_iter().map(|case| Case {
        elsewhere: true,
        ..case
    }));
    let named = |case: Case| (format!("{} in {} MiB", case.name(), case.limit), case);
    cases.into_iter().map(named).collect()
}

fn note(case: &Case, runs: &[Runs; 3], results: &mut Results) {
    let [alone, inside, outside] = runs;
    let ratio = |runs: &Runs| match alone.lived().min(runs.lived()) {
        0 => f64::NAN,
        _ => runs.median() / alone.median().max(1.0),
    };
    let work = |runs: &Runs| match ratio(runs) {
        ratio if ratio.is_nan() => "-".into(),
        ratio => ratio.into(),
    };
    let lived = |runs: &Runs| (runs.lived() as u64).into();
    results.row([
        case.name().into(),
        case.limit.into(),
        lived(alone),
        lived(inside),
        lived(outside),
        work(inside),
        work(outside),
    ]);
}

/// How many runs under the broker were killed or failed by themselves, of how many.
#[derive(Clone, Copy, Debug, Default)]
struct Killed {
    killed: usize,
    runs: usize,
}

impl Killed {
    /// Counts the cases that `counts` names.
    fn of<'a>(
        all: impl Iterator<Item = &'a [Runs; 3]>,
        counts: impl Fn(&[Runs; 3]) -> bool,
    ) -> Killed {
        let mut sum = Killed::default();
        for runs in all.filter(|runs| counts(runs)) {
            let [_, inside, outside] = runs;
            sum.killed += inside.died() + outside.died();
            sum.runs += inside.lived.len() + outside.lived.len();
        }
        sum
    }

    /// Writes the target that none of them is killed.
    fn judge(self, claim: &str, results: &mut Results) {
        let Killed { killed, runs } = self;
        let measured = format!("{killed} of {runs} runs killed");
        results.target(claim, measured, (runs > 0).then_some(killed == 0));
    }
}

/// Single programs, several in one limit and those with the agent are judged apart.
fn targets(all: &[(Case, [Runs; 3])], results: &mut Results) {
    let lives_alone = |runs: &[Runs; 3]| runs[0].died() == 0;
    let is_killed_alone = |runs: &[Runs; 3]| runs[0].killed > 0;
    let can_live = |runs: &[Runs; 3]| runs.iter().any(|runs| runs.lived() > 0);
    let those = |which: fn(&Case) -> bool| {
        let these = all.iter().filter(move |(case, _)| which(case));
        these.map(|(_, runs)| runs)
    };
    let single = || those(|case| case.programs == 1 && !case.agent);
    Killed::of(single(), lives_alone).judge(NONE, results);
    let Killed { killed, runs } = Killed::of(single(), is_killed_alone);
    let saved = runs - killed;
    results.target(
        SAVED,
        format!("{} % ({saved} of {runs} runs)", saved * 100 / runs.max(1)),
        (runs > 0).then_some(saved * 10 >= runs * 9),
    );
    let ratio = |[alone, inside, outside]: &[Runs; 3]| {
        [inside, outside].map(|ours| ours.median() / alone.median().max(1.0))
    };
    let here = those(|case| case.programs == 1 && !case.agent && !case.elsewhere);
    let safe = here.filter(|runs| lives_alone(runs));
    let work = spread(&safe.flat_map(ratio).collect::<Vec<_>>());
    results.target(
        WORK,
        format!("median {:.2}, worst {:.2}", work.median, work.min),
        work.min >= 0.95,
    );
    Killed::of(those(|case| case.programs > 1), lives_alone).judge(CROWDS, results);
    Killed::of(those(|case| case.agent), can_live).judge(AGENT, results);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::pauses::Pauses;

    #[test]
    fn what_fails_alone_by_itself_is_not_to_be_saved() {
        let runs = |ending: Ending| {
            let mut runs = Runs::default();
            runs.note(&Outcome {
                ending,
                seconds: 1.0,
                resident: 0,
                faults: 0,
                pauses: Pauses::default(),
                said: "work 7".to_owned(),
                ..Outcome::default()
            });
            runs
        };
        let failed = || Ending::Failed("java.lang.OutOfMemoryError".to_owned());
        let jvm = jvms(&["G1"]).next().expect("there is a version");
        let case = |limit| Case {
            runtime: Runtime::Java(jvm),
            kind: KINDS[0],
            limit,
            live: 10,
            programs: 1,
            agent: false,
            elsewhere: false,
        };
        let all = [
            (256, Ending::Killed),
            (512, failed()),
            (1024, Ending::Finished),
        ]
        .map(|(limit, alone)| {
            let ours = || runs(Ending::Finished);
            (case(limit), [runs(alone), ours(), ours()])
        });
        let of = |counts: fn(&[Runs; 3]) -> bool| {
            Killed::of(all.iter().map(|(_, runs)| runs), counts).runs
        };
        assert_eq!(of(|runs| runs[0].killed > 0), 2);
        assert_eq!(of(|runs| runs[0].died() == 0), 2);
        let said = failing_alone(&all);
        assert!(said.contains("steady in 512 MiB."), "{said}");
        assert_eq!(failing_alone(&all[..1]), "");
    }
}
