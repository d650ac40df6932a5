//! A limit without swap, where an excess ends the program: what lives alone lives under the broker,
//! and does as much.

use super::Options;
use super::hotspot::{COLLECTORS, jvms};
use crate::harness::broker::Broker;
use crate::harness::ground::Ground;
use crate::harness::java::{Classes, read_ahead};
use crate::harness::job::{Conditions, Ending, Job, Outcome, run};
use crate::harness::programs::{Jvm, made, sibling};
use crate::harness::runner::signal;
use crate::report::results::Results;
use crate::report::statistics::spread;
use plimsoll_client::{Connection, Socket};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Limits of the container, MiB.
const LIMITS: [u64; 3] = [256, 512, 1024];
/// So many programs are measured at once: one needs less than half of a processor in each of its places.
const LANES: usize = 2;
/// Seconds of a run, and after which one is ended.
const SECONDS: u32 = 6;
const LONGEST: f64 = 30.0;
/// Of a limit, percent that live, and megabytes of arrays that are replaced in a second.
const LIVE: u64 = 10;
const RATE: u64 = 150;

/// What the program does besides.
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

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Alone,
    /// `plimsoll run` in the container starts a broker in it.
    Inside,
    /// The broker serves the whole machine.
    Outside,
}

const PLACES: [Where; 3] = [Where::Alone, Where::Inside, Where::Outside];

/// What the runs of one place came to.
#[derive(Clone, Debug, Default)]
struct Runs {
    lived: Vec<bool>,
    work: Vec<f64>,
}

impl Runs {
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

    /// Median work of those that lived.
    fn median(&self) -> f64 {
        spread(&self.work).median
    }
}

/// Who manages the memory of a program.
#[derive(Clone, Copy, Debug)]
enum Runtime {
    Java(Jvm),
    /// The system's libgc alone, the drop-in under the broker.
    Libgc,
}

/// One program in one limit.
#[derive(Clone, Copy, Debug)]
struct Case {
    runtime: Runtime,
    kind: Kind,
    limit: u64,
}

impl Case {
    fn name(&self) -> String {
        let runtime = match self.runtime {
            Runtime::Java(jvm) => jvm.name(),
            Runtime::Libgc => "libgc".to_owned(),
        };
        format!("{runtime} {}", self.kind.name)
    }

    fn command(&self, classes: &Path) -> Vec<String> {
        let mut command = match self.runtime {
            Runtime::Java(jvm) => {
                let mut command = vec![jvm.java()];
                command.extend(jvm.choice());
                // Java's own maximum of direct memory follows that of the heap: here the container
                // is to be the limit.
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

    /// Runs it in all places at once, each in a container of its own: what else the machine does
    /// meets all of them.
    fn run_everywhere(
        &self,
        grounds: &[Ground; 3],
        classes: &Path,
    ) -> Result<Vec<Outcome>, String> {
        std::thread::scope(|scope| {
            let pairs = PLACES.iter().zip(grounds);
            let threads: Vec<_> = pairs
                .map(|(place, ground)| scope.spawn(|| self.run(ground, *place, classes)))
                .collect();
            let ended = |_| Err("a run panicked".to_owned());
            let threads = threads.into_iter();
            threads
                .map(|one| one.join().unwrap_or_else(ended))
                .collect()
        })
    }

    fn run(&self, ground: &Ground, place: Where, classes: &Path) -> Result<Outcome, String> {
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
            command.splice(0..0, [launcher, "run".to_owned(), "--".to_owned()]);
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
        let outcomes = run(ground, &[job], &conditions, "");
        drop(broker);
        end_broker(&socket);
        outcomes?
            .into_iter()
            .next()
            .ok_or_else(|| "no outcome".to_owned())
    }
}

/// Ends a broker that `plimsoll run` started: it would stay for some seconds, and in the container
/// of the next run.
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

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let classes = Classes::of("bench/programs/Container.java")?;
    read_ahead(jvms(&COLLECTORS))?;
    let mut results = Results::new(
        "container",
        "Programs in a container without swap: alone, and under the broker in the container and outside \
         of it.",
        "bench/programs/Container.java and container.c, the latter on the system's libgc alone and on \
         the drop-in under the broker. The three run at once, each in a container of its own, and two \
         programs at a time. A tenth of the limit lives, 150 MB/s of arrays of 1 KB are replaced, for 6 \
         s. Native: 150 MB of direct buffers are filled within one second. Burst: what lives doubles for \
         a second, every three seconds. \
         No heap size is given. Lived: runs that came to their end (what is killed does not, nor what \
         has an `OutOfMemoryError` of its own). Work: that of the runs that lived, relative to those alone.",
        options.repeat,
    )
    .columns(&[
        ("program", ""),
        ("limit", "MiB"),
        ("lived: alone", ""),
        ("inside", ""),
        ("outside", ""),
        ("work: inside", "of alone"),
        ("outside", "of alone"),
    ]);
    let cases = cases(options);
    let all = run_all(&cases, options.repeat, classes.folder())?;
    for (case, runs) in cases.iter().zip(&all) {
        note(case, runs, &mut results);
    }
    targets(&all, &mut results);
    results.save().map_err(|e| e.to_string())
}

/// Runs every case `repeat` times, in [`LANES`] at once; what each came to, in the order of the cases.
fn run_all(cases: &[Case], repeat: usize, classes: &Path) -> Result<Vec<[Runs; 3]>, String> {
    let next = AtomicUsize::new(0);
    let lane = |number: usize| -> Result<Vec<(usize, [Runs; 3])>, String> {
        let ground = |place| Ground::without_swap(&format!("container-{place:?}-{number}"));
        let grounds = [
            ground(Where::Alone)?,
            ground(Where::Inside)?,
            ground(Where::Outside)?,
        ];
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else {
                return Ok(done);
            };
            eprint!(
                "\r{} of {}: {} in {} MiB   ",
                at + 1,
                cases.len(),
                case.name(),
                case.limit
            );
            let mut runs = PLACES.map(|_| Runs::default());
            for _ in 0..repeat {
                let outcomes = case.run_everywhere(&grounds, classes)?;
                for (runs, outcome) in runs.iter_mut().zip(&outcomes) {
                    runs.note(outcome);
                }
            }
            done.push((at, runs));
        }
    };
    let lane = &lane;
    let mut done = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|number| scope.spawn(move || lane(number)))
            .collect();
        let ended = |_| Err("a run panicked".to_owned());
        let lanes = lanes
            .into_iter()
            .map(|one| one.join().unwrap_or_else(ended));
        lanes.collect::<Result<Vec<_>, String>>()
    })?
    .concat();
    eprint!("\r{:79}\r", "");
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, runs)| runs).collect())
}

fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let java = jvms(&COLLECTORS).map(Runtime::Java);
    for runtime in java.chain([Runtime::Libgc]) {
        for kind in KINDS {
            let all = LIMITS.map(|limit| Case {
                runtime,
                kind,
                limit,
            });
            cases.extend(all.iter().filter(|case| options.wants(&case.name())));
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
        "nobody is killed who lives alone",
        format!("{killed} of {safe} runs killed"),
        killed == 0,
    );
    results.target(
        "of those killed alone nine tenths live",
        format!("{saved} of {lost} runs"),
        (lost > 0).then_some(saved * 10 >= lost * 9),
    );
    let work = spread(&ratios);
    results.target(
        "work at least 0.95 of alone where alone lives",
        format!("median {:.2}, worst {:.2}", work.median, work.min),
        work.min >= 0.95,
    );
}
