//! Programs in a limit without swap, where the kernel kills a program that exceeds it. A program that
//! survives alone must survive under the broker too, and do as much work.

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
use crate::runner::Runner;
use crate::{Error, Result};
use plimsoll_client::{Connection, Socket};
use plimsoll_testbed::children::signal;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Limits of the containers, MiB.
const LIMITS: [u64; 3] = [256, 512, 1024];
/// Number of programs that are measured at the same time. Each runs in three places, and takes less than half
/// a processor in each.
const LANES: usize = 2;
/// Seconds that a program runs, and seconds after which it is killed.
const SECONDS: u32 = 6;
const LONGEST: f64 = 30.0;
/// Percent of the limit that is live data, and megabytes of arrays that are replaced per second.
const LIVE: u64 = 10;
const RATE: u64 = 150;

/// What the program does besides replacing arrays.
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

/// The outcomes of the runs in one place.
#[derive(Clone, Debug, Default)]
struct Runs {
    lived: Vec<bool>,
    work: Vec<f64>,
}

impl Runs {
    /// Sorts the outcomes of all rounds by place.
    fn of(rounds: &[[Outcome; 3]]) -> [Runs; 3] {
        let mut all = PLACES.map(|_| Runs::default());
        for outcomes in rounds {
            for (runs, outcome) in all.iter_mut().zip(outcomes) {
                runs.note(outcome);
            }
        }
        all
    }

    fn note(&mut self, outcome: &Outcome) {
        let lived = outcome.ending == Ending::Finished;
        self.lived.push(lived);
        if lived {
            self.work.push(outcome.told("work").unwrap_or(0) as f64);
        }
    }

    fn lived(&self) -> usize {
        self.lived.iter().filter(|lived| **lived).count()
    }

    /// Median work of the runs that survived.
    fn median(&self) -> f64 {
        spread(&self.work).median
    }
}

/// Who manages the memory of a program.
#[derive(Clone, Copy, Debug)]
enum Runtime {
    Java(Jvm),
    /// The system's libgc alone; our drop-in under the broker.
    Libgc,
}

/// One program in one limit.
#[derive(Clone, Copy, Debug)]
struct Case {
    runtime: Runtime,
    kind: Kind,
    limit: u64,
    /// Whether our agent is loaded into it, under the broker.
    agent: bool,
}

impl Case {
    fn name(&self) -> String {
        let runtime = match self.runtime {
            Runtime::Java(jvm) => jvm.name(),
            Runtime::Libgc => "libgc".to_owned(),
        };
        let agent = if self.agent { ", agent" } else { "" };
        format!("{runtime} {}{agent}", self.kind.name)
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
        let live = self.limit * LIVE / 100;
        command.extend([live, RATE, u64::from(SECONDS)].map(|n| n.to_string()));
        command.extend(self.kind.words.iter().map(|word| (*word).to_owned()));
        command
    }

    /// Runs it in all places at the same time, each in a container of its own, so that disturbances on the
    /// machine affect all places alike.
    fn run_everywhere(&self, grounds: &[Ground; 3], classes: &Path) -> Result<[Outcome; 3]> {
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

    fn run(&self, ground: &Ground, place: Where, classes: &Path) -> Result<Outcome> {
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
        let outcomes = run(ground, &[job], &conditions, &Progress::silent());
        drop(broker);
        end_broker(&socket);
        let first = outcomes?.into_iter().next();
        first.ok_or_else(|| Error::program(self.name(), "it has no outcome"))
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

const NOBODY: &str = "nobody is killed who lives alone";
const SAVED: &str = "of those killed alone nine tenths live";
const WORK: &str = "work at least 0.95 of alone where alone lives";

/// The measurement `container`.
pub(super) struct Container;

impl Measurement for Container {
    fn about(&self) -> About {
        About {
            name: "container",
            question: "Java and libgc in a container without swap: what lives, and how much it does",
            asks: &[NOBODY, SAVED, WORK],
            minutes: 95,
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
        let ran = runner.experiment(cases()).wanted().run_in_lanes(
            LANES,
            prepare,
            |grounds, case, _| case.run_everywhere(grounds, classes.folder()),
        )?;
        let mut results = empty(runner);
        let all: Vec<[Runs; 3]> = ran.iter().map(|one| Runs::of(&one.outcomes)).collect();
        for (variant, runs) in ran.iter().zip(&all) {
            note(&variant.what, runs, &mut results);
        }
        targets(&all, &mut results);
        Ok(results)
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
         No heap size is given. Agent: with `--agent auto` under the broker; alone there is none. \
         Lived: runs that came to their end (what is killed does not, nor what \
         has an `OutOfMemoryError` of its own). Work: that of the runs that lived, relative to those alone.",
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
                let case = Case {
                    runtime,
                    kind,
                    limit,
                    agent,
                };
                cases.push((format!("{} in {limit} MiB", case.name()), case));
            }
        }
    }
    cases
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

fn targets(all: &[[Runs; 3]], results: &mut Results) {
    let (mut killed, mut safe, mut saved, mut lost) = (0, 0, 0, 0);
    let mut ratios = Vec::new();
    for [alone, inside, outside] in all {
        for ours in [inside, outside] {
            if alone.lived() == alone.lived.len() {
                safe += ours.lived.len();
                killed += ours.lived.len() - ours.lived();
                ratios.push(ours.median() / alone.median().max(1.0));
            } else {
                lost += ours.lived.len();
                saved += ours.lived();
            }
        }
    }
    results.target(
        NOBODY,
        format!("{killed} of {safe} runs killed"),
        killed == 0,
    );
    results.target(
        SAVED,
        format!("{saved} of {lost} runs"),
        (lost > 0).then_some(saved * 10 >= lost * 9),
    );
    let work = spread(&ratios);
    results.target(
        WORK,
        format!("median {:.2}, worst {:.2}", work.median, work.min),
        work.min >= 0.95,
    );
}
