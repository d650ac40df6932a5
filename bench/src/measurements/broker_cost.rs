//! The costs of the broker: its memory, its processor time while idle, the time until a subscriber wakes, and
//! the time of a read of the page.

use crate::harness::broker::Broker;
use crate::harness::folder::Folder;
use crate::harness::mapped::Mapped;
use crate::harness::processor::processor_ns;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::report::statistics::{quantile, spread};
use crate::runner::Runner;
use crate::{Error, Result};
use plimsoll_client::{Connection, Stream};
use plimsoll_kernel::clock;
use plimsoll_testbed::children::{end, end_with_us};
use plimsoll_wire::messages::{Adapter, Changed, Id, Name, Register, Set, Weight};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const PRINCIPALS: usize = 100;
/// How long the broker is left alone after its start, before anything is measured.
const SETTLE: Duration = Duration::from_secs(30);
/// How long the idle broker is watched after that.
const IDLE: Duration = Duration::from_secs(20);
/// Number of weight changes that are timed. Each wakes every subscriber.
const CHANGES: usize = 40;
/// Number of reads of a page that are timed together.
const READS: u32 = 20_000_000;

const RESIDENT: &str = "at most 6 MiB resident";
const IDLING: &str = "below 0.1 % of one core, idle";
const WAKING: &str = "wake-up below 1 ms at p99";
const READING: &str = "reading the page below 10 ns";

/// The measurement `broker-cost`.
pub(super) struct BrokerCost;

impl Measurement for BrokerCost {
    fn about(&self) -> About {
        About {
            name: "broker-cost",
            question: "What does the broker cost?",
            asks: &[RESIDENT, IDLING, WAKING, READING],
            minutes: 6,
            only: false,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("cost")?;
        let ran = runner
            .experiment([("100 principals", ())])
            .run(|(), turn| once(folder.path(), &turn.progress))?;
        let found = ran.iter().flat_map(|variant| &variant.outcomes);
        let found: Vec<[f64; 5]> = found.copied().collect();
        Ok(report(&found, runner))
    }
}

fn report(found: &[[f64; 5]], runner: &Runner) -> Results {
    let mut results = runner.results(
        "Costs of the broker with 100 principals.",
        "Hundred sleeping processes are principals, hundred subscribers wait. Idle: processor time of \
         all its threads in 20 s, 30 s after the last came. Wake-up: from \
         the time that the broker wrote into the page to the return of the subscriber's poll, for 40 \
         changes of a weight that each wake all.",
    )
    .columns(&[("figure", ""), ("min", ""), ("median", ""), ("max", ""), ("unit", "")]);
    let names = [
        ("resident memory", "MiB"),
        ("idle processor time", "% of one core"),
        ("wake-up, median", "µs"),
        ("wake-up, p99", "µs"),
        ("reading the page", "ns"),
    ];
    let figure = |index: usize| found.iter().map(|one| one[index]).collect::<Vec<_>>();
    let spreads = [0, 1, 2, 3, 4].map(|index| spread(&figure(index)));
    for ((name, unit), s) in names.iter().zip(spreads) {
        results.row([
            (*name).into(),
            s.min.into(),
            s.median.into(),
            s.max.into(),
            (*unit).into(),
        ]);
    }
    let [resident, idle, _, p99, read] = spreads.map(|s| s.median);
    results.target(RESIDENT, format!("{resident:.1} MiB"), resident <= 6.0);
    results.target(IDLING, format!("{idle:.3} %"), idle < 0.1);
    results.target(WAKING, format!("{p99:.0} µs"), p99 < 1000.0);
    results.target(READING, format!("{read:.1} ns"), read < 10.0);
    results
}

/// One run. Returns resident MiB, percent of a processor while idle, median and 99th percentile of the time
/// until a wake-up (µs), and the time of a read (ns).
fn once(folder: &Path, progress: &Progress) -> Result<[f64; 5]> {
    progress.tell(format_args!("{} s", (SETTLE + IDLE).as_secs()));
    let broker = Broker::start(folder, None)?;
    let mut sleepers = Sleepers(Vec::new());
    let mut owners = Vec::new();
    for index in 0..PRINCIPALS {
        let mut command = Command::new("sleep");
        command.arg("3600");
        end_with_us(&mut command);
        let child = command.spawn().map_err(Error::start(&command))?;
        let pid = Some(child.id());
        sleepers.0.push(child);
        let mut connection = broker.connect()?;
        let register = Register {
            name: Name::mend(&format!("idle-{index}")),
            pid,
            adapter: Adapter::new("self").ok(),
            ..Register::default()
        };
        let registered = connection.register(&register)?;
        owners.push((connection, registered));
    }
    let ids: Vec<Id> = owners.iter().map(|(_, registered)| registered.id).collect();
    let mut streams = Vec::new();
    for id in &ids {
        streams.push(broker.connect()?.subscribe(*id)?);
    }
    // The limits settle, and each process has been sampled once.
    std::thread::sleep(SETTLE);
    let before = processor_ns(broker.pid());
    std::thread::sleep(IDLE);
    let idle = (processor_ns(broker.pid()) - before) as f64 / IDLE.as_nanos() as f64 * 100.0;
    let resident = resident_mib(broker.pid());
    let mut pages = Vec::new();
    for (_, registered) in &owners {
        pages.push(Mapped::open(Path::new(&registered.page))?);
    }
    let latencies = wake(&mut broker.connect()?, ids[0], &mut streams, &pages)?;
    let read = read_ns(&pages[0]);
    let micros = |q| quantile(&latencies, q) / 1000.0;
    Ok([resident, idle, micros(0.5), micros(0.99), read])
}

struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            end(child, Duration::from_secs(1));
        }
    }
}

/// Changes weights, and returns the nanoseconds from each publication to the wake-up of each subscriber.
fn wake(
    control: &mut Connection,
    id: Id,
    streams: &mut [Stream<Changed>],
    pages: &[Mapped],
) -> Result<Vec<f64>> {
    let mut latencies = Vec::new();
    drain(streams)?;
    for change in 0..CHANGES {
        let weight = match change % 2 {
            0 => Weight::MOST,
            _ => Weight::default(),
        };
        control.set(&Set {
            id,
            weight: Some(weight),
            ..Set::default()
        })?;
        latencies.extend(arrivals(streams, pages)?);
        drain(streams)?;
    }
    // The result is the 99th percentile. If more than a hundredth of the wake-ups are missing, it would look
    // better than it is.
    if latencies.len() < CHANGES * streams.len() / 100 * 99 {
        let (came, waited) = (latencies.len(), streams.len());
        let what = format!("only {came} wake-ups for {CHANGES} changes of {waited} subscribers");
        return Err(Error::program("plimsolld", what));
    }
    Ok(latencies)
}

/// The nanoseconds from the publication to the return of `poll`, for each stream that gets a message until no
/// more come. Messages are read only afterwards, so that reading one delays no other.
fn arrivals(streams: &[Stream<Changed>], pages: &[Mapped]) -> Result<Vec<f64>> {
    const QUIET: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 300_000_000,
    };
    let mut waiting: Vec<usize> = (0..streams.len()).collect();
    let mut latencies = Vec::new();
    while !waiting.is_empty() {
        let borrow =
            |index: &usize| PollFd::from_borrowed_fd(streams[*index].as_fd(), PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = waiting.iter().map(borrow).collect();
        let ready = poll(&mut fds, Some(&QUIET)).map_err(|errno| Error::Wait {
            what: "messages of the broker",
            source: errno.into(),
        })?;
        let now = clock::now().0;
        if ready == 0 {
            break;
        }
        let came: Vec<bool> = fds
            .iter()
            .map(|fd| fd.revents().contains(PollFlags::IN))
            .collect();
        for (index, _) in waiting.iter().zip(&came).filter(|(_, came)| **came) {
            let page = pages[*index].view().read();
            let torn = || Error::program("plimsolld", "a page cannot be read");
            let published = page.ok_or_else(torn)?.heartbeat;
            latencies.push(now.saturating_sub(published) as f64);
        }
        let mut came = came.into_iter();
        waiting.retain(|_| !came.next().unwrap_or(false));
    }
    Ok(latencies)
}

fn drain(streams: &mut [Stream<Changed>]) -> Result<()> {
    for stream in streams {
        while stream.next(Duration::ZERO)?.is_some() {}
    }
    Ok(())
}

fn read_ns(page: &Mapped) -> f64 {
    let view = page.view();
    let start = clock::now().0;
    let mut sum = 0u64;
    for _ in 0..READS {
        sum = sum.wrapping_add(
            std::hint::black_box(&view)
                .read()
                .map_or(0, |reading| reading.numbers.limit),
        );
    }
    std::hint::black_box(sum);
    (clock::now().0 - start) as f64 / f64::from(READS)
}

fn resident_mib(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|value| value.split_whitespace().next())
        .and_then(|n| n.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
