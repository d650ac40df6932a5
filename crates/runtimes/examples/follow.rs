//! Steers a Java virtual machine by a script of limits, without a broker, and prints what happens:
//! `follow [--bare] [--budget MIB] LIMIT@SECONDS... -- java ARGUMENT...` or `follow
//! LIMIT@SECONDS... --pid PID`.
//!
//! Each step sets its limit (MiB) for that many seconds. Ten times per second it prints a line of
//! comma-separated values: seconds, limit, uses, committed heap (MiB), young and full and concurrent
//! collections, milliseconds in collections, milliseconds of processor time of the adapter. At the end of
//! each step it prints a summary on standard error. `--bare` adds no start flags. The program's standard
//! input stays open until the end.

use plimsoll_programs::hotspot::hsperfdata::PerfFile;
use plimsoll_runtimes::hotspot::collector::Collector;
use plimsoll_runtimes::hotspot::footprint::Gauge;
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_runtimes::process::Process;
use plimsoll_runtimes::{Link, Options};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Default)]
struct Script {
    limit: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Link for Script {
    fn numbers(&mut self) -> Option<Numbers> {
        Some(Numbers {
            limit: self.limit.load(Ordering::Relaxed),
            ..Numbers::default()
        })
    }

    fn wait(&mut self, timeout: Duration) {
        let before = self.limit.load(Ordering::Relaxed);
        let until = Instant::now() + timeout;
        while Instant::now() < until
            && !self.stopped()
            && self.limit.load(Ordering::Relaxed) == before
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn report(&mut self, report: &Report) {
        tracing::debug!("{report:?}");
    }

    fn released(&mut self, _: Bytes) {}

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Arguments {
    bare: bool,
    budget: Option<u64>,
    pid: Option<u32>,
    steps: Vec<(u64, f64)>,
    command: Vec<OsString>,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut parsed = Arguments::default();
    let mut rest = std::env::args_os().skip(1);
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy().into_owned();
        let mut value = || {
            rest.next()
                .map(|v| v.to_string_lossy().into_owned())
                .ok_or("a value is missing")
        };
        match text.as_str() {
            "--" => break,
            "--bare" => parsed.bare = true,
            "--budget" => parsed.budget = Some(value()?.parse::<u64>()? << 20),
            "--pid" => parsed.pid = Some(value()?.parse()?),
            step => {
                let (limit, seconds) = step.split_once('@').ok_or("a step is LIMIT@SECONDS")?;
                parsed
                    .steps
                    .push((limit.parse::<u64>()? << 20, seconds.parse()?));
            }
        }
    }
    parsed.command = rest.collect();
    Ok(parsed)
}

fn begin(arguments: &Arguments) -> Result<Child, Failure> {
    let budget = arguments
        .budget
        .or_else(|| arguments.steps.iter().map(|s| s.0).max());
    let mut argv = arguments.command.clone();
    if !arguments.bare {
        let prepared = launch::prepare(
            &argv,
            &Plan {
                budget: budget.map(Bytes),
                ..Plan::default()
            },
        );
        for note in &prepared.notes {
            eprintln!("{note}");
        }
        argv = prepared.argv;
    }
    let program = argv.first().ok_or("no command")?;
    Ok(Command::new(program)
        .args(&argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?)
}

fn show(process: &Process, perf: &mut Option<PerfFile>, since: Instant, limit: u64) -> u64 {
    if perf.is_none() {
        *perf = PerfFile::open(process).ok();
    }
    let counters = perf.as_mut().and_then(|p| p.read().ok().map(Snapshot::of));
    let heap = counters.unwrap_or_default();
    // Only ZGC keeps its heap in a memory file. A machine without one is measured as any other process.
    let uses = Gauge::new(*process, Collector::Z)
        .uses()
        .map_or(0, |uses| uses.0);
    let [young, full, concurrent] = heap.work.map(|w| w.invocations);
    println!(
        "{:.1},{},{},{},{young},{full},{concurrent},{},{}",
        since.elapsed().as_secs_f64(),
        limit >> 20,
        uses >> 20,
        heap.committed().0 >> 20,
        heap.collecting_time().0 / 1_000_000,
        thread_ms("steer"),
    );
    uses
}

/// Prints the summary of one step: when the program was near its limit for the first time, and how near it
/// was from the third second on.
fn summarize(limit: u64, near: u64, uses: &[(f64, u64)]) {
    let reached = uses
        .iter()
        .find(|(_, u)| u.abs_diff(limit) <= near)
        .map(|(t, _)| *t);
    let mut late: Vec<u64> = uses
        .iter()
        .filter(|(t, _)| *t >= 2.0)
        .map(|(_, u)| u >> 20)
        .collect();
    late.sort_unstable();
    let [Some(least), Some(most)] = [late.first(), late.last()] else {
        return;
    };
    let reached = reached.map_or("not".to_owned(), |t| format!("after {t:.1} s"));
    eprintln!(
        "limit {} MiB: {reached} within {} MiB; from 2 s on {least} to {most}, median {} MiB",
        limit >> 20,
        near >> 20,
        late[late.len() / 2],
    );
}

/// Processor time of a thread of ours, milliseconds.
fn thread_ms(name: &str) -> u64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of = |dir: std::path::PathBuf| {
        let same = std::fs::read_to_string(dir.join("comm")).is_ok_and(|c| c.trim() == name);
        let stat = std::fs::read_to_string(dir.join("schedstat"))
            .ok()
            .filter(|_| same)?;
        Some(stat.split(' ').next()?.parse::<u64>().ok()? / 1_000_000)
    };
    tasks.flatten().find_map(|t| of(t.path())).unwrap_or(0)
}

fn main() -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let arguments = arguments()?;
    let mut child = if arguments.pid.is_none() {
        Some(begin(&arguments)?)
    } else {
        None
    };
    let pid = arguments
        .pid
        .or(child.as_ref().map(Child::id))
        .ok_or("no process")?;
    let script = Script::default();
    let mut link = script.clone();
    script.limit.store(
        arguments.steps.first().map_or(0, |s| s.0),
        Ordering::Relaxed,
    );
    let steering = std::thread::Builder::new()
        .name("steer".into())
        .spawn(move || plimsoll_runtimes::run(&mut link, pid, &Options::default()))?;
    let process = Process::new(pid)?;
    println!("seconds,limit,uses,committed,young,full,concurrent,collection_ms,adapter_ms");
    // "Near" means within 3 % of the budget.
    let highest = arguments.steps.iter().map(|s| s.0).max().unwrap_or(0);
    let near = arguments.budget.unwrap_or(highest) * 3 / 100;
    let (start, mut perf) = (Instant::now(), None);
    for (limit, seconds) in &arguments.steps {
        script.limit.store(*limit, Ordering::Relaxed);
        let (began, mut uses) = (Instant::now(), Vec::new());
        while began.elapsed().as_secs_f64() < *seconds && process.alive() {
            let now = show(&process, &mut perf, start, *limit);
            uses.push((began.elapsed().as_secs_f64(), now));
            std::thread::sleep(Duration::from_millis(100));
        }
        summarize(*limit, near, &uses);
    }
    script.stop.store(true, Ordering::Relaxed);
    let _ = steering.join();
    if let Some(child) = &mut child {
        drop(child.stdin.take());
        child.wait()?;
    }
    Ok(())
}
