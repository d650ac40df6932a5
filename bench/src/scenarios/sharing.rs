//! Memory that several principals map: is it charged by use, what does it cost, can one ride free?
//!
//! Paper 3.3 and 5.4: three programs touch the pages of one block at different rates.

use super::Options;
use crate::harness::broker::Broker;
use crate::harness::programs::sibling;
use crate::harness::runner::{end, end_with_us, find};
use crate::report::results::Results;
use crate::report::statistics::spread;
use plimsoll_client::Connection;
use plimsoll_kernel::process::Process;
use plimsoll_wire::messages::{Name, Register};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What the three principals map, bytes.
const BLOCK: u64 = 32 << 20;
/// The accounting averages over this long before it is read.
const SETTLE: Duration = Duration::from_secs(60);
const LOOKS: u32 = 100;
/// Touches per page and second, in steady use.
const MIXES: [(&str, [f64; 3]); 2] = [
    ("rates 1 : 2 : 4", [1.0, 2.0, 4.0]),
    ("rates 0.5 : 1 : 5", [0.5, 1.0, 5.0]),
];

/// Touches per page and second, and for how long (ms) they come and stay away.
type Pace = (f64, Option<(u32, u32)>);

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let folder =
        std::env::temp_dir().join(format!("plimsoll-bench-sharing-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let measured = all(&folder, options);
    let _ = std::fs::remove_dir_all(&folder);
    measured?.save().map_err(|e| e.to_string())
}

const TITLE: &str =
    "A block of 32 MiB that three principals map, charged by how often each touches it.";
const METHOD: &str = "\
     Poisson touches of random pages at the given rates per page and second; the part that each is \
     charged is averaged over 100 looks after 60 s. The rider touches in bursts, half a second in every \
     two, as often as its neighbours on average. Cost: other programs, one for each processor, touch as \
     fast as they can in windows of 1 s, with the broker going or stopped in balanced order; percent more \
     time for a touch than in the window beside it, the median of all pairs and its 95 % interval (sign \
     test).";
const COLUMNS: [(&str, &str); 7] = [
    ("case", ""),
    ("program", ""),
    ("true part", ""),
    ("charged part", ""),
    ("distance", ""),
    ("cost", "%"),
    ("95 % interval", "%"),
];

fn all(folder: &Path, options: &Options) -> Result<Results, String> {
    let mut results = Results::new("sharing", TITLE, METHOD, options.repeat).columns(&COLUMNS);
    mixes(folder, options, &mut results)?;
    if options.wants("rider") {
        rider(folder, options, &mut results)?;
    }
    if options.wants("cost") {
        super::sharing_cost::measure(folder, options, &mut results)?;
    }
    Ok(results)
}

/// Programs that touch at steady rates.
fn mixes(folder: &Path, options: &Options, results: &mut Results) -> Result<(), String> {
    let mut worst: Option<f64> = None;
    for (name, rates) in MIXES.iter().filter(|(name, _)| options.wants(name)) {
        let total: f64 = rates.iter().sum();
        let truths = rates.map(|rate| rate / total);
        let all = repeated(folder, &rates.map(|rate| (rate, None)), options.repeat)?;
        for (index, truth) in truths.into_iter().enumerate() {
            let farthest = all.iter().map(|parts| (parts[index] - truth).abs());
            worst = farthest.fold(worst, |worst, far| Some(worst.map_or(far, |w| w.max(far))));
            note(
                results,
                name,
                &format!("{}", index + 1),
                truth,
                middle(&all, index),
            );
        }
    }
    if let Some(worst) = worst {
        results.target(
            "estimated shares within 0.02 of the true ones",
            format!("{worst:.3} in the worst run"),
            worst <= 0.02,
        );
    }
    Ok(())
}

/// One that touches in bursts, so that it is seldom seen to.
fn rider(folder: &Path, options: &Options, results: &mut Results) -> Result<(), String> {
    const TRUTH: f64 = 1.0 / 3.0;
    let riding = [(1.0, None), (1.0, None), (4.0, Some((500, 1500)))];
    let all = repeated(folder, &riding, options.repeat)?;
    for (index, program) in ["steady", "steady", "the rider"].into_iter().enumerate() {
        let part = middle(&all, index);
        note(
            results,
            "a rider, on average as often",
            program,
            TRUTH,
            part,
        );
    }
    let rider = all.iter().map(|parts| parts[2]).fold(f64::MAX, f64::min);
    results.target(
        "nobody rides free by timing its accesses: the rider pays at least half of its part",
        format!("{rider:.3} of 0.333 in the worst run"),
        rider >= TRUTH / 2.0,
    );
    Ok(())
}

/// A row: the part that a program ought to be charged, and the one that it was.
fn note(results: &mut Results, case: &str, program: &str, truth: f64, part: f64) {
    results.row([
        case.into(),
        program.into(),
        truth.into(),
        part.into(),
        (part - truth).abs().into(),
        "".into(),
        "".into(),
    ]);
}

/// The parts that each program was charged, in each repetition.
fn repeated(folder: &Path, programs: &[Pace; 3], repeat: usize) -> Result<Vec<[f64; 3]>, String> {
    (0..repeat).map(|_| parts(folder, programs)).collect()
}

/// The median over all repetitions.
fn middle(all: &[[f64; 3]], index: usize) -> f64 {
    spread(&all.iter().map(|parts| parts[index]).collect::<Vec<_>>()).median
}

/// Programs that map one block.
pub(super) struct Sharers {
    children: Vec<Child>,
}

impl Drop for Sharers {
    fn drop(&mut self) {
        for child in &mut self.children {
            end(child, Duration::from_secs(1));
        }
    }
}

impl Sharers {
    /// One program for each list of further arguments.
    pub(super) fn start(folder: &Path, programs: &[Vec<String>]) -> Result<Self, String> {
        let block = Path::new("/dev/shm").join(folder.file_name().unwrap_or_default());
        let mut sharers = Sharers {
            children: Vec::new(),
        };
        for arguments in programs {
            let mut command = Command::new(sibling("plimsoll-misbehave"));
            command.arg("share").arg("--path").arg(&block);
            command
                .args(["--bytes", &BLOCK.to_string()])
                .args(arguments)
                .stdout(Stdio::piped())
                .stdin(Stdio::null());
            end_with_us(&mut command);
            sharers.children.push(
                command
                    .spawn()
                    .map_err(|e| format!("cannot start {command:?}: {e}"))?,
            );
        }
        std::thread::sleep(Duration::from_secs(1));
        // The mappings keep it; nothing is left behind when we are killed.
        let _ = std::fs::remove_file(&block);
        Ok(sharers)
    }

    /// What the programs write, once.
    pub(super) fn outputs(&mut self) -> Vec<ChildStdout> {
        self.children
            .iter_mut()
            .filter_map(|child| child.stdout.take())
            .collect()
    }
}

/// Makes principals of them, for as long as the connections are kept.
pub(super) fn register(broker: &Broker, sharers: &Sharers) -> Result<Vec<Connection>, String> {
    let mut owners = Vec::new();
    for (index, child) in sharers.children.iter().enumerate() {
        let mut connection = broker.connect()?;
        let register = Register {
            name: Name::mend(&format!("sharer-{index}")),
            pid: Some(child.id()),
            ..Register::default()
        };
        connection.register(&register).map_err(|e| e.to_string())?;
        owners.push(connection);
    }
    Ok(owners)
}

/// Touches per page and second; milliseconds of a burst and of the silence after it.
fn paced((rate, burst): &(f64, Option<(u32, u32)>)) -> Vec<String> {
    let mut arguments = vec!["--rate".to_owned(), rate.to_string()];
    if let Some((on, off)) = burst {
        arguments.extend(["--on", &on.to_string(), "--off", &off.to_string()].map(str::to_owned));
    }
    // Nobody reads it.
    arguments.extend(["--report", "60000"].map(str::to_owned));
    arguments
}

/// What part of the block each is charged, over time.
fn parts(folder: &Path, programs: &[Pace; 3]) -> Result<[f64; 3], String> {
    let broker = Broker::start(folder, None)?;
    let sharers = Sharers::start(folder, &programs.each_ref().map(paced))?;
    let _owners = register(&broker, &sharers)?;
    let mut control = broker.connect()?;
    let start = Instant::now();
    while start.elapsed() < SETTLE {
        eprint!(
            "\rsharing: {} of {} s   ",
            start.elapsed().as_secs(),
            SETTLE.as_secs()
        );
        std::thread::sleep(Duration::from_secs(1));
        crate::harness::interrupt::check()?;
    }
    let mut sums = [0.0; 3];
    for _ in 0..LOOKS {
        let listing = control.list().map_err(|e| e.to_string())?;
        for (index, (sum, child)) in sums.iter_mut().zip(&sharers.children).enumerate() {
            let own = Process::open(child.id() as i32)
                .and_then(|p| p.memory())
                .map_or(0, |m| m.anon);
            let uses = find(&listing, &format!("sharer-{index}")).map_or(0, |p| p.uses);
            *sum += uses.saturating_sub(own) as f64;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    eprint!("\r{:60}\r", "");
    // Of the block itself: who charged all of them half of it would not be right.
    Ok(sums.map(|sum| sum / (f64::from(LOOKS) * BLOCK as f64)))
}
