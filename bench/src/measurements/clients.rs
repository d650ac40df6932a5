//! The clients: from the announcement that memory is owed until it is back, and the time of one read.

use crate::harness::broker::Broker;
use crate::harness::folder::Folder;
use crate::harness::programs::made;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::{Results, root};
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use crate::{Error, Result};
use plimsoll_client::{Connection, Stream};
use plimsoll_kernel::process::Process;
use plimsoll_testbed::children::{end, end_with_us};
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::messages::{Changed, Id, Max, Set};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// MiB that a program keeps.
const KEPT: u64 = 200;
/// Time in which a program has to do what it is asked.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks at its memory.
const PACE: Duration = Duration::from_micros(200);
/// Bytes that may stay of what is owed: blocks are whole, and allocators round.
const ROUNDED: u64 = 2 * MIB;

const RETURNED: &str =
    "a quarter of the memory is back within 100 ms of the announcement, in each language";
const READ: &str = "one read: below 20 ns in C, Rust, Go and Java";

/// One run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    /// From the announcement until the memory is back, ms; `None` if it never was.
    returned_ms: Option<f64>,
    read_ns: f64,
}

/// A program that keeps memory, in one language.
#[derive(Clone, Debug)]
struct Keeper {
    /// Whether a read is asked to be below 20 ns.
    maps: bool,
    command: Vec<String>,
    /// A variable of its environment.
    variable: Option<(&'static str, String)>,
}

/// The measurement `clients`.
pub(super) struct Clients;

impl Measurement for Clients {
    fn about(&self) -> About {
        About {
            name: "clients",
            question: "How soon do clients give memory back, by language, and what does a read cost?",
            asks: &[RETURNED, READ],
            minutes: 3,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("clients")?;
        let ran = runner.experiment(keepers()).wanted().run(|keeper, turn| {
            let broker = Broker::start(folder.path(), None)?;
            once(keeper, &broker, &turn.progress)
        })?;
        Ok(report(&ran, runner))
    }
}

fn keepers() -> Vec<(&'static str, Keeper)> {
    let source = |name: &str| root().join(name).display().to_string();
    let keeps = |maps, words: &[String], variable| Keeper {
        maps,
        command: [words, &[KEPT.to_string()]].concat(),
        variable,
    };
    let word = |text: &str| text.to_owned();
    let python = ("PYTHONPATH", source("clients/python-memory/src"));
    // Large blocks go back to the kernel when they are freed.
    let node = ("MALLOC_MMAP_THRESHOLD_", word("65536"));
    vec![
        ("C and Rust", keeps(true, &[made("keep-c")], None)),
        ("Go", keeps(true, &[made("keep-go")], None)),
        (
            "Java",
            keeps(
                true,
                &[
                    word("java"),
                    word("-Xmx64m"),
                    word("-XX:MaxDirectMemorySize=300m"),
                    word("-cp"),
                    made("keep-java"),
                    word("Keep"),
                ],
                None,
            ),
        ),
        (
            "Python",
            keeps(
                false,
                &[word("python3"), source("bench/programs/clients/keep.py")],
                Some(python),
            ),
        ),
        (
            "Node",
            keeps(
                false,
                &[
                    word("node"),
                    word("--expose-gc"),
                    source("bench/programs/clients/keep.mjs"),
                ],
                Some(node),
            ),
        ),
    ]
}

/// A running program.
struct Running {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
    program: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(1));
    }
}

impl Running {
    fn start(keeper: &Keeper, broker: &Broker) -> Result<Running> {
        let mut command = Command::new(&keeper.command[0]);
        command.args(&keeper.command[1..]);
        command.env("PLIMSOLL_SOCKET", broker.socket().path());
        command.envs(keeper.variable.clone());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        end_with_us(&mut command);
        let mut child = command.spawn().map_err(Error::start(&command))?;
        let output = child.stdout.take().map(BufReader::new);
        Ok(Running {
            child,
            output,
            program: keeper.command[0].clone(),
        })
    }

    /// The number of this name in the next line that has it.
    fn tells(&mut self, name: &'static str) -> Result<f64> {
        let mut line = String::new();
        while let Some(output) = &mut self.output
            && output.read_line(&mut line).unwrap_or(0) > 0
        {
            let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(number) = value.get(name).and_then(serde_json::Value::as_f64) {
                return Ok(number);
            }
            line.clear();
        }
        Err(Error::Ended {
            program: self.program.clone(),
            figure: name,
        })
    }

    fn resident(&self) -> Result<u64> {
        let memory = Process::open(self.child.id() as i32)?.memory()?;
        Ok(memory.anon.0)
    }
}

fn once(keeper: &Keeper, broker: &Broker, progress: &Progress) -> Result<Outcome> {
    progress.tell(format_args!("{}", keeper.command[0]));
    let mut running = Running::start(keeper, broker)?;
    let read_ns = running.tells("read_ns")?;
    running.tells("ready")?;
    let mut control = broker.connect()?;
    let (id, uses) = counted(&mut control)?;
    let owed = uses / 4;
    let goal = running.resident()?.saturating_sub(owed) + ROUNDED;
    let mut changes = broker.connect()?.subscribe(id)?;
    let max = Max::new(Bytes(uses - owed))?;
    control.set(&Set {
        id,
        max: Some(max),
        ..Set::default()
    })?;
    let announced = announcement(&mut changes)?;
    let mut returned_ms = None;
    while returned_ms.is_none() && announced.elapsed() < PATIENCE {
        if running.resident()? <= goal {
            returned_ms = Some(announced.elapsed().as_secs_f64() * 1e3);
        } else {
            std::thread::sleep(PACE);
        }
    }
    Ok(Outcome {
        returned_ms,
        read_ns,
    })
}

/// The principal and its use, once all of it is counted.
fn counted(control: &mut Connection) -> Result<(Id, u64)> {
    let end = Instant::now() + PATIENCE;
    loop {
        let listing = control.list()?;
        let found = listing.principals.first();
        if let Some(found) = found.filter(|one| one.uses >= KEPT * MIB || Instant::now() > end) {
            return Ok((found.id, found.uses));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// When the first debt was announced.
fn announcement(changes: &mut Stream<Changed>) -> Result<Instant> {
    let end = Instant::now() + PATIENCE;
    loop {
        let changed = changes.next(PATIENCE)?;
        let owes = changed.is_some_and(|changed| changed.numbers.owed > 0);
        if owes || Instant::now() > end {
            return Ok(Instant::now());
        }
    }
}

fn report(ran: &[Variant<Keeper, Outcome>], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "A program of 200 MiB in each language owes a quarter of it.",
            "Returned: from the announcement on the stream, as another subscriber hears it, until the \
             program's anonymous memory is smaller by what it owed (less 2 MiB), looked at every 0.2 ms. In \
             Go, Java and Node that includes a collection, since the blocks are objects. Read: the mean of \
             20,000 reads (Python) to 5 million.",
        )
        .columns(&[
            ("language", ""),
            ("returned, median", "ms"),
            ("most", "ms"),
            ("never", ""),
            ("one read", "ns"),
        ]);
    let (mut slowest, mut never, mut reads) = (0.0_f64, 0, Vec::new());
    for variant in ran {
        let times: Vec<f64> = variant
            .outcomes
            .iter()
            .filter_map(|one| one.returned_ms)
            .collect();
        let lost = variant.outcomes.len() - times.len();
        let (median, most) = (spread(&times).median, spread(&times).max);
        let read: Vec<f64> = variant.outcomes.iter().map(|one| one.read_ns).collect();
        let read = spread(&read).median;
        slowest = slowest.max(median);
        never += lost;
        if variant.what.maps {
            reads.push(read);
        }
        results.row([
            variant.name.as_str().into(),
            median.into(),
            most.into(),
            (lost as f64).into(),
            read.into(),
        ]);
    }
    results.target(
        RETURNED,
        format!("{slowest:.0} ms at the most, medians; {never} runs never"),
        never == 0 && slowest <= 100.0,
    );
    let most = reads.iter().copied().fold(0.0, f64::max);
    results.target(READ, format!("{most:.0} ns at the most"), most < 20.0);
    results
}
